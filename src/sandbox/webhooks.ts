import { randomBytes } from 'node:crypto';
import { EventEmitter } from 'node:events';
import http, { type IncomingMessage } from 'node:http';
import https from 'node:https';
import { BlockList, isIP } from 'node:net';
import { z } from 'zod';
import { createWebhookRequest, updateWebhookRequest } from '../service/mailbox-wire.ts';
import type { DeliveryBody } from '../service/platform-wire.ts';
import type { Refusal, Reply } from '../service/surface.ts';
import type { ServiceSettings, ServiceState } from './sandbox.ts';
import type { Arrival, Mailbox, Store } from './store.ts';

/** Returns a version 7 UUID (RFC 9562, 5.7): milliseconds since the epoch in 48 bits, then random bits. */
function uuidV7(nowMs: number): string {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(Math.floor(nowMs), 0, 6);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x70, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

const webhookState = z.object({
  id: z.string(),
  mailbox: z.string(),
  name: z.string(),
  description: z.string().nullable(),
  events: z.array(z.string()),
  status: z.enum(['active', 'paused', 'disabled']),
  url: z.string(),
  secret: z.string(),
  /** Milliseconds since the epoch. */
  createdAt: z.number(),
  updatedAt: z.number(),
});
export type Webhook = z.infer<typeof webhookState>;

type WebhookFields = Pick<Webhook, 'name' | 'description' | 'events' | 'status' | 'url'>;

/** Emitted once a change has been stored. */
interface WebhookEvents {
  changed: [Webhook];
  removed: [Webhook];
}

const KIND = 'webhook';

export class Webhooks {
  readonly events = new EventEmitter<WebhookEvents>();
  readonly #byId = new Map<string, Webhook>();

  constructor(
    private readonly store: Store,
    private readonly now: () => number,
  ) {
    for (const [id, body] of store.documents(KIND)) this.#byId.set(id, webhookState.parse(body));
  }

  get(id: string): Webhook | null {
    return this.#byId.get(id.toLowerCase()) ?? null;
  }

  of(mailboxes: ReadonlySet<string>): Webhook[] {
    return [...this.#byId.values()].filter((webhook) => mailboxes.has(webhook.mailbox));
  }

  create(mailbox: Mailbox, fields: WebhookFields): Webhook {
    const now = this.now();
    return this.#keep({
      ...fields,
      id: uuidV7(now),
      mailbox: mailbox.resourceId,
      secret: newSecret(),
      createdAt: now,
      updatedAt: now,
    });
  }

  update(webhook: Webhook, change: Partial<WebhookFields>): Webhook {
    return this.#change({ ...webhook, ...change, updatedAt: this.now() });
  }

  /** The old secret becomes invalid immediately. */
  regenerateSecret(webhook: Webhook): Webhook {
    return this.#change({ ...webhook, secret: newSecret(), updatedAt: this.now() });
  }

  remove(webhook: Webhook): void {
    this.#byId.delete(webhook.id);
    this.store.removeDocument(KIND, webhook.id);
    this.events.emit('removed', webhook);
  }

  #change(webhook: Webhook): Webhook {
    this.#keep(webhook);
    this.events.emit('changed', webhook);
    return webhook;
  }

  #keep(webhook: Webhook): Webhook {
    this.#byId.set(webhook.id, webhook);
    this.store.putDocument(KIND, webhook.id, webhook);
    return webhook;
  }
}

function newSecret(): string {
  return `whsec_${randomBytes(32).toString('base64url')}`;
}

type DeliveryTarget = Pick<Webhook, 'url' | 'secret'>;

interface DeliveryOutcome {
  /** Null if there was no response. */
  readonly httpStatus: number | null;
  readonly success: boolean;
  /** Text from the endpoint, or the connection error. Never contains the secret. */
  readonly error: string | null;
  readonly durationMs: number;
}

/** Maximum bytes to read from a response, of which only the status matters. */
const MAX_ANSWER_BYTES = 64 * 1024;
const MAX_ERROR_CHARACTERS = 1000;

/**
 * POSTs JSON once. Never rejects if the receiver fails. Each delivery opens a new connection, because a reused one
 * fails when the receiver restarts. Does not follow redirects, because their targets would receive the secret.
 *
 * @param timeoutMs limits the whole exchange
 */
