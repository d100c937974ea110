import type { ServiceSettings } from '../settings.ts';
import type { Mailbox } from '../store/mailbox.ts';
import type { Arrival, Store } from '../store/store.ts';
import type { DeliveryOutcome, Send } from './deliver-once.ts';
import { backoff, byAge, type Delivery, DeliveryLog } from './delivery-log.ts';
import { arrivalPayload, testPayload } from './payload.ts';
import { uuidV7, type Webhook, type Webhooks } from './webhooks.ts';

/** Calls `act` after so many milliseconds, unless it is cancelled. */
export type Timer = (ms: number, act: () => void) => () => void;

export const realTimer: Timer = (ms, act) => {
  const handle = setTimeout(act, ms);
  return () => clearTimeout(handle);
};

export type DeliverySettings = Pick<
  ServiceSettings,
  'webhookAttempts' | 'webhookFirstRetryMs' | 'webhookLongestRetryMs'
>;

export interface DeliveryPorts {
  readonly store: Store;
  readonly webhooks: Webhooks;
  readonly settings: DeliverySettings;
  readonly send: Send;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly timer: Timer;
  readonly report: (error: unknown) => void;
}

/** Deliveries under way to one webhook at once; the others wait, so that one receiver holds up no other. */
const WIDTH = 4;
/** Deliveries that may wait in all; what comes on top is logged as failed without an attempt. */
const MOST_QUEUED = 10_000;

/** Where a queued delivery is: until when its timer runs, in line, being sent, or held while its webhook is paused. */
type Phase =
  | { readonly kind: 'timed'; readonly cancel: () => void }
  | { readonly kind: 'waiting' }
  | { readonly kind: 'sending'; readonly abort: AbortController }
  | { readonly kind: 'held' };

/**
 * Delivers arriving mail to the webhooks of its mailbox, at least once: a delivery is kept until the receiver
 * took it or the attempts ran out, over restarts as well. Every attempt goes to the URL and with the secret
 * the webhook has by then.
 */
export class Deliveries {
  readonly #log: DeliveryLog;
  readonly #phases = new Map<string, Phase>();
  /** By webhook: deliveries that are due, and how many are being sent. */
  readonly #lanes = new Map<string, { readonly waiting: string[]; sending: number }>();
  readonly #running = new Set<Promise<void>>();
  /** Test deliveries being sent, with the id of their webhook. */
  readonly #tests = new Map<AbortController, string>();
  #closed = false;

