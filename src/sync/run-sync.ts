import { performance } from 'node:perf_hooks';
import { freeBytes } from '../archive/file-system.ts';
import { recordDiskSample } from '../catalog/disk-samples.ts';
import { createIndexer, type Indexer } from '../catalog/indexer.ts';
import type { EngineContext } from '../catalog/open-reader.ts';
import { attachmentReading, tidyArchive, type Writer } from '../catalog/open-writer.ts';
import { linkedController, systemClock } from '../core/concurrency.ts';
import type { AccountSettings, Settings } from '../core/config-schema.ts';
import { hasCode, MailkeepError } from '../core/errors.ts';
import type { StateFile } from '../core/state.ts';
import { openExtractorPool } from '../mail/mime-threads.ts';
import type { RequestReport } from '../service/transport.ts';
import { AccountOrigins, PLATFORM_RETRIES, RequestMeter } from './account-origins.ts';
import { type AccountToSync, syncAccount } from './account-sync.ts';
import { Committer, type CommitterDeps, Ledger } from './committer.ts';
import { syncError } from './errors.ts';
import { FailureCounter, HostRules } from './fetch-source.ts';
import { FetchQueue } from './folder-sync.ts';
import { catalogMirror, type Mirror } from './mirror.ts';
import { PAGE_SIZE } from './plan/plan-folder.ts';
import { endsOnlyTheAccount, MANUAL_SYNC, type SyncContext, type SyncPolicy } from './ports.ts';
import { accountFailureResult, type ProgressListener, type SyncResult } from './result.ts';
import { type SyncRestrictions, selectMail } from './selection.ts';
import { ReadFlagCheck } from './verify-unverified.ts';

/*
 * Composes a sync run. `withAccounts` connects accounts to their services behind one limiter. `runSync` shares the
 * committer among the accounts, and builds the result; `syncAccounts` adds indexing and tidying, for one manual run.
 * `syncAccount` does the work within each account.
 */

export interface ConnectedAccounts {
  readonly accounts: readonly AccountToSync[];
  /** Requests from all accounts by operation, since they were connected. */
  readonly requests: () => Record<string, number>;
}

interface RunListeners {
  readonly progress: ProgressListener;
  readonly request: (report: RequestReport) => void;
}

/** Connects the chosen accounts through one limiter while `act` runs. */
export async function withAccounts<T>(
  { environment, now }: Pick<EngineContext, 'environment' | 'now'>,
  settings: Pick<Settings, 'rateLimit' | 'accounts'>,
  chosen: readonly AccountSettings[],
  restrictions: SyncRestrictions,
  writer: Writer,
  { progress, request }: RunListeners,
  act: (open: ConnectedAccounts) => Promise<T>,
): Promise<T> {
  const select = selectMail(chosen, restrictions);
  const total = new RequestMeter();
  const byAccount = new Map(chosen.map(({ name }) => [name, new RequestMeter()]));
  const origins = new AccountOrigins({
    accounts: chosen,
    configured: settings.accounts,
    rateLimit: settings.rateLimit,
    env: environment.env,
    spoolDir: writer.spoolDir,
    dataDir: writer.dataDir,
    archived: () => writer.catalog.folders.accountMailboxes(),
    clock: { ...systemClock, now },
    state: writer.state,
    platformRetries: PLATFORM_RETRIES,
    onWait: ({ host, until, reason }) =>
      progress({ event: 'waiting', account: host, until, reason }),
    onRequest: (account, report) => {
      total.add(report);
      const meter = byAccount.get(account);
      meter?.add(report);
      const perMinute = origins.get(account)?.requestsPerMinute() ?? 0;
      progress({ event: 'requests', account, requests: meter?.requests ?? 0, perMinute });
      request(report);
    },
  });
  const accounts = origins.all().map((account) => ({
    name: account.settings.name,
    wanted: select(account.settings),
    origin: origins.fresh(account),
  }));
  try {
    return await act({ accounts, requests: () => total.byOperation() });
  } finally {
    await origins.close();
    origins.save();
  }
}

/** Milliseconds to spend reading attachments once all messages are searchable. The next run continues from there. */
const ATTACHMENTS_MS = 10_000;

/**
 * Performs one manual sync run. On return, everything stored is durable, searchable and, if large enough, sealed.
 *
 * @throws errors from `runSync`
 */
