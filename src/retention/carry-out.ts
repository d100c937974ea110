import type { FileLayer } from '../archive/files/file-layer.ts';
import type { Fact } from '../archive/format/facts.ts';
import { logFolder, parseTailName } from '../archive/format/layout.ts';
import type { CommittedBatch } from '../archive/format/records.ts';
import type { ArchiveCodec } from '../archive/format/stored-payload.ts';
import { scanLog } from '../archive/read/scan-log.ts';
import { listSegments, localSegments, openInForce } from '../archive/read/segment-files.ts';
import type { SegmentStore } from '../archive/read/segment-store.ts';
import { dropOldGenerations } from '../archive/write/compact-segments.ts';
import { syncing, writing } from '../archive/write/hot-segment.ts';
import type { LogWriter } from '../archive/write/log-writer.ts';
import type { Sealer } from '../archive/write/sealer.ts';
import type { WritableCatalog } from '../catalog/catalog.ts';
import { retentionError } from '../errors/retention.ts';
import type { MessageId } from '../mail/words.ts';
import { type PurgeJournal, type PurgeWork, purgeFile } from './purge-journal.ts';
import type { Survey } from './survey.ts';

/** What keeps a purge and the segments it rewrites; without them, both are on the disk that the log is on. */
export interface PurgePlaces {
  readonly purges?: PurgeJournal | undefined;
  readonly segments?: SegmentStore | undefined;
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
  { purges = purgeFile(files, dir) }: PurgePlaces = {},
): Promise<CommittedBatch> {
  const [first] = facts;
  if (first === undefined) throw new Error('a purge of nothing');
  const work: PurgeWork = {
    reason: first.reason,
    messages: facts.map(({ message }) => message),
    after: { ...log.last },
    records: survey.records,
  };
  const batch = log.newBatch();
  for (const fact of facts) {
    const blobs = survey.blobs.get(fact.message) ?? [];
    batch.addFact({ ...fact, ...(blobs.length === 0 ? {} : { blobs }) });
  }
  return purges.decide(work, survey.commits, () => log.commit(batch));
}

/**
 * The purge that was decided and is not finished, if there is one, with the number of messages that it removes: a fact
 * about parts of mailboxes names no message. One that was written down and never decided is dropped.
 */
export async function decidedPurge(
  files: FileLayer,
  dir: string,
  { purges = purgeFile(files, dir), segments }: PurgePlaces = {},
): Promise<(PurgeWork & { readonly removing: number }) | undefined> {
  const work = await purges.read();
  if (work === undefined) return undefined;
  for await (const event of scanLog({ dir, files, segments, after: work.after })) {
    if (event.what !== 'batch') continue;
    const said = new Set<MessageId>();
    let removing = 0;
    for (const record of event.batch.records) {
      if (record.kind !== 'fact' || record.fact.fact !== 'purged') continue;
      said.add(record.fact.message);
      if (record.fact.removed === undefined) removing += 1;
    }
    if (work.messages.length > 0 && work.messages.every((id) => said.has(id)))
      return { ...work, removing };
    break;
  }
  await purges.end();
  return undefined;
}

/** Notes that nothing of the purge is left to do. */
export async function endPurge(
  files: FileLayer,
  dir: string,
  { purges = purgeFile(files, dir) }: PurgePlaces = {},
): Promise<void> {
  await purges.end();
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
export interface PurgeWriter extends Pick<PurgePlaces, 'segments'> {
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
  { log, catalog, codec, sealer, segments: store = localSegments }: PurgeWriter,
  work: PurgeWork,
  signal: AbortSignal,
): Promise<Compacted> {
  catalog.makeDurable();
  const segments = [...work.records.keys()].sort((a, b) => b - a);
  if ((segments[0] ?? 0) >= log.segment) await log.rollIfLarger(1);
  let [written, bytesBefore, bytesAfter] = [0, 0, 0];
  const waiting = new Set(segments);
  for (const segment of segments) {
    if (signal.aborted)
      throw retentionError('purge-interrupted', { left: segments.length - written });
    const going = new Set(work.records.get(segment));
    if (!store.present(segment)) await store.fetch([segment]);
    waiting.delete(segment);
    if (isDone(files, dir, segment, going)) continue;
    const sealed = await sealer.seal({ dir, segment, codec, purged: going });
    written += 1;
    bytesBefore += sealed.bytesBefore;
    bytesAfter += sealed.bytesAfter;
    // A file that was sealed before the purge has what is to go: nobody may take it any more.
    if (written % DROP_EVERY === 0) await dropReplaced(files, dir, store, waiting);
  }
  await dropReplaced(files, dir, store, waiting);
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
async function dropReplaced(
  files: FileLayer,
  dir: string,
  segments: SegmentStore,
  except: ReadonlySet<number>,
): Promise<void> {
  const folder = logFolder(dir);
  const now = Number.POSITIVE_INFINITY;
  await writing(folder, 0, async () => {
    await dropOldGenerations({ dir, files, keepMs: 0, now, segments, except });
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
