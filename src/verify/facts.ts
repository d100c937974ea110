import type { ErrorFamily } from '../core/errors.ts';
import type { ArchiveStatus } from './archive-status.ts';
import type { CopyStatus } from './copy-facts.ts';
import { DAMAGED, listIssues, STALE } from './issues.ts';
import type { VerificationStatus } from './verification.ts';

/** Caches a result for a short period, so that monitoring stays cheaper than the work it monitors. */
export class ShortCache<T> {
  #cached: { readonly at: number; readonly value: T } | undefined;

  constructor(
    private readonly everyMs: number,
    private readonly now: () => number,
    private readonly ask: () => T,
  ) {}

  get(): T {
    const at = this.now();
    const age = this.#cached === undefined ? Number.POSITIVE_INFINITY : at - this.#cached.at;
    // An old result must not survive if the clock is set back.
    if (this.#cached === undefined || age >= this.everyMs || age < 0) {
      this.#cached = { at, value: this.ask() };
    }
    return this.#cached.value;
  }
}

/** A failure in a run. A null account or mailbox means that the failure is not limited to one. */
export interface RunFailure {
  readonly account: string | null;
  readonly mailbox: string | null;
  readonly family: ErrorFamily;
  readonly code: string;
  /** One sentence for users. */
  readonly message: string;
}

/** The result of a daemon run: sync, full sync, verification or another background task. */
export interface RunReport {
  /** Such as `sync`, `sweep` or `verify`. */
  readonly kind: string;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly endedAt: number;
  /** `interrupted` means stopped on request, which says nothing about the archive's condition. */
  readonly outcome: 'done' | 'failed' | 'interrupted';
  readonly failures: readonly RunFailure[];
  /** Accounts and mailbox addresses in the run's scope. Those without a failure are healthy. */
  readonly accounts: readonly string[];
  readonly mailboxes: readonly string[];
  /** The copy's address, for a copy run. */
  readonly copy?: string | undefined;
  /** Number of messages verified, or removed by pruning. */
  readonly messages?: number | undefined;
  readonly counts: {
    readonly added: number;
    readonly ended: number;
    readonly bytes: number;
    readonly requests: number;
  };
}

/** `starting` until the archive is open and schedules run; `failed` if only a restart can help. */
type Phase = 'starting' | 'ready' | 'stopping' | 'failed';

/** Known condition of the archive, excluding its mailboxes. */
export interface KnownCondition {
  readonly verification: VerificationStatus | null;
  readonly copies: readonly CopyStatus[];
}

export class DaemonState {
  readonly #runs = new Map<string, RunReport>();
  #phase: Phase = 'starting';

  constructor(readonly startedAt: number) {}

  get phase(): Phase {
    return this.#phase;
  }

  /** `failed` is final. */
  enter(phase: Phase): void {
    if (this.#phase !== 'failed') this.#phase = phase;
  }

  onRun(report: RunReport): void {
    this.#runs.set(report.kind, report);
  }

  runs() {
    return [...this.#runs.values()]
      .sort((a, b) => (a.kind < b.kind ? -1 : 1))
      .map(({ kind, startedAt, endedAt, outcome, failures }) => ({
        kind,
        durationMs: endedAt - startedAt,
        outcome,
        failures: failures.length,
        endedAt: new Date(endedAt).toISOString(),
      }));
  }
}

/** Returns liveness: whether the process responds. Ignores damage, because a restart would not repair it. */
export function liveness(state: DaemonState, condition: KnownCondition, now: number) {
  return { ok: state.phase !== 'failed', ...common(state, condition, now) };
}

/**
 * Returns readiness: whether the daemon has started and is not stopping. With a maximum age, readiness also requires
 * that every mailbox was compared within that time, that no copy is stale and that no damage is known, like `status
 * --max-age`. An archive without mailboxes counts as stale.
 */
export function readiness(
  state: DaemonState,
  mailboxes: () => ArchiveStatus['mailboxes'],
  condition: KnownCondition,
  maxAgeMs: number | null,
  now: number,
) {
  const works = state.phase === 'ready';
  if (maxAgeMs === null) return { ok: works, ...common(state, condition, now) };
  const archive = { mailboxes: mailboxes(), messages: 0, pending: 0 };
  const issues = listIssues({ ...condition, ...archive }, { ...condition, maxAgeMs, now });
  const fails = issues.some(({ kind }) => DAMAGED.includes(kind) || STALE.includes(kind));
  const stale = issues.flatMap((issue) =>
    issue.kind === 'mailbox-stale' ? [issue.mailbox.resourceId] : [],
  );
  return { ok: works && !fails, ...common(state, condition, now), stale };
}

/** Returns the fields that both responses share. Contains no mail addresses. Times are in ISO 8601. */
function common(state: DaemonState, { verification, copies }: KnownCondition, now: number) {
  return {
    phase: state.phase,
    // The clock may have been set back since startup.
    uptimeSeconds: Math.max(0, Math.round((now - state.startedAt) / 1_000)),
    runs: state.runs(),
    damage:
      verification === null || verification.damagedSince === null
        ? null
        : { since: verification.damagedSince, findings: verification.found },
    copies: copies.map(({ to, copiedAt, behind, stale, failure, damage: found }) => ({
      ...{ to, copiedAt, behind, stale },
      failing: failure?.code ?? null,
      damaged: found !== null,
    })),
  };
}
