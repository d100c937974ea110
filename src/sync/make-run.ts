import { freeBytes } from '../archive/file-system.ts';
import { dropOldGenerations, sealClosedSegments } from '../archive/seal.ts';
import { recordDiskSample } from '../catalog/disk-samples.ts';
import { createIndexer, type Indexer, readAttachments } from '../catalog/indexer.ts';
import type { EngineContext } from '../catalog/open-reader.ts';
import type { Writer } from '../catalog/open-writer.ts';
import { systemClock } from '../core/concurrency.ts';
import type { AccountSettings, Settings } from '../core/config-schema.ts';
import { hasCode, MailkeepError } from '../core/errors.ts';
import type { StateFile } from '../core/state.ts';
import type { RunProblem, RunRecord } from '../core/state-runs.ts';
import { openAttachmentExtractor } from '../mail/attachment-extractor.ts';
import type { AttachmentExtractor } from '../mail/attachment-text.ts';
import type { Extractor } from '../mail/extraction.ts';
import { openExtractorPool } from '../mail/mime-threads.ts';
import type { RequestReport } from '../service/transport.ts';
import { AccountOrigins, limiterStore, PLATFORM_RETRIES, RequestLog } from './account-origins.ts';
import { catalogMirror } from './mirror.ts';
import { MANUAL_SYNC, type SyncPolicy } from './ports.ts';
import { type ProgressListener, type SyncResult, sumOf, totalsOf } from './result.ts';
import { type AccountToSync, runSync, type SyncOptions } from './run-sync.ts';
import { type SyncRestrictions, selectMail } from './selection.ts';

/** Extractors for messages and attachments. Each of their threads takes about 100 MB. */
export interface SharedExtractors {
  readonly messages: Extractor;
  readonly attachments: AttachmentExtractor;
}

export type AttachmentReading = ReturnType<typeof attachmentReading>;

/**
 * Reads attachment text once all messages are searchable: at the end of a sync run, or while the writer is idle. Its
 * thread starts on demand.
 *
 * @param shared an extractor that `close` leaves open, because others use it too
 */
export function attachmentReading(
  { catalog, sources, segments }: Pick<Writer, 'catalog' | 'sources' | 'segments'>,
  indexer: Pick<Indexer, 'all'>,
  messages: Pick<Extractor, 'rest'>,
  shared?: AttachmentExtractor,
) {
  const extractor = shared ?? openAttachmentExtractor();
  return {
    /** Runs for `forMs` milliseconds, then finishes the current attachment. Returns the number of attachments left. */
    async read(order: { signal: AbortSignal; forMs: number; now: () => number }): Promise<number> {
      const { signal, forMs, now } = order;
      const until = now() + forMs;
      const { remaining } = await readAttachments({
        store: catalog.attachments,
        sources,
        segments,
        extractor,
        index: (stopped) => indexer.all(stopped),
        makeRoom: () => messages.rest(),
        signal,
        // Normal mail that follows slow attachments still gets its full time.
        goOn: (lostMs) => now() < until + lostMs,
      });
      return remaining;
    },
    close: async () => {
      if (shared === undefined) await extractor.close();
    },
  };
}

/** Minimum size for a segment to be sealed at the end of a sync run. A quiet day's mail is smaller. */
const WORTH_SEALING_BYTES = 8 * 1024 * 1024;

/**
 * Seals closed segments, publishes them, deletes the files that they replace, and closes the gaps that a first sync
 * leaves in the catalog. Keeping both versions would double the disk space that a first sync needs, and immediate
 * deletion is safe: the sealed file was read back and verified, and a reader keeps its open file or finds the new one.
 *
 * Returns the damage found. A damaged segment is left unchanged.
 */
export async function tidyArchive(
  writer: Writer,
  startedAtCommit: number,
  now: () => number,
  signal: AbortSignal,
): Promise<readonly MailkeepError[]> {
  const { dataDir, log, sources, catalog, codec, sealer, segments } = writer;
  await log.rollIfLarger(WORTH_SEALING_BYTES);
  const { sealed, damaged } = await sealClosedSegments({
    dir: dataDir,
    before: log.segment,
    codec,
    sealer,
    signal,
  }).finally(() => sealer.close());
  const dropped = await dropOldGenerations({ dir: dataDir, now: now(), keepMs: 0, segments });
  if (sealed.length + dropped.length > 0) sources.refresh();
  if (startedAtCommit > 0 || signal.aborted) return damaged;
  try {
    catalog.compact();
  } catch (error) {
    // A reader is active. New mail will fill the gaps.
    if (!hasCode(error, 'catalog-busy')) throw error;
  }
  return damaged;
}

