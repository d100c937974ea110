import { Gauge, Registry } from 'prom-client';
import type { VerificationFacts } from '../state/values.ts';
import { copyGauges } from './copy-gauges.ts';
import { type ArchiveFacts, isWatched, type MailboxFacts } from './facts.ts';
import { labelled } from './gauges.ts';
import { RunMetrics } from './run-metrics.ts';

export interface MetricsPorts {
  readonly version: string;
  readonly now: () => number;
  /** Asked for each metric of a scrape: remember what costs something. */
  readonly facts: () => ArchiveFacts;
}

/**
 * What monitoring wants to know, for Prometheus. Labels carry resource ids, account names, operations, codes and where
 * copies are: never an address of mail, but in the one metric that is shown only when it is asked for.
 */
export class Metrics extends RunMetrics {
  readonly #addresses = new Registry();
  constructor(ports: MetricsPorts) {
    super(ports.version);
    this.#gauges(ports);
  }

  /** Returns the text format of Prometheus. With addresses, one more metric shows which mailbox has which. */
  override async text(withAddresses: boolean): Promise<string> {
    const text = await super.text(false);
    return withAddresses ? `${text}\n${await this.#addresses.metrics()}` : text;
  }

  #gauges({ now, facts }: MetricsPorts): void {
    const registers = [this.registry];
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
      labelled(this.registry, `mailbox_${name}`, help, ['host', 'mailbox'], () =>
        facts().mailboxes.map((mailbox) => {
          const { host, resourceId } = mailbox;
          return [{ host, mailbox: resourceId }, read(mailbox)];
        }),
      );
    const since = (at: number): number => Math.max(0, now() - at) / 1_000;

    gauge('messages', 'Distinct messages in the archive', (all) => all.messages);
    gauge('message_bytes', 'Bytes of their raw sources', (all) => all.messageBytes);
    gauge('log_bytes', 'Size of the log on disk', (all) => all.logBytes);
    gauge('catalog_bytes', 'Size of the catalog on disk', (all) => all.catalogBytes);
    gauge('messages_not_searchable', 'Stored, and not indexed yet', (all) => all.pending);
    verificationGauges(gauge);
    copyGauges(this.registry, () => facts().copies, now);
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
      this.registry,
      'limiter_requests_per_minute',
      'The rate that refusals have taught; absent while there were none',
      ['gate'],
      () => facts().limiters.map(({ gate, learnedPerMinute }) => [{ gate }, learnedPerMinute]),
    );
    labelled(
      this.registry,
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