export async function syncAccounts(
  { now, signal }: Pick<EngineContext, 'now' | 'signal'>,
  writer: Writer,
  settings: Settings,
  { accounts, requests }: ConnectedAccounts,
  policy: { readonly full: boolean; readonly acceptEndings: boolean },
  progress: ProgressListener,
): Promise<SyncResult> {
  const { catalog, sources } = writer;
  const startedAtCommit = catalog.reached().number;
  const extractor = openExtractorPool();
  const indexing = createIndexer({
    store: catalog.index,
    sources,
    extractor,
    progress: ({ indexed, remaining }) => progress({ event: 'indexing', indexed, remaining }),
  });
  const attachments = attachmentReading(writer, indexing, extractor);
  try {
    return await runSync(writer, settings, {
      accounts,
      policy,
      indexing,
      tidy: async (until) => {
        await attachments.read({ signal: until, forMs: ATTACHMENTS_MS, now });
        // Reading is done, and sealing needs the memory.
        await Promise.all([extractor.close(), attachments.close()]);
        return tidyArchive(writer, startedAtCommit, now, until);
      },
      requests,
      now,
      progress,
      signal,
    });
  } finally {
    await Promise.all([extractor.close(), attachments.close()]);
  }
}

type Indexing = Pick<Indexer, 'some' | 'all'>;

/** The archive to write to, with facts from earlier sync runs. */
type SyncTarget = Pick<Writer, 'log' | 'catalog' | 'dataDir'> & {
  readonly state: Pick<StateFile, 'get' | 'set' | 'entries' | 'together'>;
};

type SyncSettings = Pick<Settings, 'sync' | 'rateLimit' | 'brake' | 'minFreeBytes'>;

/** Options that depend on the purpose of a sync run. The archive and the configuration determine the rest. */
export interface SyncOptions {
  readonly accounts: readonly AccountToSync[];
  /** Differences from a manual sync run. `brake` and `confirmAfterMs` come from the configuration. */
  readonly policy: Pick<SyncPolicy, 'full' | 'acceptEndings'> & Partial<SyncPolicy>;
  /** Fetches at a time for each account. Defaults to the configured number. */
  readonly concurrency?: number;
  /** Action for each account. Defaults to a sync run. */
  readonly pass?: typeof syncAccount;
  /** Makes stored messages searchable. Owned by the caller. */
  readonly indexing: Indexing;
  /** Closes and seals segments if worthwhile, once everything is searchable. Returns the damage found. */
  readonly tidy: (signal: AbortSignal) => Promise<readonly MailkeepError[]>;
  readonly requests: () => Readonly<Record<string, number>>;
  readonly now: () => number;
  readonly after?: CommitterDeps['after'];
  readonly progress: ProgressListener;
  readonly signal: AbortSignal;
  /** Shared by concurrent sync runs. By default, each sync run creates one. */
  readonly committer?: Committer;
}

/** Number of waiting fetches at which a walk pauses, high enough that fetching never waits for a listing. */
const FETCHES_AHEAD = 2 * PAGE_SIZE;
/** Maximum event-loop utilisation for indexing. */
const IDLE_ENOUGH = 0.5;
/** Messages to index per round during a fetch. Few, so that fetching is never delayed for long. */
const INDEX_ALONGSIDE = 32;

/**
 * Performs one sync run over the accounts, for the command, the daemon or a comparison with the service. When it
 * returns, everything stored is durable and searchable. An account's failure becomes part of the result, and the other
 * accounts continue.
 *
 * @throws MailkeepError of family `disk`, `damage` or `in-use` if the archive cannot be written, and `sync.interrupted`
 * if the signal aborted. Even then, everything collected is durable.
 */
export async function runSync(
  writer: SyncTarget,
  settings: SyncSettings,
  options: SyncOptions,
): Promise<SyncResult> {
  const startedAt = options.now();
  const mirror = catalogMirror(writer.catalog);
  const startedAtCommit = writer.catalog.reached().number;
  // Aborts with the caller's signal, or if the archive cannot be written.
  const { controller: stopping, release } = linkedController(options.signal);
  const { signal } = stopping;
  const indexer = new IndexAlongside(options.indexing, signal);
  const contexts: SyncContext[] = [];
  let failure: { readonly error: unknown } | undefined;
  const stopAll = (error: unknown): void => {
    failure ??= { error };
    stopping.abort(error);
  };
  const { now, after = systemClock.after } = options;
  const committer = options.committer ?? new Committer({ log: writer.log, mirror, now, after });
  const forget = committer.onCommitted(() => {
    for (const ctx of contexts) ctx.ledger.announce();
    indexer.consider();
    guardFreeSpace(writer, settings).catch(stopAll);
  });
  try {
    await guardFreeSpace(writer, settings);
    const run: Run = { mirror, startedAtCommit, committer, contexts, signal, stopAll };
    await Promise.all(
      options.accounts.map((account) => runAccount(writer, settings, options, account, run)),
    );
    await committer.flush().catch(stopAll);
    await writer.log.endThread();
    await indexer.running;
    if (failure !== undefined) throw failure.error;
    if (options.signal.aborted) throw syncError('sync.interrupted', {});
    const fetchedAt = options.now();
    await options.indexing.all(options.signal);
    const indexedAt = options.now();
    const damage = await options.tidy(options.signal);
    const ledgers = contexts.map(({ ledger }) => ledger);
    const requestsByOperation = options.requests();
    const unmatched = ledgers.flatMap((ledger) => ledger.unmatched);
    recordDiskSample(writer.state, writer, now());
    return {
      mailboxes: ledgers.flatMap((ledger) => ledger.results()),
      requests: Object.values(requestsByOperation).reduce((total, count) => total + count, 0),
      requestsByOperation,
      timings: { fetchMs: fetchedAt - startedAt, indexMs: indexedAt - fetchedAt },
      durationMs: options.now() - startedAt,
      failures: [
        ...ledgers.flatMap(({ failures }) => failures),
        ...damage.map((error) => accountFailureResult('', error)),
      ],
      certificates: ledgers.flatMap(({ certificates }) => certificates),
      excluded: ledgers.flatMap(({ excluded }) => excluded),
      ...(unmatched.length > 0 && { unmatched }),
    };
  } finally {
    release();
    forget();
  }
}

