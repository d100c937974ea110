import type { FileLayer } from '../archive/file-system.ts';
import { type CommittedBatch, type Fact, logFolder, parseTailName } from '../archive/format.ts';
import { convertSyncErrors, convertWriteErrors } from '../archive/hot-segment.ts';
import { scanLog } from '../archive/log-reader.ts';
import type { LogWriter } from '../archive/log-writer.ts';
import type { ArchiveCodec } from '../archive/payload.ts';
import { endPurge, type PurgeWork, readPurge, writePurge } from '../archive/purge-journal.ts';
import { dropOldGenerations, type Sealer } from '../archive/seal.ts';
import { withSegment } from '../archive/segment-files.ts';
import type { WritableCatalog } from '../catalog/catalog.ts';
import type { DeletedQueries, PastPlace } from '../catalog/messages.ts';
import type { RetentionSettings } from '../core/config-schema.ts';
import { matches } from '../core/names.ts';
import type { MessageId } from '../core/types.ts';
import { retentionError } from './errors.ts';
import type { PurgeSearch } from './find-purged.ts';

/** Periods in whole days; null keeps mail forever. */
export type Policy = Omit<RetentionSettings, 'hold'>;

/** The last place of a deleted message. Times are in milliseconds since the epoch. */
export interface DeletedPlace
  extends Pick<PastPlace, 'folderId' | 'mailbox' | 'address' | 'folder' | 'isNameable'> {
  readonly isDrafts: boolean;
  readonly endedAt: number;
  /** When the latest reconciliation confirmed that the message is gone from the service; null if none has. */
  readonly confirmedAt: number | null;
  /** True if the mailbox is in its account's latest listing. */
  readonly isReachable: boolean;
}

export interface Candidate {
  readonly onHold: boolean;
  readonly places: readonly DeletedPlace[];
}

export type PruneReason = 'ended' | 'draft' | 'rule';
/** Reason to keep a message. If several apply, this is the one to resolve first. */
export type KeepReason =
  | 'hold'
  | 'no-rule'
  | 'too-recent'
  | 'unreachable'
  | 'not-confirmed'
  | 'folder-reused'
  | 'keep-at-least';

type Verdict =
  | { readonly prune: true; readonly reason: PruneReason }
  | { readonly prune: false; readonly reason: KeepReason };

export const DAY_MS = 86_400_000;
/** Minimum time before a second check can confirm a deletion. */
const CONFIRM_AFTER_MS = 7 * DAY_MS;

/** Decides which messages to prune, newest first, because `keepAtLeast` counts them. Pure: time is an argument. */
export class PrunePlanner {
  readonly #counts = new Map<number, number>();

  constructor(
    private readonly policy: Policy,
    private readonly now: number,
  ) {}

  /** Prunes a message only if all its places can be removed. */
  decide({ onHold, places }: Candidate): Verdict {
    const isKept = this.#isAmongNewest(places);
    if (onHold) return keep('hold');
    const drafts = places.every(({ isDrafts }) => isDrafts);
    const limits = places.map((place) => this.#limit(place, drafts));
    const refused = (['no-rule', 'too-recent'] as const).find((reason) =>
      places.some((place, at) => {
        const days = limits[at]?.days ?? null;
        if (reason === 'no-rule') return days === null;
        return days !== null && this.now - place.endedAt < days * DAY_MS;
      }),
    );
    if (refused !== undefined) return keep(refused);
    if (places.some(({ isReachable }) => !isReachable)) return keep('unreachable');
    if (places.some((place) => !isConfirmed(place))) return keep('not-confirmed');
    if (places.some(({ isNameable }) => !isNameable)) return keep('folder-reused');
    if (isKept) return keep('keep-at-least');
    return { prune: true, reason: limits[0]?.reason ?? 'ended' };
  }

  #isAmongNewest(places: readonly DeletedPlace[]): boolean {
    let isNewest = false;
    for (const folder of new Set(places.map(({ folderId }) => folderId))) {
      const count = this.#counts.get(folder) ?? 0;
      this.#counts.set(folder, count + 1);
      isNewest ||= count < this.policy.keepAtLeast;
    }
    return isNewest;
  }

  #limit(
    { mailbox, address, folder }: DeletedPlace,
    drafts: boolean,
  ): { readonly days: number | null; readonly reason: PruneReason } {
    const { rules, draftsAfterDays, endedAfterDays } = this.policy;
    const rule = rules.find(
      (one) =>
        (one.mailbox === undefined ||
          matches(one.mailbox, address) ||
          matches(one.mailbox, mailbox)) &&
        (one.folder === undefined || matches(one.folder, folder)),
    );
    if (rule !== undefined) return { days: rule.endedAfterDays, reason: 'rule' };
    if (drafts && draftsAfterDays !== null) return { days: draftsAfterDays, reason: 'draft' };
    return { days: endedAfterDays, reason: 'ended' };
  }
}

function isConfirmed({ endedAt, confirmedAt }: DeletedPlace): boolean {
  return confirmedAt !== null && confirmedAt - endedAt >= CONFIRM_AFTER_MS;
}

