import type { KnownDamage } from '../state/values.ts';
import type { CopyStatus } from './copies.ts';
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
  readonly runs: readonly (Omit<LastRun, 'endedAt'> & {
    /** ISO 8601. */
    readonly endedAt: string;
  })[];
  /** Damage of the archive that verifications found and nothing has cleared; null where none is known. */
  readonly damage: {
    /** ISO 8601: when the first of it was found. */
    readonly since: string;
    readonly findings: number;
  } | null;
  /** The copies that are made from here, by their addresses. */
  readonly copies: readonly CopyCondition[];
  /** Resource ids; only where a longest age was asked for. */
  readonly stale?: readonly string[];
}

/** How a copy is, in short; `status` has more. */
export type CopyCondition = Pick<CopyStatus, 'to' | 'copiedAt' | 'behind' | 'stale'> & {
  /** Code of why it could not be brought up to date since; null where it was. */
  readonly failing: string | null;
  readonly damaged: boolean;
};

/** What is known of the archive besides its mailboxes. */
export interface Known {
  readonly damage: KnownDamage | null;
  readonly copies: readonly CopyStatus[];
}

/** What the daemon reports about itself while it runs. */
export class DaemonState {
  readonly #runs = new Map<string, LastRun>();
  #phase: Phase = 'starting';

  constructor(readonly startedAt: number) {}

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

/** Alive: it answers, and need not be restarted. A restart repairs no damage, so known damage is only mentioned. */
export function liveness(state: DaemonState, known: Known, now: number): Condition {
  return { ok: state.phase !== 'failed', ...common(state, known, now) };
}

/**
 * Doing its work: started and not stopping. With a longest age it is what monitoring asks, as `status --max-age` is:
 * every mailbox was compared with the origin within that time, no copy of the daemon is stale, and no damage is known. An
 * archive without mailboxes is stale.
 */
export function readiness(
  state: DaemonState,
  mailboxes: () => readonly MailboxFacts[],
  known: Known,
  maxAgeMs: number | null,
  now: number,
): Condition {
  const works = state.phase === 'ready';
  if (maxAgeMs === null) return { ok: works, ...common(state, known, now) };
  const all = mailboxes();
  const stale = staleMailboxes(all, now - maxAgeMs).map(({ resourceId }) => resourceId);
  const fresh = all.length > 0 && stale.length === 0;
  const isSound = known.damage === null && known.copies.every((copy) => copy.damage === null);
  const isCopied = known.copies.every((copy) => !copy.stale);
  return { ok: works && fresh && isSound && isCopied, ...common(state, known, now), stale };
}

function common(
  state: DaemonState,
  { damage, copies }: Known,
  now: number,
): Omit<Condition, 'ok' | 'stale'> {
  return {
    phase: state.phase,
    // The clock may have been set back since the start.
    uptimeSeconds: Math.max(0, Math.round((now - state.startedAt) / 1_000)),
    runs: state.runs().map(({ endedAt, ...run }) => ({
      ...run,
      endedAt: new Date(endedAt).toISOString(),
    })),
    damage:
      damage === null
        ? null
        : { since: new Date(damage.since).toISOString(), findings: damage.found },
    copies: copies.map(({ to, copiedAt, behind, stale, failure, damage: found }) => ({
      ...{ to, copiedAt, behind, stale },
      failing: failure?.code ?? null,
      damaged: found !== null,
    })),
  };
}
