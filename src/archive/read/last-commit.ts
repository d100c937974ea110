import { logDamaged } from '../../errors/archive.ts';
import { errnoName, MailkeepError } from '../../errors/mailkeep-error.ts';
import { type FileLayer, readFully } from '../files/file-layer.ts';
import { realFiles } from '../files/real-files.ts';
import {
  RECORD_HEADER_BYTES,
  readRecordHeader,
  SEGMENT_HEADER_BYTES,
  STORED_KIND,
} from '../format/headers.ts';
import { logFolder } from '../format/layout.ts';
import { type CommitRecord, decodeCommit } from '../format/records.ts';
import { decodeInner, type SealedIndex } from '../format/sealed-footer.ts';
import { inflatePayload } from '../format/stored-payload.ts';
import { checkFormat } from './format-file.ts';
import { type ExpectedCommit, refuseEarlyEnd } from './recovery.ts';
import { segmentBatches } from './segment-batches.ts';
import { damageIn, listSegments, type OpenSegment, withSegment } from './segment-files.ts';

/** The last commit of a log, and whose it is. */
export interface LogHead {
  /** Hexadecimal. */
  readonly archiveId: string;
  /** 0 before the first commit. */
  readonly number: number;
  readonly hash: string;
}

/**
 * Reads the last segment and returns the log's last commit. Needs no lock.
 *
 * @param expected a commit that has to be there: the one that the catalog has reached
 * @throws `archive-missing` and its like; `log-damaged` when the last segment is not whole; `log-ends-early`
 */
export function logHead(dir: string, expected?: ExpectedCommit): LogHead {
  const files = realFiles;
  checkFormat(files, dir);
  const last = [...listSegments(files, dir)].at(-1);
  const nothing = { file: logFolder(dir), segment: 1, offset: 0 };
  if (last === undefined) throw logDamaged({ ...nothing, reason: 'segment-missing' });
  return withSegment(files, dir, ...last, (opened) => {
    const { path, header } = opened;
    let [number, hash] = [header.previousNumber, header.previousHash];
    for (const item of segmentBatches(opened, { digest: true }, () => undefined)) {
      if (item.what === 'remainder') break;
      const [problem] = item.problems;
      if (problem !== undefined) throw damageIn(opened, problem.offset, problem.reason);
      ({ number, hash } = item.commit);
    }
    refuseEarlyEnd(path, expected, number);
    return { archiveId: header.archiveId.toString('hex'), number, hash };
  });
}

/** Bytes at the end of an unsealed segment that surely hold its last commit's record, which has about 400. */
const LAST_BYTES = 4_096;

/**
 * Returns the number of the log's last commit, for commands that only read: from the last record of the last segment,
 * without hashing anything and whatever the times of its files are. The segment is walked only where it ends in bytes of
 * unfinished work. Undefined where the log does not say.
 */
export function lastCommitNumber(dir: string, files: FileLayer): number | undefined {
  try {
    const last = [...listSegments(files, dir)].at(-1);
    if (last === undefined) return undefined;
    return withSegment(files, dir, ...last, (opened) => {
      if (opened.sealed !== undefined) {
        const { index, offset } = opened.sealed;
        return sealedCommit(opened, index, offset)?.number ?? walkedNumber(opened);
      }
      if (opened.file.size() === SEGMENT_HEADER_BYTES) return opened.header.previousNumber;
      return commitAtTheEnd(opened)?.number ?? walkedNumber(opened);
    });
  } catch (error) {
    if (error instanceof MailkeepError || errnoName(error) !== 'unknown') return undefined;
    throw error;
  }
}

/** The commit whose record ends where the file does. A header is valid at one offset only, so a search finds no other. */
function commitAtTheEnd({ file, header: space }: OpenSegment): CommitRecord | undefined {
  const size = file.size();
  const start = Math.max(SEGMENT_HEADER_BYTES, size - LAST_BYTES);
  const bytes = Buffer.alloc(size - start);
  const got = bytes.subarray(0, readFully(file, bytes, start));
  for (let at = got.length - RECORD_HEADER_BYTES; at >= 0; at -= 1) {
    const header = readRecordHeader(got, at, space, start + at);
    if (header === undefined) continue;
    const stored = got.subarray(at + RECORD_HEADER_BYTES);
    if (header.kind !== STORED_KIND.commit || header.storedLength !== stored.length) break;
    const payload = inflatePayload(header, stored);
    return payload === undefined ? undefined : decodeCommit(payload);
  }
  return undefined;
}

/**
 * The last record of a sealed segment, which is a commit.
 *
 * @param end where the footer begins
 */
function sealedCommit(
  { file, header: space }: OpenSegment,
  index: SealedIndex,
  end: number,
): CommitRecord | undefined {
  const found = index.find(index.records - 1);
  if (found === undefined || found.container.offset >= end) return undefined;
  const { container, inner } = found;
  const bytes = Buffer.alloc(end - container.offset);
  const got = bytes.subarray(0, readFully(file, bytes, container.offset));
  const header = readRecordHeader(got, 0, space, container.offset);
  if (header === undefined) return undefined;
  const stored = got.subarray(RECORD_HEADER_BYTES, RECORD_HEADER_BYTES + header.storedLength);
  const payload = inflatePayload(header, stored);
  if (payload === undefined) return undefined;
  const record = container.block ? decodeInner(payload, inner) : { kind: header.kind, payload };
  if (record?.kind !== STORED_KIND.commit || record.payload === undefined) return undefined;
  return decodeCommit(record.payload);
}

function walkedNumber(opened: OpenSegment): number {
  let number = opened.header.previousNumber;
  for (const item of segmentBatches(opened, { digest: false }, () => undefined)) {
    if (item.what === 'remainder') break;
    number = item.commit.number;
  }
  return number;
}
