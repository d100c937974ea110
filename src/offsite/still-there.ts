import type { ObjectStore } from '../objects/store.ts';
import { FOLDERS } from './format/names.ts';
import type { ObjectEntry } from './plan-copy.ts';

/**
 * Returns those of the listed objects that are there with their length. A lifecycle rule of the bucket, or its owner, may
 * have removed some.
 *
 * @throws what the store throws
 */
export async function stillThere(
  store: ObjectStore,
  listed: readonly ObjectEntry[],
  signal: AbortSignal,
): Promise<readonly ObjectEntry[]> {
  if (listed.length === 0) return [];
  const wanted = new Map(listed.map((entry) => [entry.name, entry]));
  const found: ObjectEntry[] = [];
  for await (const { name, length } of store.list(FOLDERS.data, signal)) {
    const entry = wanted.get(name);
    if (entry?.length === length) found.push(entry);
  }
  return found;
}