interface Run {
  readonly mirror: Mirror;
  readonly startedAtCommit: number;
  readonly committer: Committer;
  readonly contexts: SyncContext[];
  readonly signal: AbortSignal;
  readonly stopAll: (error: unknown) => void;
}

async function runAccount(
  { state: memory }: SyncTarget,
  { sync, rateLimit, brake }: SyncSettings,
  { progress, now, policy, pass, concurrency = rateLimit.concurrency }: SyncOptions,
  { name, wanted, origin }: AccountToSync,
  { mirror, startedAtCommit, committer, contexts, signal, stopAll }: Run,
): Promise<void> {
  const { controller, release } = linkedController(signal);
  let stopped: { readonly error: unknown } | undefined;
  const ctx: SyncContext = {
    account: name,
    origin,
    mirror,
    committer,
    memory,
    ledger: new Ledger(name, progress),
    host: {
      readFlagCheck: new ReadFlagCheck(origin, memory, now),
      rules: new HostRules(memory, origin.host),
      failures: new FailureCounter(),
    },
    queue: new FetchQueue(origin.sourcesAtOnce ?? concurrency, FETCHES_AHEAD),
    now,
    signal: controller.signal,
    stop: (error) => {
      stopped ??= { error };
      controller.abort(error);
    },
    startedAtCommit,
    startedAt: now(),
    policy: { ...MANUAL_SYNC, confirmAfterMs: brake.confirmAfterMs, brake, ...policy },
    settings: sync,
  };
  contexts.push(ctx);
  try {
    await (pass ?? syncAccount)(ctx, wanted);
  } catch (error) {
    ctx.stop(error);
  }
  // The signal stops running fetches. Add nothing after the last flush.
  await ctx.queue.onIdle();
  release();
  // The totals below include only what is durable.
  if (origin.traffic !== undefined) await committer.flush().catch(stopAll);
  const { remaining, ...fetched } = ctx.ledger.fetched();
  origin.traffic?.endRun(fetched, now() - ctx.startedAt);
  if (stopped === undefined || isAbort(stopped.error)) return;
  const { error } = stopped;
  if (!endsOnlyTheAccount(error)) stopAll(error);
  else if (origin.traffic === undefined || !hasCode(error, 'imap.day-limit'))
    ctx.ledger.fail(error);
  else ctx.ledger.fail(origin.traffic.withCompletion(error, fetched, remaining));
}

function isAbort(error: unknown): boolean {
  return (
    (error instanceof Error && error.name === 'AbortError') ||
    (error instanceof MailkeepError && error.family === 'interrupted')
  );
}

async function guardFreeSpace(
  { dataDir }: SyncTarget,
  { minFreeBytes }: SyncSettings,
): Promise<void> {
  const free = await freeBytes(dataDir);
  if (free < minFreeBytes) throw syncError('disk.low', { free, minFreeBytes });
}

/** Indexes messages while the fetcher waits for the service. */
class IndexAlongside {
  running: Promise<void> | undefined;
  #mark = performance.eventLoopUtilization();

  constructor(
    private readonly indexing: Indexing,
    private readonly signal: AbortSignal,
  ) {}

  /** Starts a small round of indexing if the event loop has been idle enough. Called after each batch. */
  consider(): void {
    const since = performance.eventLoopUtilization(this.#mark);
    this.#mark = performance.eventLoopUtilization();
    if (this.running !== undefined || since.utilization > IDLE_ENOUGH) return;
    this.running = this.indexing
      .some(INDEX_ALONGSIDE, this.signal)
      .then(() => {})
      // The final round encounters the same error and throws it.
      .catch(() => {})
      .finally(() => {
        this.running = undefined;
      });
  }
}
