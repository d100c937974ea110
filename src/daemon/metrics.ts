import { Hono } from 'hono';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { type ListenerLimits, listenOn } from '../core/listener.ts';
import { mailboxLabel } from '../core/names.ts';
import { parseDuration } from '../core/quantities.ts';
import type { RequestReport } from '../service/transport.ts';
import type { ArchiveStatus, MailboxStatus } from '../verify/archive-status.ts';
import type { CopyStatus } from '../verify/copy-facts.ts';
import {
  type DaemonState,
  type KnownCondition,
  liveness,
  type RunReport,
  readiness,
} from '../verify/facts.ts';
import { highestUsage, isWatched } from '../verify/issues.ts';

/**
 * Serves `/healthz` (liveness), `/readyz` (readiness; `?max-age=26h` also checks freshness, copies and damage) and
 * `/metrics` (`?addresses=1` adds mailbox addresses). Responds with status 200 or 503.
 *
 * @throws cannot-listen
 */
export async function startHealthServer(options: HealthOptions): Promise<HealthServer> {
  const { state, metrics, status, known, now, ...listening } = options;
  return serveHealth(listening, {
    live: () => liveness(state, known(), now()),
    ready: (maxAge) => readiness(state, () => status().mailboxes, known(), maxAge, now()),
    metrics: (withAddresses) => metrics.text(withAddresses),
  });
}

/** What a health server answers. Called for each request. */
export interface HealthAnswers {
  readonly live: () => Condition;
  /** @param maxAgeMs null for none */
  readonly ready: (maxAgeMs: number | null) => Condition;
  /** Returns text for Prometheus. */
  readonly metrics: (withAddresses: boolean) => Promise<string>;
}

interface Condition {
  readonly ok: boolean;
}

/**
 * Serves the three paths. There is no authentication, so this never shares the webhook's port, and refuses requests from
 * web pages.
 *
 * @throws cannot-listen
 */
export async function serveHealth(
  { onError, listen, hosts, limits = {} }: HealthListening,
  { live, ready, metrics }: HealthAnswers,
): Promise<HealthServer> {
  const app = new Hono()
    .get('/healthz', () => answer(live()))
    .get('/readyz', (context) => {
      const raw = context.req.query('max-age');
      const maxAge = raw === undefined ? null : parseDuration(raw);
      if (maxAge === undefined) {
        return context.json({ error: 'max-age takes a duration such as 90s, 15m, 26h or 7d' }, 400);
      }
      return answer(ready(maxAge));
    })
    .get('/metrics', async (context) => {
      const text = await metrics(context.req.query('addresses') === '1');
      return context.body(text, 200, { 'content-type': Registry.PROMETHEUS_CONTENT_TYPE });
    })
    .onError((error, context) => {
      onError(error);
      return context.json({ error: 'this could not be answered; the log says why' }, 500);
    });
  const clients = { kind: 'programs', names: hosts } as const;
  const fetch = (request: Request): Response | Promise<Response> => app.fetch(request);
  return listenOn({ section: 'health', listen, clients, fetch, onError, limits });
}

export type HealthServer = Awaited<ReturnType<typeof listenOn>>;

interface HealthListening {
  readonly listen: { readonly host: string; readonly port: number };
  /** Host names that clients can use. IP addresses and localhost always work. */
  readonly hosts: readonly string[];
  /** Called if a request could not be answered: an internal error, an unreadable catalog or a failed connection. */
  readonly onError: (error: unknown) => void;
  readonly limits?: Partial<ListenerLimits>;
}

interface HealthOptions extends HealthListening {
  readonly state: DaemonState;
  readonly metrics: Pick<Metrics, 'text'>;
  readonly status: () => MeasuredStatus;
  /** Returns known damage and copies. Must be cheaper than `status`, because supervisors poll it every few seconds. */
  readonly known: () => KnownCondition;
  readonly now: () => number;
}

function answer(condition: Condition): Response {
  return Response.json(condition, {
    status: condition.ok ? 200 : 503,
    headers: { 'cache-control': 'no-store' },
  });
}