function keep(reason: KeepReason): Verdict {
  return { prune: false, reason };
}

const CLOCK_SLACK_MS = 5 * 60_000;
/** After this long without a commit, the clock is probably wrong. If it is right, a sync must run first. */
export const CLOCK_AHEAD_MS = 30 * DAY_MS;

/** Compares a clock with the time of the last commit; undefined if the clock is plausible. */
export function clockProblem(now: number, lastCommit: number): 'behind' | 'ahead' | undefined {
  if (now < lastCommit - CLOCK_SLACK_MS) return 'behind';
  return now > lastCommit + CLOCK_AHEAD_MS ? 'ahead' : undefined;
}

const MAX_MESSAGES = 100_000;

interface PlannedMessage {
  readonly id: MessageId;
  readonly size: number;
  readonly subject: string | null;
  readonly reason: PruneReason;
  readonly places: readonly PastPlace[];
}

export interface Sum {
  messages: number;
  bytes: number;
}

export type PrunePlan = ReturnType<typeof planPrune>;

interface PruneInputs {
  readonly ended: DeletedQueries;
  readonly now: number;
  readonly heldMailboxes: readonly string[];
  readonly held: ReadonlySet<number>;
  /** Reports whether the mailbox is in its account's latest listing. */
  readonly isReachable: (host: string, mailbox: string) => boolean;
}

export function planPrune(policy: Policy, inputs: PruneInputs) {
  const { ended, now, held, heldMailboxes } = inputs;
  const planner = new PrunePlanner(policy, now);
  const confirmations = new Confirmations(ended);
  const prune: PlannedMessage[] = [];
  const byReason = new Map<PruneReason, Sum>();
  const kept = new Map<KeepReason, Sum>();
  let left = 0;
  for (const { docid, id, size, subject, places } of ended.messages()) {
    const onHold =
      held.has(docid) ||
      places.some(({ address, mailbox }) =>
        heldMailboxes.some((name) => matches(name, address) || matches(name, mailbox)),
      );
    const verdict = planner.decide({
      onHold,
      places: places.map((place) => endedPlace(place, inputs, confirmations)),
    });
    if (!verdict.prune) add(kept, verdict.reason, size);
    else if (prune.length === MAX_MESSAGES) left += 1;
    else {
      add(byReason, verdict.reason, size);
      prune.push({ id, size, subject, reason: verdict.reason, places });
    }
  }
  return { prune, byReason, kept, left };
}

export function purgedFact(
  message: MessageId,
  reason: PurgedFact['reason'],
  places: readonly PastPlace[],
): PurgedFact {
  const named = places.map(({ host, mailbox, folder, generation, uid, ...known }) => ({
    at: { host, mailbox, folder, generation, uid },
    ...known,
  }));
  const open = named.filter(({ endedAt }) => endedAt === null).map(({ at }) => at);
  const ended = named
    .filter(({ endedAt, isNameable }) => endedAt !== null && isNameable)
    .map(({ at }) => at);
  return {
    fact: 'purged',
    message,
    reason,
    ...(open.length === 0 ? {} : { places: open }),
    ...(ended.length === 0 ? {} : { ended }),
  };
}

class Confirmations {
  readonly #folders: ReadonlyMap<number, number>;
  /** Latest confirmation in each mailbox. Listing a mailbox also confirms that a missing folder is gone. */
  readonly #mailboxes = new Map<string, number>();

  constructor(ended: DeletedQueries) {
    this.#folders = ended.confirmed();
    for (const [folder, since] of this.#folders) {
      const mailbox = ended.mailboxOf(folder);
      this.#mailboxes.set(mailbox, Math.max(since, this.#mailboxes.get(mailbox) ?? since));
    }
  }

  of({ folderId, folderGone, host, mailbox }: PastPlace): number | null {
    const since = folderGone
      ? this.#mailboxes.get(`${host}\0${mailbox}`)
      : this.#folders.get(folderId);
    return since ?? null;
  }
}

function endedPlace(
  place: PastPlace,
  { isReachable }: PruneInputs,
  confirmations: Confirmations,
): DeletedPlace {
  const { folderId, mailbox, address, folder, specialUse, endedAt, isNameable, host } = place;
  return {
    ...{ folderId, mailbox, address, folder, isNameable },
    isDrafts: specialUse === '\\Drafts',
    // Only a damaged log has an end without a time. Treat it as the most recent one.
    endedAt: endedAt ?? Number.POSITIVE_INFINITY,
    confirmedAt: confirmations.of(place),
    isReachable: isReachable(host, mailbox),
  };
}

function add<R>(sums: Map<R, Sum>, reason: R, bytes: number): void {
  const sum = sums.get(reason) ?? { messages: 0, bytes: 0 };
  sums.set(reason, { messages: sum.messages + 1, bytes: sum.bytes + bytes });
}

export type PurgedFact = Extract<Fact, { fact: 'purged' }>;

/**
 * Writes the purge journal, then records the removal in the log with one commit. The purge is then decided, and
 * `compactPurged` must be called until it succeeds.
 *
 * @param facts one per message, or per mailbox that loses one, without the search's blobs
 * @param purgeSearch must be newer than the last commit
 * @throws `disk-full` and other write errors: nothing is decided
 */
