import { z } from 'zod';
import { ERROR_FAMILIES, type ErrorFamily, type Facts, MailkeepError } from '../core/errors.ts';
import type { StateFile } from '../core/state.ts';
import {
  EMPTY_COUNTS,
  type RunContext,
  type RunProblem,
  type RunRecord,
} from '../core/state-runs.ts';
import { addSums } from '../core/types.ts';
import { PLAN_ACTIONS, PLAN_REASONS } from './plan/plan-folder.ts';

/** These shapes also validate what the daemon sends on its control socket, because responses are not trusted. */
const count = z.number();
const name = z.string();
const counts = <Name extends string>(...names: readonly Name[]) =>
  Object.fromEntries(names.map((field) => [field, count])) as Record<Name, typeof count>;

const list = <T extends z.ZodType>(item: T): z.ZodType<readonly z.output<T>[]> => z.array(item);

export const errorFamily: z.ZodType<ErrorFamily> = z.enum(ERROR_FAMILIES);
export const errorFacts: z.ZodType<Facts> = z.record(
  z.string(),
  z.union([z.string(), z.number(), z.boolean(), z.null(), z.array(z.string())]),
);

const mailboxResult = z.object({
  /** Absent from daemons of earlier versions. */
  account: name.optional(),
  address: name,
  ...counts('folders', 'added', 'ended', 'flagsChanged', 'relinked'),
  /** Unverified messages whose sources have since been fetched; `corrected` ones turned out to be other messages. */
  ...counts('verified', 'corrected'),
  ...counts('quarantined', 'held'),
  /** ISO 8601 time after which the next sync run accepts held deletions that remain. Null if nothing is held. */
  heldUntil: name.nullable(),
  bytes: count,
  /** Folders compared with the archive in this sync run, or recently enough to be skipped. */
  compared: count,
  /** Folders that were not compared may have changed. */
  comparison: z.enum(['all', 'some', 'none']),
});
/** Result of a sync run for one mailbox. Messages are counted once per folder. `bytes` counts source bytes fetched. */
export type MailboxResult = Readonly<z.output<typeof mailboxResult>>;

const syncFailure = z.object({
  /** Empty if the archive itself failed. */
  account: name,
  mailbox: name.nullable(),
  folder: name.nullable(),
  uid: count.nullable(),
  family: errorFamily,
  code: z.string(),
  facts: errorFacts,
});
/** A failure that did not stop the rest of the sync run. */
export type SyncFailure = Readonly<z.output<typeof syncFailure>>;

const folderCertificate = z.object({
  mailbox: name,
  folder: name,
  ...counts('originTotal', 'stored', 'assumed', 'quarantined', 'held', 'forgotten'),
  complete: z.boolean(),
});
/**
 * A folder's reconciliation: `originTotal` should equal stored + assumed + quarantined + forgotten. The service does
 * not count held messages, which are pending deletions. `complete` requires sums that match, no held messages, and a
 * response for every uid.
 */
export type FolderReconciliation = Readonly<z.output<typeof folderCertificate>>;

const excludedFolder = z.object({ mailbox: name, folder: name });
/** A folder that the configuration excludes. It is not synced, and nothing in it counts as deleted. */
export type ExcludedFolder = Readonly<z.output<typeof excludedFolder>>;

const unmatchedPattern = z.object({
  account: name,
  setting: z.enum(['mailboxes', 'folders']),
  pattern: name,
  /** The listed name that it probably means. */
  suggestion: name.nullable(),
});
/** A pattern under `include` of an account's `mailboxes` or `folders` that matches nothing the source lists. */
export type UnmatchedPattern = Readonly<z.output<typeof unmatchedPattern>>;

export const syncResult = z.object({
  mailboxes: list(mailboxResult),
  requests: count,
  requestsByOperation: z.record(z.string(), count),
  /** `fetchMs`: until everything was durable. `indexMs`: from then until everything was searchable. */
  timings: z.object(counts('fetchMs', 'indexMs')),
  durationMs: count,
  failures: list(syncFailure),
  certificates: list(folderCertificate),
  excluded: list(excludedFolder),
  /** Absent if there are none, and from daemons of earlier versions. */
  unmatched: list(unmatchedPattern).optional(),
});
/** Result of one sync run, in the format of `sync --json`. */
export type SyncResult = Readonly<z.output<typeof syncResult>>;

export function emptyResult(durationMs: number): SyncResult {
  return {
    mailboxes: [],
    requests: 0,
    requestsByOperation: {},
    timings: { fetchMs: durationMs, indexMs: 0 },
    durationMs,
    failures: [],
    certificates: [],
    excluded: [],
  };
}

/** Adds up the reconciliations of a sync run. Returns null if no folder was compared. */
export function sumOf({ certificates, mailboxes }: Pick<SyncResult, 'certificates' | 'mailboxes'>) {
  if (certificates.length === 0) return null;
  return {
    ...addSums(certificates),
    originTotal: certificates.reduce((sum, { originTotal }) => sum + originTotal, 0),
    complete:
      certificates.every(({ complete }) => complete) &&
      mailboxes.every(({ comparison }) => comparison === 'all'),
    folders: certificates.length,
  };
}

/** Returns a failure for an entire account, or for the archive if the account's name is empty. */
export function accountFailureResult(
  account: string,
  { family, code, facts }: Pick<SyncFailure, 'family' | 'code' | 'facts'>,
): SyncFailure {
  return { account, mailbox: null, folder: null, uid: null, family, code, facts };
}

type Counted = {
  [F in keyof MailboxResult]-?: MailboxResult[F] extends number ? F : never;
}[keyof MailboxResult];

