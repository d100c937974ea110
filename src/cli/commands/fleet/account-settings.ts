import path from 'node:path';
import { jsonValue, readConfigFile } from '../../../core/config-file.ts';
import type { TokenSource } from '../../../core/config-schema.ts';
import { accountEntry } from '../../../core/config-schema.ts';
import { usageError } from '../../../core/error-tables.ts';
import { readToken, Secret } from '../../../core/secrets.ts';
import type { AddedAccount } from '../../../fleet/add-account.ts';
import { readStdinText } from '../../ask.ts';
import type { CommandContext } from '../../context.ts';
import type { SettingsLine } from './account-lines.ts';

/** The tenant of an account that names none. */
export const DEFAULT_TENANT = 'default';
const STDIN = '-';

/** Standard input can be read once. */
export function refuseTwoInputs(
  { settings, tokenFile, webhookSecretFile }: Partial<SettingsLine>,
  command: string,
): void {
  const inputs = [settings, tokenFile, webhookSecretFile].filter((file) => file === STDIN);
  if (inputs.length < 2) return;
  const problem = 'only one of the files can be - (standard input).';
  throw usageError('usage-invalid', { command, problem });
}

/**
 * Returns the settings of an account, and its secrets as they are now. A file may be one account, or a configuration that has
 * an account of that name.
 *
 * @throws config-invalid and the other errors of the settings; token-missing and those of a token
 */
export async function accountFrom(
  context: CommandContext,
  name: string,
  line: SettingsLine,
): Promise<Pick<AddedAccount, 'settings' | 'secrets'>> {
  const { env } = context.environment;
  const token = await sourceOf(context, line.tokenFile, line.tokenEnv, '--token-file');
  const { raw, source, folder } = await settingsOf(context, line.settings);
  const entry = accountEntry(entryOf(raw, name, source), { name, source, folder }, token);
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
  return { settings: entry.settings, secrets };
}

/** Returns the entry of an account in a configuration; anything else as it is. */
function entryOf(raw: unknown, name: string, source: string): unknown {
  if (typeof raw !== 'object' || raw === null) return raw;
  const accounts: unknown = Reflect.get(raw, 'accounts') ?? [];
  const isConfig = Reflect.has(raw, 'accounts') || Reflect.has(raw, 'fleet');
  if (!isConfig || !Array.isArray(accounts)) return raw;
  const isNamed = (entry: unknown) =>
    typeof entry === 'object' && entry !== null && Reflect.get(entry, 'name') === name;
  const entry: unknown = accounts.find(isNamed);
  if (entry !== undefined) return entry;
  const problem = `${source} has no account ${name}. --settings names a file with its settings.`;
  throw usageError('usage-invalid', { command: 'fleet', problem });
}

async function settingsOf(
  { environment: { cwd }, stdin }: CommandContext,
  file: string,
): Promise<{ raw: unknown; source: string; folder: string }> {
  if (file === STDIN) {
    const source = 'Standard input';
    return { raw: jsonValue(await readStdinText(stdin()), source), source, folder: cwd };
  }
  const source = path.resolve(cwd, file);
  return { raw: readConfigFile(source), source, folder: path.dirname(source) };
}

/** Where a secret is read from that is not in the settings; undefined if the line does not say it. */
async function sourceOf(
  { environment: { cwd }, stdin }: CommandContext,
  file: string | undefined,
  variable: string | undefined,
  option: string,
): Promise<TokenSource | undefined> {
  if (file === STDIN) {
    return {
      kind: 'literal',
      secret: new Secret(await readStdinText(stdin())),
      name: `${option} -`,
    };
  }
  if (file !== undefined) return { kind: 'file', name: path.resolve(cwd, file) };
  return variable === undefined ? undefined : { kind: 'env', name: variable };
}
