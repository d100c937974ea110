import { join } from 'node:path';
import { type FileLayer, readWhole, replaceFile } from '../archive/files/file-layer.ts';
import { canonicalJson, type Fact } from '../archive/format/facts.ts';
import { isCount, isHash, isObject, parseJson } from '../archive/format/json-shape.ts';
import { logFolder, parseTailName, temporaryPath } from '../archive/format/layout.ts';
import type { CommittedBatch } from '../archive/format/records.ts';
import type { ArchiveCodec } from '../archive/format/stored-payload.ts';
import { scanLog } from '../archive/read/scan-log.ts';
import type { ChainState } from '../archive/read/segment-batches.ts';
import { listSegments, openInForce } from '../archive/read/segment-files.ts';
import { dropOldGenerations } from '../archive/write/compact-segments.ts';
import { syncing, writing } from '../archive/write/hot-segment.ts';
import type { LogWriter } from '../archive/write/log-writer.ts';
import type { Sealer } from '../archive/write/sealer.ts';
import type { WritableCatalog } from '../catalog/catalog.ts';
import { retentionError } from '../errors/retention.ts';
import type { MessageId } from '../mail/words.ts';
import type { Survey } from './survey.ts';

/**
 * A purge that was decided: durable before the log records it, and removed when all of it is done. It holds only
 * numbers and hashes.
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

/** Notes that nothing of the purge is left to do. */
export async function endPurge(files: FileLayer, dir: string): Promise<void> {
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

export type PurgedFact = Extract<Fact, { fact: 'purged' }>;

/**
 * Writes down what is to be removed and then records it in the log, with one commit: from then on it is decided, and
 * `compactPurged` has to be called until it returns.
 *
 * @param facts one a message, without the blobs that the survey found
 * @param survey made since the last commit
 * @throws `disk-full` and the other errors of writing: nothing is decided then
 */
export async function journalPurge(
  files: FileLayer,
  dir: string,
  log: LogWriter,
  facts: readonly PurgedFact[],
  survey: Survey,
): Promise<CommittedBatch> {
  const [first] = facts;
  if (first === undefined) throw new Error('a purge of nothing');
  const work: PurgeWork = {
    reason: first.reason,
    messages: facts.map(({ message }) => message),
    after: { ...log.last },
    records: survey.records,
  };
  await writeWork(files, dir, work);
  const batch = log.newBatch();
  for (const fact of facts) {
    const blobs = survey.blobs.get(fact.message) ?? [];
    batch.addFact({ ...fact, ...(blobs.length === 0 ? {} : { blobs }) });
  }
  return log.commit(batch);
}

/**
 * The purge that was decided and is not finished, if there is one. One that was written down and never decided is
 * dropped.
 */
export async function decidedPurge(files: FileLayer, dir: string): Promise<PurgeWork | undefined> {
  const work = readWork(files, dir);
  if (work === undefined) return undefined;
  for await (const event of scanLog({ dir, files, after: work.after })) {
    if (event.what !== 'batch') continue;
    const said = new Set<MessageId>();
    for (const record of event.batch.records) {
      if (record.kind === 'fact' && record.fact.fact === 'purged') said.add(record.fact.message);
    }
    if (work.messages.length > 0 && work.messages.every((id) => said.has(id))) return work;
    break;
  }
  await endPurge(files, dir);
  return undefined;
}

export interface Compacted {
  /** Segments that were rewritten, and bytes of their files before and after. */
  readonly segments: number;
  readonly bytesBefore: number;
  readonly bytesAfter: number;
}

/** Segments rewritten before the files they replace are removed: this many need room at a time. */
const DROP_EVERY = 4;

/** What a purge writes with. */
export interface PurgeWriter {
  readonly log: LogWriter;
  readonly catalog: Pick<WritableCatalog, 'makeDurable'>;
  /** What the records of rewritten segments are compressed with. */
  readonly codec: ArchiveCodec;
  readonly sealer: Sealer;
}

/**
 * Rewrites every segment that holds data of a decided purge, and removes the earlier files. The last segment comes
 * first: so a fact never outlives those it builds on, and the log implies the same catalog all the while. This holds
 * for catalogs that have reached the commit of the purge: a power cut must not bring back an earlier one, whose rows
 * would come from facts that are gone.
 *
 * @throws `disk-full` and the other errors of writing, `log-damaged`, `purge-interrupted`: the same call resumes
 */
export async function compactPurged(
  files: FileLayer,
  dir: string,
  { log, catalog, codec, sealer }: PurgeWriter,
  work: PurgeWork,
  signal: AbortSignal,
): Promise<Compacted> {
  catalog.makeDurable();
  const segments = [...work.records.keys()].sort((a, b) => b - a);
  if ((segments[0] ?? 0) >= log.segment) await log.rollIfLarger(1);
  let [written, bytesBefore, bytesAfter] = [0, 0, 0];
  for (const segment of segments) {
    if (signal.aborted)
      throw retentionError('purge-interrupted', { left: segments.length - written });
    const going = new Set(work.records.get(segment));
    if (isDone(files, dir, segment, going)) continue;
    const sealed = await sealer.seal({ dir, segment, codec, purged: going });
    written += 1;
    bytesBefore += sealed.bytesBefore;
    bytesAfter += sealed.bytesAfter;
    if (written % DROP_EVERY === 0) await dropReplaced(files, dir);
  }
  await dropReplaced(files, dir);
  return { segments: written, bytesBefore, bytesAfter };
}

/**
 * Removes files next to the log that may hold bytes of what was forgotten: tails that were put aside and files that a
 * repair replaced. Nobody needs them: the log is complete, or nothing could have been forgotten.
 */
export async function dropAsides(files: FileLayer, dir: string): Promise<void> {
  const folder = logFolder(dir);
  const names = files.list(folder).filter((name) => {
    return parseTailName(name) !== undefined || /\.damaged(?:-\d+)?$/.test(name);
  });
  for (const name of names) await writing(folder, 0, () => files.remove(`${folder}/${name}`));
  await syncing(folder, () => files.syncFolder(folder));
}

/** At once, whatever the clock says. */
async function dropReplaced(files: FileLayer, dir: string): Promise<void> {
  const folder = logFolder(dir);
  await writing(folder, 0, async () => {
    await dropOldGenerations({ dir, files, keepMs: 0, now: Number.POSITIVE_INFINITY });
  });
}

function isDone(
  files: FileLayer,
  dir: string,
  segment: number,
  going: ReadonlySet<number>,
): boolean {
  const opened = openInForce(files, dir, segment, listSegments(files, dir).get(segment) ?? []);
  opened.file.close();
  const { sealed } = opened;
  return sealed !== undefined && [...going].every((ordinal) => sealed.index.isPurged(ordinal));
}
