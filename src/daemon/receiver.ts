import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { Hono } from 'hono';
import { errnoOf, MailkeepError } from '../core/errors.ts';
import { type ListenerLimits, listenOn, readAtMost } from '../core/listener.ts';
import type { StoredWebhook } from '../core/secrets.ts';
import { type DeliveryHint, readDelivery } from '../service/platform-wire.ts';

/** A webhook whose deliveries are accepted, as stored by `mailkeep webhooks create`. */
export interface KnownWebhook extends Pick<StoredWebhook, 'id' | 'url' | 'mailboxId' | 'mailbox'> {
  readonly secret: Pick<StoredWebhook['secret'], 'reveal'>;
}

interface Entry {
  readonly webhook: KnownWebhook;
  readonly digest: Buffer;
}

/** `/` is for reverse proxies that strip the path. */
const PLAIN_PATHS = ['/', '/webhook'];

/** The accepted webhooks. They are reloaded if a delivery matches none. */
class KnownSecrets {
  readonly #morePaths: readonly string[];
  /** Key for comparing secrets as hashes, which have the same length and leak nothing through timing. */
  readonly #key = randomBytes(32);
  #entries: readonly Entry[] = [];
  #paths: ReadonlySet<string> = new Set(PLAIN_PATHS);
  #reading: Promise<void> = Promise.resolve();
  /** The reading that waits for the current one to end. */
  #next: Promise<void> | null = null;

  /** @param urls other URLs of the receiver, such as `webhook.publicUrl` in the configuration */
  constructor(
    private readonly read: () => Promise<readonly KnownWebhook[]>,
    urls: readonly string[],
  ) {
    this.#morePaths = urls.flatMap(pathOf);
  }

  isPath(path: string): boolean {
    return this.#paths.has(path);
  }

  match(secret: string): KnownWebhook | undefined {
    const digest = this.#digest(secret);
    let found: KnownWebhook | undefined;
    for (const { webhook, digest: known } of this.#entries) {
      if (timingSafeEqual(digest, known)) found = webhook;
    }
    return found;
  }

  /** Reloads the webhooks. Afterwards, all webhooks stored before the call are known. */
  learn(): Promise<void> {
    this.#next ??= this.#reading
      .catch(() => {})
      .then(() => {
        this.#next = null;
        return this.#load();
      });
    this.#reading = this.#next;
    return this.#next;
  }

  async #load(): Promise<void> {
    const webhooks = await this.read();
    this.#entries = webhooks.map((webhook) => ({
      webhook,
      digest: this.#digest(webhook.secret.reveal()),
    }));
    this.#paths = new Set([
      ...PLAIN_PATHS,
      ...this.#morePaths,
      ...webhooks.flatMap(({ url }) => pathOf(url)),
    ]);
  }

  #digest(text: string): Buffer {
    return createHmac('sha256', this.#key).update(text).digest();
  }
}

function pathOf(url: string): string[] {
  return URL.canParse(url) ? [new URL(url).pathname] : [];
}

type RefusalReason = 'path' | 'method' | 'secret' | 'rate' | 'too-large' | 'broken';

const EVERY_MS = 60_000;

/** Reports the number of refused requests at most once per minute, because anyone can send them. */
class RefusalTally {
  readonly #counts = new Map<RefusalReason | 'secrets', { at: number; times: number }>();

  note(reason: RefusalReason | 'secrets', now: number): number {
    const known = this.#counts.get(reason);
    if (known !== undefined && now - known.at < EVERY_MS && now >= known.at) {
      known.times += 1;
      return 0;
    }
    this.#counts.set(reason, { at: now, times: 0 });
    return 1 + (known?.times ?? 0);
  }
}

interface Rate {
  readonly burst: number;
  readonly perSecond: number;
}

/** A token bucket, which is not refilled if the clock is set back. */
class TokenBucket {
  #tokens: number;
  #at: number;

  constructor(
    private readonly rate: Rate,
    now: number,
  ) {
    this.#tokens = rate.burst;
    this.#at = now;
  }

