import { performance } from 'node:perf_hooks';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import { syncError } from '../errors/sync.ts';
import { following } from '../limiter/on-abort.ts';
import { passAccount } from './apply/account-pass.ts';
import { Canary } from './apply/canary.ts';
import { Committer } from './apply/committer.ts';
import { endsOnlyTheAccount } from './apply/failure-scope.ts';
import { HostRules, Trouble } from './apply/host-rules.ts';
import { Ledger } from './apply/ledger.ts';
import type { FirstPart, PassContext, PassPolicy } from './apply/pass-context.ts';
import type { Log, Memory, Mirror, Origin } from './apply/ports.ts';
import type { Wanted } from './apply/survey.ts';
import { FetchQueue } from './apply/walk/fetch-queue.ts';
import { PAGE_SIZE } from './plan/forecast.ts';
import type { ProgressListener } from './progress.ts';
import { failureOfAccount, type SyncResult } from './result.ts';

/** Makes stored messages searchable; the caller owns it, the pass calls it. */
export interface Indexing {
  /** Indexes at most `limit` messages, newest first; resolves with how many are left. */
  some(limit: number, signal: AbortSignal): Promise<number>;
  /** Indexes everything that is stored. */
  all(signal: AbortSignal): Promise<void>;
}

export interface AccountToSync {
  readonly name: string;
  readonly wanted: Wanted;
  readonly origin: Origin;
}

export interface SyncOptions {
  readonly accounts: readonly AccountToSync[];
  readonly order: 'newest' | 'oldest';
  /** `folders` when left out. */
  readonly first?: FirstPart;
  readonly concurrency: number;
  readonly policy: PassPolicy;
  readonly minFreeBytes: number;
  /** Number of the commit the catalog has reached; 0 for an empty archive. */
  readonly startedAtCommit: number;
  /** What to do for each account; a pass when left out. */
  readonly pass?: typeof passAccount;
  readonly log: Log;
  readonly mirror: Mirror;
  readonly memory: Memory;
  readonly indexing: Indexing;
  /** Closes and seals what is worth it; called at the end, when all is searchable. Returns the damage it found. */
  readonly tidy: (signal: AbortSignal) => Promise<readonly MailkeepError[]>;
  /** Bytes free on the archive's file system. */
  readonly freeBytes: () => Promise<number>;
  /** Requests made so far, by operation, over all accounts. */
  readonly requests: () => Readonly<Record<string, number>>;
  readonly now: () => number;
  readonly after: (ms: number, act: () => void) => () => void;
  readonly progress: ProgressListener;
  readonly signal: AbortSignal;
  /**
   * Returns a committer that concurrent passes share, so that a message they both meet is stored once; without it
   * the pass has one of its own. The committer calls `onCommitted` after each batch.
   */
  readonly openCommitter?: (onCommitted: () => void) => Committer;
}

/** Fetches that may wait before a walk pauses: enough that fetching never waits for a listing. */
const FETCHES_AHEAD = 2 * PAGE_SIZE;
/** While the event loop is busy for less than this share, there is time to index. */
const IDLE_ENOUGH = 0.5;
/** Messages indexed at a time during fetching: few, so that fetching never waits for long. */
const INDEX_ALONGSIDE = 32;

/**
 * Runs one pass over the accounts. When it returns, everything it stored is durable and searchable. An account that
 * fails is a failure in the result; the other accounts continue.
 *
 * @throws MailkeepError of family `disk`, `damage` or `in-use` when the archive cannot be written, and
 *   `sync.interrupted` when the signal was aborted: what was collected is durable then
 */
export async function runSync(options: SyncOptions): Promise<SyncResult> {
  const { controller, release } = following(options.signal);
  try {
    return await runStoppable(options, controller);
  } finally {
    release();
  }
}

