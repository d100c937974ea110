import { AggregatorRegistry, Counter, Gauge, Registry } from 'prom-client';
import { z } from 'zod';
import { describeError, errnoOf, MailkeepError } from '../core/errors.ts';
import type { DaemonLog } from '../daemon/daemon-log.ts';
import { type HealthAnswers, labelled } from '../daemon/metrics.ts';
import { type WaitingWork, waitingWork } from './overview.ts';
import type { Registry as FleetRegistry } from './postgres.ts';
import type { HeldShard } from './shard.ts';
import type { WorkerSession } from './worker.ts';

/**
 * Metrics of daemons that are passed on, and what becomes of those of several accounts and mailboxes. Sums over shards
 * would jump whenever one of the daemons starts again, so each has the number of its shard.
 */
const PASSED_ON = {
  sum: [
    ...['messages', 'message_bytes', 'log_bytes', 'catalog_bytes', 'messages_not_searchable'],
    ...['damage_findings', 'mailbox_quarantined', 'mailbox_held', 'mailbox_suspended'],
    ...['requests_total', 'runs_total', 'failures_total', 'fetched_bytes_total'],
    ...['places_added_total', 'places_ended_total', 'notifications_total'],
  ],
  min: ['last_verification_timestamp_seconds', 'last_verification_ok', 'mailbox_complete'],
  max: ['mailbox_freshness_seconds'],
};
const AGGREGATORS = new Map<string, string>(
  Object.entries(PASSED_ON).flatMap(([aggregator, names]) =>
    names.map((name) => [`mailkeep_${name}`, aggregator]),
  ),
);
/** The other labels name accounts and mailboxes. */
const LABELS = ['kind', 'outcome', 'code', 'surface', 'operation', 'status', 'channel'];

const measured = z.array(
  z.object({
    name: z.string(),
    help: z.string(),
    type: z.string(),
    values: z.array(
      z.object({
        value: z.union([z.number(), z.literal('+Inf').transform(() => Number.POSITIVE_INFINITY)]),
        labels: z.record(z.string(), z.union([z.string(), z.number()])),
      }),
    ),
  }),
);

/** Returns what is passed on of a daemon's metrics, in JSON as prom-client has it. */
function passedOn(shard: number, metrics: unknown): object[] {
  return (measured.safeParse(metrics).data ?? []).flatMap(({ values, ...metric }) => {
    const aggregator = AGGREGATORS.get(metric.name);
    if (aggregator === undefined) return [];
    const relabelled = values.map(({ value, labels }) => {
      const kept = Object.entries(labels).filter(([label]) => LABELS.includes(label));
      return { value, labels: { shard: String(shard), ...Object.fromEntries(kept) } };
    });
    return [{ ...metric, aggregator, values: relabelled }];
  });
}

/** What a session shows of itself. */
type Shown = Pick<WorkerSession, 'id' | 'isRenewed' | 'rows'> & {
  readonly shards: readonly {
    readonly number: number;
    readonly shard: Pick<HeldShard, 'status' | 'metrics'>;
  }[];
};

/** What a worker waits for is asked for at most this often. */
const WORK_MS = 30_000;

interface WorkerHealthOptions {
  readonly version: string;
  readonly registry: FleetRegistry;
  readonly log: DaemonLog;
  /** Returns milliseconds since the epoch. */
  readonly now: () => number;
}

