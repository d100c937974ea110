import { createHash, hash as digest } from 'node:crypto';
import {
  type MessagePayload,
  RecipeMismatch,
  readMessagePayload,
  rebuildInto,
  rebuildPieces,
} from '../archive/format/recipe.ts';
import { RECORD_KIND } from '../archive/format/records.ts';
import { readFact } from '../archive/read/fold-record.ts';
import type { Visited } from '../archive/read/segment-batches.ts';
import type { LogicalRecord } from '../archive/read/segment-records.ts';
import type { BlobHash } from '../mail/words.ts';
import type { Meaning } from './packed-batches.ts';
import type { RecentBlobs } from './recent-blobs.ts';
import type { SegmentReport } from './segment-report.ts';

type Outcome = Extract<SegmentReport, { what: 'unsound' | 'deferred' }>;

/** Rebuilds and hashes messages while their records pass by, as far as their blobs passed by lately or are found. */
export class MessageCheck {
  count = 0;
  rawBytes = 0;
  #outcomes: Outcome[] = [];
  #before = { count: 0, rawBytes: 0 };

  constructor(
    private readonly full: boolean,
    private readonly blobs: RecentBlobs,
  ) {}

  /** For each record with a payload: what it means to the catalog. */
  visit({ kind, hash, payload }: LogicalRecord & { readonly payload: Buffer }): Visited<Meaning> {
    switch (kind) {
      case RECORD_KIND.blob: {
        const name = hash.toString('hex');
        if (this.full) this.blobs.keep(name, payload);
        return { value: { kind: 'blob', hash: name, size: payload.length } };
      }
      case RECORD_KIND.message: {
        const message = readMessagePayload(payload);
        if (message === undefined) return { problem: 'recipe' };
        const { sha256: id, size } = message.recipe;
        this.count += 1;
        this.rawBytes += size;
        if (this.full) this.#rebuild(message);
        return { value: { kind: 'message', id, size } };
      }
      case RECORD_KIND.fact: {
        const text = payload.toString('utf8');
        const fact = readFact(text);
        return fact === undefined ? { problem: 'fact' } : { value: { kind: 'fact', text, fact } };
      }
      default:
        return { problem: 'bytes' };
    }
  }

  /** What was found out since it was last asked. */
  taken(): readonly Outcome[] {
    const outcomes = this.#outcomes;
    this.#outcomes = [];
    this.#before = { count: this.count, rawBytes: this.rawBytes };
    return outcomes;
  }

  /** Forgets what passed by since it was last asked: no commit made that a part of the archive. */
  drop(): void {
    this.#outcomes = [];
    this.count = this.#before.count;
    this.rawBytes = this.#before.rawBytes;
  }

  #rebuild(message: MessagePayload): void {
    const { sha256: id, size, parts } = message.recipe;
    const needed = parts.flatMap(blobsOf);
    const blobs = this.blobs.all(
      needed,
      parts.reduce((sum, part) => sum + blobBytesOf(part), 0),
    );
    if (blobs === undefined) {
      this.#outcomes.push({ what: 'deferred', message: id, blobs: needed });
      return;
    }
    try {
      if (sourceHash(message, size, blobs) === id) return;
      this.#outcomes.push({ what: 'unsound', message: id, reason: 'hash' });
    } catch (error) {
      if (!(error instanceof RecipeMismatch)) throw error;
      this.#outcomes.push({ what: 'unsound', message: id, reason: 'recipe' });
    }
  }
}

type Part = MessagePayload['recipe']['parts'][number];

function blobsOf(part: Part): readonly string[] {
  if (part[0] === 'raw') return [];
  if (part[0] === 'blob') return part[3] ?? [part[2]];
  return part[5] ?? [part[4]];
}

/** How many bytes its blobs have together. */
function blobBytesOf(part: Part): number {
  if (part[0] === 'raw') return 0;
  return part[0] === 'blob' ? part[1] : part[3];
}

/** A source up to this size is put together and hashed at once, which costs less than piece by piece. Bytes. */
const PUT_TOGETHER_BYTES = 4 * 1024 * 1024;
/** Used again for each source: fresh memory costs as much as encoding. */
let together: Buffer | undefined;

/** Returns the SHA-256 of a message's source; undefined where it has another size. @throws RecipeMismatch */
function sourceHash(
  message: MessagePayload,
  size: number,
  blobs: ReadonlyMap<BlobHash, Buffer>,
): string | undefined {
  const [only] = message.recipe.parts;
  if (only?.[0] === 'raw' && only[1] === size && message.literal.length === size) {
    return digest('sha256', message.literal, 'hex');
  }
  const blob = (hash: BlobHash): Buffer => {
    const bytes = blobs.get(hash);
    if (bytes === undefined) throw new RecipeMismatch('a blob is not the one that was asked for');
    return bytes;
  };
  if (size <= PUT_TOGETHER_BYTES) {
    together ??= Buffer.allocUnsafeSlow(PUT_TOGETHER_BYTES);
    const length = rebuildInto(together, message, blob);
    return length === size ? digest('sha256', together.subarray(0, length), 'hex') : undefined;
  }
  const whole = createHash('sha256');
  let length = 0;
  for (const piece of rebuildPieces(message, blob)) {
    whole.update(piece);
    length += piece.length;
  }
  return length === size ? whole.digest('hex') : undefined;
}
