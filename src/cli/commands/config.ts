import {
  type FleetSettings,
  isFleetOnly,
  loadConfig,
  loadFleetConfig,
  readRegistryAddress,
} from '../../core/config.ts';
import {
  configPaths,
  isConfigGiven,
  locateConfig,
  locateDataDir,
} from '../../core/config-locate.ts';
import {
  type AccountSettings,
  type ImapAccount,
  type Settings,
  tokenSources,
} from '../../core/config-schema.ts';
import { shownFields } from '../../core/config-shown.ts';
import { configError, type SecretKind } from '../../core/error-tables.ts';
import { describeError, MailkeepError } from '../../core/errors.ts';
import { readPassword, readToken } from '../../core/secrets.ts';
import { terminalLine } from '../../core/terminal-safe.ts';
import { counted } from '../../core/text.ts';
import { imapError } from '../../imap/errors.ts';
import { readTokens, tokensFile } from '../../imap/oauth-tokens.ts';
import { type CommandContext, type Register, subCommand } from '../context.ts';
import { tableText } from '../output.ts';
import { warningText } from '../warnings.ts';

const HELP = `
"check" reads the configuration as every other command does, reports all errors in it, and tries to read the
tokens and passwords. It contacts neither the service nor the archive ("mailkeep doctor" does). "show" prints every field in effect, where
the file was found and which values are defaults; secrets are printed as ***.

EXAMPLES
  mailkeep config check --config /etc/mailkeep/config.json
  mailkeep config show
  mailkeep config show --json | jq '.fields[] | select(.isDefault | not)'`;

const PARTS = [
  ['check', 'check the configuration, and whether its tokens can be read', checkConfig],
  ['show', 'print every field in effect, without secrets', showConfig],
] as const;

export const register: Register = (command, run) => {
  command.usage('<check|show> [options]').helpCommand(false).addHelpText('after', HELP);
  for (const [name, summary, body] of PARTS) {
    subCommand(command, name, summary).action(() => run(body));
  }
};

/** @throws config-not-found, config-unreadable */
function configInForce({ globals, environment }: CommandContext) {
  const file = locateConfig(globals.config, environment);
  if (file === undefined) {
    throw configError('config-not-found', { searched: configPaths(environment) });
  }
  if (!isConfigGiven(globals.config, environment)) return { file, source: 'search' };
  return { file, source: globals.config === undefined ? 'MAILKEEP_CONFIG' : '--config' };
}

/** Returns text such as `named by --config` or `found in the current folder`. */
function sourceText(
  { file, source }: ReturnType<typeof configInForce>,
  environment: CommandContext['environment'],
): string {
  if (source !== 'search') return `named by ${source}`;
  const places = ['the current folder', 'your configuration folder', '/etc/mailkeep'];
  return `found in ${places[configPaths(environment).indexOf(file)] ?? 'a usual place'}`;
}

/**
 * Loads the configuration as any other command would, and tries to read its tokens. Contacts no service and opens no
 * archive.
 * @throws config-not-found, config-unreadable, config-not-json, config-invalid
 */
async function checkConfig(context: CommandContext): Promise<void> {
  const { output, environment } = context;
  const place = configInForce(context);
  const { file, source } = place;
  const fleet = isFleetOnly(file) ? loadFleetConfig(file) : undefined;
  const loaded = fleet ?? loadConfig(file);
  const warnings = [
    ...loaded.warnings.map((it) => ({ code: it.code, message: warningText(it) })),
    ...(await unreadTokens(loaded.settings, environment.env)),
    ...(fleet === undefined ? [] : await unreadAddress(fleet.fleet, environment.env)),
  ];
  const accounts = loaded.settings.accounts.length;
  const holds = fleet === undefined ? counted(accounts, 'account') : 'a node of a fleet';
  await output.object({ file, source, ok: true, accounts, warnings }, () => [
    `${terminalLine(file)} is in order (${sourceText(place, environment)}; ${holds}).`,
    ...warnings.map(
      ({ message }) => `${output.colours.yellow('warning:')} ${terminalLine(message)}`,
    ),
  ]);
}

/** Returns a warning for each unreadable token or password. The daemon may still be able to read it. */
async function unreadTokens(settings: Settings, env: CommandContext['environment']['env']) {
  const warnings: { readonly code: string; readonly message: string }[] = [];
  for (const account of settings.accounts) {
    for (const source of tokenSources([account])) {
      try {
        if (account.kind === 'api') await readToken(source, env);
        else await readPassword(source, env, secretKind(account));
      } catch (error) {
        if (!(error instanceof MailkeepError)) throw error;
        warnings.push({
          code: error.code,
          message: `account ${account.name}: ${describeError(error).message}`,
        });
      }
    }
  }
  return [...warnings, ...settings.accounts.flatMap((account) => signedOut(account, settings))];
}

function secretKind({ imap: { signIn } }: ImapAccount): SecretKind {
  return signIn.kind === 'oauth' ? 'client secret' : signIn.kind;
}

/** Returns a warning if a person has to sign in before the account can be mirrored. */
function signedOut(account: AccountSettings, { dataDir }: Settings) {
  if (account.kind === 'api') return [];
  const { name, imap } = account;
  const { signIn } = imap;
  if (signIn.kind !== 'oauth' || signIn.appOnly) return [];
  const stored = readTokens(tokensFile(dataDir, name), signIn);
  if (typeof stored !== 'string') return [];
  const { code, message, hint } = describeError(
    imapError('imap.login-needed', { account: name, reason: stored }),
  );
  return [{ code, message: `${message} ${hint}` }];
}

async function unreadAddress(fleet: FleetSettings, env: CommandContext['environment']['env']) {
  try {
    await readRegistryAddress(fleet, env);
    return [];
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    return [{ code: error.code, message: describeError(error).message }];
  }
}

/** @throws config-not-found, config-unreadable, config-not-json, config-invalid */
async function showConfig(context: CommandContext): Promise<void> {
  const { output, globals, environment } = context;
  const place = configInForce(context);
  const { file, source } = place;
  const fields = shownFields(file);
  const dataDir = locateDataDir(globals, environment);
  const rows = fields.map(({ path, value, isDefault }) => [
    path,
    JSON.stringify(value),
    isDefault ? 'default' : '',
  ]);
  await output.object({ file, source, dataDir, fields }, () => [
    `${terminalLine(file)} (${sourceText(place, environment)})`,
    `archive: ${terminalLine(dataDir)}`,
    '',
    tableText(['field', 'value', ''], rows, 1, output),
  ]);
}
