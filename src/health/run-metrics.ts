import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { RunReport } from './run-report.ts';

/** A request to the service, as far as metrics show it. */
export interface CountedRequest {
  readonly account: string;
  readonly surface: string;
  readonly operation: string;
  /** HTTP status; 0 where no answer came. */
  readonly status: number;
  readonly ms: number;
}

/** A pass of a second up to a first sync of a day. */
const RUN_BUCKETS = [1, 5, 15, 60, 300, 900, 3_600, 14_400, 86_400];
const REQUEST_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Metrics of what is asked of the service, and of what runs came to. */
export class RunMetrics {
  protected readonly registry = new Registry();
  readonly #requests = this.counter('requests_total', 'Requests to the service', [
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
    registers: [this.registry],
  });
  readonly #runs = this.counter('runs_total', 'Runs of the daemon', ['kind', 'outcome']);
  readonly #runSeconds = new Histogram({
    name: 'mailkeep_run_duration_seconds',
    help: 'How long runs took',
    labelNames: ['kind'],
    buckets: RUN_BUCKETS,
    registers: [this.registry],
  });
  readonly #lastRun = new Gauge({
    name: 'mailkeep_last_run_timestamp_seconds',
    help: 'When the last run ended, by what it came to',
    labelNames: ['kind', 'outcome'],
    registers: [this.registry],
  });
  readonly #failures = this.counter('failures_total', 'Named failures of runs', [
    'account',
    'code',
  ]);
  readonly #added = this.counter('places_added_total', 'Messages that appeared in folders');
  readonly #ended = this.counter('places_ended_total', 'Messages that disappeared from folders');
  readonly #bytes = this.counter('fetched_bytes_total', 'Bytes of raw sources that were fetched');
  readonly #deliveries = this.counter(
    'webhook_requests_total',
    'Requests to the webhook receiver',
    ['outcome'],
  );
  readonly #notifications = this.counter('notifications_total', 'Notifications that were sent', [
    'channel',
    'outcome',
  ]);

  constructor(version: string) {
    new Gauge({
      name: 'mailkeep_build_info',
      help: 'The version that runs',
      labelNames: ['version'],
      registers: [this.registry],
    }).set({ version }, 1);
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

  /** @param outcome `delivery`, or why it was refused */
  webhookRequest(outcome: string, times = 1): void {
    this.#deliveries.inc({ outcome }, times);
  }

  notification(channel: 'command' | 'url', outcome: 'sent' | 'failed'): void {
    this.#notifications.inc({ channel, outcome });
  }

  get contentType(): string {
    return this.registry.contentType;
  }

  /** Returns the text format of Prometheus. */
  async text(_withAddresses: boolean): Promise<string> {
    return this.registry.metrics();
  }

  protected counter(name: string, help: string, labelNames: string[] = []): Counter {
    const registers = [this.registry];
    return new Counter({ name: `mailkeep_${name}`, help, labelNames, registers });
  }
}
