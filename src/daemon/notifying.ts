import { hostname } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import packageJson from '../../package.json' with { type: 'json' };
import type { Reader } from '../catalog/open-reader.ts';
import { copiesError } from '../copies/errors.ts';
import type { Settings } from '../core/config-schema.ts';
import { webhookError } from '../core/error-tables.ts';
import { type ErrorFamily, type MailkeepError, sayFacts } from '../core/errors.ts';
import { mailboxKey, type StateFile } from '../core/state.ts';
import type { MailboxKey } from '../core/types.ts';
import type { SyncResult } from '../sync/result.ts';
import { isUnwatchedMailbox } from '../sync/usage.ts';
import { recalledQuota } from '../verify/archive-status.ts';
import { type CopyFacts, isStale } from '../verify/copy-facts.ts';
import { fullnessOf, percentOf, type RunReport } from '../verify/facts.ts';
import { damageError, recalledVerification } from '../verify/verification.ts';
import type { DaemonLog } from './daemon-log.ts';
import type { WebhookFinding } from './delivery-watch.ts';
import { daemonError } from './errors.ts';
import type { Metrics } from './metrics.ts';
import {
  copySubject,
  type Failure,
  Notifier,
  type NotifyMemory,
  type Observation,
  observationsOf,
} from './notifier.ts';
import type { DaemonClock, DaemonEvent } from './ports.ts';
import { failureOf, syncRunReport } from './runs.ts';

/** A mailbox is no longer nearly full this many points below the threshold, so that one that hovers is reported once. */
const POINTS_BELOW = 2;

type MailboxQuota = ReturnType<typeof rememberedQuotas>[number];

/**
 * Returns the quotas that are remembered, of mailboxes that the configuration watches. The name of a mailbox is its
 * address; with its host or its resource id where another watched mailbox has the same address.
 */
export function rememberedQuotas(
  { folders }: { readonly folders: Pick<Reader['catalog']['folders'], 'mailboxes'> },
  state: StateFile,
) {
  const watched = folders.mailboxes().filter((mailbox) => !isUnwatchedMailbox(state, mailbox));
  const byAddress = Map.groupBy(watched, ({ address }) => address);
  return watched.flatMap((known) => {
    const { host, mailbox, address } = known;
    const quota = recalledQuota(state, known);
    if (quota === null) return [];
    const others = (byAddress.get(address) ?? []).filter((other) => other !== known);
    return [{ host, mailbox, name: nameAmong(known, others), quota }];
  });
}

/** @param others mailboxes with the same address: at other services, or at this one before it was created again */
function nameAmong(
  { host, mailbox, address }: MailboxKey & { readonly address: string },
  others: readonly MailboxKey[],
): string {
  if (others.length === 0) return address;
  return `${address} (${others.some((other) => other.host === host) ? mailbox : host})`;
}

/**
 * Which mailboxes are nearly full, for those who are to be notified.
 *
 * @param warnPercent null warns of none, and ends warnings
 */
export function quotaObservations(
  mailboxes: readonly MailboxQuota[],
  warnPercent: number | null,
): Observation[] {
  return mailboxes.flatMap(({ name, quota, ...key }): Observation[] => {
    const subject = { kind: 'quota' as const, name, id: mailboxKey(key) };
    const fullness = fullnessOf(quota.resources);
    const percent = fullness === null ? 0 : percentOf(fullness.share);
    if (warnPercent === null || fullness === null || percent < warnPercent - POINTS_BELOW) {
      return [{ subject, failure: null }];
    }
    // In between, what was found last holds.
    if (percent < warnPercent) return [];
    const error = daemonError('mailbox-nearly-full', {
      address: name,
      quota: fullness.name,
      percent,
    });
    return [{ subject, failure: failureOf(error) }];
  });
}

/** What findings about webhooks mean for those who are to be notified. */
export function webhookObservations(findings: readonly WebhookFinding[]): Observation[] {
  return findings.map((finding) => {
    const error = errorOf(finding);
    const subject = { kind: 'webhook' as const, name: finding.webhook.id };
    return { subject, failure: error === null ? null : failureOf(error) };
  });
}

/** Why a webhook does not deliver, as an error; null when it does. */
export function errorOf({
  webhook,
  state,
  status,
  failures,
}: WebhookFinding): MailkeepError | null {
  const { id } = webhook;
  switch (state) {
    case 'well':
      return null;
    case 'missing':
      return webhookError('webhook-missing', { id });
    case 'off':
      return webhookError('webhook-off', { id, status: status ?? '' });
    case 'failing':
      return webhookError('webhook-failing', { id, failures });
  }
}