async function sendDelivery(
  target: DeliveryTarget,
  body: string,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<DeliveryOutcome> {
  const started = performance.now();
  const outcome = (httpStatus: number | null, error: string | null): DeliveryOutcome => ({
    httpStatus,
    success: error === null,
    error: error === null ? null : error.replaceAll(target.secret, '[secret]'),
    // To clients, a duration of zero means that there was no attempt.
    durationMs: Math.max(1, Math.round(performance.now() - started)),
  });
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    const answer = await post(target, body, AbortSignal.any([signal, timeout]));
    const status = answer.statusCode ?? 0;
    const text = await readStart(answer);
    if (status >= 200 && status < 300) return outcome(status, null);
    return outcome(status, `The endpoint answered ${status}${text === '' ? '' : `: ${text}`}`);
  } catch (error) {
    if (timeout.aborted) return outcome(null, `No answer within ${timeoutMs} ms`);
    if (signal.aborted) return outcome(null, 'The delivery was called off');
    return outcome(null, describeError(error));
  }
}

function post(target: DeliveryTarget, body: string, signal: AbortSignal): Promise<IncomingMessage> {
  const url = new URL(target.url);
  const { request } = url.protocol === 'https:' ? https : http;
  const headers = {
    'content-type': 'application/json',
    authorization: `Bearer ${target.secret}`,
    'user-agent': 'mailkeep-sandbox',
  };
  const options = {
    method: 'POST',
    agent: false,
    maxHeaderSize: MAX_ANSWER_BYTES,
    headers,
    signal,
  };
  return new Promise((resolve, reject) => {
    request(url, options, resolve)
      .on('error', reject)
      // A response that switches protocols emits neither a response nor an error.
      .on('close', () => reject(new Error('the connection was closed')))
      .end(body);
  });
}

/** Returns the start of a response as one line, even if reading the rest fails. */
async function readStart(body: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of body) {
      chunks.push(chunk);
      length += chunk.length;
      if (length >= MAX_ANSWER_BYTES) break;
    }
  } catch {
    // Use the data that has arrived.
  }
  return Buffer.concat(chunks)
    .toString('utf8', 0, MAX_ANSWER_BYTES)
    .replace(/[\p{Cc}\s]+/gu, ' ')
    .trim()
    .slice(0, MAX_ERROR_CHARACTERS);
}

function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = 'code' in error && typeof error.code === 'string' ? error.code : error.name;
  // If several addresses were tried, the error has a code but no message.
  return error.message === '' ? code : error.message;
}

/** An event for one webhook, with the state of its delivery. */
const deliveryState = z.object({
  id: z.string(),
  webhook: z.string(),
  mailbox: z.string(),
  url: z.string(),
  /** Milliseconds since the epoch. */
  createdAt: z.number(),
  state: z.enum(['queued', 'delivered', 'failed']),
  attempts: z.number(),
  maxAttempts: z.number(),
  durationMs: z.number(),
  /** Time of the next attempt, in milliseconds since the epoch. */
  nextAt: z.number().nullable(),
  /** JSON to send; null once finished. */
  body: z.string().nullable(),
});
export type Delivery = z.infer<typeof deliveryState>;

/** Sorts newest first. */
function compareAge(a: Delivery, b: Delivery): number {
  return b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1);
}

function backoff(attempts: number, firstMs: number, longestMs: number): number {
  return Math.min(longestMs, firstMs * 2 ** Math.min(attempts - 1, 30));
}

const DEFAULT_KEPT = 10_000;
const DELIVERY_KIND = 'delivery';

/** Stores deliveries. Queued deliveries resume after a restart. */
export class DeliveryLog {
  readonly #queued = new Map<string, Delivery>();
  readonly #finished = new Map<string, Delivery>();

  constructor(
    private readonly store: Store,
    private readonly kept = DEFAULT_KEPT,
  ) {
    for (const body of store.documents(DELIVERY_KIND).values())
      this.#hold(deliveryState.parse(body));
  }

  get queuedCount(): number {
    return this.#queued.size;
  }

