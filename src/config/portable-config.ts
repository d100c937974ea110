import { hasCode } from '../errors/mailkeep-error.ts';
import { readConfigFile } from './file.ts';
import { locateConfig, type Surroundings } from './locate.ts';
import { isConfigOf } from './located-fields.ts';
import { pathText } from './problems.ts';
import { isToken, masked } from './shown.ts';

/** A configuration as it may leave this machine. */
export interface PortableConfig {
  /** As it is in the file, without what is secret. */
  readonly content: Readonly<Record<string, unknown>>;
  /** Fields that are left out, and those whose secrets are read from elsewhere: `accounts[0].token (file ./token)`. */
  readonly secrets: readonly string[];
}

type Keys = readonly (string | number)[];

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
  return isRecord(content) ? { content, secrets } : undefined;
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
  if (isToken(at) && isRecord(value)) {
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
  if (isRecord(value)) {
    const fields = Object.entries(value).map(
      ([key, field]) => [key, withoutSecrets([...at, key], field, secrets)] as const,
    );
    return Object.fromEntries(fields.filter(([, field]) => field !== undefined));
  }
  if (masked(at, value) === value) return value;
  secrets.push(pathText(at));
  return undefined;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
