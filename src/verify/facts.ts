import type { ErrorFamily } from '../core/errors.ts';
import type { KnownDamage } from '../core/state.ts';
import { isImported } from '../mail/identity.ts';
import type { CopyStatus } from './copy-facts.ts';

/**
 * Returns the mailboxes that were not completely compared with the origin since `since` (milliseconds since the epoch),
 * or never. Imported ones have no origin, and those that the configuration excludes are not synced: they are as fresh
 * as they will ever be.
 *
 * @param mailboxes `provenAt` in milliseconds or in ISO 8601
 */
export function staleMailboxes<M extends Watching & { readonly provenAt: number | string | null }>(
  mailboxes: readonly M[],
  since: number,
): M[] {
  return mailboxes.filter(
    (mailbox) =>
      isWatched(mailbox) &&
      (mailbox.provenAt === null || new Date(mailbox.provenAt).getTime() < since),
  );
}

interface Watching {
  readonly host: string;
  /** Left out by the configuration since it was synced. */
  readonly unwatched: boolean;
}

/** Whether passes compare a mailbox with an origin. */
export function isWatched(mailbox: Watching): boolean {
  return !isImported(mailbox) && !mailbox.unwatched;
}

/** Asks for something at most once in a while: what monitoring asks for must not cost more than the work. */
export class Remembered<T> {
  #known: { readonly at: number; readonly value: T } | undefined;

  constructor(
    private readonly everyMs: number,
    private readonly now: () => number,
    private readonly ask: () => T,
  ) {}

  get(): T {
    const at = this.now();
    const age = this.#known === undefined ? Number.POSITIVE_INFINITY : at - this.#known.at;
    // A clock that was set back must not keep what is old.
    if (this.#known === undefined || age >= this.everyMs || age < 0) {
      this.#known = { at, value: this.ask() };
    }
    return this.#known.value;
  }
}

/** A mailbox's quota of one kind: `STORAGE` in bytes, `MESSAGE` a count; no limit is null. */
export interface QuotaUse {
  readonly name: string;
  readonly usage: number;
  readonly limit: number | null;
}

interface Fullness {
  readonly name: string;
  /** Share of the limit that is used: 1 is full. */
  readonly share: number;
}

/** How full a mailbox is, by the quota that is nearest to its limit; null where none has a limit. */
export function fullnessOf(quotas: readonly QuotaUse[]): Fullness | null {
  let fullest: Fullness | null = null;
  for (const { name, usage, limit } of quotas) {
    if (limit === null || limit <= 0) continue;
    const share = usage / limit;
    if (fullest === null || share > fullest.share) fullest = { name, share };
  }
  return fullest;
}

/** A share in whole percent, rounded down: what is nearly full is not called full. */
export function percentOf(share: number): number {
  return Math.floor(share * 100);
}

/** Something that went wrong in a run, by name. Null: it is about more than that. */
export interface RunFailure {
  readonly account: string | null;
  readonly mailbox: string | null;
  readonly family: ErrorFamily;
  readonly code: string;
  /** One sentence for people. */
  readonly message: string;
}

/** What a run of the daemon came to: a pass, a sweep, a verification, anything that it does by itself. */
export interface RunReport {
  /** `sync`, `sweep`, `verify` and so on. */
  readonly kind: string;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly endedAt: number;
  /** `interrupted`: it was asked to stop, and says nothing of how things are. */
  readonly outcome: 'done' | 'failed' | 'interrupted';
  readonly failures: readonly RunFailure[];
  /** What the run was about, accounts by name and mailboxes by address: of these, what has no failure is well. */
  readonly accounts: readonly string[];
  readonly mailboxes: readonly string[];
  /** The copy that it was about, by its address. */
  readonly copy?: string | undefined;
  /** Messages that a verification read back, or that a pruning removed. */
  readonly messages?: number | undefined;
  readonly counts: {
    readonly added: number;
    readonly ended: number;
    readonly bytes: number;
    readonly requests: number;
  };
}

/** `starting` until the archive is open and the schedules run; `failed` when only a restart can help. */
type Phase = 'starting' | 'ready' | 'stopping' | 'failed';

/** What is known of the archive besides its mailboxes. */
export interface Known {
  readonly damage: KnownDamage | null;
  readonly copies: readonly CopyStatus[];
}

/** What the daemon reports about itself while it runs. */
export class DaemonState {
  /** The last run of each kind. */
  readonly #runs = new Map<string, RunReport>();
  #phase: Phase = 'starting';

  constructor(readonly startedAt: number) {}

  get phase(): Phase {
    return this.#phase;
  }

  /** What failed stays so until the process ends. */
  enter(phase: Phase): void {
    if (this.#phase !== 'failed') this.#phase = phase;
  }

  onRun(report: RunReport): void {
    this.#runs.set(report.kind, report);
  }

  /** Last runs, by kind. */
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

/** Alive: it answers, and need not be restarted. A restart repairs no damage, so known damage is only mentioned. */
export function liveness(state: DaemonState, known: Known, now: number) {
  return { ok: state.phase !== 'failed', ...common(state, known, now) };
}

/**
 * Doing its work: started and not stopping. With a longest age it is what monitoring asks, as `status --max-age` is:
 * every mailbox was compared with the origin within that time, no copy of the daemon is stale, and no damage is known. An
 * archive without mailboxes is stale.
 */
export function readiness(
  state: DaemonState,
  mailboxes: () => readonly (Watching & {
    readonly resourceId: string;
    readonly provenAt: number | null;
  })[],
  known: Known,
  maxAgeMs: number | null,
  now: number,
) {
  const works = state.phase === 'ready';
  if (maxAgeMs === null) return { ok: works, ...common(state, known, now) };
  const all = mailboxes();
  const stale = staleMailboxes(all, now - maxAgeMs).map(({ resourceId }) => resourceId);
  const fresh = all.length > 0 && stale.length === 0;
  const isSound = known.damage === null && known.copies.every((copy) => copy.damage === null);
  const isCopied = known.copies.every((copy) => !copy.stale);
  return { ok: works && fresh && isSound && isCopied, ...common(state, known, now), stale };
}

/** What both answers say. Names no addresses of mail; times in ISO 8601. */
function common(state: DaemonState, { damage, copies }: Known, now: number) {
  return {
    phase: state.phase,
    // The clock may have been set back since the start.
    uptimeSeconds: Math.max(0, Math.round((now - state.startedAt) / 1_000)),
    runs: state.runs(),
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