function copyObservations(copies: readonly CopyFacts[], now: number): Observation[] {
  return copies.map((copy) => {
    const { to, behind, made } = copy;
    const copiedAt = made === null ? null : new Date(made.at).toISOString();
    return {
      subject: copySubject(to, 'stale'),
      failure: isStale(copy, now)
        ? failureOf(copiesError('offsite-stale', { to, behind, copiedAt }))
        : null,
    };
  });
}

/** How often to check what has become due. */
const TICK_MS = 60_000;
/** Passes share one archive: a failure to write it has one subject, whatever the runs were for. */
const ARCHIVE = { kind: 'run', name: 'sync' } as const;

/** Damage is a failure of verification, whoever made it. */
const VERIFICATION = { kind: 'run', name: 'verify' } as const;
const DAMAGED = 'archive-damaged';

/** Whether a failure of passes stops one account only, which then waits, and not the archive. */
function isOfAccount(family: ErrorFamily): boolean {
  return family === 'auth' || family === 'origin' || family === 'config';
}

interface NotifyingOptions {
  readonly memory: Pick<StateFile, 'get' | 'set'>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Pick<DaemonClock, 'now' | 'after'>;
  readonly log: Pick<DaemonLog, 'say' | 'fail'>;
  readonly metrics: Pick<Metrics, 'notification'>;
  readonly quotas: () => readonly MailboxQuota[];
  readonly copies: () => readonly CopyFacts[];
  readonly accounts: () => readonly string[];
  /** From how many percent on a mailbox is nearly full; null: never. */
  readonly warnPercent: () => number | null;
}

/** The daemon's notifications, by the configuration of the moment. */
export class Notifying {
  readonly #options: NotifyingOptions;
  #settings: Settings['notify'];
  /** By account: why it waits. Its state decides, since runs may end long before or after it changes. */
  readonly #waiting = new Map<string, Failure>();
  /** By mailbox: when the quota that was observed last was said. */
  readonly #quotaAt = new Map<string, string>();
  #cancelTick: () => void = () => {};
  #notifier: Notifier;
  #closed = false;

  constructor(settings: Settings['notify'], options: NotifyingOptions) {
    this.#settings = settings;
    this.#options = options;
    this.#notifier = this.#open(settings);
    this.#tick();
  }

