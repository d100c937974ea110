import { BadSectors, filesOverBadSectors } from '../archive/bad-sectors.ts';
import { checkFooter } from '../archive/check-footer.ts';
import type { FileLayer } from '../archive/file-layer.ts';
import { segmentPath } from '../archive/layout.ts';
import type { CommittedBatch } from '../archive/records.ts';
import { openAgain } from '../archive/scan-log.ts';
import { type Problem, type ReadBatch, segmentBatches } from '../archive/segment-batches.ts';
import { listSegments, type OpenSegment, openSegment } from '../archive/segment-files.ts';
import { errnoOf } from '../errors/archive.ts';
import { type Meaning, MessageCheck } from './message-check.ts';
import type { SegmentJob, SegmentReport } from './segment-report.ts';

/** Records handed on together, at least: enough for one transaction of the fold, which goes on beside. */
const RECORDS = 1_000;

/**
 * Reads a segment's file whole and checks all that can be told from it alone: header, record headers, CRCs, and with
 * `full` every SHA-256, the footer against the records, and every message whose bytes are all there.
 */
export function* checkSegment(
  files: FileLayer,
  job: SegmentJob,
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
    yield* check(opened, job, bad);
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
    if (errnoOf(error) === 'ENOENT') return 'gone';
    throw error;
  }
}

function* check(
  opened: OpenSegment,
  job: SegmentJob,
  bad: BadSectors,
): Generator<SegmentReport, void, undefined> {
  const messages = new MessageCheck(job.full);
  let gathered: CommittedBatch[] = [];
  let records = 0;
  let waiting = 0;
  const walk = segmentBatches(opened, { digest: job.full, chained: true }, (record) =>
    messages.visit(record),
  );
  let step = walk.next();
  for (; step.done !== true; step = walk.next()) {
    const item = step.value;
    // Zeros in the place of what the disk does not give back may have been commits.
    const tail =
      item.what === 'remainder' &&
      job.last &&
      opened.name.generation === 1 &&
      bad.stretches().every(({ end }) => end <= item.offset);
    for (const problem of tail ? [] : item.problems) yield damage(opened, problem);
    if (item.what === 'batch') {
      records += item.commit.ordinal + 1 - records;
      gathered.push(committed(opened, item));
      waiting += item.records.length;
    }
    yield* messages.taken();
    if (waiting >= RECORDS) {
      yield { what: 'batches', batches: gathered };
      gathered = [];
      waiting = 0;
    }
    if (item.what === 'batch') continue;
    const { offset, end } = item;
    if (tail) {
      yield { what: 'tail', segment: opened.name.segment, offset, bytes: end - offset };
    } else if (item.problems.length === 0) {
      yield damage(opened, { reason: 'commit', offset, end });
    }
  }
  if (gathered.length > 0) yield { what: 'batches', batches: gathered };
  if (job.full) for (const problem of checkFooter(opened)) yield damage(opened, problem);
  for (const { offset, end } of bad.stretches()) {
    const within = Math.min(end, opened.file.size());
    yield damage(opened, { reason: 'unreadable', offset, end: within });
  }
  const { archiveId, previousNumber, previousHash } = opened.header;
  yield {
    what: 'end',
    archiveId: archiveId.toString('hex'),
    before: { number: previousNumber, hash: previousHash },
    after: step.value,
    generation: opened.name.generation,
    records,
    messages: messages.count,
    rawBytes: messages.rawBytes,
    fileBytes: opened.file.size(),
  };
}

function committed(
  { name: { segment } }: OpenSegment,
  { commit, records }: ReadBatch<Meaning>,
): CommittedBatch {
  const { number, time, hash, previous } = commit;
  return {
    commit: { number, time, hash },
    previousHash: previous,
    records: records.map(({ value, ordinal, offset }) => ({
      ...value,
      position: { segment, ordinal, offset },
    })),
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
