import { copiesError } from '../errors/copies.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import type { ObjectFact, ObjectStore } from '../objects/store.ts';
import { type ClearManifest, decodeManifest, MOST_MANIFEST_BYTES } from './format/manifest.ts';
import { commitOfName, FOLDERS } from './format/names.ts';

/** A valid manifest as it lies at the target. */
export interface FoundManifest {
  readonly name: string;
  readonly clear: ClearManifest;
  /** By the clock of the store, milliseconds since the epoch. */
  readonly modified: number;
}

export interface FoundManifests {
  /** The valid one with the highest commit, and the highest sequence among those; undefined where none is valid. */
  readonly newest: FoundManifest | undefined;
  /** All that have a manifest's name, with the highest commit first. */
  readonly listed: readonly ListedManifest[];
  /** Those that were read and are not valid, with the reason. */
  readonly invalid: readonly { readonly name: string; readonly error: MailkeepError }[];
}

export interface ListedManifest extends ObjectFact {
  /** The commit in its name. */
  readonly commit: number;
}

/** As many as can be kept, those of a day that has one each minute, and as many again. */
const MOST_LISTED = 25_000;

/**
 * Finds the newest valid manifest of a copy: names are read from the highest commit down, since whoever owns the target
 * may have put anything there.
 *
 * @param at reads only manifests of this commit
 * @throws offsite-too-many-manifests; what the store throws
 */
export async function findManifests(
  store: ObjectStore,
  trust: Trust,
  signal: AbortSignal,
  at?: number,
): Promise<FoundManifests> {
  const listed: ListedManifest[] = [];
  for await (const fact of store.list(FOLDERS.manifests, signal)) {
    const commit = commitOfName(fact.name);
    if (commit === undefined) continue;
    if (listed.length === MOST_LISTED) {
      throw copiesError('offsite-too-many-manifests', { to: store.label, most: MOST_LISTED });
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

/**
 * Reads one manifest: an error of ours where it is not valid, in none of the versions that the store keeps of it.
 *
 * @throws what the store throws
 */
export async function readManifest(
  store: ObjectStore,
  fact: ListedManifest,
  trust: Trust,
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

interface Trust {
  readonly copyId: string;
  readonly signers: readonly Buffer[];
}

async function readVersion(
  store: ObjectStore,
  { name, modified }: ListedManifest,
  trust: Trust,
  signal: AbortSignal,
  version?: string,
): Promise<FoundManifest | MailkeepError> {
  try {
    const bytes = await wholeObject(store, name, MOST_MANIFEST_BYTES, signal, version);
    const copyId = Buffer.from(trust.copyId, 'hex');
    const clear = decodeManifest(bytes, name, { copyId, signers: trust.signers });
    return { name, clear, modified };
  } catch (error) {
    if (error instanceof MailkeepError && error.family === 'damage') return error;
    throw error;
  }
}

/** Reads a small object. @throws objects-too-large, and what the store throws */
export async function wholeObject(
  store: ObjectStore,
  name: string,
  most: number,
  signal: AbortSignal,
  version?: string,
): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of store.get(name, { signal, version })) {
    size += piece.length;
    if (size > most) throw copiesError('offsite-too-large', { to: store.label, name, most });
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}
