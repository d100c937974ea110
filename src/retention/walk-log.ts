import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FileLayer } from '../archive/files/file-layer.ts';
import type { Fact } from '../archive/format/facts.ts';
import { readMessagePayload } from '../archive/format/recipe.ts';
import { RECORD_KIND } from '../archive/format/records.ts';
import { foldRecord } from '../archive/read/fold-record.ts';
import { segmentBatches, type Visited } from '../archive/read/segment-batches.ts';
import {
  listSegments,
  localSegments,
  openInForce,
  segmentNumbers,
} from '../archive/read/segment-files.ts';
import { logDamaged } from '../errors/archive.ts';
import type { BlobHash, MessageId } from '../mail/words.ts';

/** A record that is still there, and what deciding about it needs; blobs come by their hash alone. */
export type WalkedRecord =
  | { readonly kind: 'blob'; readonly hash: BlobHash }
  | { readonly kind: 'message'; readonly id: MessageId; readonly blobs: readonly BlobHash[] }
  | { readonly kind: 'fact'; readonly fact: Fact };

/** A record's place: the same in every generation of its segment. */
export interface RecordAt {
  readonly segment: number;
  readonly ordinal: number;
  /** The commit that closes its batch. */
  readonly commit: number;
}

/**
 * Every committed record of the log in order, those without payload left out. Half a log says nothing about what is
 * shared, so damage anywhere ends it.
 *
 * @param store where segments are that are not in the folder: they are fetched when it is their turn
 * @throws `log-damaged`; the signal's reason; what fetching a segment throws
 */
export async function* walkLog(
  files: FileLayer,
  dir: string,
  signal: AbortSignal,
  store = localSegments,
): AsyncGenerator<WalkedRecord & RecordAt, void, undefined> {
  let listing = listSegments(files, dir);
  const segments = segmentNumbers(listing, store);
  for (const [index, segment] of segments.entries()) {
    if (!store.present(segment)) {
      await store.fetch([segment]);
      listing = listSegments(files, dir);
    }
    const opened = openInForce(files, dir, segment, listing.get(segment) ?? []);
    const damaged = (reason: 'segment-missing' | 'commit' | 'bytes', offset: number) =>
      logDamaged({ file: opened.path, segment, offset, reason });
    try {
      if (segment !== index + 1) throw damaged('segment-missing', 0);
      for (const item of segmentBatches(opened, { digest: false }, visit)) {
        signal.throwIfAborted();
        const [problem] = item.problems;
        if (item.what === 'remainder') {
          if (index < segments.length - 1) throw damaged('commit', item.offset);
          break;
        }
        if (problem !== undefined) {
          throw logDamaged({ file: opened.path, segment, ...problem });
        }
        const commit = item.commit.number;
        for (const { value, ordinal } of item.records) yield { ...value, segment, ordinal, commit };
        await nextTurn();
      }
    } finally {
      opened.file.close();
    }
  }
}

function visit(record: Parameters<typeof foldRecord>[0]): Visited<WalkedRecord> {
  if (record.kind !== RECORD_KIND.message) {
    const read = foldRecord(record);
    if (read === undefined || 'problem' in read) return read;
    return read.value.kind === 'message' ? undefined : { value: read.value };
  }
  const message = readMessagePayload(record.payload);
  if (message === undefined) return { problem: 'recipe' };
  const value: WalkedRecord = {
    kind: 'message',
    id: message.recipe.sha256,
    blobs: message.recipe.parts.flatMap((part) => {
      if (part[0] === 'raw') return [];
      const [hash, chunks] = part[0] === 'blob' ? [part[2], part[3]] : [part[4], part[5]];
      return chunks ?? [hash];
    }),
  };
  return { value };
}
