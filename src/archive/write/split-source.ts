import type { BlobHash, MessageId } from '../../mail/words.ts';
import { firstLine, MIN_DECODED_BYTES, RunFinder, readRun } from '../format/base64-runs.ts';
import { readMessagePayload, rebuild, recipeLine } from '../format/recipe.ts';
import { RecipeBuilder } from './recipe-builder.ts';

/** A message as it will be stored: the payload of its record, and the blobs that the payload refers to. */
export interface SplitSource {
  readonly payload: Buffer;
  readonly blobs: ReadonlyMap<BlobHash, Buffer>;
}

/**
 * Splits a raw source in memory: runs of base64 lines are decoded into blobs, the rest stays literal. It ignores
 * MIME: nested, truncated or mislabelled messages make no difference. The result has been read back, rebuilt and
 * compared with the source byte for byte.
 */
export function splitSource(raw: Buffer, id: MessageId): SplitSource {
  const blobs = new Map<BlobHash, Buffer>();
  const builder = new RecipeBuilder({ blob: (hash, bytes) => blobs.set(hash, bytes) });
  const runs = addRuns(raw, builder);
  const payload = messagePayload(builder, id, raw.length);
  if (runs === 0 && blobs.size === 0) return { payload, blobs };
  return givesBack(payload, blobs, raw) ? { payload, blobs } : keepLiteral(raw, id);
}

/** Puts the record's payload together from what a builder has gathered. */
export function messagePayload(builder: RecipeBuilder, id: MessageId, size: number): Buffer {
  const { parts, literal } = builder.finish();
  const line = Buffer.from(recipeLine({ parts, sha256: id, size }), 'latin1');
  return Buffer.concat([line, ...literal]);
}

function addRuns(raw: Buffer, builder: RecipeBuilder): number {
  const finder = new RunFinder(raw, true);
  let runs = 0;
  let added = 0;
  for (let start = finder.next(0); start !== -1; start = finder.next(added)) {
    const first = firstLine(raw, start, true);
    if (first === undefined || first === 'more') continue;
    const run = readRun(raw, start, first, true);
    if (run.length < MIN_DECODED_BYTES) continue;
    builder.literal(raw.subarray(added, start));
    builder.beginRun(first);
    for (const piece of run.pieces) builder.run(piece);
    builder.endRun();
    added = run.end;
    runs += 1;
  }
  builder.literal(raw.subarray(added));
  return runs;
}

function givesBack(payload: Buffer, blobs: ReadonlyMap<BlobHash, Buffer>, raw: Buffer): boolean {
  const message = readMessagePayload(payload);
  if (message === undefined) return false;
  const source = rebuild(message, (hash) => blobs.get(hash) ?? Buffer.alloc(0));
  return source.equals(raw);
}

/** Never needed as far as anybody knows; here so that a mistake above costs room and not a message. */
function keepLiteral(raw: Buffer, id: MessageId): SplitSource {
  const blobs = new Map<BlobHash, Buffer>();
  const builder = new RecipeBuilder({ blob: (hash, bytes) => blobs.set(hash, bytes) });
  builder.literal(raw);
  return { payload: messagePayload(builder, id, raw.length), blobs };
}