  /** Takes a token and returns 0. If there is none, returns the milliseconds until one is available. */
  take(now: number): number {
    const { burst, perSecond } = this.rate;
    const seconds = Math.max(0, now - this.#at) / 1_000;
    this.#tokens = Math.min(burst, this.#tokens + seconds * perSecond);
    this.#at = now;
    if (this.#tokens < 1) return Math.ceil(((1 - this.#tokens) / perSecond) * 1_000);
    this.#tokens -= 1;
    return 0;
  }
}

/** Events for a log. They contain no secrets, addresses or request data. */
export type ReceiverEvent =
  | { readonly event: 'delivery'; readonly webhook: string; readonly bytes: number }
  | { readonly event: 'refused'; readonly reason: RefusalReason; readonly times: number }
  | { readonly event: 'secrets-unreadable'; readonly code: string }
  /** An internal error, answered with 500. If the sender does not retry, scheduled syncs find the mail. */
  | { readonly event: 'failed'; readonly error: unknown };

interface ReceptionLimits {
  readonly bodyBytes: number;
  /**
   * Limit per webhook. The burst allows for mailing lists, because notifications are merged per mailbox. The service
   * may never repeat a refused delivery, because its retries are undocumented.
   */
  readonly deliveries: Rate;
  readonly strangers: Rate;
}

interface ReceptionPorts {
  /** The response waits for this, so it must return quickly. The content of a delivery is only a hint. */
  readonly onDelivery: (webhook: KnownWebhook, delivery: DeliveryHint) => void;
  readonly log: (event: ReceiverEvent) => void;
  readonly now: () => number;
}

/** Maximum delay before a new webhook is accepted, however many guesses arrive. */
const LEARN_MS = 5_000;

const STATUS: Readonly<Record<RefusalReason, number>> = {
  path: 404,
  method: 405,
  secret: 401,
  rate: 429,
  'too-large': 413,
  broken: 400,
};

/** Accepts or refuses each request. Unauthenticated clients see only a status code. */
class Reception {
  readonly #refusals = new RefusalTally();
  readonly #guesses: TokenBucket;
  readonly #buckets = new Map<string, TokenBucket>();
  #learntAt: number;

  constructor(
    private readonly known: KnownSecrets,
    private readonly limits: ReceptionLimits,
    private readonly ports: ReceptionPorts,
  ) {
    this.#guesses = new TokenBucket(limits.strangers, ports.now());
    this.#learntAt = ports.now();
  }

  async answer(request: Request): Promise<Response> {
    const path = new URL(request.url).pathname;
    const secret = bearerOf(request.headers.get('authorization'));
    // Other requests are answered without loading secrets, and do not use up the limit for possible deliveries.
    if (request.method === 'POST' && secret !== null && !this.#isKnown(path, secret)) {
      const refusal = await this.#identify(path, secret);
      if (refusal !== undefined) return refusal;
    }
    if (!this.known.isPath(path)) return this.#refuse('path');
    if (request.method !== 'POST') return this.#refuse('method');
    const webhook = secret === null ? undefined : this.known.match(secret);
    return webhook === undefined ? this.#refuse('secret') : this.#take(request, webhook);
  }

  /** Loads all secrets. On failure, keeps the known ones. */
  async learn(): Promise<void> {
    const { now, log } = this.ports;
    this.#learntAt = now();
    try {
      await this.known.learn();
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
      if (this.#refusals.note('secrets', now()) > 0) {
        log({ event: 'secrets-unreadable', code: error.code });
      }
    }
  }

  async #identify(path: string, secret: string): Promise<Response | undefined> {
    const { now } = this.ports;
    // Loading is expensive, so unauthenticated clients can trigger it only at a limited rate.
    const waitMs = this.#guesses.take(now());
    const age = now() - this.#learntAt;
    // A negative age means that the clock was set back.
    if (waitMs === 0 || age >= LEARN_MS || age < 0) await this.learn();
    return waitMs > 0 && !this.#isKnown(path, secret) ? this.#refuse('rate', waitMs) : undefined;
  }

  #isKnown(path: string, secret: string | null): boolean {
    return secret !== null && this.known.isPath(path) && this.known.match(secret) !== undefined;
  }

  async #take(request: Request, webhook: KnownWebhook): Promise<Response> {
    const { onDelivery, log, now } = this.ports;
    const waitMs = this.#bucket(webhook.id).take(now());
    if (waitMs > 0) return this.#refuse('rate', waitMs);
    let body: Buffer | null;
    try {
      body = await readAtMost(request, this.limits.bodyBytes);
    } catch (error) {
      if (errnoOf(error) === undefined && !request.signal.aborted) throw error;
      return this.#refuse('broken');
    }
    // The secret identifies the mailbox, so the notification is accepted even if the body is too large.
    onDelivery(webhook, readDelivery(parseBody(body)));
    if (body === null) return this.#refuse('too-large');
    log({ event: 'delivery', webhook: webhook.id, bytes: body.length });
    return new Response(null, { status: 204 });
  }

  #bucket(webhook: string): TokenBucket {
    const known = this.#buckets.get(webhook);
    if (known !== undefined) return known;
    const bucket = new TokenBucket(this.limits.deliveries, this.ports.now());
    this.#buckets.set(webhook, bucket);
    return bucket;
  }

  #refuse(reason: RefusalReason, waitMs = 0): Response {
    const times = this.#refusals.note(reason, this.ports.now());
    if (times > 0) this.ports.log({ event: 'refused', reason, times });
    return new Response(null, { status: STATUS[reason], headers: headersOf(reason, waitMs) });
  }
}

