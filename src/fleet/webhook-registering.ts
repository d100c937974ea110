import { MailkeepError } from '../core/errors.ts';
import type { DaemonLog } from '../daemon/daemon-log.ts';
import { isSameAddress, type PlannedMailbox, planWebhooks } from '../daemon/delivery-watch.ts';
import type { DaemonClock } from '../daemon/ports.ts';
import { readSecrets } from '../registry/reading.ts';
import { webhooksOf } from '../registry/webhook-reading.ts';
import { forgetWebhook, type KeptWebhook, keepWebhook } from '../registry/webhooks.ts';
import type { MailboxClient } from '../service/client.ts';
import type { WebhookWithSecretRecord } from '../service/mailbox-wire.ts';
import type { HeldArchive } from './held-archive.ts';
import { type FleetKeys, sealSecret, WEBHOOK_BY_HAND, webhookPurpose } from './secrets.ts';

/** The mailboxes of an account at its service. */
export interface RegisteredAccount {
  readonly client: Pick<
    MailboxClient,
    'host' | 'eachWebhook' | 'getWebhook' | 'createWebhook' | 'regenerateWebhookSecret'
  >;
  /** Those that are mirrored; undefined before the service has listed any. */
  readonly mailboxes: readonly PlannedMailbox[] | undefined;
}

export interface RegisteringOptions {
  readonly held: HeldArchive;
  readonly fleet: string;
  readonly keys: () => FleetKeys;
  /** Where the service is to deliver to. */
  readonly url: string;
  readonly account: () => RegisteredAccount;
  readonly clock: Pick<DaemonClock, 'monotonic'>;
  /** Of the moment: aborted while no request may be begun. */
  readonly signal: () => AbortSignal;
  readonly log: Pick<DaemonLog, 'say' | 'fail'>;
}

/** Until the service is asked again whether webhooks are there, in milliseconds; sooner if that failed. */
const AGAIN_MS = 86_400_000;
const FAILED_MS = 3_600_000;
const NAME = 'mailkeep';

/**
 * Sees to it that each mailbox of a held archive has one webhook that delivers to the fleet. What exists is in the registry,
 * so that a takeover asks the service for nothing; and before one is created, the service is asked for those at the same
 * address. Such a one, whose secret an earlier holder could not store, gets a new secret and stays the only one.
 */
export class WebhookRegistering {
  #dueAt = Number.NEGATIVE_INFINITY;
  #isFirst = true;
  #looking: Promise<void> = Promise.resolve();
  #isBusy = false;

  constructor(private readonly options: RegisteringOptions) {}

  /** Looks if it is time, and logs what fails: it is due again later. */
  look(): void {
    const now = this.options.clock.monotonic();
    if (this.#isBusy || now < this.#dueAt) return;
    this.#isBusy = true;
    this.#looking = this.#look(now).finally(() => {
      this.#isBusy = false;
    });
  }

  /** Resolves when nothing is under way. */
  async idle(): Promise<void> {
    await this.#looking;
  }

  async #look(now: number): Promise<void> {
    const { account, held, url, log, signal } = this.options;
    const { mailboxes, client } = account();
    if (mailboxes === undefined) return;
    const ending = signal();
    this.#dueAt = now + FAILED_MS;
    try {
      const kept = await webhooksOf(held.registry, held.lease.archive);
      const own = kept.filter(({ host }) => host === client.host);
      const has = new Set(
        own.filter((one) => isSameAddress(one.url, url)).map((one) => one.mailboxId),
      );
      // After a takeover, what the registry has is believed until the next day.
      const asked = this.#isFirst
        ? mailboxes.filter(({ resourceId }) => !has.has(resourceId))
        : mailboxes;
      let failed = false;
      for (const mailbox of asked) {
        ending.throwIfAborted();
        failed = !(await this.#mailbox(mailbox, own, ending)) || failed;
      }
      if (failed) return;
      this.#isFirst = false;
      this.#dueAt = now + AGAIN_MS;
    } catch (error) {
      if (ending.aborted) return;
      if (!(error instanceof MailkeepError)) throw error;
      log.fail('error', 'webhooks could not be registered', error);
    }
  }

  /** Returns false if the service refused something: the other mailboxes are seen to all the same. */
  async #mailbox(
    mailbox: PlannedMailbox,
    own: readonly KeptWebhook[],
    signal: AbortSignal,
  ): Promise<boolean> {
    const { log, held } = this.options;
    try {
      await this.#register(mailbox, own, signal);
      return true;
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof MailkeepError) || error.family !== 'origin') throw error;
      const { archive } = held.lease;
      log.say('warn', 'a webhook could not be registered', {
        ...{ archive, mailbox: mailbox.resourceId, code: error.code },
      });
      return false;
    }
  }

  async #register(
    mailbox: PlannedMailbox,
    own: readonly KeptWebhook[],
    signal: AbortSignal,
  ): Promise<void> {
    const { account, url, held } = this.options;
    const { client } = account();
    const { resourceId, address } = mailbox;
    const listed = [];
    for await (const hook of client.eachWebhook(resourceId, { signal })) {
      listed.push({ ...hook, mailbox: address });
    }
    const mine = own.filter(({ mailboxId }) => mailboxId === resourceId);
    const [step] = planWebhooks([mailbox], mine, listed, url).steps;
    for (const id of step?.missing ?? []) {
      // A list may be wrong, and a secret that was forgotten cannot be had again.
      if (await this.#isThere(resourceId, id, signal)) return;
      await forgetWebhook(held.registry, held.lease, { id, purpose: webhookPurpose(id) });
    }
    if (step?.act !== 'create') return;
    const same = listed.find((hook) => isSameAddress(hook.url, url));
    if (same === undefined) {
      const fields = { name: NAME, url, events: ['message.received' as const] };
      await this.#keep(mailbox, await client.createWebhook(resourceId, fields, { signal }));
      return;
    }
    if (await this.#isByHand()) return;
    const at = { mailbox: resourceId, webhookId: same.id };
    await this.#keep(mailbox, await client.regenerateWebhookSecret(at, { signal }));
  }

  async #isThere(mailbox: string, webhookId: string, signal: AbortSignal): Promise<boolean> {
    try {
      await this.options.account().client.getWebhook({ mailbox, webhookId }, { signal });
      return true;
    } catch (error) {
      if (error instanceof MailkeepError && error.facts.status === 404) return false;
      throw error;
    }
  }

  /** Somebody made the webhooks of this account, and gave the fleet their secret. */
  async #isByHand(): Promise<boolean> {
    const { registry, lease } = this.options.held;
    const secrets = await readSecrets(registry, lease.archive);
    return secrets.some(({ purpose }) => purpose === WEBHOOK_BY_HAND);
  }

  /** If this is refused, another session holds the archive, and finds the webhook at its address. */
  async #keep(
    { resourceId, address }: PlannedMailbox,
    { id, url, secret }: WebhookWithSecretRecord,
  ): Promise<void> {
    const { held, fleet, keys, account, log } = this.options;
    const { archive } = held.lease;
    const sealed = sealSecret(keys(), { fleet, archive, purpose: webhookPurpose(id) }, secret);
    const { host } = account().client;
    const webhook = { id, host, mailboxId: resourceId, mailbox: address, url };
    const { outcome } = await keepWebhook(held.registry, held.lease, webhook, sealed);
    if (outcome !== 'committed') return;
    log.say('info', 'a webhook was registered', { archive, mailbox: resourceId, webhook: id });
  }
}
