import { join } from 'node:path';
import type { MessageId } from '../core/types.ts';
import { type FileLayer, readSmallFile, replaceFile } from './file-system.ts';
import {
  canonicalJson,
  hasFields,
  isCount,
  isHash,
  isListOf,
  isOneOf,
  parseJson,
} from './format.ts';
import { convertSyncErrors, convertWriteErrors } from './hot-segment.ts';
import type { ChainState } from './segment-reader.ts';

/** A purge that has been decided. Contains only numbers and hashes, because it outlives the purged data. */
export interface PurgeWork {
  readonly reason: 'forgotten' | 'pruned';
  readonly messages: readonly MessageId[];
  /** The commit immediately before the one that records the purge. */
  readonly after: ChainState;
  /** Ordinals of the records whose payloads are removed, by segment. */
  readonly records: ReadonlyMap<number, readonly number[]>;
}

/** Stores a purge until it has been completed. */
export interface PurgeJournal {
  /** Returns undefined if no purge is pending. */
  read(): Promise<PurgeWork | undefined>;
  /**
   * Stores a purge, then runs the commit after `work.after`, which decides the purge. A journal that also stores
   * commits can store both in one step. The log shows whether a purge was decided.
   *
   * @param commits the commits that contain the records
   * @param commit makes that commit; no other commit may run in the meantime
   * @throws `disk-full` and other write errors if nothing was decided; errors from `commit`
   */
  decide<T>(work: PurgeWork, commits: readonly number[], commit: () => Promise<T>): Promise<T>;
  /** Records that the purge is complete, or was never decided. */
  end(): Promise<void>;
}

/** Returns a journal stored in `purge.json`, next to the log. */
export function purgeJournal(files: FileLayer, dir: string): PurgeJournal {
  return {
    read: async () => readWork(files, dir),
    async decide(work, _commits, commit) {
      await writeWork(files, dir, work);
      return commit();
    },
    end: () => endPurge(files, dir),
  };
}

const VERSION = 1;

function workPath(dir: string): string {
  return join(dir, 'purge.json');
}

function readWork(files: FileLayer, dir: string): PurgeWork | undefined {
  const path = workPath(dir);
  if (!files.list(dir).includes('purge.json')) return undefined;
  const work = parsePurgeWork(parseJson(readSmallFile(files, path).toString('utf8')));
  if (work === undefined) throw new Error(`${path} is not what was written there`);
  return work;
}

async function writeWork(files: FileLayer, dir: string, work: PurgeWork): Promise<void> {
  const path = workPath(dir);
  const bytes = Buffer.from(`${encodePurgeWork(work)}\n`);
  await convertWriteErrors(path, bytes.length, () => replaceFile(files, path, bytes));
}

async function endPurge(files: FileLayer, dir: string): Promise<void> {
  const path = workPath(dir);
  await convertWriteErrors(path, 0, () => files.remove(path));
  await convertSyncErrors(path, () => files.syncFolder(dir));
}

function encodePurgeWork(work: PurgeWork): string {
  return canonicalJson({ ...work, version: VERSION, records: [...work.records] });
}

/** Parses the output of `encodePurgeWork`. Returns undefined for any other value. */
function parsePurgeWork(value: unknown): PurgeWork | undefined {
  if (!isWork(value) || value.version !== VERSION) return undefined;
  const { reason, messages, after, records } = value;
  const { number, hash } = after;
  return { reason, messages, after: { number, hash }, records: new Map(records) };
}

const isNumbers = isListOf(isCount);
const isWork = hasFields({
  version: isCount,
  reason: isOneOf('forgotten', 'pruned'),
  messages: isListOf(isHash),
  after: hasFields({ number: isCount, hash: isHash }),
  records: isListOf(
    (value): value is [number, readonly number[]] =>
      Array.isArray(value) && isCount(value[0]) && isNumbers(value[1]),
  ),
});
