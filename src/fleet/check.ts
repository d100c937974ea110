import { archiveError } from '../archive/errors.ts';
import { genesisHash } from '../archive/format.ts';
import { parsePurgeWork } from '../archive/purge-journal.ts';
import { verifyLooseBatches } from '../archive/recovery.ts';
import { objectError } from '../copies/errors.ts';
import type { UploadingStore } from '../copies/object-store.ts';
import { MailkeepError } from '../core/errors.ts';
import { readArchive, type StoredArchive } from '../registry/reading.ts';
import type { Registry } from '../registry/registry.ts';
import type { Uploaded } from '../registry/uploads.ts';
import { rawBatch } from './chunks.ts';
import { fleetArchiveError } from './errors.ts';
import { manifestOf } from './manifest.ts';
import { verifiedBytes } from './verified-bytes.ts';

/** Objects of an archive that are asked for at the same time. */
const AT_ONCE = 8;

export interface CheckOptions {
  readonly registry: Registry;
  readonly objects: Pick<UploadingStore, 'label' | 'head' | 'get'>;
  /** Reads every object whole, instead of asking for its length. */
  readonly isReading: boolean;
  readonly signal: AbortSignal;
}

/** What was found of an archive. */
export interface CheckedArchive {
  readonly commits: number;
  /** Commits whose bytes are in PostgreSQL; each was read and verified. */
  readonly tail: number;
  readonly objects: number;
  /** Bytes of the objects that were read; 0 if they were not to be. */
  readonly bytesRead: number;
  readonly problems: readonly MailkeepError[];
}

/**
 * Checks that an archive can be taken over: that covers and tail are every commit once and in order, that each byte of the
 * tail is what was committed, and that every object is in the store, as long as it was.
 *
 * @returns undefined if there is no such archive
 * @throws the errors of the registry; of the store, those that say nothing about an object; the signal's reason
 */
export async function checkArchive(
  options: CheckOptions,
  archive: number,
): Promise<CheckedArchive | undefined> {
  const checked = await checkOnce(options, archive);
  if (checked === undefined || checked.problems.length === 0) return checked;
  // What was replaced meanwhile is gone by right.
  const now = await readArchive(options.registry, archive);
  const named = new Set(now === undefined ? [] : objectsOf(now).map(({ key }) => key));
  const problems = checked.problems.filter(
    ({ code, facts }) => !OF_OBJECTS.has(code) || named.has(String(facts.name)),
  );
  return { ...checked, problems };
}

const OF_OBJECTS: ReadonlySet<string> = new Set([
  'object-missing',
  'object-damaged',
  'object-changed',
]);

function objectsOf({ covers, snapshot }: StoredArchive): readonly Uploaded[] {
  return snapshot === undefined ? covers : [...covers, snapshot];
}

async function checkOnce(
  options: CheckOptions,
  archive: number,
): Promise<CheckedArchive | undefined> {
  const stored = await readArchive(options.registry, archive);
  if (stored === undefined) return undefined;
  const problems: MailkeepError[] = [];
  const note = async (act: () => unknown): Promise<void> => {
    try {
      await act();
    } catch (error) {
      if (!(error instanceof MailkeepError) || error.family !== 'damage') throw error;
      problems.push(error);
    }
  };
  await note(() => manifestOf(stored));
  await note(() => proveTail(stored));
  for (const { purges, records } of stored.purges) {
    if (parsePurgeWork(records) !== undefined) continue;
    problems.push(fleetArchiveError('purge-damaged', { archive, purges }));
  }
  const objects = objectsOf(stored);
  const left = [...objects];
  const inTurn = async (): Promise<void> => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      const object = next;
      await note(() => checkObject(options, object));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, inTurn));
  return {
    ...{ commits: stored.head.headNumber, tail: stored.tail.length, objects: objects.length },
    bytesRead: options.isReading ? objects.reduce((sum, { bytes }) => sum + bytes, 0) : 0,
    problems,
  };
}

/** @throws `log-damaged` unless each batch of the tail is the commit that follows the one before it, up to the head */
async function proveTail({ covers, tail, logId, head }: StoredArchive): Promise<void> {
  const ends = new Map(covers.map(({ last, lastHash }) => [last, lastHash]));
  for (const batch of tail) {
    const number = batch.number - 1;
    const before = ends.get(number);
    // Where the manifest has a gap, it was reported.
    if (number > 0 && before === undefined) return;
    const commits = verifyLooseBatches('the tail', {
      bytes: await rawBatch(batch),
      space: { archiveId: logId, segment: batch.segment },
      at: { offset: batch.at, ordinal: batch.firstOrdinal },
      after: { number, hash: before?.toString('hex') ?? genesisHash(logId) },
    });
    const [commit] = commits;
    const isLast = batch.number === head.headNumber && batch.segment === head.hotSegment;
    const isItself =
      commits.length === 1 &&
      commit?.hash === batch.hash.toString('hex') &&
      (!isLast || (commit.end.offset === head.hotOffset && commit.end.ordinal === head.hotOrdinal));
    if (!isItself) {
      const { segment, at: offset } = batch;
      throw archiveError('log-damaged', { file: 'the tail', segment, offset, reason: 'chain' });
    }
    ends.set(batch.number, batch.hash);
  }
}

/** @throws object-missing, object-damaged */
async function checkObject(
  { objects, isReading, signal }: CheckOptions,
  uploaded: Uploaded,
): Promise<void> {
  const facts = { store: objects.label, name: uploaded.key };
  if (isReading) {
    const pieces = verifiedBytes(objects, uploaded, signal);
    while ((await pieces.next()).done !== true);
    return;
  }
  const found = await objects.head(uploaded.key, signal);
  if (found === undefined) throw objectError('object-missing', facts);
  if (found.length !== uploaded.bytes) throw objectError('object-damaged', facts);
}
