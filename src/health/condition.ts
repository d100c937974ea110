import { type MailboxFacts, staleMailboxes } from './facts.ts';
import type { RunReport } from './run-report.ts';

/** `starting` until the archive is open and the schedules run; `failed` when only a restart can help. */
export type Phase = 'starting' | 'ready' | 'stopping' | 'failed';

/** The last run of a kind. */
export interface LastRun {
  readonly kind: string;
  readonly endedAt: number;
  readonly durationMs: number;
  readonly outcome: RunReport['outcome'];
  readonly failures: number;
}

/** How the daemon is, as `/healthz` and `/readyz` say it. Names no addresses. */
export interface Condition {
  readonly ok: boolean;
  readonly phase: Phase;
  /** Seconds since the start. */
  readonly uptimeSeconds: number;
  readonly runs: readonly {
    readonly kind: string;
    /** ISO 8601. */
    readonly endedAt: string;
    readonly durationMs: number;
    readonly outcome: RunReport['outcome'];
    readonly failures: number;
  }[];
  /** Resource ids; only where a longest age was asked for. */
  readonly stale?: readonly string[];
}

/** What the daemon tells of itself while it runs. */
export class DaemonState {
  readonly #startedAt: number;
  readonly #runs = new Map<string, LastRun>();
  #phase: Phase = 'starting';

  constructor(startedAt: number) {
    this.#startedAt = startedAt;
  }

  get startedAt(): number {
    return this.#startedAt;
  }

  get phase(): Phase {
    return this.#phase;
  }

  /** What failed stays so until the process ends. */
  enter(phase: Phase): void {
    if (this.#phase !== 'failed') this.#phase = phase;
  }

  onRun({ kind, startedAt, endedAt, outcome, failures }: RunReport): void {
    this.#runs.set(kind, {
      kind,
      endedAt,
      durationMs: endedAt - startedAt,
      outcome,
      failures: failures.length,
    });
  }

  /** Last runs, by kind. */
  runs(): LastRun[] {
    return [...this.#runs.values()].sort((a, b) => (a.kind < b.kind ? -1 : 1));
  }
}

/** Alive: it answers, and need not be restarted. */
export function liveness(state: DaemonState, now: number): Condition {
  return { ok: state.phase !== 'failed', ...common(state, now) };
}

/**
 * Doing its work: started, not stopping, and, where a longest age is given, every mailbox compared with the origin
 * within it. An archive without mailboxes is stale.
 */
export function readiness(
  state: DaemonState,
  mailboxes: () => readonly MailboxFacts[],
  maxAgeMs: number | null,
  now: number,
): Condition {
  const works = state.phase === 'ready';
  if (maxAgeMs === null) return { ok: works, ...common(state, now) };
  const all = mailboxes();
  const stale = staleMailboxes(all, now - maxAgeMs).map(({ resourceId }) => resourceId);
  const fresh = all.length > 0 && stale.length === 0;
  return { ok: works && fresh, ...common(state, now), stale };
}

function common(state: DaemonState, now: number): Omit<Condition, 'ok' | 'stale'> {
  return {
    phase: state.phase,
    // The clock may have been set back since the start.
    uptimeSeconds: Math.max(0, Math.round((now - state.startedAt) / 1_000)),
    runs: state.runs().map(({ endedAt, ...run }) => ({
      ...run,
      endedAt: new Date(endedAt).toISOString(),
    })),
  };
}