/** Options that depend on the purpose of a sync run. The archive and the configuration determine the rest. */
type PassOrder = Omit<
  SyncOptions,
  'order' | 'first' | 'minFreeBytes' | 'startedAtCommit' | 'log' | 'memory' | 'freeBytes' | Given
> &
  Partial<Pick<SyncOptions, 'mirror' | 'concurrency'>> & {
    /** Differences from a manual sync run. `brake` and `confirmAfterMs` come from the configuration. */
    readonly policy: Pick<SyncPolicy, 'full' | 'acceptEndings'> & Partial<SyncPolicy>;
  };
type Given = 'mirror' | 'concurrency' | 'policy';

/** Performs a sync run for the command, the daemon or a comparison with the service. @throws the errors of `runSync` */
export async function runAccounts(
  writer: Writer,
  settings: Settings,
  { policy, ...order }: PassOrder,
): Promise<SyncResult> {
  const { sync, rateLimit, brake, minFreeBytes } = settings;
  const result = await runSync({
    order: sync.order,
    first: sync.first,
    concurrency: rateLimit.concurrency,
    minFreeBytes,
    startedAtCommit: writer.catalog.reached().number,
    log: writer.log,
    mirror: catalogMirror(writer.catalog),
    memory: writer.state,
    freeBytes: () => freeBytes(writer.dataDir),
    ...order,
    policy: { ...MANUAL_SYNC, confirmAfterMs: brake.confirmAfterMs, brake, ...policy },
  });
  recordDiskSample(writer.state, writer, order.now());
  return result;
}

/** How long a sync run reads attachments once all messages are searchable. The next run resumes there. */
const ATTACHMENTS_MS = 10_000;

/**
 * Performs one manual sync run. When it returns, everything stored is durable, searchable and, if large enough, sealed.
 * @throws the errors of `runSync`
 */
export async function syncAccounts(
  { now, signal }: Pick<EngineContext, 'now' | 'signal'>,
  writer: Writer,
  settings: Settings,
  { accounts, requests }: ConnectedAccounts,
  aim: { readonly full: boolean; readonly acceptEndings: boolean },
  progress: ProgressListener,
): Promise<SyncResult> {
  const { catalog, sources } = writer;
  const startedAtCommit = catalog.reached().number;
  const extractor = openExtractorPool();
  const indexing = createIndexer({
    store: catalog.index,
    sources,
    segments: writer.segments,
    extractor,
    progress: ({ indexed, remaining }) => progress({ event: 'indexing', indexed, remaining }),
  });
  const attachments = attachmentReading(writer, indexing, extractor);
  try {
    return await runAccounts(writer, settings, {
      accounts,
      policy: aim,
      indexing,
      tidy: async (until) => {
        await attachments.read({ signal: until, forMs: ATTACHMENTS_MS, now });
        // Reading is done, and sealing needs the memory.
        await Promise.all([extractor.close(), attachments.close()]);
        return tidyArchive(writer, startedAtCommit, now, until);
      },
      requests,
      now,
      after: (ms, act) => systemClock.after(ms, act),
      progress,
      signal,
    });
  } finally {
    await Promise.all([extractor.close(), attachments.close()]);
  }
}

/** Counts requests by operation. Each retry counts again. */
export class RequestMeter {
  readonly #byOperation = new Map<string, number>();
  requests = 0;

  add({ operation }: RequestReport): void {
    this.requests += 1;
    this.#byOperation.set(operation, (this.#byOperation.get(operation) ?? 0) + 1);
  }