/** Adds a labelled gauge, omitting null values. */
export function labelled<Label extends string>(
  registry: Registry,
  name: string,
  help: string,
  labelNames: readonly Label[],
  values: () => readonly (readonly [Readonly<Record<Label, string | number>>, number | null])[],
): void {
  new Gauge({
    name: `mailkeep_${name}`,
    help,
    labelNames,
    registers: [registry],
    collect() {
      this.reset();
      for (const [labels, value] of values()) {
        if (value === null) this.remove(labels);
        else this.set(labels, value);
      }
    },
  });
}

type Row<Of> = readonly [name: string, help: string, read: (of: Of) => number | null];

export type MeasuredStatus = Pick<
  ArchiveStatus,
  | 'messages'
  | 'bytes'
  | 'logBytes'
  | 'catalogBytes'
  | 'pending'
  | 'verification'
  | 'budget'
  | 'traffic'
  | 'mailboxes'
>;

/** Metrics for the whole archive. Verification metrics are absent until the first verification. */
const ARCHIVE_GAUGES: readonly Row<MeasuredStatus>[] = [
  ['messages', 'Distinct messages in the archive', ({ messages }) => messages],
  ['message_bytes', 'Bytes of their raw sources', ({ bytes }) => bytes],
  ['log_bytes', 'Size of the log on disk', ({ logBytes }) => logBytes],
  ['catalog_bytes', 'Size of the catalog on disk', ({ catalogBytes }) => catalogBytes],
  ['messages_not_searchable', 'Stored, and not indexed yet', ({ pending }) => pending],
  [
    'last_verification_timestamp_seconds',
    'When every byte of the archive was last read',
    ({ verification }) => secondsOf(verification?.fullAt),
  ],
  [
    'last_verification_ok',
    '1 while no damage is known',
    ({ verification }) => (verification === null ? null : Number(verification.ok)),
  ],
  [
    'last_verification_checked_ratio',
    'Share of the messages that the last verification of any kind read',
    ({ verification: last }) => (last === null ? null : last.of === 0 ? 1 : last.checked / last.of),
  ],
  [
    'damage_findings',
    'Findings of verifications that no repair or clean verification has cleared',
    ({ verification: last }) => last?.found ?? null,
  ],
];

const COPY_GAUGES = (now: () => number): readonly Row<CopyStatus>[] => [
  [
    'age_seconds',
    'Since the copy was last brought up to date; +Inf when it never was',
    ({ copiedAt }) => secondsSince(copiedAt, now()),
  ],
  ['commit', 'The commit that the copy has reached', ({ commit }) => commit],
  ['commits_behind', 'Commits of the archive that the copy lacks', ({ behind }) => behind],
  [
    'stale',
    '1 when the daemon should have brought the copy up to date long ago',
    ({ everySeconds, stale }) => (everySeconds === null ? null : Number(stale)),
  ],
  ['failed_attempts', 'Attempts in a row that failed since', ({ failure }) => failure?.tries ?? 0],
  [
    'last_verification_timestamp_seconds',
    'When some of the copy was last read back',
    ({ verified }) => secondsOf(verified?.at),
  ],
  [
    'last_full_verification_timestamp_seconds',
    'When all of the copy was last read back',
    ({ verified }) => secondsOf(verified?.fullAt),
  ],
  [
    'damage_findings',
    'Findings in the copy, until all of it is found intact',
    ({ damage }) => damage?.findings ?? 0,
  ],
];

