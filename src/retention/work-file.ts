import { join } from 'node:path';
import { type FileLayer, readWhole, replaceFile } from '../archive/files/file-layer.ts';
import { canonicalJson } from '../archive/format/facts.ts';
import { isCount, isHash, isObject, parseJson } from '../archive/format/json-shape.ts';
import { temporaryPath } from '../archive/format/layout.ts';
import type { ChainState } from '../archive/read/segment-batches.ts';
import { syncing, writing } from '../archive/write/hot-segment.ts';
import type { MessageId } from '../mail/words.ts';

/**
 * A purge that was decided: durable before the log says so, and gone when nothing of it is left to do. It holds
 * numbers and hashes only.
 */
export interface PurgeWork {
  readonly reason: 'forgotten' | 'pruned';
  readonly messages: readonly MessageId[];
  /** The last commit before the one that journals it. */
  readonly after: ChainState;
  /** Ordinals of the records whose payload goes, by segment. */
  readonly records: ReadonlyMap<number, readonly number[]>;
}

const VERSION = 1;

function workPath(dir: string): string {
  return join(dir, 'purge.json');
}

/** Undefined where no purge is under way. */
export function readWork(files: FileLayer, dir: string): PurgeWork | undefined {
  const path = workPath(dir);
  if (!files.list(dir).includes('purge.json')) return undefined;
  const work = shaped(parseJson(readWhole(files, path).toString('utf8')));
  if (work === undefined) throw new Error(`${path} is not what was written there`);
  return work;
}

/** @throws `disk-full`, `log-write-failed` */
export async function writeWork(files: FileLayer, dir: string, work: PurgeWork): Promise<void> {
  const path = workPath(dir);
  const text = canonicalJson({ ...work, version: VERSION, records: [...work.records] });
  const bytes = Buffer.from(`${text}\n`);
  try {
    await writing(path, bytes.length, () => replaceFile(files, path, bytes));
  } catch (error) {
    // What cannot be removed now, the next one replaces.
    await files.remove(temporaryPath(path)).catch(() => undefined);
    throw error;
  }
}

export async function removeWork(files: FileLayer, dir: string): Promise<void> {
  const path = workPath(dir);
  await writing(path, 0, () => files.remove(path));
  await syncing(path, () => files.syncFolder(dir));
}

function shaped(value: unknown): PurgeWork | undefined {
  if (!isObject(value) || value.version !== VERSION || !isObject(value.after)) return undefined;
  const { reason, messages, after, records } = value;
  if (reason !== 'forgotten' && reason !== 'pruned') return undefined;
  if (!isCount(after.number) || !isHash(after.hash)) return undefined;
  if (!Array.isArray(messages) || !messages.every(isHash)) return undefined;
  if (!Array.isArray(records) || !records.every(isEntry)) return undefined;
  return {
    reason,
    messages,
    after: { number: after.number, hash: after.hash },
    records: new Map(records),
  };
}

function isEntry(value: unknown): value is [number, number[]] {
  return (
    Array.isArray(value) && isCount(value[0]) && Array.isArray(value[1]) && value[1].every(isCount)
  );
}
