import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { VerificationFacts } from '../state/values.ts';
import { copyGauges } from './copy-gauges.ts';
import { type ArchiveFacts, isWatched, type MailboxFacts } from './facts.ts';
import { labelled } from './gauges.ts';
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

export interface MetricsPorts {
  readonly version: string;
  readonly now: () => number;
  /** Asked for each metric of a scrape: remember what costs something. */
  readonly facts: () => ArchiveFacts;
}

/** A pass of a second up to a first sync of a day. */
const RUN_BUCKETS = [1, 5, 15, 60, 300, 900, 3_600, 14_400, 86_400];
const REQUEST_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/**
 * What monitoring wants to know, for Prometheus. Labels carry resource ids, account names, operations, codes and where
 * copies are: never an address of mail, but in the one metric that is shown only when it is asked for.
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

  constructor(ports: MetricsPorts) {
    this.#gauges(ports);
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
    return this.#registry.contentType;
  }

  /** Returns the text format of Prometheus. With addresses, one more metric shows which mailbox has which. */
  async text(withAddresses: boolean): Promise<string> {
    const text = await this.#registry.metrics();
    return withAddresses ? `${text}\n${await this.#addresses.metrics()}` : text;
  }

  #counter(name: string, help: string, labelNames: string[] = []): Counter {
    const registers = [this.#registry];
    return new Counter({ name: `mailkeep_${name}`, help, labelNames, registers });
  }

  #gauges({ version, now, facts }: MetricsPorts): void {
    const registers = [this.#registry];
    const gauge = (name: string, help: string, read: (all: ArchiveFacts) => number | null) =>
      new Gauge({
        name: `mailkeep_${name}`,
        help,
        registers,
        collect() {
          const value = read(facts());
          if (value === null) this.remove();
          else this.set(value);
        },
      });
    const perMailbox = (
      name: string,
      help: string,
      read: (mailbox: MailboxFacts) => number | null,
    ) =>
      labelled(this.#registry, `mailbox_${name}`, help, ['host', 'mailbox'], () =>
        facts().mailboxes.map((mailbox) => {
          const { host, resourceId } = mailbox;
          return [{ host, mailbox: resourceId }, read(mailbox)];
        }),
      );
    const since = (at: number): number => Math.max(0, now() - at) / 1_000;

    new Gauge({
      name: 'mailkeep_build_info',
      help: 'The version that runs',
      labelNames: ['version'],
      registers,
    }).set({ version }, 1);
    gauge('messages', 'Distinct messages in the archive', (all) => all.messages);
    gauge('message_bytes', 'Bytes of their raw sources', (all) => all.messageBytes);
    gauge('log_bytes', 'Size of the log on disk', (all) => all.logBytes);
    gauge('catalog_bytes', 'Size of the catalog on disk', (all) => all.catalogBytes);
    gauge('messages_not_searchable', 'Stored, and not indexed yet', (all) => all.pending);
    verificationGauges(gauge);
    copyGauges(this.#registry, () => facts().copies, now);
    perMailbox(
      'freshness_seconds',
      'Since the mailbox was last wholly compared with the service; +Inf when it never was, absent when nobody looks',
      (mailbox) => {
        if (!isWatched(mailbox)) return null;
        return mailbox.provenAt === null ? Number.POSITIVE_INFINITY : since(mailbox.provenAt);
      },
    );
    perMailbox('complete', '1 when everything added up then', ({ complete }) => Number(complete));
    perMailbox(
      'last_certificate_timestamp_seconds',
      'When the oldest certificate of its folders was written',
      ({ certifiedAt }) => (certifiedAt === null ? null : certifiedAt / 1_000),
    );
    perMailbox('messages', 'Messages in its folders', ({ messages }) => messages);
    perMailbox('quarantined', 'Messages that could not be fetched', (box) => box.quarantined);
    perMailbox('held', 'Messages that the brake holds', ({ held }) => held);
    perMailbox(
      'quota_used_ratio',
      'Share of its fullest quota that the mailbox uses at the service; absent where it has none',
      ({ full }) => full,
    );
    perMailbox('suspended', '1 while the service lists the mailbox as suspended', (box) =>
      Number(box.suspended),
    );
    labelled(
      this.#registry,
      'limiter_requests_per_minute',
      'The rate that refusals have taught; absent while there were none',
      ['gate'],
      () => facts().limiters.map(({ gate, learnedPerMinute }) => [{ gate }, learnedPerMinute]),
    );
    labelled(
      this.#registry,
      'limiter_held_seconds',
      'For how long the service still asks to be left alone',
      ['gate'],
      () =>
        facts().limiters.map(({ gate, heldUntil }) => [
          { gate },
          Math.max(0, (heldUntil ?? 0) - now()) / 1_000,
        ]),
    );
    labelled(
      this.#addresses,
      'mailbox_info',
      'Which mailbox has which address',
      ['host', 'mailbox', 'address'],
      () =>
        facts().mailboxes.map(({ resourceId, host, address }) => [
          { host, mailbox: resourceId, address },
          1,
        ]),
    );
  }
}

type Gauged = (name: string, help: string, read: (all: ArchiveFacts) => number | null) => void;

/** Absent while nothing was ever verified. */
function verificationGauges(gauge: Gauged): void {
  const value = (
    name: string,
    help: string,
    read: (last: VerificationFacts) => number | null,
  ): void =>
    gauge(name, help, ({ verification }) => (verification === null ? null : read(verification)));
  value(
    'last_verification_timestamp_seconds',
    'When every byte of the archive was last read',
    ({ fullAt }) => (fullAt === null ? null : fullAt / 1_000),
  );
  value('last_verification_ok', '1 while no damage is known', ({ ok }) => Number(ok));
  value(
    'last_verification_checked_ratio',
    'Share of the messages that the last verification of any kind read',
    ({ checked, of }) => (of === 0 ? 1 : checked / of),
  );
  value(
    'damage_findings',
    'Findings of verifications that no repair or clean verification has cleared',
    ({ damage }) => damage?.found ?? 0,
  );
}
