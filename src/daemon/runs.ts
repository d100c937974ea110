import type { Writable } from 'node:stream';
import { createIndexer, type Indexer } from '../catalog/indexer.ts';
import {
  type AttachmentReading,
  attachmentReading,
  tidyArchive,
  type Writer,
} from '../catalog/open-writer.ts';
import type { Settings } from '../core/config-schema.ts';
import { describeError, describeFacts, type MailkeepError } from '../core/errors.ts';
import { selects } from '../core/names.ts';
import type { Wait } from '../core/pace.ts';
import { VERIFIED_PER_HOUR } from '../core/text.ts';
import type { Extractor } from '../mail/extraction.ts';
import { openExtractorPool } from '../mail/mime-threads.ts';
import type { RequestReport } from '../service/transport.ts';
import { type AccountOrigin, AccountOrigins, RequestMeter } from '../sync/account-origins.ts';
import { planSync } from '../sync/account-sync.ts';
import { Committer, NO_WORK } from '../sync/committer.ts';
import { syncError } from '../sync/errors.ts';
import { catalogMirror, type Mirror } from '../sync/mirror.ts';
import { concernsOneAccount } from '../sync/ports.ts';
import {
  accountFailureResult,
  emptyResult,
  type MailboxResult,
  type ProgressListener,
  type SyncFailure,
  type SyncPlan,
  type SyncProgress,
  type SyncResult,
  totalsOf,
} from '../sync/result.ts';
import { runSync } from '../sync/run-sync.ts';
import { type SyncRestrictions, selectMail } from '../sync/selection.ts';
import type { MailSelection } from '../sync/sync-memory.ts';
import { recordExcludedMailboxes } from '../sync/usage.ts';
import { Compaction } from '../verify/compact.ts';
import type { RunReport } from '../verify/facts.ts';
import type { Failure } from './notifier.ts';
import {
  type DaemonClock,
  type MailboxListing,
  QUICK_SYNC,
  type RunInfo,
  type SyncRequest,
  type WatchedMailbox,
} from './ports.ts';

/** Scheduled syncs reuse results up to 55 minutes old, which the wait for the next sync extends to about an hour. */
const RHYTHM = { mailboxesMs: 3_300_000, folderMs: 3_300_000 };

const ATTACHMENTS_MS = 2_000;

const NOBODY: ProgressListener = () => {};

/** Extractors for messages and attachments. Each of their threads uses about 100 MB. */
interface PassesOptions {
  readonly writer: Writer;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly settings: Settings;
  readonly clock: DaemonClock;
  readonly onRequest: (account: string, report: RequestReport) => void;
  readonly onWait: (wait: Wait) => void;
  readonly onSealed: (startedAt: number, damaged: readonly MailkeepError[]) => void;
  readonly onTidied: (startedAt: number) => void;
}

function keyOf(account: string, mailbox: string): string {
  return `${account} ${mailbox}`;
}

/** Runs the daemon's syncs for all accounts, with one archive and one index. */
export class SyncRuns {
  readonly #options: PassesOptions;
  readonly #mirror: Mirror;
  readonly #extractor: Extractor;
  readonly #indexer: Indexer;
  readonly #attachments: AttachmentReading;
  /** Shared by concurrent syncs, so that a message found by two of them is stored only once. */
  #committer: Committer;
  readonly #compaction: Compaction;
  /** Counts requests by mailbox, each of which has one sync run at a time. */
  readonly #counts = new Map<string, (report: RequestReport) => void>();
  #tidyingSince: number | undefined;
  #settings: Settings;
  #origins: AccountOrigins;