export function totalsOf<F extends Counted>(mailboxes: readonly MailboxResult[], ...counts: F[]) {
  const sum = (count: Counted): number =>
    mailboxes.reduce((total, mailbox) => total + mailbox[count], 0);
  return Object.fromEntries(counts.map((count) => [count, sum(count)])) as Readonly<
    Record<F, number>
  >;
}

/** Present for sources that limit bytes. */
const traffic = z
  .object({
    /** Bytes a day; null for no limit. */
    limit: count.nullable(),
    /** Per second in an earlier sync run; null if unknown. */
    speed: z.object(counts('messages', 'bytes')).nullable(),
  })
  .optional();

const forecast = z.object({
  ...counts('mailboxes', 'folders', 'messages', 'bytes', 'requests', 'requestsPerMinute', 'hours'),
  traffic,
});

const folderPlan = z.object({
  folder: name,
  action: z.enum(PLAN_ACTIONS),
  reason: z.enum(PLAN_REASONS),
  ...counts('messages', 'requests'),
  renamedFrom: name.optional(),
  bytes: count.optional(),
});

export const syncProgress = z.discriminatedUnion('event', [
  /** Reported before any fetch if more than a few new messages remain. */
  z.object({ event: z.literal('forecast'), account: name, forecast }),
  /** Number of messages left in this mailbox according to the folder listing. */
  z.object({
    event: z.literal('mailbox-started'),
    account: name,
    address: name,
    messages: count,
  }),
  /** Reported after each durable batch, with running totals for one mailbox. `bytes` counts raw source bytes. */
  z.object({
    event: z.literal('stored'),
    account: name,
    address: name,
    ...counts('messages', 'bytes'),
  }),
  z.object({ event: z.literal('mailbox-finished'), account: name, address: name }),
  /** Reported after each request, with the sync run's requests so far and the current rate (0 for no limit). */
  z.object({ event: z.literal('requests'), account: name, ...counts('requests', 'perMinute') }),
  /** The limiter delays the sync run until `until`, in milliseconds since the epoch. */
  z.object({
    event: z.literal('waiting'),
    account: name,
    until: count,
    reason: z.enum(['rate', 'retry-after', 'paused']),
  }),
  z.object({ event: z.literal('indexing'), ...counts('indexed', 'remaining') }),
  z.object({ event: z.literal('sealing'), segment: count }),
]);
/** Progress of a sync run. Listeners must not throw or block. */
export type SyncProgress = Readonly<z.output<typeof syncProgress>>;

export type ProgressListener = (event: SyncProgress) => void;

export const syncPlan = z.object({
  mailboxes: list(
    z.object({
      account: name,
      address: name,
      folders: list(folderPlan),
      excluded: list(name),
    }),
  ),
  messages: count,
  /** Requests for the sync run itself, including listings of mailboxes and folders. */
  requests: count,
  /** Current rate; if accounts run in parallel, the rate of the slowest one. 0 if no account limits requests. */
  requestsPerMinute: count,
  /** 0 if unknown. */
  hours: count,
  /** Size of the messages to fetch from sources that limit bytes; absent if unknown. */
  bytes: count.optional(),
  traffic,
});
/** A sync run's plan and its cost in requests. Planning neither fetches nor stores any messages. */
export type SyncPlan = Readonly<z.output<typeof syncPlan>>;

/** Returns a user-facing sentence for a failure. */
type Say = (failure: Pick<SyncResult['failures'][number], 'code' | 'facts'>) => string;

export function recordSyncRun(result: SyncResult, frame: RunContext, say: Say): RunRecord {
  const { mailboxes, certificates, failures, requests } = result;
  const totals = totalsOf(mailboxes, 'added', 'ended', 'flagsChanged', 'relinked', 'corrected');
  const { corrected, ...counts } = totals;
  const isChanged = Object.values(totals).some((number) => number > 0) || failures.length > 0;
  const [only] = mailboxes;
  return {
    ...frame,
    ...EMPTY_COUNTS,
    ...counts,
    ...totalsOf(mailboxes, 'quarantined', 'held', 'bytes'),
    // If the account or the archive failed, there is nothing else to report.
    outcome: failures.some(({ mailbox }) => mailbox === null) ? 'failed' : 'done',
    mailboxes: mailboxes.length,
    mailbox: mailboxes.length === 1 ? (only?.address ?? null) : null,
    requests,
    sum: sumOf(result),
    // Matching sums stored every five minutes would dominate the data.
    folders: certificates.filter(
      ({ complete, originTotal, stored }) => isChanged || !complete || originTotal !== stored,
    ),
    failures: failures.length,
    troubles: failures.map((failure): RunProblem => {
      const { mailbox, folder, uid, code } = failure;
      return { mailbox, folder, code, text: uid === null ? say(failure) : null };
    }),
  };
}

/** Returns the record of a sync run that failed with an error. */
export function recordFailedRun(error: unknown, frame: RunContext, text: string): RunRecord {
  const isOurs = error instanceof MailkeepError;
  if (isOurs && error.family === 'interrupted')
    return { ...frame, ...EMPTY_COUNTS, outcome: 'interrupted' };
  const code = isOurs ? error.code : 'bug';
  const troubles = [{ mailbox: null, folder: null, code, text: isOurs ? text : null }];
  return { ...frame, ...EMPTY_COUNTS, outcome: 'failed', failures: 1, troubles };
}

/** Stores a run in the state. Failures are only passed to `onFailure`, because the history is just a convenience. */
export function storeRun(
  state: Pick<StateFile, 'runs'>,
  run: RunRecord,
  onFailure: (error: unknown) => void,
): void {
  try {
    state.runs.keep(run);
  } catch (error) {
    onFailure(error);
  }
}