const MAILBOX_GAUGES = (now: () => number): readonly Row<MailboxStatus>[] => [
  [
    'freshness_seconds',
    'Since the mailbox was last wholly compared with the service; +Inf when it never was, absent when nobody looks',
    (mailbox) => (isWatched(mailbox) ? secondsSince(mailbox.provenAt, now()) : null),
  ],
  ['complete', '1 when everything added up then', ({ complete }) => Number(complete)],
  [
    'last_certificate_timestamp_seconds',
    'When the oldest certificate of its folders was written',
    ({ certifiedAt }) => secondsOf(certifiedAt),
  ],
  ['messages', 'Messages in its folders', ({ messages }) => messages],
  ['quarantined', 'Messages that could not be fetched', ({ quarantined }) => quarantined],
  ['held', 'Messages that the brake holds', ({ held }) => held],
  [
    'quota_used_ratio',
    'Share of its fullest quota that the mailbox uses at the service; absent where it has none',
    ({ quota }) => highestUsage(quota?.resources ?? [])?.share ?? null,
  ],
  [
    'suspended',
    '1 while the service lists the mailbox as suspended',
    ({ suspendedSince }) => Number(suspendedSince !== null),
  ],
];

/** Converts an ISO 8601 time to Unix seconds. */
function secondsOf(time: string | null | undefined): number | null {
  return time === null || time === undefined ? null : Date.parse(time) / 1_000;
}

function secondsSince(time: string | null, now: number): number {
  return time === null ? Number.POSITIVE_INFINITY : Math.max(0, now - Date.parse(time)) / 1_000;
}

type CountedRequest = Pick<RequestReport, 'operation' | 'status' | 'ms'> & {
  readonly account: string;
  readonly surface: string;
};

/** From one second (for a sync) to a day (for a first sync). */
const RUN_BUCKETS = [1, 5, 15, 60, 300, 900, 3_600, 14_400, 86_400];
const REQUEST_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/**
 * The daemon's Prometheus metrics. Labels contain resource ids, account names, operations, codes and copies' addresses.
 * Mail addresses appear in a single metric, and only on request.
 */
