import type { FileLayer } from '../archive/files/file-layer.ts';
import { segmentPath } from '../archive/format/layout.ts';
import { BadSectors, filesOverBadSectors } from '../archive/mend/bad-sectors.ts';
import { checkFooter } from '../archive/mend/check-footer.ts';
import { openAgain } from '../archive/read/scan-log.ts';
import { type Problem, segmentBatches } from '../archive/read/segment-batches.ts';
import { listSegments, type OpenSegment, openSegment } from '../archive/read/segment-files.ts';
import type { LogicalRecord } from '../archive/read/segment-records.ts';
import { batchesToTheEnd } from '../archive/read/torn-batch.ts';
import { errnoName } from '../errors/mailkeep-error.ts';
import { MessageCheck } from './message-check.ts';
import { PackedBatches } from './packed-batches.ts';
import { RecentBlobs } from './recent-blobs.ts';
import type { SegmentJob, SegmentReport } from './segment-report.ts';
import type { Settling } from './settling.ts';

/** Records handed on together, at least: enough for one transaction of the fold, which runs meanwhile. */
const RECORDS = 1_000;
/** Characters handed on together, at least, however few records they are: the length of a string is limited. */
const CHARACTERS = 8 * 1024 * 1024;

/**
 * Reads a segment's whole file and checks all that it shows by itself: header, record headers, CRCs, and with
 * `full` every SHA-256, the footer against the records, and every message whose bytes are there or in `blobs`. With
 * `settling`, what the catalog has already is not handed on.
 */
export function* checkSegment(
  files: FileLayer,
  job: SegmentJob,
  blobs = new RecentBlobs(),
  settling?: Settling,
): Generator<SegmentReport, void, undefined> {
  const bad = new BadSectors();
  const opened = open(filesOverBadSectors(files, bad), job);
  if (opened === 'gone') return;
  if (opened === undefined) {
    const { dir, segment } = job;
    const [highest = 1] = listSegments(files, dir).get(segment) ?? [];
    const generation = job.generation ?? highest;
    const file = segmentPath(dir, { segment, generation });
    const damage = { file, segment, generation, offset: 0, end: 0 };
    yield { what: 'damage', damage: { ...damage, reason: 'segment-header' } };
    return;
  }
  try {
    yield* check(opened, job, bad, blobs, settling);
  } finally {
    opened.file.close();
  }
}

function open(files: FileLayer, { dir, segment, generation }: SegmentJob) {
  if (generation === undefined) {
    return openAgain(files, dir, segment, listSegments(files, dir));
  }
  try {
    return openSegment(files, dir, { segment, generation });
  } catch (error) {
    // A generation that is not in force any more goes at any time.
    if (errnoName(error) === 'ENOENT') return 'gone';
    throw error;
  }
}

function* check(
  opened: OpenSegment,
  job: SegmentJob,
  bad: BadSectors,
  blobs: RecentBlobs,
  settling: Settling | undefined,
): Generator<SegmentReport, void, undefined> {
  const { archiveId, previousNumber, previousHash } = opened.header;
  yield {
    what: 'begin',
    archiveId: archiveId.toString('hex'),
    before: { number: previousNumber, hash: previousHash },
    generation: opened.name.generation,
  };
  const messages = new MessageCheck(job.full, blobs);
  const gathered = new PackedBatches();
  let records = 0;
  function* batches(): Generator<SegmentReport, void, undefined> {
    const packed = gathered.taken();
    if (packed !== undefined) yield { what: 'batches', segment: opened.name.segment, packed };
  }
  const reading = { digest: job.full, chained: true, releases: true };
  const visit = (record: LogicalRecord & { readonly payload: Buffer }) => messages.visit(record);
  const isWritten = job.last && opened.name.generation === 1;
  const walk = isWritten
    ? batchesToTheEnd(opened, job.seen, reading, visit)
    : segmentBatches(opened, reading, visit);
  let step = walk.next();
  for (; step.done !== true; step = walk.next()) {
    const item = step.value;
    // Zeros that replace what the disk cannot read may have been commits.
    const tail =
      item.what === 'remainder' &&
      isWritten &&
      bad.stretches().every(({ end }) => end <= item.offset);
    for (const problem of tail ? [] : item.problems) yield damage(opened, problem);
    if (item.what === 'batch') {
      records += item.commit.ordinal + 1 - records;
      const { commit } = item;
      const left = settling?.left(opened.name.segment, item) ?? item.records;
      gathered.add({ commit, records: left });
    }
    if (tail) messages.drop();
    yield* messages.taken();
    if (gathered.records >= RECORDS || gathered.length >= CHARACTERS) yield* batches();
    if (item.what === 'batch') continue;
    const { offset, end } = item;
    if (tail) {
      yield { what: 'tail', segment: opened.name.segment, offset, bytes: end - offset };
    } else if (item.problems.length === 0) {
      yield damage(opened, { reason: 'commit', offset, end });
    }
  }
  yield* batches();
  if (job.full) for (const problem of checkFooter(opened)) yield damage(opened, problem);
  for (const { offset, end } of bad.stretches()) {
    const within = Math.min(end, opened.file.size());
    yield damage(opened, { reason: 'unreadable', offset, end: within });
  }
  yield {
    what: 'end',
    after: step.value,
    records,
    messages: messages.count,
    rawBytes: messages.rawBytes,
    fileBytes: opened.file.size(),
    settled: settling?.counts() ?? { messages: 0, blobs: 0 },
  };
}

function damage(opened: OpenSegment, problem: Problem): SegmentReport {
  const { segment, generation } = opened.name;
  const ordinals = ordinalsIn(opened, problem);
  return {
    what: 'damage',
    damage: {
      file: opened.path,
      segment,
      generation,
      ...problem,
      ...(ordinals === undefined ? {} : { ordinals }),
    },
  };
}

/** The records of a sealed file that stand in these bytes. */
function ordinalsIn(
  { sealed }: OpenSegment,
  { offset, end }: Problem,
): readonly [number, number] | undefined {
  if (sealed === undefined) return undefined;
  const { containers } = sealed.index;
  let ordinal = 0;
  let first: number | undefined;
  let last = -1;
  for (const [index, container] of containers.entries()) {
    const until = containers[index + 1]?.offset ?? sealed.offset;
    if (container.offset < end && until > offset) {
      first ??= ordinal;
      last = ordinal + container.records - 1;
    }
    ordinal += container.records;
  }
  return first === undefined ? undefined : [first, last];
}