  constructor(options: PassesOptions) {
    this.#options = options;
    const { writer } = options;
    this.#mirror = catalogMirror(writer.catalog);
    this.#extractor = openExtractorPool();
    this.#indexer = createIndexer({
      store: writer.catalog.index,
      sources: writer.sources,
      extractor: this.#extractor,
    });
    this.#attachments = attachmentReading(writer, this.#indexer, this.#extractor);
    this.#compaction = new Compaction(writer);
    this.#committer = this.#newCommitter();
    this.#settings = options.settings;
    this.#origins = this.#open(options.settings);
  }

  accounts(): AccountOrigin[] {
    return this.#origins.all();
  }

  get settings(): Settings {
    return this.#settings;
  }

  /** Applies a new configuration while no sync is running. If it throws, the old one remains in effect. */
  async configure(settings: Settings): Promise<void> {
    const previous = this.#origins;
    // The state hands the limiter's learned rates over to its successor.
    previous.save();
    this.#origins = this.#open(settings);
    this.#settings = settings;
    await previous.close();
  }

  async close(): Promise<void> {
    await this.#origins.close();
    this.#origins.save();
    await Promise.all([this.#extractor.close(), this.#attachments.close()]);
  }

  /** Returns an account's mailboxes. Asks the service if `fresh` is set or the last result is an hour old. */
  async listMailboxes(name: string, fresh: boolean, signal: AbortSignal): Promise<MailboxListing> {
    const account = this.#origins.get(name);
    // A reload has just removed the account.
    if (account === undefined) return { mailboxes: [], result: emptyResult(0) };
    const { settings } = account;
    const before = account.listing;
    if (fresh) account.listing = undefined;
    const startedAt = this.#options.clock.now();
    const selection = { mailboxes: settings.mailboxes, folders: settings.folders };
    try {
      const meter = new RequestMeter();
      const result = await this.#counting(name, '', meter, NOBODY, async () => {
        const origin = this.#origins.recent(account, this.#options.clock.now);
        const listed = await origin.mailboxes(signal);
        if (account.listing !== before) {
          const target = { memory: this.#options.writer.state, mirror: this.#mirror, origin };
          const scope = { mailboxes: true, folders: true };
          recordExcludedMailboxes(target, listed, { ...selection, whole: scope });
        }
        // Syncing no mailboxes records which earlier ones are gone.
        const exclude = [...settings.mailboxes.exclude, ...listed.map(({ address }) => address)];
        return account.listing === before
          ? emptyResult(0)
          : this.#sync(
              account,
              { ...selection, mailboxes: { ...selection.mailboxes, exclude } },
              meter,
              { signal },
            );
      });
      const mailboxes = (account.listing?.mailboxes ?? [])
        .filter(({ address }) => selects(settings.mailboxes, address))
        .map((mailbox) => ({ account: name, host: account.host, ...mailbox }));
      return { mailboxes, result };
    } catch (error) {
      signal.throwIfAborted();
      return { mailboxes: [], result: this.#failed(name, error, startedAt) };
    }
  }

  /**
   * Syncs one mailbox. Service failures are part of the result.
   *
   * @throws `sync.interrupted` if the signal aborted; families `disk`, `damage`, `in-use` if the archive cannot continue
   */
  async pass(request: SyncRequest): Promise<SyncResult> {
    const { mailbox, aim, progress } = request;
    const account = this.#origins.get(mailbox.account);
    // The configuration was reloaded after the sync was chosen.
    if (account === undefined || !selects(account.settings.mailboxes, mailbox.address)) {
      return emptyResult(0);
    }
    const { folders } = account.settings;
    const startedAt = this.#options.clock.now();
    const selection = {
      mailboxes: { include: [mailbox.address], exclude: [] },
      folders: aim.folders.length === 0 ? folders : { ...folders, only: aim.folders },
      whole: { mailboxes: false, folders: aim.folders.length === 0 },
    };
    const meter = new RequestMeter();
    try {
      return await this.#counting(mailbox.account, mailbox.resourceId, meter, progress, () =>
        this.#sync(account, selection, meter, request),
      );
    } catch (error) {
      return this.#failed(mailbox.account, error, startedAt);
    }
  }

  /** Runs `act` while `meter` counts requests about a mailbox, or about the account if `mailbox` is empty. */
  async #counting<T>(
    account: string,
    mailbox: string,
    meter: RequestMeter,
    progress: ProgressListener,
    act: () => Promise<T>,
  ): Promise<T> {
    const key = keyOf(account, mailbox);
    this.#counts.set(key, (report) => {
      meter.add(report);
      const perMinute = this.#origins.get(account)?.requestsPerMinute() ?? 0;
      progress({ event: 'requests', account, requests: meter.requests, perMinute });
    });
    try {
      return await act();
    } finally {
      this.#counts.delete(key);
    }
  }

  /** Converts an error that ended a sync for its whole account into a result. Rethrows other errors. */
  #failed(account: string, error: unknown, startedAt: number): SyncResult {
    if (!concernsOneAccount(error)) throw error;
    const result = emptyResult(this.#options.clock.now() - startedAt);
    return { ...result, failures: [accountFailureResult(account, error)] };
  }

  plan(
    names: readonly string[],
    narrowing: SyncRestrictions,
    full: boolean,
    signal: AbortSignal,
  ): Promise<SyncPlan> {
    const accounts = names.flatMap((name) => this.#origins.get(name) ?? []);
    const select = selectMail(
      accounts.map(({ settings }) => settings),
      narrowing,
    );
    const { writer, clock } = this.#options;
    const toSync = accounts.map((account) => ({
      name: account.settings.name,
      wanted: select(account.settings),
      origin: this.#origins.recent(account, clock.now),
    }));
    return planSync(writer, toSync, full, signal);
  }

  /** Reports whether the archive contains, or ever contained, this message in the mailbox's INBOX. */
  has({ host, resourceId }: WatchedMailbox, uid: number): boolean {
    const at = { host, mailbox: resourceId, folder: 'INBOX' };
    const generation = this.#mirror.folder(at)?.generation;
    if (generation === undefined) return false;
    return (
      this.#mirror.placed(at, generation, uid) !== undefined ||
      this.#mirror.settledAs(at, generation, uid) !== undefined
    );
  }

  /** Does deferred work for a few seconds: reads attachments and seals segments. Returns whether work remains. */
  async tidy(signal: AbortSignal): Promise<boolean> {
    const { writer, clock, onSealed, onTidied } = this.#options;
    const now = (): number => clock.now();
    const since = this.#tidyingSince ?? now();
    const remaining = await this.#attachments.read({ signal, forMs: ATTACHMENTS_MS, now });
    // Compacting the catalog would block everything, so it happens only after a first sync.
    const { number } = writer.catalog.reached();
    const startedAt = now();
    const damaged = await tidyArchive(writer, Math.max(1, number), now, signal);
    const compacted = this.#settings.archive.compact
      ? await this.#compaction.step(this.#settings.minFreeBytes, signal)
      : { damaged: [], more: false };
    onSealed(startedAt, [...damaged, ...compacted.damaged]);
    const isMore = remaining > 0 || compacted.more;
    this.#tidyingSince = isMore ? since : undefined;
    if (!isMore) onTidied(since);
    return isMore;
  }

  /** Replaces a failed committer, which cannot recover. Other syncs fetch its collected messages again. */
  recover(): void {
    this.#committer = this.#newCommitter();
  }

  #newCommitter(): Committer {
    const { writer, clock } = this.#options;
    return new Committer({
      log: writer.log,
      mirror: this.#mirror,
      now: () => clock.now(),
      after: (ms, act) => clock.after(ms, act),
    });
  }

  tokenMark(account: string): string | null {
    return this.#origins.tokenMark(account);
  }

  async #sync(
    account: AccountOrigin,
    selection: MailSelection,
    meter: RequestMeter,
    request: Pick<SyncRequest, 'signal'> & Partial<SyncRequest>,
  ): Promise<SyncResult> {
    const { writer, clock } = this.#options;
    const { aim = QUICK_SYNC, begunAt = null, byHand = true, lane, signal } = request;
    const { progress = NOBODY } = request;
    return await runSync(writer, this.#settings, {
      accounts: [
        {
          name: account.settings.name,
          wanted: selection,
          origin: this.#origins.recent(account, clock.now, lane),
        },
      ],
      concurrency: syncConcurrency(this.#settings.rateLimit.concurrency, account),
      policy: {
        ...(byHand ? {} : { rhythm: RHYTHM, verifyPerHour: VERIFIED_PER_HOUR }),
        sweptSince: aim.full ? begunAt : null,
        full: aim.full,
        acceptEndings: aim.acceptEndings,
      },
      indexing: this.#indexer,
      tidy: () => Promise.resolve([]),
      requests: () => meter.byOperation(),
      now: () => clock.now(),
      after: (ms, act) => clock.after(ms, act),
      progress,
      signal,
      committer: this.#committer,
    });
  }

  #open(settings: Settings): AccountOrigins {
    const { writer, env, clock, onRequest, onWait } = this.#options;
    return new AccountOrigins({
      accounts: settings.accounts,
      rateLimit: settings.rateLimit,
      env,
      clock,
      spoolDir: writer.spoolDir,
      dataDir: writer.dataDir,
      archived: () => writer.catalog.folders.accountMailboxes(),
      state: writer.state,
      onRequest: (account, report) => {
        this.#counts.get(keyOf(account, report.key))?.(report);
        onRequest(account, report);
      },
      onWait,
    });
  }
}