  constructor(private readonly ports: DeliveryPorts) {
    this.#log = new DeliveryLog(ports.store);
    ports.webhooks.events.on('changed', (webhook) => this.#changed(webhook));
    ports.webhooks.events.on('removed', (webhook) => this.#removed(webhook));
    ports.store.events.on('arrived', (arrival) => this.#arrived(arrival));
  }

  /** Takes up what was queued when the service stopped. */
  start(): void {
    for (const delivery of this.#log.queued()) {
      if (this.ports.webhooks.get(delivery.webhook) === null) this.#giveUp(delivery);
      else this.#schedule(delivery);
    }
  }

  /** What became of deliveries, and what is being tried again, newest first. */
  list(mailboxes: ReadonlySet<string>): Delivery[] {
    return [...this.#log.queued(), ...this.#log.finished()]
      .filter(({ mailbox, state, attempts }) => {
        return mailboxes.has(mailbox) && (state !== 'queued' || attempts > 0);
      })
      .sort(byAge);
  }

  /** One delivery of a sample, now, whatever the webhook's status. It is not retried; the log records it. */
  async test(mailbox: Mailbox, webhook: Webhook): Promise<DeliveryOutcome> {
    const { send, now } = this.ports;
    const createdAt = now();
    const abort = new AbortController();
    const body = JSON.stringify(testPayload(mailbox, createdAt));
    this.#tests.set(abort, webhook.id);
    const outcome = await send(webhook, body, abort.signal).finally(() => {
      this.#tests.delete(abort);
    });
    if (this.#closed) return outcome;
    this.#log.put({
      id: uuidV7(createdAt),
      webhook: webhook.id,
      mailbox: mailbox.resourceId,
      url: webhook.url,
      createdAt,
      state: outcome.success ? 'delivered' : 'failed',
      attempts: 1,
      maxAttempts: 1,
      durationMs: outcome.durationMs,
      nextAt: null,
      body: null,
    });
    return outcome;
  }

  /** Resolves once nothing is being sent. Retries may still be due later. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  /** Breaks off what is being sent; it stays queued, and a restart sends it again. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const phase of this.#phases.values()) stop(phase);
    for (const abort of this.#tests.keys()) abort.abort();
    await Promise.all(this.#running);
  }

  #arrived(arrival: Arrival): void {
    const { webhooks, store, settings, report } = this.ports;
    const { resourceId } = arrival.mailbox;
    const targets = webhooks
      .of(new Set([resourceId]))
      .filter(({ status, events }) => status === 'active' && events.includes('message.received'));
    if (targets.length === 0) return;
    // Nothing that goes wrong here may reach whoever brought the mail.
    try {
      const body = JSON.stringify(arrivalPayload(store, arrival));
      const createdAt = this.ports.now();
      for (const { id, url } of targets) {
        const full = this.#log.queuedCount >= MOST_QUEUED;
        const delivery: Delivery = {
          id: uuidV7(createdAt),
          webhook: id,
          mailbox: resourceId,
          url,
          createdAt,
          state: full ? 'failed' : 'queued',
          attempts: 0,
          maxAttempts: settings.webhookAttempts,
          durationMs: 0,
          nextAt: full ? null : createdAt,
          body: full ? null : body,
        };
        this.#log.put(delivery);
        if (!full) this.#schedule(delivery);
      }
    } catch (error) {
      report(error);
    }
  }

  #schedule(delivery: Delivery): void {
    const wait = (delivery.nextAt ?? 0) - this.ports.now();
    if (wait <= 0) {
      this.#line(delivery);
      return;
    }
    const cancel = this.ports.timer(wait, () => this.#line(delivery));
    this.#phases.set(delivery.id, { kind: 'timed', cancel });
  }

  #line(delivery: Delivery): void {
    this.#phases.set(delivery.id, { kind: 'waiting' });
    const lane = this.#lanes.get(delivery.webhook) ?? { waiting: [], sending: 0 };
    lane.waiting.push(delivery.id);
    this.#lanes.set(delivery.webhook, lane);
    this.#pump(delivery.webhook);
  }

  #pump(webhookId: string): void {
    const lane = this.#lanes.get(webhookId);
    if (lane === undefined || this.#closed) return;
    while (lane.sending < WIDTH) {
      const id = lane.waiting.shift();
      if (id === undefined) break;
      const delivery = this.#log.getQueued(id);
      // Given up in the meantime, or held and put in line again: only one of its places counts.
      if (delivery === null || this.#phases.get(id)?.kind !== 'waiting') continue;
      this.#begin(delivery, lane);
    }
    if (lane.waiting.length === 0 && lane.sending === 0) this.#lanes.delete(webhookId);
  }

  #begin(delivery: Delivery, lane: { sending: number }): void {
    const webhook = this.ports.webhooks.get(delivery.webhook);
    if (webhook === null || webhook.status === 'disabled' || delivery.body === null) {
      this.#giveUp(delivery);
      return;
    }
    if (webhook.status === 'paused') {
      this.#phases.set(delivery.id, { kind: 'held' });
      return;
    }
    const abort = new AbortController();
    this.#phases.set(delivery.id, { kind: 'sending', abort });
    lane.sending += 1;
    const run = this.ports
      .send(webhook, delivery.body, abort.signal)
      .then((outcome) => this.#attempted(delivery, webhook, outcome))
      .catch((error: unknown) => this.ports.report(error))
      .finally(() => {
        this.#running.delete(run);
        lane.sending -= 1;
        this.#pump(delivery.webhook);
      });
    this.#running.add(run);
  }

  #attempted(before: Delivery, webhook: Webhook, outcome: DeliveryOutcome): void {
    if (this.#closed) return;
    const { now, settings, webhooks } = this.ports;
    const attempts = before.attempts + 1;
    const done = {
      ...before,
      url: webhook.url,
      attempts,
      durationMs: outcome.durationMs,
      nextAt: null,
      body: null,
    };
    this.#phases.delete(before.id);
    const status = webhooks.get(before.webhook)?.status ?? 'disabled';
    if (outcome.success) this.#log.put({ ...done, state: 'delivered' });
    else if (attempts >= before.maxAttempts || status === 'disabled') {
      this.#log.put({ ...done, state: 'failed' });
    } else {
      const wait = backoff(attempts, settings.webhookFirstRetryMs, settings.webhookLongestRetryMs);
      const next: Delivery = { ...done, body: before.body, nextAt: now() + wait };
      this.#log.put(next);
      this.#schedule(next);
    }
  }

  /** Ends a queued delivery without another attempt. One that was never tried leaves nothing in the log. */
  #giveUp(delivery: Delivery): void {
    this.#phases.delete(delivery.id);
    if (delivery.attempts === 0) this.#log.remove(delivery.id);
    else this.#log.put({ ...delivery, state: 'failed', nextAt: null, body: null });
  }

  #changed(webhook: Webhook): void {
    for (const delivery of this.#queuedOf(webhook)) {
      const phase = this.#phases.get(delivery.id);
      if (webhook.status === 'active' && phase?.kind === 'held') this.#line(delivery);
      if (webhook.status === 'disabled' && phase?.kind !== 'sending') {
        if (phase !== undefined) stop(phase);
        this.#giveUp(delivery);
      }
    }
  }

  /** After this nothing goes out: timers are cancelled and what is being sent is broken off. */
  #removed(webhook: Webhook): void {
    for (const [abort, id] of this.#tests) if (id === webhook.id) abort.abort();
    for (const delivery of this.#queuedOf(webhook)) {
      const phase = this.#phases.get(delivery.id);
      if (phase !== undefined) stop(phase);
      // What is being sent counts as an attempt: #attempted logs it once it is broken off.
      if (phase?.kind !== 'sending') this.#giveUp(delivery);
    }
  }

  #queuedOf(webhook: Webhook): Delivery[] {
    return this.#log.queued().filter((delivery) => delivery.webhook === webhook.id);
  }
}

function stop(phase: Phase): void {
  if (phase.kind === 'timed') phase.cancel();
  if (phase.kind === 'sending') phase.abort.abort();
}
