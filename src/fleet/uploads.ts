import { createHash } from 'node:crypto';
import { objectError } from '../copies/errors.ts';
import type { Upload, UploadingStore } from '../copies/object-store.ts';
import { hasCode, MailkeepError } from '../core/errors.ts';
import type { ObjectKind } from '../registry/objects.ts';
import type { Fenced, Outcome } from '../registry/outcome.ts';
import { register, type Uploaded } from '../registry/uploads.ts';
import { abandon } from './covering.ts';
import type { HeldArchive } from './held-archive.ts';
import { underLease } from './under-lease.ts';
import { verifiedBytes } from './verified-bytes.ts';

/** Names that are tried for one object. */
const MOST_NAMES = 3;
/** How long an upload that nobody registered is tried to be given up, in milliseconds. It has no bytes. */
const GIVING_UP_MS = 15_000;

/** An object that is to be uploaded. */
export interface NewObject {
  readonly kind: ObjectKind;
  /** Returns another name each time it is called: a name is used once, also if nothing came of it. */
  readonly name: (epoch: number) => string;
  /** In bytes: at least one. */
  readonly length: number;
  readonly sha256: Buffer;
  /** Returns all bytes from the first on, each time it is called. */
  readonly bytes: () => AsyncIterable<Uint8Array>;
  /** How many purges were decided when the content was made. */
  readonly purges: number;
  readonly metadata: ObjectMetadata;
}

/** What is kept with an object, so that its archive can be put together without the registry. */
export interface ObjectMetadata {
  readonly logId: Buffer;
  /** Of the commits that it holds, or that a catalog has reached. */
  readonly first: number;
  readonly last: number;
  readonly lastHash: Buffer;
}

/** What every upload of an archive is made with. */
export interface Uploading {
  readonly held: HeldArchive;
  readonly objects: UploadingStore;
  readonly signal: AbortSignal;
}

/**
 * Uploads an object: begins, registers, sends, completes, and reads it back whole. Whoever gets it lets it cover what it
 * holds, or abandons it. After any failure and at any moment of a kill, what may be in the store has a row by which it is
 * collected; nothing is deleted here.
 *
 * @returns what refused the registration, if something did
 * @throws object-damaged if the store does not give back what it was sent, under several names; object-source-changed; the
 *   errors of the store and the registry; the signal's reason
 */
export async function uploadObject(
  uploading: Uploading,
  object: NewObject,
): Promise<Outcome<{ uploaded: Uploaded }>> {
  let failure: unknown;
  for (let names = 0; names < MOST_NAMES; names += 1) {
    const tried = await tryName(uploading, object);
    if (!('failure' in tried)) return tried;
    failure = tried.failure;
  }
  throw failure;
}

/** The object is not there as it was sent, or may not be registered: another name may have more luck. */
interface Unlucky {
  readonly failure: unknown;
}

async function tryName(
  uploading: Uploading,
  object: NewObject,
): Promise<Outcome<{ uploaded: Uploaded }> | Unlucky> {
  const { held, objects, signal } = uploading;
  const name = object.name(held.lease.epoch);
  const upload = await objects.beginUpload(name, metadataOf(object), signal);
  const refused = await registered(uploading, object, upload);
  if (refused !== undefined) return refused;
  const uploaded = { key: name, bytes: object.length, sha256: object.sha256 };
  try {
    const bytes = unchanged(objects, name, object);
    const parts = await objects.sendParts(upload, object.length, bytes, signal);
    const failure = await completed(uploading, upload, parts);
    if (await isReadBack(uploading, uploaded)) return { outcome: 'committed', uploaded };
    await abandon(held.registry, name);
    return { failure: failure ?? objectError('object-damaged', { store: objects.label, name }) };
  } catch (error) {
    await abandon(held.registry, name);
    throw error;
  }
}

/** Returns why the upload must not be continued; undefined once it is registered. */
async function registered(
  { held, objects }: Uploading,
  { kind, purges }: NewObject,
  upload: Upload,
): Promise<Fenced | Unlucky | undefined> {
  const { name, uploadId } = upload;
  // The signal may have aborted already. Without a row, only the store can know of the upload.
  const giveUp = () =>
    objects.giveUpUpload(upload, AbortSignal.timeout(GIVING_UP_MS)).catch(() => undefined);
  let outcome: Outcome;
  try {
    outcome = await underLease(held, (lease) =>
      register(held.registry, lease, { key: name, kind, uploadId, purges }),
    );
  } catch (error) {
    const isUnknown = hasCode(error, 'outcome-unknown');
    // The row may be there, or come later, and is then collected like any other that nobody finishes.
    if (isUnknown) await abandon(held.registry, name);
    await giveUp();
    if (isUnknown) return { failure: error };
    throw error;
  }
  if (outcome.outcome === 'committed') return undefined;
  await giveUp();
  return outcome;
}

/** Returns the failure of completing an upload, if there was one: the object shows whether it happened. */
async function completed(
  { objects, signal }: Uploading,
  upload: Upload,
  parts: readonly string[],
): Promise<unknown> {
  try {
    await objects.completeUpload(upload, parts, signal);
    return undefined;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof MailkeepError) return error;
    throw error;
  }
}

async function isReadBack({ objects, signal }: Uploading, uploaded: Uploaded): Promise<boolean> {
  try {
    const pieces = verifiedBytes(objects, uploaded, signal);
    while ((await pieces.next()).done !== true);
    return true;
  } catch (error) {
    const isWrong = WRONG.some((code) => hasCode(error, code));
    if (isWrong) return false;
    throw error;
  }
}

const WRONG = ['object-missing', 'object-damaged', 'object-changed'];

/** Yields the bytes of an object, and fails at their end if they are not those that were announced. */
async function* unchanged(
  { label: store }: UploadingStore,
  name: string,
  object: NewObject,
): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256');
  for await (const piece of object.bytes()) {
    hash.update(piece);
    yield piece;
  }
  if (hash.digest().equals(object.sha256)) return;
  throw objectError('object-source-changed', { store, name });
}

function metadataOf({ metadata, sha256 }: NewObject): Readonly<Record<string, string>> {
  const { logId, first, last, lastHash } = metadata;
  return {
    'mailkeep-log': logId.toString('hex'),
    'mailkeep-range': `${first}-${last}`,
    'mailkeep-last-hash': lastHash.toString('hex'),
    'mailkeep-sha256': sha256.toString('hex'),
  };
}
