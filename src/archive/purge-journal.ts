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

/**
 * A purge. `purge.json`, next to the log, contains it from before it is decided until it is complete. Contains only
 * numbers and hashes, because it outlives the purged data.
 */
export interface PurgeWork {
  readonly reason: 'forgotten' | 'pruned';
  readonly messages: readonly MessageId[];
  /** The commit immediately before the one that records the purge. */
  readonly after: ChainState;
  /** Ordinals of the records whose payloads are removed, by segment. */
  readonly records: ReadonlyMap<number, readonly number[]>;
}

const VERSION = 1;

function workPath(dir: string): string {
  return join(dir, 'purge.json');
}

/** Returns undefined if no purge is pending. */
export function readPurge(files: FileLayer, dir: string): PurgeWork | undefined {
  const path = workPath(dir);
  if (!files.list(dir).includes('purge.json')) return undefined;
  const work = parsePurgeWork(parseJson(readSmallFile(files, path).toString('utf8')));
  if (work === undefined) throw new Error(`${path} is not what was written there`);
  return work;
}

/**
 * Writes the journal. The commit after `work.after` decides the purge, so no other commit may run in the meantime.
 *
 * @throws `disk-full`, `log-write-failed`
 */
export async function writePurge(files: FileLayer, dir: string, work: PurgeWork): Promise<void> {
  const path = workPath(dir);
  const bytes = Buffer.from(`${encodePurgeWork(work)}\n`);
  await convertWriteErrors(path, bytes.length, () => replaceFile(files, path, bytes));
}

/** Removes the journal of a purge that is complete, or was never decided. */
export async function endPurge(files: FileLayer, dir: string): Promise<void> {
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