/** @param stopping aborts with the caller's signal, and when the archive cannot be written */
async function runStoppable(options: SyncOptions, stopping: AbortController): Promise<SyncResult> {
  const startedAt = options.now();
  const { signal } = stopping;
  const alongside = new IndexAlongside(options.indexing, signal);
  const contexts: PassContext[] = [];
  let failure: { readonly error: unknown } | undefined;
  const stopAll = (error: unknown): void => {
    failure ??= { error };
    stopping.abort(error);
  };
  const onCommitted = (): void => {
    for (const ctx of contexts) ctx.ledger.announce();
    alongside.consider();
    guardFreeSpace(options).catch(stopAll);
  };
  const { log, mirror, now, after } = options;
  const committer =
    options.openCommitter?.(onCommitted) ?? new Committer({ log, mirror, now, after, onCommitted });
  await guardFreeSpace(options);
  await Promise.all(
    options.accounts.map((account) => {
      const context = openContext(options, account, committer, signal);
      contexts.push(context.ctx);
      return runAccount(context, account.wanted, options.pass ?? passAccount, stopAll);
    }),
  );
  const ledgers = contexts.map(({ ledger }) => ledger);
  await committer.flush().catch(stopAll);
  await options.log.endThread();
  await alongside.finish();
  if (failure !== undefined) throw failure.error;
  if (options.signal.aborted) throw syncError('sync.interrupted', {});
  const fetchedAt = options.now();
  await options.indexing.all(options.signal);
  const indexedAt = options.now();
  const damage = await options.tidy(options.signal);
  const requestsByOperation = options.requests();
  return {
    mailboxes: ledgers.flatMap((ledger) => ledger.results()),
    requests: Object.values(requestsByOperation).reduce((sum, count) => sum + count, 0),
    requestsByOperation,
    timings: { fetchMs: fetchedAt - startedAt, indexMs: indexedAt - fetchedAt },
    durationMs: options.now() - startedAt,
    failures: [
      ...ledgers.flatMap(({ failures }) => failures),
      ...damage.map((error) => failureOfAccount('', error)),
    ],
    certificates: ledgers.flatMap(({ certificates }) => certificates),
    excluded: ledgers.flatMap(({ excluded }) => excluded),
  };
}

interface OpenContext {
  readonly ctx: PassContext;
  /** The error the account's pass was stopped with, if it was. */
  readonly stoppedWith: () => { readonly error: unknown } | undefined;
  /** Detaches from the run's signal. */
  readonly release: () => void;
}

function openContext(
  options: SyncOptions,
  account: AccountToSync,
  committer: Committer,
  signal: AbortSignal,
): OpenContext {
  const { controller, release } = following(signal);
  let stopped: { readonly error: unknown } | undefined;
  const { origin } = account;
  const ctx: PassContext = {
    account: account.name,
    origin,
    mirror: options.mirror,
    committer,
    memory: options.memory,
    ledger: new Ledger(account.name, options.progress),
    host: {
      canary: new Canary(origin, options.memory, options.now),
      rules: new HostRules(options.memory, origin.host),
      trouble: new Trouble(),
    },
    queue: new FetchQueue(options.concurrency, FETCHES_AHEAD),
    now: options.now,
    signal: controller.signal,
    stop: (error) => {
      stopped ??= { error };
      controller.abort(error);
    },
    startedAtCommit: options.startedAtCommit,
    startedAt: options.now(),
    policy: options.policy,
    settings: { order: options.order, first: options.first ?? 'folders' },
  };
  return { ctx, stoppedWith: () => stopped, release };
}

async function runAccount(
  { ctx, stoppedWith, release }: OpenContext,
  wanted: Wanted,
  pass: typeof passAccount,
  stopAll: (error: unknown) => void,
): Promise<void> {
  try {
    await pass(ctx, wanted);
  } catch (error) {
    ctx.stop(error);
  }
  // Running fetches see the signal and stop by themselves; nothing may be added after the last flush.
  await ctx.queue.onIdle();
  release();
  const stopped = stoppedWith();
  if (stopped === undefined || isAbort(stopped.error)) return;
  if (endsOnlyTheAccount(stopped.error)) ctx.ledger.fail(stopped.error);
  else stopAll(stopped.error);
}

function isAbort(error: unknown): boolean {
  return (
    (error instanceof Error && error.name === 'AbortError') ||
    (error instanceof MailkeepError && error.family === 'interrupted')
  );
}

async function guardFreeSpace(options: SyncOptions): Promise<void> {
  const free = await options.freeBytes();
  if (free < options.minFreeBytes) {
    throw syncError('disk.low', { free, minFreeBytes: options.minFreeBytes });
  }
}

/** Indexes while fetching waits for the origin, and only then. */
class IndexAlongside {
  #running: Promise<void> | undefined;
  #mark = performance.eventLoopUtilization();

  constructor(
    private readonly indexing: Indexing,
    private readonly signal: AbortSignal,
  ) {}

  /** Called after each batch: starts a small round of indexing when the event loop has been idle enough. */
  consider(): void {
    const since = performance.eventLoopUtilization(this.#mark);
    this.#mark = performance.eventLoopUtilization();
    if (this.#running !== undefined || since.utilization > IDLE_ENOUGH) return;
    this.#running = this.indexing
      .some(INDEX_ALONGSIDE, this.signal)
      .then(() => {})
      // The round at the end meets the same error again, and throws it.
      .catch(() => {})
      .finally(() => {
        this.#running = undefined;
      });
  }

  async finish(): Promise<void> {
    await this.#running;
  }
}
