import { hostname } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import packageJson from '../../package.json' with { type: 'json' };
import type { Reader } from '../catalog/open-reader.ts';
import { copiesError } from '../copies/errors.ts';
import type { Settings } from '../core/config-schema.ts';
import { describeFacts, type ErrorFamily, type MailkeepError } from '../core/errors.ts';
import { mailboxKey, type StateFile } from '../core/state.ts';
import type { MailboxKey } from '../core/types.ts';
import type { SyncResult } from '../sync/result.ts';
import { isExcludedMailbox } from '../sync/usage.ts';
import { recallQuota } from '../verify/archive-status.ts';
import type { CopyStatus } from '../verify/copy-facts.ts';
import { damageError } from '../verify/errors.ts';
import type { RunReport } from '../verify/facts.ts';
import { highestUsage, listCopyIssues, roundedPercent } from '../verify/issues.ts';
import { recallVerification } from '../verify/verification.ts';
import type { DaemonLog } from './daemon-log.ts';
import { errorOf, type WebhookFinding } from './delivery-watch.ts';
import { daemonError } from './errors.ts';
import type { Metrics } from './metrics.ts';
import {
  copySubject,
  type Failure,
  Notifier,
  type Observation,
  observationsFromRun,
} from './notifier.ts';
import type { DaemonClock, DaemonEvent } from './ports.ts';
import { failureOf, syncRunReport } from './runs.ts';

/** Hysteresis in percentage points, so that a mailbox close to the threshold is reported only once. */
const POINTS_BELOW = 2;

type MailboxQuota = ReturnType<typeof storedQuotas>[number];

/**
 * Returns the known quotas of watched mailboxes. A mailbox is identified by its address, followed by the host or
 * resource id if another watched mailbox has the same address.
 */
export function storedQuotas(
  { folders }: { readonly folders: Pick<Reader['catalog']['folders'], 'mailboxes'> },
  state: StateFile,
) {
  const watched = folders.mailboxes().filter((mailbox) => !isExcludedMailbox(state, mailbox));
  const byAddress = Map.groupBy(watched, ({ address }) => address);
  return watched.flatMap((known) => {
    const { host, mailbox, address } = known;
    const quota = recallQuota(state, known);
    if (quota === null) return [];
    const others = (byAddress.get(address) ?? []).filter((other) => other !== known);
    return [{ host, mailbox, name: distinctName(known, others), quota }];
  });
}

/** @param others mailboxes with the same address, at other services or earlier at this one */
function distinctName(
  { host, mailbox, address }: MailboxKey & { readonly address: string },
  others: readonly MailboxKey[],
): string {
  if (others.length === 0) return address;
  return `${address} (${others.some((other) => other.host === host) ? mailbox : host})`;
}

/** Reports which mailboxes are nearly full. @param warnPercent null clears all warnings */
export function quotaObservations(
  mailboxes: readonly MailboxQuota[],
  warnPercent: number | null,
): Observation[] {
  return mailboxes.flatMap(({ name, quota, ...key }): Observation[] => {
    const subject = { kind: 'quota' as const, name, id: mailboxKey(key) };
    const fullness = highestUsage(quota.resources);
    const percent = fullness === null ? 0 : roundedPercent(fullness.share);
    if (warnPercent === null || fullness === null || percent < warnPercent - POINTS_BELOW) {
      return [{ subject, failure: null }];
    }
    // Between the two thresholds, the last result still applies.
    if (percent < warnPercent) return [];
    const error = daemonError('mailbox-nearly-full', {
      address: name,
      quota: fullness.name,
      percent,
    });
    return [{ subject, failure: failureOf(error) }];
  });
}

export function webhookObservations(findings: readonly WebhookFinding[]): Observation[] {
  return findings.map((finding) => {
    const error = errorOf(finding);
    const subject = { kind: 'webhook' as const, name: finding.webhook.id };
    return { subject, failure: error === null ? null : failureOf(error) };
  });
}

function copyObservations(copies: readonly CopyStatus[]): Observation[] {
  return copies.map((copy) => {
    const { to, behind, copiedAt } = copy;
    const isStale = listCopyIssues(copy).some(({ kind }) => kind === 'copy-stale');
    const failure = isStale
      ? failureOf(copiesError('offsite-stale', { to, behind, copiedAt }))
      : null;
    return { subject: copySubject(to, 'stale'), failure };
  });
}

const TICK_MS = 60_000;
/** All syncs use one archive, so a failed write has the same subject in every run. */
const ARCHIVE = { kind: 'run', name: 'sync' } as const;

/** Damage is reported as a failed verification, however it was found. */
const VERIFICATION = { kind: 'run', name: 'verify' } as const;
const DAMAGED = 'archive-damaged';

function isAccountFailure(family: ErrorFamily): boolean {
  return family === 'auth' || family === 'origin' || family === 'config';
}