function headersOf(reason: RefusalReason, waitMs: number): Record<string, string> {
  switch (reason) {
    case 'method':
      return { allow: 'POST' };
    case 'secret':
      return { 'www-authenticate': 'Bearer' };
    case 'rate':
      return { 'retry-after': String(Math.ceil(waitMs / 1_000)) };
    case 'too-large':
      // The rest of the body is not read.
      return { connection: 'close' };
    case 'path':
    case 'broken':
      return {};
  }
}

/** RFC 6750: the scheme in upper or lower case, spaces, and a token without spaces. */
function bearerOf(authorization: string | null): string | null {
  return /^bearer +([^\s]+)$/i.exec(authorization ?? '')?.[1] ?? null;
}

function parseBody(body: Buffer | null): unknown {
  try {
    return body === null ? null : JSON.parse(body.toString('utf8'));
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

export type DeliveredChange = Readonly<ReturnType<typeof hintOf>>;

export interface ReceiverOptions extends Omit<ReceptionPorts, 'onDelivery'> {
  readonly listen: { readonly host: string; readonly port: number };
  readonly limits?: Partial<ReceptionLimits & ListenerLimits>;
  /** The response waits for this, so it must return quickly. */
  readonly onHint: (hint: DeliveredChange) => void;
  /** Returns the accepted webhooks (`storedWebhooks`). Called on startup, and if a delivery matches none. */
  readonly secrets: () => Promise<readonly KnownWebhook[]>;
  readonly publicUrl?: string | null;
}

export type Receiver = Awaited<ReturnType<typeof listenOn>>;

const LIMITS: ReceptionLimits = {
  bodyBytes: 262_144,
  deliveries: { burst: 300, perSecond: 20 },
  strangers: { burst: 60, perSecond: 1 },
};

/**
 * Receives webhook deliveries. A request with a stored secret in `Authorization: Bearer` is accepted as a notification
 * for that webhook's mailbox. The body is only a hint, and can be anything. Other clients get only a status code.
 * Deliveries are accepted on `/`, `/webhook`, the path of `publicUrl` and the paths of created webhooks.
 *
 * @throws cannot-listen
 */
export async function startReceiver(options: ReceiverOptions): Promise<Receiver> {
  const { secrets, publicUrl, onHint, listen, limits = {}, log, now } = options;
  const known = new KnownSecrets(secrets, typeof publicUrl === 'string' ? [publicUrl] : []);
  const onDelivery = (webhook: KnownWebhook, delivery: DeliveryHint): void =>
    onHint(hintOf(webhook, delivery));
  const reception = new Reception(known, { ...LIMITS, ...limits }, { onDelivery, log, now });
  await reception.learn();
  const app = new Hono()
    .all('*', (context) => reception.answer(context.req.raw))
    .onError((error, context) => {
      log({ event: 'failed', error });
      return context.body(null, 500);
    });
  const onError = (error: Error): void => log({ event: 'failed', error });
  const fetch = (request: Request): Response | Promise<Response> => app.fetch(request);
  // Behind a proxy, requests can name any host, so only the secret decides.
  const clients = { kind: 'programs', names: null } as const;
  return listenOn({ section: 'webhook', listen, clients, fetch, onError, limits });
}

/** Returns a webhook delivery's notification, which is never stored as data. */
function hintOf({ mailboxId, mailbox: address }: KnownWebhook, delivery: DeliveryHint) {
  const isOwn = concernsMailbox(delivery, { id: mailboxId, address });
  return {
    /** The mailbox of the webhook identified by the delivery's secret. */
    resourceId: mailboxId,
    /** The message's folder, as given in the delivery; null if missing or about another mailbox. */
    folder: isOwn ? delivery.folder : null,
    uid: isOwn ? delivery.uid : null,
  };
}

/** Reports whether a delivery can concern this mailbox, because a secret is valid only for its own mailbox. */
function concernsMailbox(
  { mailbox }: DeliveryHint,
  { id, address }: { readonly id: string; readonly address: string },
): boolean {
  return mailbox === null || mailbox === id || mailbox.toLowerCase() === address.toLowerCase();
}
