import { createHash } from 'node:crypto';
import { isDamage, MailkeepError } from '../core/errors.ts';
import type { StateFile } from '../core/state.ts';
import { bytesAtMost } from '../core/streams.ts';
import { copiesError } from './errors.ts';
import { offsiteError } from './format/errors.ts';
import {
  type ClearManifest,
  commitOfName,
  decodeManifest,
  FOLDERS,
  MAX_MANIFEST_BYTES,
  type Trusted,
} from './format/manifest.ts';
import type { ObjectFact, ObjectStore } from './object-store.ts';
import type { ObjectEntry } from './upload-copy.ts';

export interface FoundManifest {
  readonly name: string;
  readonly clear: ClearManifest;
  /** Milliseconds since the epoch, by the store's clock. */
  readonly modified: number;
}

export type FoundManifests = Awaited<ReturnType<typeof findManifests>>;

export interface ListedManifest extends ObjectFact {
  /** Number of the commit, from the name. */
  readonly commit: number;
}

/** Maximum number of manifests to keep, plus one a minute for a day, doubled for safety. */
const MAX_LISTED = 25_000;

/**
 * Finds the newest valid manifest of a copy: the one with the highest commit, then the highest sequence. Reads from the
 * highest commit down, because the target's owner can add anything.
 * @param at reads only the manifests of this commit
 * @returns also all objects with a manifest's name, highest commit first, and the errors for the invalid ones that were
 * read
 * @throws offsite-too-many-manifests; errors from the store
 */
export async function findManifests(
  store: ObjectStore,
  trust: Trusted,
  signal: AbortSignal,
  at?: number,
) {
  const listed: ListedManifest[] = [];
  for await (const fact of store.list(FOLDERS.manifests, signal)) {
    const commit = commitOfName(fact.name);
    if (commit === undefined) continue;
    if (listed.length === MAX_LISTED) {
      throw copiesError('offsite-too-many-manifests', { to: store.label, most: MAX_LISTED });
    }
    listed.push({ ...fact, commit });
  }
  listed.sort((a, b) => b.commit - a.commit || (a.name < b.name ? 1 : -1));
  const invalid: { name: string; error: MailkeepError }[] = [];
  let newest: FoundManifest | undefined;
  for (const fact of listed) {
    if (at !== undefined && fact.commit !== at) continue;
    if (newest !== undefined && fact.commit < newest.clear.commit) break;
    const found = await readManifest(store, fact, trust, signal);
    if (found instanceof MailkeepError) invalid.push({ name: fact.name, error: found });
    else if (newest === undefined || found.clear.sequence > newest.clear.sequence) newest = found;
  }
  return { newest, listed, invalid };
}

/** Returns an error if none of the stored versions is valid. @throws errors from the store */
export async function readManifest(
  store: ObjectStore,
  fact: ListedManifest,
  trust: Trusted,
  signal: AbortSignal,
): Promise<FoundManifest | MailkeepError> {
  const newest = await readVersion(store, fact, trust, signal);
  if (!(newest instanceof MailkeepError)) return newest;
  for (const version of await store.versions(fact.name, signal)) {
    const found = await readVersion(store, fact, trust, signal, version);
    if (!(found instanceof MailkeepError)) return found;
  }
  return newest;
}

async function readVersion(
  store: ObjectStore,
  { name, modified }: ListedManifest,
  trust: Trusted,
  signal: AbortSignal,
  version?: string,
): Promise<FoundManifest | MailkeepError> {
  return await orDamage(async () => {
    const bytes = await readSmallObject(store, name, MAX_MANIFEST_BYTES, signal, version);
    return { name, clear: decodeManifest(bytes, name, trust), modified };
  });
}

/** Runs `act`. Returns the error if it reports damage. */
export async function orDamage<T>(act: () => T | Promise<T>): Promise<T | MailkeepError> {
  try {
    return await act();
  } catch (error) {
    if (isDamage(error)) return error;
    throw error;
  }
}