/** Health and metrics of a worker. What is about the whole fleet is the same on every node. */
export class WorkerHealth {
  readonly #registry = new Registry();
  readonly #startedAt: number;
  #session: Shown | undefined;
  #work: { readonly at: number; readonly work: WaitingWork | null } | undefined;
  readonly #failures = new Counter({
    name: 'mailkeep_fleet_failures_total',
    help: 'Failures of the worker, its shards, the registry and the bucket; shard-daemon-ended for each daemon that ended by itself',
    labelNames: ['code'],
    registers: [this.#registry],
  });

  constructor(private readonly options: WorkerHealthOptions) {
    this.#startedAt = options.now();
    new Gauge({
      name: 'mailkeep_build_info',
      help: 'The version that runs',
      labelNames: ['version'],
      registers: [this.#registry],
    }).set({ version: options.version }, 1);
    this.#ofWorker();
    this.#ofFleet();
  }

  /** Returns a log that counts the failures that it is told. */
  counting(log: DaemonLog): DaemonLog {
    return {
      ...log,
      fail: (level, text, error) => {
        this.#failures.inc({ code: describeError(error).code });
        log.fail(level, text, error);
      },
    };
  }

  /** Shows this session from now on; undefined for none. */
  show(session: Shown | undefined): void {
    this.#session = session;
  }

  get answers(): HealthAnswers {
    return {
      live: () => ({ ok: true, ...this.#condition() }),
      ready: (maxAgeMs) => {
        const condition = this.#condition();
        // A shard that fails says nothing about this node as a gateway, which serves the others and those elsewhere.
        const isLate = condition.shards.some(
          ({ failing, shippedSeconds }) =>
            failing !== null || shippedSeconds * 1_000 > Number(maxAgeMs),
        );
        return { ok: condition.phase === 'ready' && (maxAgeMs === null || !isLate), ...condition };
      },
      metrics: () => this.text(),
    };
  }

  /** Returns text for Prometheus: of the worker, the fleet, and the daemons. Labels never name accounts. */
  async text(): Promise<string> {
    await this.#ask();
    const shards = this.#session?.shards ?? [];
    const daemons = await Promise.all(
      shards.map(async ({ number, shard }) =>
        passedOn(number, await this.#tried(`shard ${number} has no metrics`, shard.metrics())),
      ),
    );
    const own = await this.#registry.metrics();
    return `${own}\n${await AggregatorRegistry.aggregate(daemons).metrics()}`;
  }

  /** What the rows do not have. A registry that does not answer shows in other metrics. */
  async #ask(): Promise<void> {
    const { registry, now } = this.options;
    const age = now() - (this.#work?.at ?? Number.NEGATIVE_INFINITY);
    if (age >= 0 && age < WORK_MS) return;
    const text = 'the registry could not be asked for metrics';
    this.#work = { at: now(), work: await this.#tried(text, waitingWork(registry)) };
  }

  /** Metrics whose source cannot be asked are absent. */
  async #tried<T>(text: string, asked: Promise<T>): Promise<T | null> {
    try {
      return await asked;
    } catch (error) {
      if (!(error instanceof MailkeepError) && errnoOf(error) === undefined) throw error;
      this.#failures.inc({ code: describeError(error).code });
      this.options.log.fail('error', text, error);
      return null;
    }
  }

  #condition() {
    const session = this.#session;
    const { shards = [] } = session?.rows ?? {};
    return {
      phase: session === undefined ? 'starting' : session.isRenewed ? 'ready' : 'session-lost',
      // The clock may have been set back since.
      uptimeSeconds: Math.max(0, Math.round((this.options.now() - this.#startedAt) / 1_000)),
      session: session?.id ?? null,
      shards: (session?.shards ?? []).map(({ number, shard }) => {
        const { isOpen: open, isRunning: running, failure: failing, shippedAgeMs } = shard.status;
        return { shard: number, open, running, failing, shippedSeconds: shippedAgeMs / 1_000 };
      }),
      /** Shards of the fleet that failed where they were last held. */
      failing: shards.flatMap(({ shard, failing }) =>
        failing === null ? [] : [{ shard, ...failing }],
      ),
    };
  }

  #ofWorker(): void {
    this.#gauge('session_renewed', 'Whether the session of the worker counts', [], () => [
      [{}, Number(this.#session?.isRenewed === true)],
    ]);
    const held = () => this.#session?.shards ?? [];
    this.#gauge('worker_shards', 'Shards that the worker holds', ['state'], () => [
      [{ state: 'held' }, held().length],
      [{ state: 'open' }, held().filter(({ shard }) => shard.status.isOpen).length],
    ]);
    this.#gauge(
      'shard_shipped_age_seconds',
      'Since the bucket last had everything of a shard that the worker holds',
      ['shard'],
      () =>
        held().map(({ number, shard }) => [{ shard: number }, shard.status.shippedAgeMs / 1_000]),
    );
    this.#gauge('shard_failing', '1 for a shard that fails here', ['shard', 'code'], () =>
      held().flatMap(({ number, shard }) => {
        const { failure } = shard.status;
        return failure === null ? [] : [[{ shard: number, code: failure.code }, 1] as const];
      }),
    );
  }

  #ofFleet(): void {
    const rows = () => this.#session?.rows;
    const living = () => (rows()?.workers ?? []).filter(({ isDead }) => !isDead);
    this.#gauge('sessions', 'Workers that live', [], () => [[{}, rows() ? living().length : null]]);
    this.#gauge('room_accounts', 'Accounts that they take', [], () => [
      [{}, rows() ? living().reduce((sum, { room }) => sum + room, 0) : null],
    ]);
    this.#gauge('shards', 'Shards of the fleet; one may count in two states', ['state'], () => {
      const all = rows()?.shards;
      if (all === undefined) return [];
      const holders = new Set(living().map(({ session }) => session));
      const held = all.filter(({ holder }) => holder !== null && holders.has(holder)).length;
      return [
        [{ state: 'held' }, held],
        [{ state: 'unheld' }, all.length - held],
        [{ state: 'failing' }, all.filter(({ failing }) => failing !== null).length],
        [{ state: 'not-recovered' }, all.filter(({ isCurrent }) => !isCurrent).length],
      ];
    });
    this.#gauge('accounts', 'Accounts of the fleet', ['state'], () => {
      const all = rows()?.accounts;
      if (all === undefined) return [];
      const count = (wanted: string) => all.filter(({ state }) => state === wanted).length;
      return ['active', 'paused', 'removed'].map((state) => [{ state }, count(state)]);
    });
    const work = () => this.#work?.work ?? null;
    this.#gauge('accounts_with_errors', 'Active accounts that fail', [], () => [
      [{}, work()?.accountsWithErrors ?? null],
    ]);
    this.#gauge('purges_waiting', 'Forgets that have not ended', [], () => [
      [{}, work()?.purges ?? null],
    ]);
    this.#gauge('purge_age_seconds', 'How long the oldest of them waits', [], () => [
      [{}, work() === null ? null : (work()?.purgeAgeMs ?? 0) / 1_000],
    ]);
    this.#gauge('objects_waiting', 'Objects of the bucket that come or go', ['state'], () =>
      Object.entries(work()?.objects ?? {}).map(([state, n]) => [{ state }, n]),
    );
  }

  #gauge<Label extends string>(
    name: string,
    help: string,
    labels: readonly Label[],
    values: () => readonly (readonly [Readonly<Record<Label, string | number>>, number | null])[],
  ): void {
    labelled(this.#registry, `fleet_${name}`, help, labels, values);
  }
}
