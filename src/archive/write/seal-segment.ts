import { setImmediate as nextTurn } from 'node:timers/promises';
import { logDamaged } from '../../errors/archive.ts';
import { type FileLayer, type LogFile, writeAll } from '../files/file-layer.ts';
import { realFiles } from '../files/real-files.ts';
import { encodeSegmentHeader, SEGMENT_HEADER_BYTES } from '../format/headers.ts';
import { formatPath, type SegmentFile, segmentPath } from '../format/layout.ts';
import { type ArchiveCodec, DEFAULT_CODEC } from '../format/stored-payload.ts';
import { allowZstd } from '../read/format-file.ts';
import {
  damageIn,
  listSegments,
  type OpenSegment,
  openInForce,
  openSegment,
} from '../read/segment-files.ts';
import { type LogicalRecord, type LostBytes, segmentRecords } from '../read/segment-records.ts';
import { publish, writing } from './hot-segment.ts';
import { SealedFileWriter } from './sealed-file.ts';

/** Raw bytes handled before other work gets its turn: a few milliseconds of hashing. */
const TURN_BYTES = 4 * 1024 * 1024;

type Purge = (record: LogicalRecord, ordinal: number) => boolean;

export interface SealOptions {
  readonly dir: string;
  /** A closed segment: one before the writer's. The caller holds the archive's lock. */
  readonly segment: number;
  readonly files?: FileLayer;
  /** What the records are compressed with. The first zstd makes FORMAT 2 of FORMAT 1. */
  readonly codec?: ArchiveCodec;
  /**
   * Says which payloads are to be removed for good; their records keep their identity, so that the chain holds. It is
   * asked more than once about a record, and has to give the same answer.
   *
   * @param ordinal of the record in the segment
   */
  readonly purge?: Purge;
}

export interface SealedSegment {
  readonly segment: number;
  readonly generation: number;
  readonly records: number;
  /** Bytes of the file that was read, and of the one that replaces it. */
  readonly bytesBefore: number;
  readonly bytesAfter: number;
}

/**
 * Writes the next generation of a segment: the same records in the same order, small ones in compressed blocks, with a
 * footer that finds each by its ordinal. It is read back and compared record by record before it takes its name, so a
 * kill at any moment leaves the generation before it in force. That one stays; see `dropOldGenerations`.
 *
 * @throws `log-damaged` when the segment is not whole: sealing would make its damage look like the truth
 * @throws `disk-full`, `log-write-failed`, `log-sync-failed`: nothing has changed, and it can be tried again
 */
export async function sealSegment(options: SealOptions): Promise<SealedSegment> {
  const { dir, segment, files = realFiles, codec = DEFAULT_CODEC, purge = () => false } = options;
  const generations = listSegments(files, dir).get(segment) ?? [];
  const source = openInForce(files, dir, segment, generations);
  const name = { segment, generation: Math.max(...generations) + 1 };
  const path = segmentPath(dir, name);
  try {
    if (codec === 'zstd') await writing(formatPath(dir), 0, () => allowZstd(files, dir));
    let records = 0;
    const bytesAfter = await publish(files, path, source.file.size(), {
      write: (target) => copyRecords(source, target, { name, codec, purge }),
      async check(temporary) {
        records = await compare(source, openWritten(files, dir, name, temporary), purge);
      },
    });
    return { ...name, records, bytesBefore: source.file.size(), bytesAfter };
  } finally {
    source.file.close();
  }
}

async function copyRecords(
  source: OpenSegment,
  target: LogFile,
  how: { readonly name: SegmentFile; readonly codec: ArchiveCodec; readonly purge: Purge },
): Promise<number> {
  const { codec, purge } = how;
  const { generation } = how.name;
  await writeAll(target, encodeSegmentHeader({ ...source.header, generation }), 0);
  const writer = new SealedFileWriter(target, source.header, SEGMENT_HEADER_BYTES, codec);
  let ordinal = 0;
  for (const record of segmentRecords(source, { digest: true, releases: true })) {
    const whole = sound(source, record);
    const { kind, rawLength, hash, payload, state } = whole;
    const gone = state === 'purged' || purge(whole, ordinal);
    ordinal += 1;
    await writer.add({ kind, rawLength, hash, payload: gone ? undefined : payload });
  }
  return writer.end();
}

function openWritten(files: FileLayer, dir: string, name: SegmentFile, path: string): OpenSegment {
  const opened = openSegment(files, dir, name, path);
  if (opened?.sealed !== undefined) return opened;
  opened?.file.close();
  throw logDamaged({ file: path, segment: name.segment, offset: 0, reason: 'footer' });
}

/** Reads both generations whole and demands the same records; returns how many there are. */
async function compare(source: OpenSegment, written: OpenSegment, purge: Purge): Promise<number> {
  try {
    const copies = segmentRecords(written, { digest: true, releases: true });
    let records = 0;
    let bytes = 0;
    for (const original of segmentRecords(source, {
      digest: false,
      releases: true,
    })) {
      const wanted = sound(source, original);
      const next = copies.next();
      const copy = next.done === true ? undefined : sound(written, next.value);
      const same =
        copy !== undefined &&
        copy.kind === wanted.kind &&
        copy.rawLength === wanted.rawLength &&
        copy.hash.equals(wanted.hash) &&
        copy.state === (purge(wanted, records) ? 'purged' : wanted.state);
      if (!same) throw damageIn(written, copy?.offset ?? 0, 'bytes');
      records += 1;
      bytes += wanted.rawLength;
      if (bytes >= TURN_BYTES) {
        bytes = 0;
        await nextTurn();
      }
    }
    if (copies.next().done !== true) throw damageIn(written, written.file.size(), 'bytes');
    return records;
  } finally {
    written.file.close();
  }
}

function sound(segment: OpenSegment, record: LogicalRecord | LostBytes): LogicalRecord {
  if (record.what === 'record' && record.state !== 'damaged') return record;
  throw damageIn(segment, record.offset, record.what === 'lost' ? record.reason : 'payload');
}