export async function journalPurge(
  files: FileLayer,
  dir: string,
  log: LogWriter,
  facts: readonly PurgedFact[],
  purgeSearch: PurgeSearch,
): Promise<CommittedBatch> {
  const [first] = facts;
  if (first === undefined) throw new Error('a purge of nothing');
  const work: PurgeWork = {
    reason: first.reason,
    messages: facts.map(({ message }) => message),
    after: { ...log.last },
    records: purgeSearch.records,
  };
  const batch = log.newBatch();
  const named = new Set<MessageId>();
  for (const fact of facts) {
    const message = fact.from?.message ?? fact.message;
    const blobs = named.has(message) ? [] : (purgeSearch.blobs.get(message) ?? []);
    named.add(message);
    batch.addFact({ ...fact, ...(blobs.length === 0 ? {} : { blobs }) });
  }
  await writePurge(files, dir, work);
  return log.commit(batch);
}

/**
 * Returns a decided but unfinished purge, with the number of messages to remove. Facts about parts of mailboxes are not
 * counted as messages. Drops a purge that was journaled but never decided.
 */
export async function pendingPurge(
  files: FileLayer,
  dir: string,
): Promise<(PurgeWork & { readonly removing: number }) | undefined> {
  const work = readPurge(files, dir);
  if (work === undefined) return undefined;
  for await (const event of scanLog({ dir, files, after: work.after })) {
    if (event.what !== 'batch') continue;
    const purged = new Set<MessageId>();
    const removing = new Set<MessageId>();
    for (const record of event.batch.records) {
      if (record.kind !== 'fact' || record.fact.fact !== 'purged') continue;
      const { message, from, removed } = record.fact;
      purged.add(message);
      if (removed === undefined) removing.add(from?.message ?? message);
    }
    if (work.messages.length > 0 && work.messages.every((id) => purged.has(id)))
      return { ...work, removing: removing.size };
    break;
  }
  await endPurge(files, dir);
  return undefined;
}

export interface Compacted {
  readonly segments: number;
  readonly bytesBefore: number;
  readonly bytesAfter: number;
}

/** Number of segments to rewrite before removing their old files. The disk needs space for both versions. */
const DROP_EVERY = 4;

interface PurgeWriter {
  readonly log: LogWriter;
  readonly catalog: Pick<WritableCatalog, 'makeDurable'>;
  readonly codec: ArchiveCodec;
  readonly sealer: Sealer;
}

/**
 * Rewrites every segment with data from a decided purge, and removes the old files. Starts with the last segment, so
 * that no fact outlives the facts it depends on and the log always implies the same catalog.
 *
 * The catalog must first reach the purge's commit durably, because a power failure must not bring back an older one.
 *
 * @throws `disk-full` and other write errors, `log-damaged`, `purge-interrupted`: the same call resumes
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
  const waiting = new Set(segments);
  for (const segment of segments) {
    if (signal.aborted)
      throw retentionError('purge-interrupted', { left: segments.length - written });
    const ordinals = new Set(work.records.get(segment));
    waiting.delete(segment);
    if (isDone(files, dir, segment, ordinals)) continue;
    const result = await sealer.seal({ dir, segment, codec, purged: ordinals });
    written += 1;
    bytesBefore += result.bytesBefore;
    bytesAfter += result.bytesAfter;
    // A file sealed before the purge contains removed data, so it cannot be reused.
    if (written % DROP_EVERY === 0) await dropReplaced(files, dir, waiting);
  }
  await dropReplaced(files, dir, waiting);
  return { segments: written, bytesBefore, bytesAfter };
}

/**
 * Removes files next to the log that can contain forgotten bytes: tails that were set aside, and files that a repair
 * replaced. The log must be complete without them, because otherwise nothing could have been forgotten.
 */
export async function removeSetAsideFiles(files: FileLayer, dir: string): Promise<void> {
  const folder = logFolder(dir);
  const names = files.list(folder).filter((name) => {
    return parseTailName(name) !== undefined || /\.damaged(?:-\d+)?$/.test(name);
  });
  for (const name of names)
    await convertWriteErrors(folder, 0, () => files.remove(`${folder}/${name}`));
  await convertSyncErrors(folder, () => files.syncFolder(folder));
}

/** Removes replaced files immediately, with no grace period. */
async function dropReplaced(
  files: FileLayer,
  dir: string,
  except: ReadonlySet<number>,
): Promise<void> {
  const folder = logFolder(dir);
  const now = Number.POSITIVE_INFINITY;
  await convertWriteErrors(folder, 0, async () => {
    await dropOldGenerations({ dir, files, keepMs: 0, now, except });
  });
}

function isDone(
  files: FileLayer,
  dir: string,
  segment: number,
  ordinals: ReadonlySet<number>,
): boolean {
  return withSegment(files, dir, segment, ({ sealed }) => {
    return sealed !== undefined && [...ordinals].every((ordinal) => sealed.index.isPurged(ordinal));
  });
}
