import { existsSync } from 'node:fs';
import path from 'node:path';
import { replaceFile } from '../../archive/files/file-layer.ts';
import { realFiles } from '../../archive/files/real-files.ts';
import { canonicalJson } from '../../archive/format/facts.ts';
import { isObject, parseJson } from '../../archive/format/json-shape.ts';
import type { PortableConfig } from '../../config/portable-config.ts';
import { readRegularFile } from '../../disk/regular-file.ts';
import { MOST_SETTINGS_BYTES } from '../../offsite/format/settings.ts';
import { openState, type StateFile } from '../../state/state-file.ts';

/** What a copy carries besides the archive: the configuration without secrets, and what people made in the state. */
export interface CarriedSettings {
  readonly config: PortableConfig | null;
  /** Queries by name. */
  readonly savedSearches: Readonly<Record<string, string>>;
}

export interface RestoredSettings {
  /** Where the configuration is now; null where the copy has none. */
  readonly config: string | null;
  /** Fields whose secrets have to be entered or provided again. */
  readonly secrets: readonly string[];
  readonly savedSearches: number;
}

const MARK = 'settings 1';
/** In the folder of a readable copy. */
const FILE = 'settings.json';

/**
 * Returns the text that a copy carries; undefined where there is nothing.
 *
 * @param config of this run; where it found none, the one of an earlier run counts
 */
export function settingsText(
  state: Pick<StateFile, 'get' | 'set' | 'entries'> | undefined,
  config: PortableConfig | undefined,
): Buffer | undefined {
  const known = state?.get('copy-config', 'config');
  if (config !== undefined && canonicalJson(config) !== canonicalJson(known ?? null)) {
    state?.set('copy-config', 'config', config);
  }
  const carried = config ?? portable(known) ?? null;
  const saved = state?.entries('saved-search') ?? [];
  if (carried === null && saved.length === 0) return undefined;
  const savedSearches = Object.fromEntries(saved.map(({ key, value }) => [key, value]));
  const text = canonicalJson({ mailkeep: MARK, config: carried, savedSearches });
  return Buffer.from(`${text}\n`, 'utf8');
}

/** Writes the text next to a readable copy, unless it is there. @throws `disk-full` and its like */
export async function writeSettings(to: string, text: Buffer): Promise<void> {
  const file = path.join(to, FILE);
  if (existsSync(file) && readRegularFile(file, MOST_SETTINGS_BYTES).equals(text)) return;
  await replaceFile(realFiles, file, text);
}

/** Returns the text next to a readable copy; undefined where there is none. */
export function settingsIn(dir: string): Buffer | undefined {
  const file = path.join(dir, FILE);
  return existsSync(file) ? readRegularFile(file, MOST_SETTINGS_BYTES) : undefined;
}

/**
 * Puts settings into an archive that came from a copy: the configuration into its folder, and the rest into its state.
 *
 * @returns undefined where the text is of another kind
 */
export async function restoreSettings(
  dir: string,
  text: Buffer,
): Promise<RestoredSettings | undefined> {
  const carried = readSettings(text);
  if (carried === undefined) return undefined;
  const { config, savedSearches } = carried;
  const file = config === null ? null : path.join(dir, 'config.json');
  if (file !== null && !existsSync(file)) {
    // Its folder is the archive now.
    const content = JSON.stringify({ ...config?.content, dataDir: '.' }, null, 2);
    await replaceFile(realFiles, file, Buffer.from(`${content}\n`, 'utf8'));
  }
  const searches = Object.entries(savedSearches);
  if (searches.length > 0) {
    const state = openState(dir);
    try {
      for (const [name, query] of searches) state.set('saved-search', name, query);
    } finally {
      state.close();
    }
  }
  return { config: file, secrets: config?.secrets ?? [], savedSearches: searches.length };
}

function readSettings(text: Buffer): CarriedSettings | undefined {
  const value = parseJson(text.toString('utf8'));
  if (!isObject(value) || value.mailkeep !== MARK) return undefined;
  const { config, savedSearches } = value;
  if (!isObject(savedSearches)) return undefined;
  const searches = Object.entries(savedSearches).flatMap(([name, query]) =>
    typeof query === 'string' ? [[name, query] as const] : [],
  );
  return { config: portable(config) ?? null, savedSearches: Object.fromEntries(searches) };
}

function portable(value: unknown): PortableConfig | undefined {
  if (!isObject(value) || !isObject(value.content) || !Array.isArray(value.secrets))
    return undefined;
  const secrets = value.secrets.filter((one) => typeof one === 'string');
  return { content: value.content, secrets };
}
