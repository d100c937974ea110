import { MailkeepError } from '../core/errors.ts';
import { type AccountOrigin, hasApi } from '../sync/account-origins.ts';
import { accountFailure } from './accounts.ts';
import type { DaemonLog } from './daemon-log.ts';
import type { ChangeNotice, DaemonClock, DaemonEvent } from './ports.ts';

/** An account that cannot be watched, or refuses the sign-in, is tried again after this long at the earliest. */
const AGAIN_MS = 3_600_000;

interface Watch {
  readonly controller: AbortController;
  readonly ended: Promise<void>;
}

/**
 * Watches IMAP accounts for changes between scheduled syncs. A change is only a notification, like a webhook delivery:
 * syncing does not depend on it.
 */
export class MailboxWatches {
  readonly #watches = new Map<string, Watch>();
  /** Earliest time of another attempt, in milliseconds since the epoch. */
  readonly #notBefore = new Map<string, number>();
  #isClosed = false;

  constructor(
    private readonly options: {
      readonly accounts: () => readonly AccountOrigin[];
      readonly hint: (notice: ChangeNotice) => void;
      readonly clock: Pick<DaemonClock, 'now'>;
      readonly log: DaemonLog;
    },
  ) {}

  onEvent(event: DaemonEvent): void {
    // A finished sync shows that the sign-in works and the mailbox is known.
    if (event.event === 'pass-finished' || event.event === 'pass-preempted') {
      const works = event.event === 'pass-preempted' || accountFailure(event.result) === undefined;
      if (works) this.#start(event.mailbox.account);
    } else if (event.event === 'account-stopped' && event.problem.state === 'refused') {
      this.#watches.get(event.account)?.controller.abort();
    } else if (event.event === 'account-recovered') this.#notBefore.delete(event.account);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const watches = [...this.#watches.values()];
    for (const { controller } of watches) controller.abort();
    await Promise.all(watches.map(({ ended }) => ended));
  }

  #start(name: string): void {
    const { clock, accounts } = this.options;
    const account = accounts().find(({ settings }) => settings.name === name);
    if (account === undefined || hasApi(account) || this.#isClosed) return;
    const wait = (this.#notBefore.get(name) ?? 0) - clock.now();
    // A longer wait is from before the clock was set back.
    if (this.#watches.has(name) || (wait > 0 && wait <= AGAIN_MS)) return;
    const controller = new AbortController();
    const { origin, settings } = account;
    const notice = { account: name, resourceId: settings.imap.id };
    const ended = origin
      .watch(() => this.options.hint(notice), controller.signal)
      .then((end) => this.#rest(name, end))
      .catch((error: unknown) => this.#failed(name, error, controller.signal))
      .finally(() => this.#watches.delete(name));
    this.#watches.set(name, { controller, ended });
    this.options.log.say('debug', 'an account is watched for changes', { account: name });
  }

  #rest(account: string, reason: string): void {
    this.#notBefore.set(account, this.options.clock.now() + AGAIN_MS);
    const text = 'an account cannot be watched for changes; its schedule finds them';
    this.options.log.say('info', text, { account, reason });
  }

  #failed(account: string, error: unknown, signal: AbortSignal): void {
    // The daemon stops, has stopped the account, or has closed its connections to apply a new configuration.
    const isClosed = error instanceof Error && error.name === 'AbortError';
    if (signal.aborted || isClosed) return;
    if (error instanceof MailkeepError) this.#rest(account, error.code);
    else this.options.log.fail('error', 'an account could not be watched for changes', error);
  }
}