export class Metrics {
  readonly #registry = new Registry();
  readonly #addresses = new Registry();
  readonly #requests = this.#counter('requests_total', 'Requests to the service', [
    'account',
    'surface',
    'operation',
    'status',
  ]);
  readonly #requestSeconds = new Histogram({
    name: 'mailkeep_request_duration_seconds',
    help: 'How long the service took to answer',
    labelNames: ['surface'],
    buckets: REQUEST_BUCKETS,
    registers: [this.#registry],
  });
  readonly #runs = this.#counter('runs_total', 'Runs of the daemon', ['kind', 'outcome']);
  readonly #runSeconds = new Histogram({
    name: 'mailkeep_run_duration_seconds',
    help: 'How long runs took',
    labelNames: ['kind'],
    buckets: RUN_BUCKETS,
    registers: [this.#registry],
  });
  readonly #lastRun = new Gauge({
    name: 'mailkeep_last_run_timestamp_seconds',
    help: 'When the last run ended, by what it came to',
    labelNames: ['kind', 'outcome'],
    registers: [this.#registry],
  });
  readonly #failures = this.#counter('failures_total', 'Named failures of runs', [
    'account',
    'code',
  ]);
  readonly #added = this.#counter('places_added_total', 'Messages that appeared in folders');
  readonly #ended = this.#counter('places_ended_total', 'Messages that disappeared from folders');
  readonly #bytes = this.#counter('fetched_bytes_total', 'Bytes of raw sources that were fetched');
  readonly #deliveries = this.#counter(
    'webhook_requests_total',
    'Requests to the webhook receiver',
    ['outcome'],
  );
  readonly #notifications = this.#counter('notifications_total', 'Notifications that were sent', [
    'channel',
    'outcome',
  ]);

  constructor({
    version,
    now,
    status,
    copies,
  }: {
    readonly version: string;
    readonly now: () => number;
    /** Called for each metric in a scrape, so it should cache anything expensive. */
    readonly status: () => MeasuredStatus;
    readonly copies: () => readonly CopyStatus[];
  }) {
    new Gauge({
      name: 'mailkeep_build_info',
      help: 'The version that runs',
      labelNames: ['version'],
      registers: [this.#registry],
    }).set({ version }, 1);
    for (const [name, help, read] of ARCHIVE_GAUGES) {
      labelled(this.#registry, name, help, [], () => [[{}, read(status())]]);
    }
    for (const [name, help, read] of COPY_GAUGES(now)) {
      labelled(this.#registry, `copy_${name}`, help, ['copy'], () =>
        copies().map((copy) => [{ copy: copy.to }, read(copy)]),
      );
    }
    for (const [name, help, read] of MAILBOX_GAUGES(now)) {
      labelled(this.#registry, `mailbox_${name}`, help, ['host', 'mailbox'], () =>
        status().mailboxes.map((box) => [
          { host: box.host, mailbox: mailboxLabel(box.resourceId) },
          read(box),
        ]),
      );
    }
    labelled(
      this.#registry,
      'limiter_requests_per_minute',
      'The rate that refusals have taught; absent while there were none',
      ['gate'],
      () => status().budget.map(({ gate, learnedPerMinute }) => [{ gate }, learnedPerMinute]),
    );
    labelled(
      this.#registry,
      'limiter_held_seconds',
      'For how long the service still asks to be left alone',
      ['gate'],
      () =>
        status().budget.map(({ gate, heldUntil }) => [
          { gate },
          heldUntil === null ? 0 : Math.max(0, Date.parse(heldUntil) - now()) / 1_000,
        ]),
    );
    labelled(
      this.#registry,
      'imap_day_bytes',
      'Bytes exchanged with an IMAP server in the last 24 hours',
      ['account', 'host'],
      () => status().traffic.map(({ account, host, bytes }) => [{ account, host }, bytes]),
    );
    labelled(
      this.#registry,
      'imap_day_limit_bytes',
      'The most that may be; absent without a limit',
      ['account', 'host'],
      () => status().traffic.map(({ account, host, limit }) => [{ account, host }, limit]),
    );
    labelled(
      this.#addresses,
      'mailbox_info',
      'Which mailbox has which address',
      ['host', 'mailbox', 'address'],
      () =>
        status().mailboxes.map(({ resourceId, host, address }) => [
          { host, mailbox: mailboxLabel(resourceId), address },
          1,
        ]),
    );
  }

  request({ account, surface, operation, status, ms }: CountedRequest): void {
    this.#requests.inc({ account, surface, operation, status: status === 0 ? 'none' : status });
    this.#requestSeconds.observe({ surface }, ms / 1_000);
  }

  onRun({ kind, startedAt, endedAt, outcome, failures, counts }: RunReport): void {
    this.#runs.inc({ kind, outcome });
    this.#runSeconds.observe({ kind }, Math.max(0, endedAt - startedAt) / 1_000);
    this.#lastRun.set({ kind, outcome }, endedAt / 1_000);
    for (const { account, code } of failures) this.#failures.inc({ account: account ?? '', code });
    this.#added.inc(counts.added);
    this.#ended.inc(counts.ended);
    this.#bytes.inc(counts.bytes);
  }

  /** @param outcome `delivery`, or the reason for refusal */
  webhookRequest(outcome: string, times = 1): void {
    this.#deliveries.inc({ outcome }, times);
  }

  notification(channel: 'command' | 'url', outcome: 'sent' | 'failed'): void {
    this.#notifications.inc({ channel, outcome });
  }

  /** Returns the metrics in Prometheus text format. With addresses, one more metric maps mailboxes to addresses. */
  async text(withAddresses: boolean): Promise<string> {
    const text = await this.#registry.metrics();
    return withAddresses ? `${text}\n${await this.#addresses.metrics()}` : text;
  }

  /** Returns the metrics without addresses as JSON, for a program that runs several daemons. */
  async json(): Promise<string> {
    const metrics = await this.#registry.getMetricsAsJSON();
    return JSON.stringify(metrics, (_, value) => (value === Infinity ? '+Inf' : value));
  }

  #counter(name: string, help: string, labelNames: string[] = []): Counter {
    const registers = [this.#registry];
    return new Counter({ name: `mailkeep_${name}`, help, labelNames, registers });
  }
}