  #tick(): void {
    try {
      this.#look();
    } catch (error) {
      this.#options.log.fail('error', 'the state of the archive could not be checked', error);
    }
    this.#cancelTick = this.#options.clock.after(TICK_MS, () => this.#tick());
  }

  /** Observes everything that lasts, so that a channel which was opened just now gets it too. */
  #look(): void {
    const accounts = this.#options.accounts();
    for (const name of this.#waiting.keys()) {
      if (!accounts.includes(name)) this.#waiting.delete(name);
    }
    this.#notifier.drop(({ kind, name }) => kind === 'account' && !accounts.includes(name));
    this.#notifier.observe(
      [...this.#waiting].map(([name, failure]) => ({
        subject: { kind: 'account', name },
        failure,
      })),
    );
    this.#observeDamage();
    this.#observeQuotas();
    this.#observeCopies();
    this.#notifier.tick();
  }

  onRun(report: RunReport): void {
    if (this.#closed) return;
    const damage = this.#observeDamage();
    // A run that did not cover what is damaged ends well, which is no news that the damage is gone.
    const failing = damage !== null && report.kind === VERIFICATION.name;
    const failures = failing ? [{ account: null, mailbox: null, ...damage }] : report.failures;
    this.#notifier.onRun({ ...report, failures }, this.#seenBy({ ...report, failures }));
    // A hint concerns one mailbox, and hints may be many.
    if (report.kind !== 'hint') this.#observeQuotas();
    if (report.copy !== undefined) this.#observeCopies();
  }

  /**
   * Returns what the end of a run says. What it found of mailboxes was observed when their passes ended, and why an
   * account waits when it stopped: the run may be older than both.
   */
  #seenBy(report: RunReport): Observation[] {
    const isOfPasses = report.accounts.length > 0;
    if (!isOfPasses) return observationsOf(report);
    const failures = report.failures
      .filter(({ mailbox, family }) => mailbox === null && !isOfAccount(family))
      .map((failure) => ({ ...failure, account: null }));
    const accounts =
      failures.length > 0 ? [] : report.accounts.filter((name) => !this.#waiting.has(name));
    return observationsOf({
      ...report,
      kind: ARCHIVE.name,
      failures,
      outcome: failures.length > 0 ? 'failed' : report.outcome,
      accounts,
      mailboxes: [],
    });
  }

  /** Only what the service has said since the last look: it is asked once a day or so. */
  #observeQuotas(): void {
    const { quotas, warnPercent } = this.#options;
    const fresh = quotas().filter(
      (known) => this.#quotaAt.get(mailboxKey(known)) !== known.quota.at,
    );
    for (const known of fresh) this.#quotaAt.set(mailboxKey(known), known.quota.at);
    this.#notifier.observe(quotaObservations(fresh, warnPercent()));
  }

  /** A copy becomes old by itself: no run says so. */
  #observeCopies(): void {
    const { copies, clock } = this.#options;
    this.#notifier.observe(copyObservations(copies(), clock.now()));
  }

  /**
   * Takes note of the damage that is known, and returns it as a failure; null where none is. Verifications and repairs
   * are made by other processes as well: the archive's state has what they found.
   */
  #observeDamage(): Failure | null {
    const damage = recalledVerification(this.#options.memory)?.damage ?? null;
    if (damage === null) {
      this.#notifier.settle(VERIFICATION, DAMAGED);
      return null;
    }
    const failure = failureOf(damageError(damage));
    this.#notifier.observe([{ subject: VERIFICATION, failure }]);
    return failure;
  }

  /** Observes what passes, surveys and probes find, whether or not a run waits for them. */
  onEvent(event: DaemonEvent): void {
    switch (event.event) {
      case 'account-recovered': {
        const { account: name } = event;
        this.#waiting.delete(name);
        this.observe([{ subject: { kind: 'account', name }, failure: null }]);
        return;
      }
      case 'account-stopped': {
        const { account: name } = event;
        const { family, code, facts } = event.failure;
        const failure = { family, code, message: sayFacts(code, facts).message };
        this.#waiting.set(name, failure);
        this.observe([{ subject: { kind: 'account', name }, failure }]);
        return;
      }
      case 'archive-failed':
        this.archiveFailed(event.error);
        return;
      case 'pass-finished':
        this.#observeMailboxes(event.result, !event.isNarrow);
        return;
      case 'surveyed':
        this.#observeMailboxes(event.result, false);
    }
  }

  archiveFailed(error: MailkeepError): void {
    this.observe([{ subject: ARCHIVE, failure: failureOf(error) }]);
  }

  /** @param isWhole everything that the result has no failure of is well */
  #observeMailboxes(result: SyncResult, isWhole: boolean): void {
    const run = { kind: ARCHIVE.name, accounts: [], startedAt: 0, endedAt: 0 };
    const { mailboxes, failures, ...report } = syncRunReport(result, run);
    this.observe(
      observationsOf({
        ...report,
        failures: failures.filter(({ mailbox }) => mailbox !== null),
        mailboxes: isWhole ? mailboxes : [],
      }).filter(({ subject }) => subject.kind === 'mailbox'),
    );
  }

  observe(observations: readonly Observation[]): void {
    if (!this.#closed) this.#notifier.observe(observations);
  }

  /** Continues with other addresses. What was reported is remembered by channel, and not reported again. */
  async configure(settings: Settings['notify']): Promise<void> {
    // The threshold may be another, and so may the channels.
    this.#quotaAt.clear();
    const shown = ({ command, url }: Settings['notify']) => [command, url?.reveal()];
    if (!isDeepStrictEqual(shown(settings), shown(this.#settings))) {
      await this.#notifier.close();
      this.#settings = settings;
      this.#notifier = this.#open(settings);
    }
    if (this.#closed) return;
    this.#cancelTick();
    this.#tick();
  }

  idle(): Promise<void> {
    return this.#notifier.idle();
  }

  async close(): Promise<void> {
    this.#cancelTick();
    this.#closed = true;
    await this.#notifier.close();
  }

  #open(settings: Settings['notify']): Notifier {
    const { clock, ...rest } = this.#options;
    return openNotifier(settings, { ...rest, now: clock.now });
  }
}

/** Opens the notifications of a process, which are logged and counted. */
export function openNotifier(
  settings: Settings['notify'],
  {
    memory,
    env,
    now,
    log,
    metrics,
  }: Pick<NotifyingOptions, 'env' | 'log' | 'metrics'> & {
    readonly memory: NotifyMemory;
    readonly now: () => number;
  },
): Notifier {
  return new Notifier({
    ...settings,
    memory,
    env,
    now,
    host: hostname(),
    version: packageJson.version,
    onSent: (channel, event, outcome) => {
      metrics.notification(channel, outcome.sent ? 'sent' : 'failed');
      const line = { channel, event };
      if (!outcome.sent) {
        log.say('warn', 'a notification could not be sent', { ...line, reason: outcome.reason });
      } else log.say(event === 'alive' ? 'debug' : 'info', 'notified', line);
    },
    onError: (error) =>
      log.fail('error', 'a notification could not be created or remembered', error),
  });
}
