import { createHash, hash as digest } from 'node:crypto';
import { type FoldedMeaning, foldRecord } from '../archive/fold-record.ts';
import { RecipeMismatch, rebuildPieces } from '../archive/rebuild.ts';
import { type MessagePayload, readMessagePayload } from '../archive/recipe.ts';
import { RECORD_KIND } from '../archive/records.ts';
import type { Visited } from '../archive/segment-batches.ts';
import type { LogicalRecord } from '../archive/segment-records.ts';
import type { SegmentReport } from './segment-report.ts';

export type Meaning = FoldedMeaning;

/** Blobs kept while a segment is read: most messages that need one come right behind it. Bytes. */
const KEPT_BYTES = 32 * 1024 * 1024;

type Told = Extract<SegmentReport, { what: 'unsound' | 'deferred' }>;

/** Rebuilds and hashes messages while their records pass by, as far as their blobs have passed by as well. */
export class MessageCheck {
  count = 0;
  rawBytes = 0;
  readonly #full: boolean;
  /** In the order of their last use. */
  readonly #blobs = new Map<string, Buffer>();
  #kept = 0;
  #told: Told[] = [];

  constructor(full: boolean) {
    this.#full = full;
  }

  /** For each record with a payload: what it means to the catalog. */
  visit(record: LogicalRecord & { readonly payload: Buffer }): Visited<Meaning> {
    if (record.kind === RECORD_KIND.blob) {
      if (this.#full) this.#keep(record.hash.toString('hex'), record.payload);
    } else if (record.kind === RECORD_KIND.message) {
      const message = readMessagePayload(record.payload);
      if (message === undefined) return { problem: 'recipe' };
      const { sha256: id, size } = message.recipe;
      this.count += 1;
      this.rawBytes += size;
      if (this.#full) this.#rebuild(message);
      return { value: { kind: 'message', id, size } };
    }
    return foldRecord(record);
  }

  /** What was found out since it was last asked. */
  taken(): readonly Told[] {
    const told = this.#told;
    this.#told = [];
    return told;
  }

  #rebuild(message: MessagePayload): void {
    const { sha256: id, size, parts } = message.recipe;
    const needed = parts.flatMap(blobsOf);
    if (needed.some((hash) => !this.#blobs.has(hash))) {
      this.#told.push({ what: 'deferred', message: id, blobs: needed });
      return;
    }
    try {
      if (sourceHash(message, size, (hash) => this.#use(hash)) === id) return;
      this.#told.push({ what: 'unsound', message: id, reason: 'hash' });
    } catch (error) {
      if (!(error instanceof RecipeMismatch)) throw error;
      this.#told.push({ what: 'unsound', message: id, reason: 'recipe' });
    }
  }

  #keep(hash: string, payload: Buffer): void {
    if (payload.length > KEPT_BYTES || this.#blobs.has(hash)) return;
    this.#blobs.set(hash, Buffer.from(payload));
    this.#kept += payload.length;
    for (const [oldest, bytes] of this.#blobs) {
      if (this.#kept <= KEPT_BYTES) break;
      this.#blobs.delete(oldest);
      this.#kept -= bytes.length;
    }
  }

  #use(hash: string): Buffer {
    const bytes = this.#blobs.get(hash);
    if (bytes === undefined) throw new RecipeMismatch('a blob went while it was needed');
    return bytes;
  }
}

function blobsOf(part: MessagePayload['recipe']['parts'][number]): readonly string[] {
  if (part[0] === 'raw') return [];
  if (part[0] === 'blob') return part[3] ?? [part[2]];
  return part[5] ?? [part[4]];
}

/** SHA-256 of a message's source, piece by piece. @throws RecipeMismatch */
function sourceHash(
  message: MessagePayload,
  size: number,
  blob: (hash: string) => Buffer,
): string | undefined {
  const [only] = message.recipe.parts;
  if (only?.[0] === 'raw' && only[1] === size && message.literal.length === size) {
    return digest('sha256', message.literal, 'hex');
  }
  const whole = createHash('sha256');
  let length = 0;
  for (const piece of rebuildPieces(message, blob)) {
    whole.update(piece);
    length += piece.length;
  }
  return length === size ? whole.digest('hex') : undefined;
}