  queued(): Delivery[] {
    return [...this.#queued.values()];
  }

  finished(): Delivery[] {
    return [...this.#finished.values()];
  }

  put(delivery: Delivery): void {
    this.store.putDocument(DELIVERY_KIND, delivery.id, delivery);
    this.#hold(delivery);
    for (const oldest of this.#finished.keys()) {
      if (this.#finished.size <= this.kept) break;
      this.remove(oldest);
    }
  }

  remove(id: string): void {
    this.store.removeDocument(DELIVERY_KIND, id);
    this.#queued.delete(id);
    this.#finished.delete(id);
  }

  #hold(delivery: Delivery): void {
    this.#queued.delete(delivery.id);
    if (delivery.state === 'queued') this.#queued.set(delivery.id, delivery);
    else this.#finished.set(delivery.id, delivery);
  }
}

function arrivalPayload(
  store: Store,
  { mailbox, folder, uid }: Arrival,
): Record<keyof DeliveryBody, unknown> {
  const entry = folder.get(uid);
  const data: unknown = entry === null ? {} : JSON.parse(store.records.messageJson(folder, entry));
  return { event: 'message.received', mailbox: mailbox.address, data };
}

function testPayload(mailbox: Mailbox, nowMs: number): DeliveryBody {
  return {
    event: 'message.received',
    mailbox: mailbox.address,
    data: {
      uid: 1,
      path: 'INBOX',
      date: new Date(nowMs).toISOString(),
      flags: [],
      unseen: true,
      size: 0,
      subject: 'Test delivery',
      from: { name: '', address: mailbox.address },
      to: [{ name: '', address: mailbox.address }],
      cc: [],
      bcc: [],
      messageId: null,
      inReplyTo: null,
      attachments: [],
    },
  };
}

/** Calls `act` after a delay. Returns a function that cancels it. */
export type Timer = (ms: number, act: () => void) => () => void;

export const realTimer: Timer = (ms, act) => {
  const handle = setTimeout(act, ms);
  return () => clearTimeout(handle);
};

interface DeliveryPorts {
  readonly store: Store;
  readonly webhooks: Webhooks;
  readonly settings: ServiceSettings;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly timer: Timer;
  readonly report: (error: unknown) => void;
}

/** Maximum concurrent deliveries per webhook. Other webhooks do not wait for a slow one. */
const WIDTH = 4;
/** Deliveries beyond this limit fail without an attempt. */
const MAX_QUEUED = 10_000;

/**
 * Reports new mail to the webhooks of its mailbox at least once. A delivery is kept, even across restarts, until it is
 * accepted or its attempts run out. Each attempt uses the webhook's current URL and secret.
 */
export class Deliveries {
  readonly #log: DeliveryLog;
  readonly #sending = new Map<string, Sending>();
  readonly #tests = new Map<AbortController, string>();
  #cancelTimer = (): void => {};
  #closed = false;

  constructor(private readonly ports: DeliveryPorts) {
    this.#log = new DeliveryLog(ports.store);
    ports.webhooks.events.on('changed', () => this.start());
    ports.webhooks.events.on('removed', (webhook) => this.#abortAll(webhook));
    ports.store.events.on('arrived', (arrival) => this.#enqueue(arrival));
  }

  /** Sends due deliveries, up to `WIDTH` per webhook, and sets a timer for the rest. */
  start(): void {
    this.#cancelTimer();
    if (this.#closed) return;
    const { webhooks, now, timer } = this.ports;
    let next = Number.POSITIVE_INFINITY;
    for (const delivery of this.#log.queued()) {
      if (this.#sending.has(delivery.id)) continue;
      const webhook = webhooks.get(delivery.webhook);
      const { body, nextAt } = delivery;
      if (webhook === null || webhook.status === 'disabled' || body === null)
        this.#giveUp(delivery);
      else if (webhook.status === 'paused') continue;
      else if (nextAt !== null && nextAt > now()) next = Math.min(next, nextAt);
      else if (this.#sendingTo(webhook).length < WIDTH) this.#send(delivery, webhook, body);
    }
    if (Number.isFinite(next)) this.#cancelTimer = timer(next - now(), () => this.start());
  }

  list(mailboxes: ReadonlySet<string>): Delivery[] {
    return [...this.#log.queued(), ...this.#log.finished()]
      .filter(({ mailbox, state, attempts }) => {
        return mailboxes.has(mailbox) && (state !== 'queued' || attempts > 0);
      })
      .sort(compareAge);
  }

  /** Sends a sample immediately, regardless of the webhook's status. Logged but not retried. */
  async test(mailbox: Mailbox, webhook: Webhook): Promise<DeliveryOutcome> {
    const { settings, now } = this.ports;
    const createdAt = now();
    const abort = new AbortController();
    const body = JSON.stringify(testPayload(mailbox, createdAt));
    this.#tests.set(abort, webhook.id);
    const outcome = await sendDelivery(webhook, body, settings.webhookTimeoutMs, abort.signal);
    this.#tests.delete(abort);
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

  /** Resolves once nothing is being sent. Retries may still be due. */
  async idle(): Promise<void> {
    while (this.#sending.size > 0) await this.#waitForRuns();
  }

  /** Aborts running deliveries, which remain queued for the next start. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelTimer();
    for (const { abort } of this.#sending.values()) abort.abort();
    for (const abort of this.#tests.keys()) abort.abort();
    await this.#waitForRuns();
  }

  #waitForRuns(): Promise<unknown> {
    return Promise.all([...this.#sending.values()].map(({ run }) => run));
  }

  #enqueue(arrival: Arrival): void {
    const { webhooks, store, settings, report } = this.ports;
    const { resourceId } = arrival.mailbox;
    const targets = webhooks
      .of(new Set([resourceId]))
      .filter(({ status, events }) => status === 'active' && events.includes('message.received'));
    if (targets.length === 0) return;
    // The mail itself must arrive even if this fails.
    try {
      const body = JSON.stringify(arrivalPayload(store, arrival));
      const createdAt = this.ports.now();
      for (const { id, url } of targets) {
        const isFull = this.#log.queuedCount >= MAX_QUEUED;
        const delivery: Delivery = {
          id: uuidV7(createdAt),
          webhook: id,
          mailbox: resourceId,
          url,
          createdAt,
          state: isFull ? 'failed' : 'queued',
          attempts: 0,
          maxAttempts: settings.webhookAttempts,
          durationMs: 0,
          nextAt: isFull ? null : createdAt,
          body: isFull ? null : body,
        };
        this.#log.put(delivery);
      }
      this.start();
    } catch (error) {
      report(error);
    }
  }

  #send(delivery: Delivery, webhook: Webhook, body: string): void {
    const abort = new AbortController();
    const { webhookTimeoutMs } = this.ports.settings;
    const run = sendDelivery(webhook, body, webhookTimeoutMs, abort.signal)
      .then((outcome) => this.#logAttempt(delivery, webhook, outcome))
      .catch((error: unknown) => this.ports.report(error))
      .finally(() => {
        this.#sending.delete(delivery.id);
        this.start();
      });
    this.#sending.set(delivery.id, { webhook: webhook.id, abort, run });
  }

  #sendingTo({ id }: Webhook): Sending[] {
    return [...this.#sending.values()].filter(({ webhook }) => webhook === id);
  }

  #logAttempt(delivery: Delivery, webhook: Webhook, outcome: DeliveryOutcome): void {
    if (this.#closed) return;
    const { now, settings, webhooks } = this.ports;
    const attempts = delivery.attempts + 1;
    const attempt = {
      ...delivery,
      url: webhook.url,
      attempts,
      durationMs: outcome.durationMs,
      nextAt: null,
      body: null,
    };
    const status = webhooks.get(delivery.webhook)?.status ?? 'disabled';
    if (outcome.success) this.#log.put({ ...attempt, state: 'delivered' });
    else if (attempts >= delivery.maxAttempts || status === 'disabled') {
      this.#log.put({ ...attempt, state: 'failed' });
    } else {
      const wait = backoff(attempts, settings.webhookFirstRetryMs, settings.webhookLongestRetryMs);
      this.#log.put({ ...attempt, body: delivery.body, nextAt: now() + wait });
    }
  }

  /** Gives up on a queued delivery. A delivery that was never attempted is not logged. */
  #giveUp(delivery: Delivery): void {
    if (delivery.attempts === 0) this.#log.remove(delivery.id);
    else this.#log.put({ ...delivery, state: 'failed', nextAt: null, body: null });
  }

  /** Aborts the running deliveries of a removed webhook. Each counts as an attempt, which #logAttempt logs. */
  #abortAll(webhook: Webhook): void {
    for (const [abort, id] of this.#tests) if (id === webhook.id) abort.abort();
    for (const { abort } of this.#sendingTo(webhook)) abort.abort();
    this.start();
  }
}

interface Sending {
  readonly webhook: string;
  readonly abort: AbortController;
  readonly run: Promise<void>;
}

/** Addresses of this machine and of private networks (RFC 6890). */
const INSIDE = new BlockList();
for (const [network, bits] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.168.0.0', 16],
] as const) {
  INSIDE.addSubnet(network, bits, 'ipv4');
}
for (const [network, bits] of [
  ['::', 127],
  ['fc00::', 7],
  ['fe80::', 10],
] as const) {
  INSIDE.addSubnet(network, bits, 'ipv6');
}

/**
 * Returns why a URL cannot be the target of a webhook, or null.
 *
 * @param url URL with http or https
 * @param local allows http and local targets
 */
export function targetProblem(url: string, local: boolean): string | null {
  const { protocol, hostname, username, password } = new URL(url);
  if (username !== '' || password !== '') return 'must not hold a user name or a password';
  if (local) return null;
  if (protocol !== 'https:') return 'must be an https URL';
  return isLocalHost(hostname) ? 'must not name this machine or a private network' : null;
}

function isLocalHost(hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
  switch (isIP(host)) {
    case 4:
      return INSIDE.check(host, 'ipv4');
    case 6:
      // BlockList also matches IPv4 addresses in IPv6 notation (::ffff:0:0/96).
      return INSIDE.check(host, 'ipv6');
    default:
      return host === 'localhost' || host.endsWith('.localhost');
  }
}

interface WebhookSurface<Call> {
  /** @throws Refusal */
  body<T extends z.ZodType>(call: Call, schema: T): z.output<T>;
  /** @throws Refusal */
  mailboxOf(call: Call): Mailbox;
  /** @throws Refusal */
  webhookOf(call: Call): { readonly mailbox: Mailbox; readonly webhook: Webhook };
  /** @throws Refusal if this mailbox cannot have a webhook */
  checkCreate(call: Call, mailbox: Mailbox): void;
  /** @param problem such as `must be an https URL` */
  urlRefusal(problem: string): Refusal;
  recordOf(mailbox: Mailbox, webhook: Webhook): object;
  reply(record: object, status?: number): Reply;
}

export function webhookOperations<Call extends { readonly service: ServiceState }>(
  surface: WebhookSurface<Call>,
) {
  const checkUrl = ({ service }: Call, url: string): void => {
    const problem = targetProblem(url, service.settings.localWebhooks);
    if (problem !== null) throw surface.urlRefusal(problem);
  };
  const withSecret = (mailbox: Mailbox, webhook: Webhook): object => ({
    ...surface.recordOf(mailbox, webhook),
    secret: webhook.secret,
  });
  return {
    /** Only this response contains the secret. */
    createWebhook(call: Call): Reply {
      const mailbox = surface.mailboxOf(call);
      const { name, description, events, status, url } = surface.body(call, createWebhookRequest);
      checkUrl(call, url);
      surface.checkCreate(call, mailbox);
      const webhook = call.service.webhooks.create(mailbox, {
        name,
        description: description ?? null,
        events: [...new Set(events)],
        status: status ?? 'active',
        url,
      });
      return surface.reply(withSecret(mailbox, webhook), 201);
    },

    getWebhook(call: Call): Reply {
      const { mailbox, webhook } = surface.webhookOf(call);
      return surface.reply(surface.recordOf(mailbox, webhook));
    },

    updateWebhook(call: Call): Reply {
      const { mailbox, webhook } = surface.webhookOf(call);
      const body = surface.body(call, updateWebhookRequest);
      const { name = webhook.name, url = webhook.url, status = webhook.status } = body;
      const { description = webhook.description, events = webhook.events } = body;
      if (body.url !== undefined) checkUrl(call, url);
      const change = { name, url, status, description, events: [...new Set(events)] };
      return surface.reply(
        surface.recordOf(mailbox, call.service.webhooks.update(webhook, change)),
      );
    },

    regenerateWebhookSecret(call: Call): Reply {
      const { mailbox, webhook } = surface.webhookOf(call);
      return surface.reply(withSecret(mailbox, call.service.webhooks.regenerateSecret(webhook)));
    },
  };
}
