import { hostname } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import packageJson from '../../package.json' with { type: 'json' };
import type { Settings } from '../config/settings.ts';
import type { CopyFacts } from '../health/copies.ts';
import type { Metrics } from '../health/metrics.ts';
import type { RunReport } from '../health/run-report.ts';
import { damageError, recalledVerification } from '../health/verification.ts';
import { Notifier, type NotifyMemory } from '../notify/notifier.ts';
import type { Failure, Observation } from '../notify/observation.ts';
import { mailboxKey } from '../state/scopes.ts';
import type { StateFile } from '../state/state-file.ts';
import { noticeSummary } from '../wording/notice.ts';
import type { DaemonLog } from './daemon-log.ts';
import { copyObservations, type MailboxQuota, quotaObservations } from './observations.ts';
import type { DaemonEvent } from './ports.ts';
import { failureOf } from './run-reports.ts';

/** How often it is asked what has become due. */
const TICK_MS = 60_000;

/** Damage is a failure of verification, whoever made it. */
const VERIFICATION = { kind: 'run', name: 'verify' } as const;
const DAMAGED = 'archive-damaged';

export interface NotifyingOptions {
  readonly memory: Pick<StateFile, 'get' | 'set'>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly now: () => number;
  readonly log: DaemonLog;
  readonly metrics: Pick<Metrics, 'notification'>;
  readonly quotas: () => readonly MailboxQuota[];
  readonly copies: () => readonly CopyFacts[];
  /** From how many percent on a mailbox is nearly full; null: never. */
  readonly warnPercent: () => number | null;
}

/** The daemon's notifications, by the configuration of the moment. */
export class Notifying {
  readonly #options: NotifyingOptions;
  #settings: Settings['notify'];
  /** By account: why its last run failed, which is all that is known while it waits. */
  readonly #why = new Map<string, Failure>();
  /** By mailbox: when the quota that was observed last was said. */
  readonly #quotaAt = new Map<string, string>();
  readonly #timer: NodeJS.Timeout;
  #notifier: Notifier;
  #closed = false;

  constructor(settings: Settings['notify'], options: NotifyingOptions) {
    this.#settings = settings;
    this.#options = options;
    this.#notifier = this.#open(settings);
    this.#timer = setInterval(() => {
      this.#observeDamage();
      this.#observeQuotas();
      this.#observeCopies();
      this.#notifier.tick();
    }, TICK_MS);
    this.#observeDamage();
    this.#observeQuotas();
    this.#observeCopies();
  }

  onRun(report: RunReport): void {
    for (const { account, mailbox, family, code, message } of report.failures) {
      if (account !== null && mailbox === null) this.#why.set(account, { family, code, message });
    }
    if (this.#closed) return;
    const damage = this.#observeDamage();
    // A run that did not cover what is damaged ends well, which is no news that the damage is gone.
    const failing = damage !== null && report.kind === VERIFICATION.name;
    this.#notifier.onRun(
      failing ? { ...report, failures: [{ account: null, mailbox: null, ...damage }] } : report,
    );
    // A hint concerns one mailbox, and hints may be many.
    if (report.kind !== 'hint') this.#observeQuotas();
    if (report.copy !== undefined) this.#observeCopies();
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
    const { copies, now } = this.#options;
    this.#notifier.observe(copyObservations(copies(), now()));
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

  /** An account that waits has no runs: each try that fails is news of it all the same. */
  onEvent(event: DaemonEvent): void {
    if (event.event === 'account-recovered') {
      const { account: name } = event;
      this.#why.delete(name);
      this.observe([{ subject: { kind: 'account', name }, failure: null }]);
    }
    if (event.event !== 'account-stopped') return;
    const { account: name, trouble } = event;
    const failure = this.#why.get(name);
    if (failure?.code === trouble.code) {
      this.observe([{ subject: { kind: 'account', name }, failure }]);
    }
  }

  observe(observations: readonly Observation[]): void {
    if (!this.#closed) this.#notifier.observe(observations);
  }

  /** Continues with other addresses. What was reported is remembered by channel, and not reported again. */
  async configure(settings: Settings['notify']): Promise<void> {
    // The threshold may be another, and so may the channels.
    this.#quotaAt.clear();
    const shown = ({ command, url }: Settings['notify']) => [command, url?.reveal()];
    if (isDeepStrictEqual(shown(settings), shown(this.#settings))) return;
    await this.#notifier.close();
    this.#settings = settings;
    this.#notifier = this.#open(settings);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#closed = true;
    await this.#notifier.close();
  }

  #open(settings: Settings['notify']): Notifier {
    return openNotifier(settings, this.#options);
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
  }: Pick<NotifyingOptions, 'env' | 'now' | 'metrics'> & {
    readonly memory: NotifyMemory;
    readonly log: Pick<DaemonLog, 'say' | 'fail'>;
  },
): Notifier {
  return new Notifier({
    ...settings,
    memory,
    env,
    now,
    host: hostname(),
    version: packageJson.version,
    summarise: noticeSummary,
    onSent: (channel, event, outcome) => {
      metrics.notification(channel, outcome.sent ? 'sent' : 'failed');
      const line = { channel, event };
      if (!outcome.sent) {
        log.say('warn', 'a notification could not be sent', { ...line, reason: outcome.reason });
      } else log.say(event === 'alive' ? 'debug' : 'info', 'notified', line);
    },
    onError: (error) => log.fail('error', 'a notification could not be created', error),
  });
}