/** Returns an account's sync concurrency. With several mailboxes, a slow one must not use all connections. */
function syncConcurrency(concurrency: number, { listing }: AccountOrigin): number {
  return (listing?.mailboxes.length ?? 0) > 1 ? Math.max(1, concurrency - 1) : concurrency;
}

/** Syncs started for the same reason, and their combined result. */
export class Run {
  readonly done: Promise<SyncResult>;
  readonly #results: SyncResult[] = [];
  readonly #failures: SyncFailure[] = [];
  #open = 0;
  #resolve: (result: SyncResult) => void = () => {};

  constructor(
    readonly info: RunInfo,
    private readonly now: () => number,
    readonly progress: ProgressListener = () => {},
  ) {
    this.done = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  begin(): void {
    this.#open += 1;
  }

  add(result: SyncResult): void {
    const whole = result.failures.filter(({ mailbox }) => mailbox === null);
    this.fail(whole);
    const failures = result.failures.filter(({ mailbox }) => mailbox !== null);
    this.#results.push(whole.length === 0 ? result : { ...result, failures });
  }

  /** Adds a failure that ended several syncs, reporting it only once. */
  fail(failures: readonly SyncFailure[]): void {
    for (const failure of failures) {
      const known = this.#failures.some(
        ({ account, code }) => account === failure.account && code === failure.code,
      );
      if (!known) this.#failures.push(failure);
    }
  }

