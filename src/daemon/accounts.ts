import { hasCode, MailkeepError } from '../core/errors.ts';
import { accountFailureResult, type SyncFailure, type SyncResult } from '../sync/result.ts';
import { daemonError } from './errors.ts';
import type {
  AccountFailure,
  AccountProblem,
  DaemonClock,
  Observer,
  RunKind,
  WatchedMailbox,
} from './ports.ts';

/** Delays before retrying a refused token, long enough to avoid a block. A changed file is noticed immediately. */
const REFUSED = { firstMs: 600_000, longestMs: 3_600_000 };
/** Delays before retrying after losing the network, which is usually back soon. */
const AWAY = { firstMs: 5_000, longestMs: 300_000 };

interface Waiting {
  readonly problem: AccountProblem;
  readonly tries: number;
}

/** Returns the failure that ended a sync for its whole account, if any. Such a failure does not name a mailbox. */
export function accountFailure(result: SyncResult): AccountFailure | undefined {
  return result.failures.find(({ mailbox }) => mailbox === null);
}

/** Longest wait that a server can ask for. */
const MAX_ASKED_MS = 90_000_000;

/** Returns the milliseconds until an IMAP server, or the limit of a day, allows another attempt; 0 if unknown. */
function askedWait({ code, facts }: AccountFailure, now: number): number {
  if (code !== 'imap.throttled' && code !== 'imap.day-limit') return 0;
  const ms =
    code === 'imap.throttled' ? Number(facts.waitMs) : Date.parse(String(facts.until)) - now;
  return ms > 0 ? Math.min(ms, MAX_ASKED_MS) : 0;
}

/**
 * Returns how long to wait after a failure, but no less than the service asked for. The delay doubles each time, and up to half of it is random (`random` is
 * from 0 to 1), so that many daemons do not retry at the same time.
 */
function waitAfter(
  failure: AccountFailure,
  before: Waiting | undefined,
  now: number,
  random: number,
): Waiting {
  const state = failure.family === 'auth' || failure.family === 'config' ? 'refused' : 'away';
  const last = before?.problem.state === state ? before : undefined;
  const tries = (last?.tries ?? 0) + 1;
  const { firstMs, longestMs } = state === 'refused' ? REFUSED : AWAY;
  const bound = Math.min(longestMs, firstMs * 2 ** Math.min(tries - 1, 20));
  const asked = askedWait(failure, now);
  const since = last === undefined || last.problem.since > now ? now : last.problem.since;
  const retryAt = now + Math.max(asked, Math.round(bound * (0.5 + random / 2)));
  return { problem: { state, code: failure.code, since, retryAt }, tries };
}

/** Reports whether a disk error may be temporary. Excludes errors after which the end of the log may not be durable. */
export function isTemporaryDiskError(error: unknown): error is MailkeepError {
  return (
    error instanceof MailkeepError &&
    error.family === 'disk' &&
    !hasCode(error, 'log-sync-failed') &&
    !hasCode(error, 'log-thread-ended')
  );
}

/** Converts an error that ended a sync for the whole archive into a failure. Omits the details of internal errors. */
export function archiveFailure(account: string, error: unknown): SyncFailure {
  const known = error instanceof MailkeepError ? error : daemonError('daemon-failed', {});
  return accountFailureResult(account, known);
}

interface Account {
  waiting: Waiting | undefined;
  tokenMark: string | null;
  probing: boolean;
  /** Unfinished scheduled runs. Until they finish, other runs of the same kind are skipped. */
  readonly open: Set<RunKind>;
  mailboxes: readonly WatchedMailbox[];
  /** Start and duration of the last run over all mailboxes. */
  round: { readonly startedAt: number; readonly durationMs: number } | undefined;
  /** Milliseconds between the starts of the last two rounds, which is the actual freshness. */
  everyMs: number | null;
  /** True if a full sync could not start yet. */
  owesSweep: boolean;
}

export class Accounts {
  readonly #accounts = new Map<string, Account>();

  constructor(
    private readonly clock: DaemonClock,
    private readonly observer: Observer,
    private readonly random: () => number,
  ) {}

  set(names: readonly string[]): void {
    for (const name of this.#accounts.keys()) {
      if (!names.includes(name)) this.#accounts.delete(name);
    }
    for (const name of names) {
      if (this.#accounts.has(name)) continue;
      this.#accounts.set(name, {
        waiting: undefined,
        tokenMark: null,
        probing: false,
        open: new Set(),
        mailboxes: [],
        round: undefined,
        everyMs: null,
        owesSweep: false,
      });
    }
  }

  get(name: string): Account | undefined {
    return this.#accounts.get(name);
  }

  get names(): string[] {
    return [...this.#accounts.keys()];
  }

  isOpen(name: string): boolean {
    return this.#accounts.get(name)?.waiting === undefined && this.#accounts.has(name);
  }

  failed(name: string, failure: AccountFailure, tokenMark: string | null): void {
    const account = this.#accounts.get(name);
    // Other concurrent syncs then fail too, which must not be treated as additional attempts.
    if (account === undefined || (account.waiting !== undefined && !account.probing)) return;
    account.waiting = waitAfter(failure, account.waiting, this.clock.now(), this.random());
    account.tokenMark = tokenMark;
    const { problem } = account.waiting;
    this.observer({ event: 'account-stopped', account: name, problem, failure });
  }

  /** Records an account's mailboxes, which the service has just listed. */
  recovered(name: string, mailboxes: readonly WatchedMailbox[]): void {
    const account = this.#accounts.get(name);
    if (account === undefined) return;
    account.mailboxes = mailboxes;
    if (account.waiting === undefined) return;
    const afterMs = Math.max(0, this.clock.now() - account.waiting.problem.since);
    account.waiting = undefined;
    this.observer({ event: 'account-recovered', account: name, afterMs });
  }

  /**
   * Returns accounts that are due or whose token has changed, to be retried now. Each is returned once while `probing`.
   */
  due(tokenMark: (account: string) => string | null): string[] {
    const now = this.clock.now();
    const names: string[] = [];
    for (const [name, account] of this.#accounts) {
      if (account.waiting === undefined || account.probing) continue;
      const { state, retryAt } = account.waiting.problem;
      const hasChanged = state === 'refused' && tokenMark(name) !== account.tokenMark;
      if (retryAt > now && !hasChanged) continue;
      account.probing = true;
      names.push(name);
    }
    return names;
  }

  retryNow(): void {
    const retryAt = this.clock.now();
    for (const account of this.#accounts.values()) {
      if (account.waiting === undefined) continue;
      account.waiting = { tries: 0, problem: { ...account.waiting.problem, retryAt } };
    }
  }

  get anyWaiting(): boolean {
    return [...this.#accounts.values()].some(({ waiting }) => waiting !== undefined);
  }

  mailboxes(name?: string): readonly WatchedMailbox[] {
    return name === undefined
      ? [...this.#accounts.values()].flatMap(({ mailboxes }) => mailboxes)
      : (this.#accounts.get(name)?.mailboxes ?? []);
  }
}
