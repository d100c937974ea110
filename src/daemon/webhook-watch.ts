import type { StoredWebhook } from '../config/webhook-secrets.ts';
import type { LoggedDelivery, LogMemory } from '../delivery-watch/delivery-log.ts';
import type { WebhookFinding } from '../delivery-watch/own-webhooks.ts';
import { watchDeliveries } from '../delivery-watch/watch.ts';
import { WebhookListing } from '../delivery-watch/webhook-listing.ts';
import { type AccountOrigin, orderOf } from '../engine/origins/account-origins.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import { selects } from '../mail/name-selection.ts';
import { webhookObservations } from './observations.ts';
import { PeriodicWatch } from './periodic-watch.ts';
import type { DaemonEvent } from './ports.ts';
import type { UsageWatchOptions } from './usage-watch.ts';

type Observations = ReturnType<typeof webhookObservations>;

export interface WebhookWatchOptions extends Omit<UsageWatchOptions, 'memory'> {
  /** Webhooks that were created from here. */
  readonly stored: () => Promise<readonly StoredWebhook[]>;
  readonly memory: LogMemory;
  readonly observe: (observations: Observations) => void;
}

/** The log of deliveries holds more than a quarter of an hour brings. */
const EVERY_MS = 15 * 60_000;
const FAILED = 'webhooks could not be looked at';
/** Deliveries that wait for the first list of an account's mailboxes. */
const MOST_PENDING = 1_000;

/**
 * Asks the platform surface now and then whether webhooks are there, active and delivering, and says what has changed.
 * Mailboxes whose deliveries no pass has followed are checked sooner: the receiver may have been down. Nothing depends
 * on it: the schedule finds mail that no webhook announces.
 */
export class WebhookWatch extends PeriodicWatch {
  /** What was said last, by webhook, and by account where it could not be asked for. */
  readonly #said = new Map<string, string>();
  /** By account and service. */
  readonly #listings = new Map<string, WebhookListing>();
  /** By account: deliveries that the log showed before it was known which mailboxes there are. */
  readonly #pending = new Map<string, readonly LoggedDelivery[]>();

  constructor(private readonly options: WebhookWatchOptions) {
    super(options, EVERY_MS, FAILED);
  }

  onEvent(event: DaemonEvent): void {
    if (event.event !== 'run-started' || this.#pending.size === 0) return;
    // The run queues its passes first: what is wanted sooner is moved, not made twice.
    const { accounts, after, log } = this.options;
    after(0, () => {
      if (this.stopping.aborted) return;
      try {
        for (const account of accounts()) this.#catchUp(account, []);
      } catch (error) {
        log.fail('error', FAILED, error);
      }
    });
  }

  protected override async round(): Promise<void> {
    const { accounts, stored } = this.options;
    const all = await stored();
    for (const account of accounts()) {
      const { name } = account.settings;
      const own = all.filter((hook) => hook.account === name && hook.host === account.mailbox.host);
      if (own.length > 0 && !this.stopping.aborted) await this.#account(account, own);
    }
  }

  async #account(account: AccountOrigin, own: readonly StoredWebhook[]): Promise<void> {
    const { memory, now, log, observe } = this.options;
    const signal = this.stopping;
    const { name } = account.settings;
    const { platform } = account;
    if (platform === null) {
      this.#change(name, 'no platform', () =>
        log.say('info', 'only the platform surface reports whether webhooks deliver', {
          account: name,
        }),
      );
      return;
    }
    try {
      const orderId = await orderOf(account, signal);
      const onNew = (deliveries: readonly LoggedDelivery[]): void =>
        this.#catchUp(account, deliveries);
      const listing = this.#listing(account);
      const asked = { account: name, orderId, platform, own, listing, memory, onNew, now, signal };
      const findings = await watchDeliveries(asked);
      this.#change(name, 'asked', () => {});
      for (const finding of findings) this.#report(name, finding);
      observe(webhookObservations(findings));
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof MailkeepError)) throw error;
      const { code } = error;
      this.#change(name, code, () =>
        log.say('warn', 'the platform surface does not report whether webhooks deliver', {
          account: name,
          code,
        }),
      );
    }
  }

  #listing({ settings, host }: AccountOrigin): WebhookListing {
    const key = `${settings.name} ${host}`;
    const known = this.#listings.get(key) ?? new WebhookListing();
    this.#listings.set(key, known);
    return known;
  }

  /** Has the mailboxes checked that no pass compared since a delivery, or an attempt at one. */
  #catchUp(account: AccountOrigin, deliveries: readonly LoggedDelivery[]): void {
    const { lastCompared, checkSooner, log } = this.options;
    const { settings, host, listing } = account;
    const { name } = settings;
    const all = [...(this.#pending.get(name) ?? []), ...deliveries];
    if (listing === undefined) {
      this.#pending.set(name, all.slice(0, MOST_PENDING));
      return;
    }
    this.#pending.delete(name);
    const latest = new Map<string, number>();
    for (const { mailbox, at } of all) {
      const address = mailbox.toLowerCase();
      latest.set(address, Math.max(at, latest.get(address) ?? 0));
    }
    // Those that were compared longest ago first: a log that is always wrong must not keep others waiting.
    const missed = listing.mailboxes
      .filter(({ address }) => latest.has(address.toLowerCase()))
      .filter(({ address }) => selects(settings.mailboxes, address))
      .map(({ resourceId, address }) => ({
        resourceId,
        deliveredAt: latest.get(address.toLowerCase()) ?? 0,
        comparedAt: lastCompared({ host, mailbox: resourceId }).at,
      }))
      .filter(({ deliveredAt, comparedAt }) => deliveredAt > comparedAt)
      .sort((a, b) => a.comparedAt - b.comparedAt)
      .map(({ resourceId }) => resourceId);
    if (missed.length === 0) return;
    const text = 'mail was delivered that no pass has followed: its mailboxes are checked sooner';
    log.say('info', text, { account: name, mailboxes: missed.length });
    checkSooner(name, missed);
  }

  #report(account: string, { webhook, state, status, failures }: WebhookFinding): void {
    const { log } = this.options;
    const line = { account, webhook: webhook.id, mailbox: webhook.mailboxId, state };
    const before = this.#said.get(webhook.id);
    this.#change(webhook.id, state, () => {
      if (state !== 'well') {
        const text =
          'a webhook does not deliver; the schedule finds mail that it does not announce';
        log.say('warn', text, { ...line, status, failures });
      } else if (before !== undefined) log.say('info', 'a webhook delivers again', line);
    });
  }

  #change(subject: string, state: string, say: () => void): void {
    if (this.#said.get(subject) === state) return;
    say();
    this.#said.set(subject, state);
  }
}
