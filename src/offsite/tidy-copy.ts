import { hasCode, MailkeepError } from '../errors/mailkeep-error.ts';
import type { ObjectStore } from '../objects/store.ts';
import { FOLDERS } from './format/names.ts';
import type { LocalKey } from './local-key.ts';
import { lockEnd } from './lock-objects.ts';
import {
  type FoundManifest,
  findManifests,
  type ListedManifest,
  readManifest,
} from './manifests.ts';
import type { CopyMemory } from './memory.ts';

export interface Tidied {
  readonly manifests: number;
  readonly objects: number;
  /** What was to be removed, and a lock keeps. */
  readonly locked: readonly LockedObject[];
  /** When the last of these locks ends, ISO 8601; null where there is none, or the store does not say of one. */
  readonly lockedUntil: string | null;
}

export interface LockedObject {
  readonly name: string;
  /** ISO 8601; null where the store does not say. */
  readonly until: string | null;
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
  readonly memory: Pick<CopyMemory, 'lockedUntil' | 'noteLock'>;
  /** How long copies are locked; undefined where they are not. */
  readonly lockDays: number | undefined;
  readonly signal: AbortSignal;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/** What was tidied where there was nothing to do. */
export const NOTHING_TIDIED: Tidied = { manifests: 0, objects: 0, locked: [], lockedUntil: null };

/** Whoever reads a copy has that long after another manifest replaced the one that they read. */
const GRACE_MS = 24 * 3_600_000;

/**
 * Removes what nobody needs any more: manifests beyond those to keep once they have been superseded for a day, and then
 * objects that no remaining manifest lists, unless they are younger than a day. All times are of the store's clock.
 * Objects stay as they are while a manifest that remains cannot be read, since it may list them. What copies have locked
 * themselves stays until the lock has ended, and is not counted as kept.
 *
 * @param atOnce tries to remove all manifests but the newest, and what only they list: after a purge, they lead to mail that
 *   was to be forgotten
 * @returns undefined where the store does not list the manifest that was written last: all is still to be done then
 */
export async function tidyCopy(options: TidyOptions, atOnce: boolean): Promise<Tidied | undefined> {
  const { store, key, signal } = options;
  const { newest, listed } = await findManifests(store, key, signal);
  if (newest === undefined || newest.clear.sequence < options.sequence) return undefined;
  const old = atOnce
    ? listed.filter(({ name }) => name !== newest.name)
    : outdated(listed, newest, options.keep);
  const locked: LockedObject[] = [];
  const tidying: Tidying = { ...options, atOnce, locked };
  let manifests = 0;
  for (const { name } of old) {
    if (await removed(tidying, name)) manifests += 1;
  }
  const needed = await neededObjects(options, listed, new Set(old.map(({ name }) => name)), newest);
  if (needed === undefined) return { manifests, objects: 0, ...kept(locked) };
  const latest = Math.max(...listed.map(({ modified }) => modified));
  let objects = 0;
  for await (const { name, modified } of store.list(FOLDERS.data, signal)) {
    const isYoung = !atOnce && modified > latest - GRACE_MS;
    if (needed.has(name) || options.uploading.has(name) || isYoung) continue;
    if (await removed(tidying, name)) objects += 1;
  }
  return { manifests, objects, ...kept(locked) };
}

function kept(locked: readonly LockedObject[]): Pick<Tidied, 'locked' | 'lockedUntil'> {
  const ends = locked.map(({ until }) => until).sort();
  return { locked, lockedUntil: ends.includes(null) ? null : (ends.at(-1) ?? null) };
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

interface Tidying extends TidyOptions {
  readonly atOnce: boolean;
  readonly locked: LockedObject[];
}

async function removed(tidying: Tidying, name: string): Promise<boolean> {
  const { store, signal, memory, now, atOnce, locked } = tidying;
  // After a purge it is tried all the same: what is kept then is reported each time.
  if (!atOnce && (memory.lockedUntil(name) ?? 0) > now()) return false;
  try {
    await store.delete(name, signal);
    return true;
  } catch (error) {
    if (!hasCode(error, 'object-locked')) throw error;
    const until = typeof error.facts.until === 'string' ? error.facts.until : null;
    if (!atOnce && isOwnLock(tidying, until)) memory.noteLock(name, Date.parse(until));
    else locked.push({ name, until });
    return false;
  }
}

/** Whether a lock may be one that a copy set: without its memory, nothing else shows it. */
function isOwnLock(
  { lockDays, now }: Pick<Tidying, 'lockDays' | 'now'>,
  until: string | null,
): until is string {
  if (until === null || lockDays === undefined) return false;
  // The store keeps whole seconds, rounded up.
  return Date.parse(until) <= lockEnd({ lockDays, now }) + 1_000;
}
