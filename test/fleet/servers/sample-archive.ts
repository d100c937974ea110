import { deflateSync } from 'node:zlib';
import { readFully } from '../../../src/archive/file-system.ts';
import { SEGMENT_HEADER_BYTES } from '../../../src/archive/format.ts';
import { openSegment } from '../../../src/archive/segment-files.ts';
import { segmentBatches } from '../../../src/archive/segment-reader.ts';
import { commit, roll, type TailBatch } from '../../../src/registry/commits.ts';
import type { Head, Lease } from '../../../src/registry/outcome.ts';
import type { Registry } from '../../../src/registry/registry.ts';
import { Positions } from '../../archive/positions.ts';
import { DIR, openOn, writeBatches } from '../../archive/sample-log.ts';
import { SimulatedDisk } from '../../archive/simulated-disk.ts';
import { done, headAfter } from '../../registry/servers/fleet.ts';

/** A log of several segments on a disk of its own; all but the last are closed, and none is sealed. */
export interface SampleArchive {
  readonly disk: SimulatedDisk;
  readonly logId: Buffer;
  readonly genesis: Buffer;
  /** Its commits by segment. */
  readonly segments: readonly (readonly TailBatch[])[];
}

/** Writes a log of segments with two commits each. */
export async function sampleArchive(segments: number): Promise<SampleArchive> {
  const disk = new SimulatedDisk();
  const writer = await openOn(disk.files);
  const known = new Positions();
  for (let segment = 1; segment <= segments; segment += 1) {
    await writeBatches(writer, known, 2, segment * 30);
    if (segment < segments) await writer.rollIfLarger(1);
  }
  await writer.close();
  const numbers = Array.from({ length: segments }, (_, index) => index + 1);
  const { archiveId, previousHash } = opened(disk, 1).header;
  return {
    disk,
    logId: archiveId,
    genesis: Buffer.from(previousHash, 'hex'),
    segments: numbers.map((segment) => batchesOf(disk, segment)),
  };
}

function opened(disk: SimulatedDisk, segment: number) {
  const found = openSegment(disk.files, DIR, { segment, generation: 1 });
  if (found === undefined) throw new Error('there is no such segment');
  return found;
}

function batchesOf(disk: SimulatedDisk, segment: number): TailBatch[] {
  const file = opened(disk, segment);
  const batches: TailBatch[] = [];
  let at = SEGMENT_HEADER_BYTES;
  for (const item of segmentBatches(file, { digest: true }, () => undefined)) {
    if (item.what !== 'batch') throw new Error('the segment is not whole');
    const { number, time, hash, previous, records, ordinal } = item.commit;
    const raw = Buffer.alloc(item.end - at);
    readFully(file.file, raw, at);
    batches.push({
      ...{ number, time, segment, at, records, codec: 1 },
      hash: Buffer.from(hash, 'hex'),
      previousHash: Buffer.from(previous, 'hex'),
      firstOrdinal: ordinal - records,
      rawBytes: raw.length,
      bytes: deflateSync(raw),
    });
    at = item.end;
  }
  return batches;
}

/** Commits a log to the registry, as its writer would have done; returns the head. */
export async function commitAll(
  registry: Registry,
  lease: Lease,
  empty: Head,
  { segments }: SampleArchive,
): Promise<Head> {
  let head = empty;
  for (const batches of segments) {
    if (head.headNumber > 0) {
      const from = { segment: head.hotSegment, headHash: head.headHash };
      head = done(await roll(registry, lease, from)).head;
    }
    for (const batch of batches) {
      done(await commit(registry, lease, batch));
      head = headAfter(head, batch);
    }
  }
  return head;
}
