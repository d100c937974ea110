import { hasCode, MailkeepError } from '../errors/mailkeep-error.ts';
import type { ObjectStore } from '../objects/store.ts';
import { FOLDERS } from './format/names.ts';
import type { LocalKey } from './local-key.ts';
import {
  type FoundManifest,
  findManifests,
  type ListedManifest,
  readManifest,
} from './manifests.ts';

export interface Tidied {
  readonly manifests: number;
  readonly objects: number;
  /** Names of objects that a lock keeps. */
  readonly locked: readonly string[];
}

export interface TidyOptions {
  readonly store: ObjectStore;
  readonly key: LocalKey;
  /** How many of the newest manifests stay, whatever their age. */
  readonly keep: number;
  /** Of the manifest that was written last. Some stores list it only after a while. */
  readonly sequence: number;
  /** Objects that were uploaded and are not listed yet. */
  readonly uploading: ReadonlySet<string>;
  readonly signal: AbortSignal;
}

/** Whoever reads a copy has that long after another manifest replaced the one that they read. */
const GRACE_MS = 24 * 3_600_000;

/**
 * Removes what nobody needs any more: manifests beyond those to keep once they have been superseded for a day, and then
 * objects that no remaining manifest lists, unless they are younger than a day. All times are of the store's clock.
 * Objects stay as they are while a manifest that remains cannot be read, since it may list them.
 *
 * @param atOnce removes all manifests but the newest, and what only they list: after a purge, they lead to mail that
 *   was to be forgotten
 * @returns undefined where the store does not list the manifest that was written last: all is still to be done then
 */
export async function tidyCopy(options: TidyOptions, atOnce: boolean): Promise<Tidied | undefined> {
  const { store, key, signal } = options;
  const { newest, listed } = await findManifests(store, key, signal);
  if (newest === undefined || newest.clear.sequence < options.sequence) {
    return undefined;
  }
  const old = atOnce
    ? listed.filter(({ name }) => name !== newest.name)
    : outdated(listed, newest, options.keep);
  const locked: string[] = [];
  let manifests = 0;
  for (const { name } of old) {
    if (await removed(options, name, locked)) manifests += 1;
  }
  const needed = await neededObjects(options, listed, new Set(old.map(({ name }) => name)), newest);
  if (needed === undefined) return { manifests, objects: 0, locked };
  const latest = Math.max(...listed.map(({ modified }) => modified));
  let objects = 0;
  for await (const { name, modified } of store.list(FOLDERS.data, signal)) {
    const isYoung = !atOnce && modified > latest - GRACE_MS;
    if (needed.has(name) || options.uploading.has(name) || isYoung) continue;
    if (await removed(options, name, locked)) objects += 1;
  }
  return { manifests, objects, locked };
}

function outdated(
  listed: readonly ListedManifest[],
  newest: FoundManifest,
  keep: number,
): ListedManifest[] {
  const inTime = [...listed].sort((a, b) => b.commit - a.commit || b.modified - a.modified);
  const latest = Math.max(...listed.map(({ modified }) => modified));
  return inTime.filter((manifest, at) => {
    const next = inTime[at - 1];
    if (manifest.name === newest.name || next === undefined || at < keep) return false;
    return next.modified < latest - GRACE_MS;
  });
}

/** What the remaining manifests list, or undefined if one of them is not valid. */
async function neededObjects(
  { store, key, signal }: TidyOptions,
  listed: readonly ListedManifest[],
  old: ReadonlySet<string>,
  newest: FoundManifest,
): Promise<ReadonlySet<string> | undefined> {
  const needed = new Set(newest.clear.objects.map(({ name }) => name));
  for (const fact of listed) {
    if (old.has(fact.name) || fact.name === newest.name) continue;
    const found = await readManifest(store, fact, key, signal);
    if (found instanceof MailkeepError) return undefined;
    for (const { name } of found.clear.objects) needed.add(name);
  }
  return needed;
}

async function removed(
  { store, signal }: TidyOptions,
  name: string,
  locked: string[],
): Promise<boolean> {
  try {
    await store.delete(name, signal);
    return true;
  } catch (error) {
    if (!hasCode(error, 'object-locked')) throw error;
    locked.push(name);
    return false;
  }
}