/** Reads a small object. @throws offsite-too-large; errors from the store */
export async function readSmallObject(
  store: ObjectStore,
  name: string,
  most: number,
  signal: AbortSignal,
  version?: string,
): Promise<Buffer> {
  const bytes = await bytesAtMost(store.get(name, { signal, version }), most);
  if (bytes === null) throw copiesError('offsite-too-large', { to: store.label, name, most });
  return bytes;
}

/** The newest manifest that this machine has written or read. */
interface SeenManifest {
  readonly commit: number;
  readonly sequence: number;
  /** Creation time, milliseconds since the epoch. */
  readonly at: number;
}

export type CopyMemory = ReturnType<typeof copyMemory>;

/**
 * Returns what `state.sqlite` records about a copy. Without a state, purges and locks are remembered only for this run,
 * and unlisted uploads are repeated.
 */
export function copyMemory(state: StateFile | undefined, copyId: string) {
  const uploads = () => (state?.entries('copy-upload') ?? []).filter(({ key }) => isOurs(key));
  let isPurging = false;
  const isOurs = (key: string) => key.startsWith(`${copyId} `);
  const locks = new Map<string, number>();
  const forgetUploaded = () => {
    for (const { key } of uploads()) state?.set('copy-upload', key, null);
  };
  return {
    /** Returns the objects that are not in a manifest yet. */
    uploaded: (): ObjectEntry[] =>
      uploads().map(({ key, value }) => ({ name: key.slice(copyId.length + 1), ...value })),
    note: ({ name, length, sha256 }: ObjectEntry): void =>
      state?.set('copy-upload', `${copyId} ${name}`, { length, sha256 }),
    forgetUploaded: () => state?.together(forgetUploaded),
    /** Records a manifest. If `listed`, it contains all earlier uploads that are still needed. */
    see: (manifest: SeenManifest, listed: boolean) =>
      state?.together(() => {
        state.set('copy-seen', copyId, manifest);
        if (listed) forgetUploaded();
      }),
    seen: (): SeenManifest | undefined => state?.get('copy-seen', copyId),
    /** True from the time before objects with purged mail are replaced until they have been removed. */
    purging: () => isPurging || state?.get('copy-purge', copyId) !== undefined,
    purge(isDue: boolean): void {
      isPurging = isDue;
      state?.set('copy-purge', copyId, isDue ? true : null);
    },
    /** Returns the expiry of a lock set by this machine, milliseconds since the epoch; undefined if unknown. */
    lockedUntil: (name: string) => locks.get(name) ?? state?.get('copy-lock', `${copyId} ${name}`),
    noteLock(name: string, until: number): void {
      locks.set(name, until);
      state?.set('copy-lock', `${copyId} ${name}`, until);
    },
    /** Forgets expired locks. */
    forgetLocks: (now: number) =>
      state?.together(() => {
        for (const { key, value } of state.entries('copy-lock')) {
          if (isOurs(key) && value <= now) state.set('copy-lock', key, null);
        }
      }),
  };
}

/**
 * Yields an object's bytes and compares them with the manifest. Anyone with the public key can seal an object, but only
 * the archive's key can sign a manifest. Reports a mismatch only after yielding all bytes.
 * @throws copy-object-damaged; errors from the store
 */
export async function* verifiedObject(
  store: ObjectStore,
  { name, length, sha256 }: ObjectEntry,
  signal: AbortSignal,
  version?: string,
): AsyncGenerator<Buffer> {
  const digest = createHash('sha256');
  let size = 0;
  for await (const piece of store.get(name, { signal, version })) {
    size += piece.length;
    if (size > length) throw offsiteError('copy-object-damaged', { name, reason: 'appended' });
    digest.update(piece);
    yield piece;
  }
  if (size < length) throw offsiteError('copy-object-damaged', { name, reason: 'cut' });
  if (digest.digest('hex') !== sha256) {
    throw offsiteError('copy-object-damaged', { name, reason: 'other-bytes' });
  }
}