interface NotifyingOptions {
  readonly memory: Pick<StateFile, 'get' | 'set'>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Pick<DaemonClock, 'now' | 'after'>;
  readonly log: Pick<DaemonLog, 'say' | 'fail'>;
  readonly metrics: Pick<Metrics, 'notification'>;
  readonly quotas: () => readonly MailboxQuota[];
  readonly copies: () => readonly CopyStatus[];
  readonly accounts: () => readonly string[];
  /** Returns the percentage at which a mailbox is nearly full; null disables the warning. */
  readonly warnPercent: () => number | null;
}

export class Notifying {
  readonly #options: NotifyingOptions;
  #settings: Settings['notify'];
  /** The reason why each account is waiting. Not taken from runs, which can finish long before or after a change. */
  readonly #waiting = new Map<string, Failure>();
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
      this.#observeAll();
    } catch (error) {
      this.#options.log.fail('error', 'the state of the archive could not be checked', error);
    }
    this.#cancelTick = this.#options.clock.after(TICK_MS, () => this.#tick());
  }

  /** Observes all lasting conditions, so that newly opened channels also receive them. */
  #observeAll(): void {
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
    // A successful run does not disprove damage that it did not cover.
    const isDamaged = damage !== null && report.kind === VERIFICATION.name;
    const failures = isDamaged ? [{ account: null, mailbox: null, ...damage }] : report.failures;
    this.#notifier.onRun({ ...report, failures }, this.#observationsOf({ ...report, failures }));
    // A webhook's notification concerns one mailbox, and there can be many.
    if (report.kind !== 'hint') this.#observeQuotas();
    if (report.copy !== undefined) this.#observeCopies();
  }

  /**
   * Returns a finished run's observations. Omits mailboxes and accounts, because they were observed when their syncs
   * finished or they stopped, which can be after this run started.
   */
  #observationsOf(report: RunReport): Observation[] {
    if (report.accounts.length === 0) return observationsFromRun(report);
    if (report.outcome === 'interrupted') return [];
    const failed = report.failures.find(
      ({ mailbox, family }) => mailbox === null && !isAccountFailure(family),
    );
    if (failed !== undefined) {
      const { family, code, message } = failed;
      return [{ subject: ARCHIVE, failure: { family, code, message } }];
    }
    const accounts = report.accounts.filter((name) => !this.#waiting.has(name));
    return [ARCHIVE, ...accounts.map((name) => ({ kind: 'account' as const, name }))].map(
      (subject) => ({ subject, failure: null }),
    );
  }

  /** Observes only quotas read since the last check, because the service is asked only about once a day. */
  #observeQuotas(): void {
    const { quotas, warnPercent } = this.#options;
    const fresh = quotas().filter(
      (known) => this.#quotaAt.get(mailboxKey(known)) !== known.quota.at,
    );
    for (const known of fresh) this.#quotaAt.set(mailboxKey(known), known.quota.at);
    this.#notifier.observe(quotaObservations(fresh, warnPercent()));
  }

  /** Observes all copies, because one can become stale even if nothing runs. */
  #observeCopies(): void {
    this.#notifier.observe(copyObservations(this.#options.copies()));
  }

  /** Returns known damage as a failure, or null. Reads the state, because other processes also verify. */
  #observeDamage(): Failure | null {
    const damage = recallVerification(this.#options.memory)?.damage ?? null;
    if (damage === null) {
      // A verification that failed for another reason has not been disproved.
      this.#notifier.drop(
        ({ kind, name }, { code }) =>
          kind === VERIFICATION.kind && name === VERIFICATION.name && code === DAMAGED,
      );
      return null;
    }
    const failure = failureOf(damageError(damage));
    this.#notifier.observe([{ subject: VERIFICATION, failure }]);
    return failure;
  }

  /** Observes the results of syncs, listings and probes, whether or not a run waits for them. */
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
        const failure = { family, code, message: describeFacts(code, facts).message };
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

  /** @param isWhole true if mailboxes without a failure in the result are healthy */
  #observeMailboxes(result: SyncResult, isWhole: boolean): void {
    const run = { kind: ARCHIVE.name, accounts: [], startedAt: 0, endedAt: 0 };
    const report = syncRunReport(result, run);
    this.observe(
      observationsFromRun(isWhole ? report : { ...report, mailboxes: [] }).filter(
        ({ subject }) => subject.kind === 'mailbox',
      ),
    );
  }

  observe(observations: readonly Observation[]): void {
    if (!this.#closed) this.#notifier.observe(observations);
  }

  /** Applies new settings. Reports are stored by channel, so they are not repeated. */
  async configure(settings: Settings['notify']): Promise<void> {
    // The threshold and the channels may have changed.
    this.#quotaAt.clear();
    const channelKeys = ({ command, url }: Settings['notify']) => [command, url?.reveal()];
    if (!isDeepStrictEqual(channelKeys(settings), channelKeys(this.#settings))) {
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
    const { memory, env, clock, log, metrics } = this.#options;
    return new Notifier({
      ...settings,
      memory,
      env,
      now: clock.now,
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
}