  byOperation(): Record<string, number> {
    return Object.fromEntries([...this.#byOperation].sort(([a], [b]) => (a < b ? -1 : 1)));
  }
}

/** Counts the requests of concurrent sync runs by mailbox: each mailbox has only one sync run at a time. */
export class RequestMeters {
  readonly #open = new Map<string, { readonly meter: RequestMeter; readonly report: () => void }>();

  /** @param perMinute returns an account's current requests per minute */
  constructor(private readonly perMinute: (account: string) => number) {}

  /** Counts a request for the sync run that made it, if any. */
  count(account: string, report: RequestReport): void {
    const open = this.#open.get(keyOf(account, report.key));
    open?.meter.add(report);
    open?.report();
  }

  /** Calls `act` while `meter` counts requests about a mailbox, or about the account if `mailbox` is empty. */
  async during<T>(
    account: string,
    mailbox: string,
    meter: RequestMeter,
    progress: ProgressListener,
    act: () => Promise<T>,
  ): Promise<T> {
    const key = keyOf(account, mailbox);
    const report = (): void => {
      const { requests } = meter;
      progress({ event: 'requests', account, requests, perMinute: this.perMinute(account) });
    };
    this.#open.set(key, { meter, report });
    try {
      return await act();
    } finally {
      this.#open.delete(key);
    }
  }
}

function keyOf(account: string, mailbox: string): string {
  return `${account} ${mailbox}`;
}

export interface ConnectedAccounts {
  readonly accounts: readonly AccountToSync[];
  /** Requests from all accounts since the start, by operation. */
  readonly requests: () => Record<string, number>;
}

interface PassListeners {
  readonly progress: ProgressListener;
  readonly request: (report: RequestReport) => void;
}

/** Connects the chosen accounts behind one limiter while `act` runs. */
export async function withAccounts<T>(
  { environment, now }: Pick<EngineContext, 'environment' | 'now'>,
  settings: Pick<Settings, 'rateLimit'>,
  chosen: readonly AccountSettings[],
  narrowing: SyncRestrictions,
  writer: Writer,
  { progress, request }: PassListeners,
  act: (open: ConnectedAccounts) => Promise<T>,
): Promise<T> {
  const wanted = selectMail(chosen, narrowing);
  const total = new RequestMeter();
  const byAccount = new Map(chosen.map(({ name }) => [name, new RequestMeter()]));
  const origins = new AccountOrigins({
    accounts: chosen,
    rateLimit: settings.rateLimit,
    env: environment.env,
    spoolDir: writer.spoolDir,
    clock: { ...systemClock, now },
    store: limiterStore(writer.state),
    requests: new RequestLog(writer.state, settings.rateLimit.requestsPerMinute, now),
    platformRetries: PLATFORM_RETRIES,
    onWait: ({ host, until, reason }) =>
      progress({ event: 'waiting', account: host, until, reason }),
    onRequest: (account, report) => {
      total.add(report);
      const own = byAccount.get(account);
      own?.add(report);
      const perMinute = origins.get(account)?.requestsPerMinute() ?? 0;
      progress({ event: 'requests', account, requests: own?.requests ?? 0, perMinute });
      request(report);
    },
  });
  const accounts = origins.all().map((account) => ({
    name: account.settings.name,
    wanted: wanted(account.settings),
    origin: origins.fresh(account),
  }));
  try {
    return await act({ accounts, requests: () => total.byOperation() });
  } finally {
    await origins.close();
    origins.save();
  }
}

export type RunContext = Pick<RunRecord, 'kind' | 'account' | 'startedAt' | 'endedAt'>;

/** Returns the user-facing sentence for a failure. */
type Say = (failure: Pick<SyncResult['failures'][number], 'code' | 'facts'>) => string;

export const EMPTY_COUNTS: Omit<RunRecord, keyof RunContext> = {
  outcome: 'done',
  mailboxes: 0,
  mailbox: null,
  added: 0,
  ended: 0,
  flagsChanged: 0,
  relinked: 0,
  quarantined: 0,
  held: 0,
  bytes: 0,
  requests: 0,
  messages: null,
  sum: null,
  folders: [],
  failures: 0,
  troubles: [],
};

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
    sum: sumOf(certificates),
    // Storing equal sums every five minutes would dominate the data.
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

/** Returns the record for a sync run that failed with an error. */
export function recordFailedRun(error: unknown, frame: RunContext, text: string): RunRecord {
  const isOurs = error instanceof MailkeepError;
  if (isOurs && error.family === 'interrupted')
    return { ...frame, ...EMPTY_COUNTS, outcome: 'interrupted' };
  const code = isOurs ? error.code : 'bug';
  const troubles = [{ mailbox: null, folder: null, code, text: isOurs ? text : null }];
  return { ...frame, ...EMPTY_COUNTS, outcome: 'failed', failures: 1, troubles };
}

/** Stores a run in the state. A failure is only passed to `failed`, because the history is a convenience. */
export function storeRun(
  state: Pick<StateFile, 'runs'>,
  run: RunRecord,
  failed: (error: unknown) => void,
): void {
  try {
    state.runs.keep(run);
  } catch (error) {
    failed(error);
  }
}
