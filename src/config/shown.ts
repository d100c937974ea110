import { readConfigFile } from './file.ts';
import { isFleetOnly, loadConfig, loadFleetConfig } from './load.ts';
import { pathText, valueAt } from './problems.ts';
import { configSchema, fleetFileSchema } from './schema.ts';

/** One field of the configuration in force. */
export interface ShownField {
  /** `rateLimit.concurrency`, `accounts[0].token`. */
  readonly path: string;
  /** JSON; secrets are `***`. */
  readonly value: unknown;
  /** The file does not have it. */
  readonly isDefault: boolean;
}

type Keys = readonly (string | number)[];

const MASK = '***';

/**
 * Returns every field of the configuration with its defaults, in the order of the schema, and without a secret.
 *
 * @param file absolute path
 * @throws config-unreadable, config-not-json, config-invalid
 */
export function shownFields(file: string): ShownField[] {
  // Every problem at once, as any command reports it.
  const isFleet = isFleetOnly(file);
  if (isFleet) loadFleetConfig(file);
  else loadConfig(file);
  const raw = readConfigFile(file);
  const schema = isFleet ? fleetFileSchema : configSchema;
  const content: Readonly<Record<string, unknown>> = schema.parse(raw);
  return Object.keys(configSchema.shape)
    .filter((key) => key !== '$schema')
    .flatMap((key) => fieldsBelow([key], content[key] ?? null, raw));
}

function fieldsBelow(path: Keys, value: unknown, raw: unknown): ShownField[] {
  const inside = entriesOf(value);
  if (inside.length > 0 && !isToken(path)) {
    return inside.flatMap(([key, part]) => fieldsBelow([...path, key], part, raw));
  }
  const isDefault = valueAt(raw, path) === undefined;
  return [{ path: pathText(path), value: masked(path, value), isDefault }];
}

/** What is taken apart: objects, and lists of them; a list of texts is shown as one value. */
function entriesOf(value: unknown): (readonly [string | number, unknown])[] {
  if (Array.isArray(value)) {
    const items: readonly unknown[] = value;
    return items.some(isObject) ? items.map((item, i) => [i, item] as const) : [];
  }
  return isObject(value) ? Object.entries(value) : [];
}

export function isToken(path: Keys): boolean {
  return path.at(-1) === 'token';
}

/**
 * Of a token only where it is read from. Of a command nothing, since a shell runs it, and a password may stand anywhere in
 * it; of the address of webhooks the host, since its path is all that keeps strangers away.
 */
export function masked(path: Keys, value: unknown): unknown {
  if (typeof value !== 'string') return value;
  if (isToken(path)) return MASK;
  const name = pathText(path);
  if (name === 'notify.url' || name === 'notify.command' || hasUser(value)) return MASK;
  return name === 'webhook.publicUrl' ? hostOnly(value) : value;
}

function hasUser(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { username, password } = new URL(text);
  return username !== '' || password !== '';
}

function hostOnly(text: string): string {
  if (!URL.canParse(text)) return MASK;
  const { origin, pathname, search } = new URL(text);
  return pathname === '/' && search === '' ? text : `${origin}/${MASK}`;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
