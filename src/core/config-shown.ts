import { isFleetOnly, loadConfig, loadFleetConfig } from './config.ts';
import { readConfigFile } from './config-file.ts';
import { isConfigOf, locateConfig, type Surroundings } from './config-locate.ts';
import { configSchema, fleetFileSchema, isObject, pathText, valueAt } from './config-schema.ts';
import { hasCode } from './errors.ts';

/** One field of the configuration in force. */
interface ShownField {
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

function isToken(path: Keys): boolean {
  return path.at(-1) === 'token';
}

/**
 * Of a token only where it is read from. Of a command nothing, since a shell runs it, and a password may stand anywhere in
 * it; of the address of webhooks the host, since its path is all that keeps strangers away.
 */
function masked(path: Keys, value: unknown): unknown {
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

/** A configuration as it may leave this machine. */
export interface PortableConfig {
  /** As it is in the file, without what is secret. */
  readonly content: Readonly<Record<string, unknown>>;
  /** Fields that are left out, and those whose secrets are read from elsewhere: `accounts[0].token (file ./token)`. */
  readonly secrets: readonly string[];
}

/**
 * Returns the configuration of the archive in `dataDir` without its secrets; undefined where none is found, or the file that
 * is found belongs to another archive.
 *
 * @throws config-not-found, config-unreadable, config-not-json
 */
export function portableConfig(
  options: { readonly data: string | undefined; readonly config: string | undefined },
  surroundings: Surroundings,
  dataDir: string,
): PortableConfig | undefined {
  const isAsked = options.config !== undefined && options.config !== '';
  const file = isAsked ? locateConfig(options.config, surroundings) : found(surroundings);
  if (file === undefined) return undefined;
  if (!isAsked && !isConfigOf(file, dataDir, surroundings)) return undefined;
  const secrets: string[] = [];
  const content = withoutSecrets([], readConfigFile(file), secrets);
  return isObject(content) ? { content, secrets } : undefined;
}

/** The daemon names its own, which may be gone by now. */
function found(surroundings: Surroundings): string | undefined {
  try {
    return locateConfig(undefined, surroundings);
  } catch (error) {
    const isGone = hasCode(error, 'config-not-found') || hasCode(error, 'config-unreadable');
    if (isGone) return undefined;
    throw error;
  }
}

/** Undefined for a value that is secret. */
function withoutSecrets(at: Keys, value: unknown, secrets: string[]): unknown {
  if (isToken(at) && isObject(value)) {
    const [[kind, name] = []] = Object.entries(value);
    secrets.push(`${pathText(at)} (${kind} ${String(name)})`);
    return value;
  }
  if (Array.isArray(value)) {
    const items: readonly unknown[] = value;
    return items
      .map((item, index) => withoutSecrets([...at, index], item, secrets))
      .filter((item) => item !== undefined);
  }
  if (isObject(value)) {
    const fields = Object.entries(value).map(
      ([key, field]) => [key, withoutSecrets([...at, key], field, secrets)] as const,
    );
    return Object.fromEntries(fields.filter(([, field]) => field !== undefined));
  }
  if (masked(at, value) === value) return value;
  secrets.push(pathText(at));
  return undefined;
}
