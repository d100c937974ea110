import path from 'node:path';
import { accountEntry } from '../../../config/account-entry.ts';
import { jsonValue, readConfigFile } from '../../../config/file.ts';
import { Secret } from '../../../config/secret.ts';
import type { TokenSource } from '../../../config/settings.ts';
import { readToken } from '../../../config/token.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { usageError } from '../../../errors/usage.ts';
import { addFleetAccount } from '../../../fleet/add-account.ts';
import { readFleetKeys } from '../../../fleet/key-file.ts';
import { pipedText } from '../../ask.ts';
import type { CommandContext } from '../../context.ts';
import type { AddLine } from './account-lines.ts';
import { withFleet } from './open-fleet.ts';

/** The tenant of an account that names none. */
const DEFAULT_TENANT = 'default';
const STDIN = '-';

/**
 * `mailkeep fleet account add`: adds an account with its secrets.
 *
 * @throws config-invalid and the other errors of the settings; token-missing and those of a token; fleet-account-exists
 */
export async function addAccountCommand(
  context: CommandContext,
  name: string,
  line: AddLine,
): Promise<ExitCode> {
  const { output, surroundings } = context;
  const { env } = surroundings;
  const tenant = line.tenant ?? DEFAULT_TENANT;
  refuseTwoInputs(line);
  return withFleet(context, async ({ config, registry, fleet }) => {
    // Before anything is read from standard input: it would be gone.
    const keys = readFleetKeys(config.fleet.keyFile);
    const token = await sourceOf(context, line.tokenFile, line.tokenEnv, '--token-file');
    const { raw, source, folder } = await settingsOf(context, line.settings);
    const entry = accountEntry(raw, { name, source, folder }, token);
    const webhook = await sourceOf(
      context,
      line.webhookSecretFile,
      line.webhookSecretEnv,
      '--webhook-secret-file',
    );
    const sources = [
      ...entry.tokens,
      ...(webhook === undefined ? [] : [['webhook', webhook] as const]),
    ];
    const secrets = new Map<string, string>();
    for (const [purpose, from] of sources)
      secrets.set(purpose, (await readToken(from, env)).reveal());
    const account = { tenant, name, settings: entry.settings, secrets };
    const archive = await addFleetAccount(registry, fleet.id, keys, account);
    const facts = {
      account: name,
      tenant,
      archive,
      secrets: [...secrets.keys()],
      key: keys.current,
    };
    await output.object(
      facts,
      () =>
        `Added the account ${name} of the tenant ${tenant} as archive ${archive}. Its secrets (${facts.secrets.join(', ')}) are encrypted by the key ${keys.current}.`,
    );
    return EXIT.done;
  });
}

/** Standard input can be read once. */
function refuseTwoInputs({ settings, tokenFile, webhookSecretFile }: AddLine): void {
  const inputs = [settings, tokenFile, webhookSecretFile].filter((file) => file === STDIN);
  if (inputs.length < 2) return;
  const problem = 'only one of the files can be - (standard input).';
  throw usageError('usage-invalid', { command: 'fleet account add', problem });
}

async function settingsOf(
  { surroundings: { cwd }, stdin }: CommandContext,
  file: string,
): Promise<{ raw: unknown; source: string; folder: string }> {
  if (file === STDIN) {
    const source = 'Standard input';
    return { raw: jsonValue(await pipedText(stdin()), source), source, folder: cwd };
  }
  const source = path.resolve(cwd, file);
  return { raw: readConfigFile(source), source, folder: path.dirname(source) };
}

/** Where a secret is read from that is not in the settings; undefined if the line does not say it. */
async function sourceOf(
  { surroundings: { cwd }, stdin }: CommandContext,
  file: string | undefined,
  variable: string | undefined,
  option: string,
): Promise<TokenSource | undefined> {
  if (file === STDIN) {
    return { kind: 'literal', secret: new Secret(await pipedText(stdin())), name: `${option} -` };
  }
  if (file !== undefined) return { kind: 'file', name: path.resolve(cwd, file) };
  return variable === undefined ? undefined : { kind: 'env', name: variable };
}
