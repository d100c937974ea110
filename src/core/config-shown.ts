import { isFleetOnly, loadConfig, loadFleetConfig } from './config.ts';
import { readConfigFile, valueAt } from './config-file.ts';
import { configuresArchive, locateConfig, type ProcessEnvironment } from './config-locate.ts';
import { configSchema, fleetFileSchema, isObject, pathText } from './config-schema.ts';
import { hasCode } from './errors.ts';

type Keys = readonly (string | number)[];

const MASK = '***';

/**
 * Returns every field of the configuration with its defaults, in schema order, without secrets. Values are JSON, and
 * paths look like `accounts[0].token`. `isDefault` is true for fields that the file does not set.
 * @param file absolute path
 * @throws config-unreadable, config-not-json, config-invalid
 */
export function shownFields(file: string) {
  // As with any command, loading reports every problem at once.
  const isFleet = isFleetOnly(file);
  if (isFleet) loadFleetConfig(file);
  else loadConfig(file);
  const raw = readConfigFile(file);
  const schema = isFleet ? fleetFileSchema : configSchema;
  const content: Readonly<Record<string, unknown>> = schema.parse(raw);
  return Object.keys(configSchema.shape)
    .filter((key) => key !== '$schema')
    .flatMap((key) => listFields([key], content[key] ?? null, raw));
}

type ShownField = { readonly path: string; readonly value: unknown; readonly isDefault: boolean };

function listFields(path: Keys, value: unknown, raw: unknown): ShownField[] {
  const entries = listEntries(value);
  if (entries.length > 0 && !isToken(path)) {
    return entries.flatMap(([key, part]) => listFields([...path, key], part, raw));
  }
  const isDefault = valueAt(raw, path) === undefined;
  return [{ path: pathText(path), value: mask(path, value), isDefault }];
}

/** Splits objects and lists of objects into entries. A list of strings is a single value. */
function listEntries(value: unknown): (readonly [string | number, unknown])[] {
  if (Array.isArray(value)) {
    const items: readonly unknown[] = value;
    return items.some(isObject) ? items.map((item, i) => [i, item] as const) : [];
  }
  return isObject(value) ? Object.entries(value) : [];
}

const SECRETS: ReadonlySet<unknown> = new Set(['token', 'password', 'accessToken']);

function isToken(path: Keys): boolean {
  return SECRETS.has(path.at(-1));
}

/**
 * Masks tokens, but shows their sources. Masks commands, because they are shell commands and any part of one may be a
 * password. Shows only the host of a webhook address, because its secret path is its only protection.
 */
function mask(path: Keys, value: unknown): unknown {
  if (isToken(path) && isObject(value) && Array.isArray(value.command)) {
    return { command: [value.command[0], MASK] };
  }
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

/** A configuration that can leave this machine. */
export interface PortableConfig {
  readonly content: Readonly<Record<string, unknown>>;
  /** Omitted fields, and the sources of secrets, such as `accounts[0].token (file ./token)`. */
  readonly secrets: readonly string[];
}

/**
 * Returns the configuration of the archive in `dataDir` without its secrets; undefined if no config file exists or it
 * belongs to another archive.
 * @throws config-not-found, config-unreadable, config-not-json
 */
export function portableConfig(
  options: { readonly data: string | undefined; readonly config: string | undefined },
  environment: ProcessEnvironment,
  dataDir: string,
): PortableConfig | undefined {
  const isExplicit = options.config !== undefined && options.config !== '';
  const file = isExplicit ? locateConfig(options.config, environment) : searchConfig(environment);
  if (file === undefined) return undefined;
  if (!isExplicit && !configuresArchive(file, dataDir, environment)) return undefined;
  const secrets: string[] = [];
  const content = withoutSecrets([], readConfigFile(file), secrets);
  return isObject(content) ? { content, secrets } : undefined;
}

/** Returns undefined if `MAILKEEP_CONFIG`, which the daemon sets, points to a file that no longer exists. */
function searchConfig(environment: ProcessEnvironment): string | undefined {
  try {
    return locateConfig(undefined, environment);
  } catch (error) {
    const isGone = hasCode(error, 'config-not-found') || hasCode(error, 'config-unreadable');
    if (isGone) return undefined;
    throw error;
  }
}

/** Returns undefined if the value is secret. */
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
  if (mask(at, value) === value) return value;
  secrets.push(pathText(at));
  return undefined;
}