  /** Counts a finished sync. The last one completes the run. */
  end(): void {
    this.#open -= 1;
    if (this.#open > 0) return;
    const result = mergeResults(this.#results, this.now() - this.info.startedAt);
    this.#resolve({ ...result, failures: [...this.#failures, ...result.failures] });
  }
}

export type SyncRunner = Pick<
  SyncRuns,
  'listMailboxes' | 'pass' | 'plan' | 'has' | 'tidy' | 'recover' | 'tokenMark'
>;

/** Merges sync results. Results for the same mailbox become one, with the latest proofs. */
export function mergeResults(results: readonly SyncResult[], durationMs: number): SyncResult {
  const mailboxes = new Map<string, MailboxResult>();
  const requestsByOperation: Record<string, number> = {};
  for (const result of results) {
    for (const mailbox of result.mailboxes) {
      const before = mailboxes.get(mailbox.address);
      mailboxes.set(
        mailbox.address,
        before === undefined ? mailbox : mergeMailboxes(before, mailbox),
      );
    }
    for (const [operation, count] of Object.entries(result.requestsByOperation)) {
      requestsByOperation[operation] = (requestsByOperation[operation] ?? 0) + count;
    }
  }
  const sum = (of: (result: SyncResult) => number): number =>
    results.reduce((total, result) => total + of(result), 0);
  const indexMs = sum(({ timings }) => timings.indexMs);
  return {
    mailboxes: [...mailboxes.values()].sort((a, b) => (a.address < b.address ? -1 : 1)),
    requests: sum(({ requests }) => requests),
    requestsByOperation,
    // Syncs overlap, so indexing cannot have taken longer than all of them.
    timings: {
      fetchMs: Math.max(0, durationMs - indexMs),
      indexMs: Math.min(indexMs, durationMs),
    },
    durationMs,
    failures: results.flatMap(({ failures }) => failures),
    certificates: latestByFolder(results.flatMap(({ certificates }) => certificates)),
    excluded: latestByFolder(results.flatMap(({ excluded }) => excluded)),
  };
}

function latestByFolder<T extends { readonly mailbox: string; readonly folder: string | null }>(
  all: readonly T[],
): T[] {
  return [...new Map(all.map((one) => [JSON.stringify([one.mailbox, one.folder]), one])).values()];
}

function mergeMailboxes(before: MailboxResult, after: MailboxResult): MailboxResult {
  const both = [before, after];
  return {
    ...after,
    ...totalsOf(both, 'added', 'ended', 'flagsChanged', 'relinked', 'verified', 'corrected'),
    ...totalsOf(both, 'bytes'),
  };
}

/** Returns the result of an interrupted sync, with its durable messages and bytes. */
export function partialResult(
  { address }: { readonly address: string },
  { messages: added, bytes }: { readonly messages: number; readonly bytes: number },
): SyncResult {
  return {
    ...emptyResult(0),
    mailboxes: added === 0 ? [] : [{ ...NO_WORK, address, added, bytes }],
  };
}

const SILENT = { request: () => {}, progress: () => {}, result: () => {} };

/** Fields that are redacted in case a secret is logged by mistake. */
const REDACTED = ['token', 'password', 'secret', 'authorization', 'cookie'].flatMap((name) => [
  name,
  `*.${name}`,
  `*.*.${name}`,
]);

/** Returns the options shared by all logs: a line's fields and redactions. */
export function lineOptions(timestamp: () => string) {
  return {
    base: null,
    redact: { paths: REDACTED, censor: '***' },
    timestamp,
    formatters: { level: (label: string) => ({ level: label }) },
  };
}

/** Event log whose lines contain counts, codes and durations, but no addresses, subjects or secrets. */
export type EventLog = Awaited<ReturnType<typeof openLog>>;

export async function openLog(stream: Writable, level: Settings['log']['level']) {
  if (level === 'silent') return SILENT;
  const { pino } = await import('pino');
  const log = pino({ ...lineOptions(pino.stdTimeFunctions.isoTime), level }, stream);
  return {
    request: ({ operation, surface, host, status, ms, bytes }: RequestReport) =>
      log.debug({ operation, surface, host, status, ms, bytes }, 'request'),
    progress(event: SyncProgress) {
      switch (event.event) {
        case 'forecast':
          log.info({ account: event.account, ...event.forecast }, 'forecast');
          return;
        case 'waiting':
          log.info({ until: new Date(event.until).toISOString(), reason: event.reason }, 'waiting');
          return;
        case 'stored':
          log.debug(
            { account: event.account, messages: event.messages, bytes: event.bytes },
            'stored',
          );
          return;
        case 'indexing':
          log.debug({ indexed: event.indexed, remaining: event.remaining }, 'indexing');
          return;
        case 'sealing':
          log.info({ segment: event.segment }, 'sealing');
          return;
        case 'mailbox-started':
        case 'mailbox-finished':
        case 'requests':
          return;
      }
    },
    result(result: SyncResult) {
      for (const { account, code, family, uid } of result.failures) {
        log.warn({ account, code, family, uid }, 'failure');
      }
      const { requests, durationMs, timings, mailboxes, failures, certificates } = result;
      log.info(
        {
          mailboxes: mailboxes.length,
          ...totalsOf(mailboxes, 'added', 'ended', 'flagsChanged', 'relinked'),
          ...totalsOf(mailboxes, 'quarantined', 'held', 'bytes'),
          requests,
          failures: failures.length,
          complete: certificates.every(({ complete }) => complete),
          ...timings,
          durationMs,
        },
        'pass',
      );
    },
  };
}

export function failureOf(error: MailkeepError): Failure {
  const { family, code } = error;
  return { family, code, message: describeError(error).message };
}

/** Returns a sync run's report, for metrics and notifications. */
export function syncRunReport(
  { mailboxes, failures, requests }: SyncResult,
  run: Pick<RunReport, 'kind' | 'accounts' | 'startedAt' | 'endedAt'>,
): RunReport {
  return {
    ...run,
    outcome: 'done',
    failures: [
      ...failures.map(({ account, mailbox, family, code, facts }) => ({
        account,
        mailbox,
        family,
        code,
        message: describeFacts(code, facts).message,
      })),
      ...heldFailures(mailboxes),
    ],
    // A mailbox that was only partly synced may still fail.
    mailboxes: mailboxes
      .filter(({ comparison }) => comparison === 'all')
      .map(({ address }) => address),
    counts: { ...totalsOf(mailboxes, 'added', 'ended', 'bytes'), requests },
  };
}

/** Returns failures for pending deletions, which need attention. Incomplete messages appear only in `status`. */
function heldFailures(mailboxes: SyncResult['mailboxes']): RunReport['failures'] {
  return mailboxes
    .filter(({ held }) => held > 0)
    .map(({ address, held, heldUntil: until }) => {
      const error = syncError('sync.held', { held, mailboxes: [address], until });
      return { account: null, mailbox: address, ...failureOf(error) };
    });
}

/** Returns the report on a task for the whole archive or for one copy. Times are milliseconds since the epoch. */
export function taskReport(
  kind: 'verify' | 'prune' | 'seal' | 'copy' | 'copy-check',
  startedAt: number,
  endedAt: number,
  failure: Failure | null,
  more: Pick<RunReport, 'messages' | 'copy'> = {},
): RunReport {
  return {
    kind,
    ...more,
    startedAt,
    endedAt,
    outcome: failure === null ? 'done' : 'failed',
    failures: failure === null ? [] : [{ account: null, mailbox: null, ...failure }],
    accounts: [],
    mailboxes: [],
    counts: { added: 0, ended: 0, bytes: 0, requests: 0 },
  };
}
