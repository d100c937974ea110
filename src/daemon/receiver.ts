import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { Hono } from 'hono';
import { errnoOf, MailkeepError } from '../core/errors.ts';
import { type ListenerLimits, listenOn } from '../core/listener.ts';
import type { StoredWebhook } from '../core/secrets.ts';
import { type DeliveryHint, readDelivery } from '../service/platform-wire.ts';

/** A webhook whose deliveries are believed, as `mailkeep webhooks create` stored it. */
export type KnownWebhook = Omit<StoredWebhook, 'secret' | 'createdAt'> & {
  readonly secret: Pick<StoredWebhook['secret'], 'reveal'>;
};

/** A webhook with what its secret is compared by. */
interface Entry {
  readonly webhook: KnownWebhook;
  readonly digest: Buffer;
}

/** The `/` of an address of which a reverse proxy passes on nothing but the end. */
const PLAIN_PATHS = ['/', '/webhook'];

/** The webhooks whose deliveries are believed. Read again when one comes that none of them explains. */
class KnownSecrets implements Secrets<KnownWebhook> {
  readonly learnsCheaply = false;
  readonly #morePaths: readonly string[];
  /** Secrets are compared by their keyed hashes: of one length, and of no use to whoever could time them. */
  readonly #key = randomBytes(32);
  #entries: readonly Entry[] = [];
  #paths: ReadonlySet<string> = new Set(PLAIN_PATHS);
  #reading: Promise<void> | null = null;
  #next: Promise<void> | null = null;

  /** @param urls other addresses of the receiver, such as the configuration's `webhook.publicUrl` */
  constructor(
    private readonly read: () => Promise<readonly KnownWebhook[]>,
    urls: readonly string[],
  ) {
    this.#morePaths = urls.flatMap(pathOf);
  }

  get size(): number {
    return this.#entries.length;
  }

  isPath(path: string): boolean {
    return this.#paths.has(path);
  }

  /** The webhook whose secret this is. Takes the same time whichever it is, and when it is none. */
  match(secret: string): KnownWebhook | undefined {
    const digest = this.#digest(secret);
    let found: KnownWebhook | undefined;
    for (const { webhook, digest: known } of this.#entries) {
      if (timingSafeEqual(digest, known)) found = webhook;
    }
    return found;
  }

  /** Reads the webhooks again, and not before now: what was stored before the call is known after it. */
  learn(): Promise<void> {
    if (this.#reading === null) {
      this.#reading = this.#load().finally(() => {
        this.#reading = null;
      });
      return this.#reading;
    }
    const again = (): Promise<void> => {
      this.#next = null;
      return this.learn();
    };
    this.#next ??= this.#reading.then(again, again);
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

/** Those whose deliveries are believed, by the secrets that these carry. */
export interface Secrets<Sender extends { readonly id: string }> {
  isPath(path: string): boolean;
  /** Whose secret this is, as far as is known. Takes the same time whichever it is, and when it is none. */
  match(secret: string): Sender | undefined;
  /**
   * Learns what there is, or, given a secret, what may explain that one.
   *
   * @throws MailkeepError where that cannot be read; what was known stays
   */
  learn(secret: string | null): Promise<void>;
  /** Whether strangers may cause it as often as they like. */
  readonly learnsCheaply: boolean;
}

/**
 * The bytes of a request's body, or null when there are more than `most`: the rest is not read then.
 *
 * @throws what the connection ended with, when it did
 */
async function readAtMost(request: Request, most: number): Promise<Buffer | null> {
  if (Number(request.headers.get('content-length') ?? 0) > most) return null;
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of request.body ?? []) {
    length += chunk.length;
    if (length > most) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Why a request was not taken as a delivery. */
type RefusalReason =
  | 'path'
  | 'method'
  | 'secret'
  | 'rate'
  | 'too-large'
  | 'broken'
  /** It cannot be found out whose secret it is. */
  | 'unavailable';

const EVERY_MS = 60_000;

/** Says at most once a minute that requests are refused, and how many since it last did: anybody can send them. */
class RefusalTally {
  readonly #since = new Map<RefusalReason, { at: number; times: number }>();

  /** Counts a refusal and returns how many to report now; 0 for none. */
  note(reason: RefusalReason, now: number): number {
    const known = this.#since.get(reason);
    if (known !== undefined && now - known.at < EVERY_MS && now >= known.at) {
      known.times += 1;
      return 0;
    }
    this.#since.set(reason, { at: now, times: 0 });
    return 1 + (known?.times ?? 0);
  }
}

interface Rate {
  /** How many may come at once. */
  readonly burst: number;
  readonly perSecond: number;
}

/** Lets so many through, and refills with time. A clock that goes back refills nothing and breaks nothing. */
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

  /** Takes one; the milliseconds until there is one again when there is none, else 0. */
  take(now: number): number {
    const { burst, perSecond } = this.rate;
    const passed = Math.max(0, now - this.#at) / 1_000;
    this.#tokens = Math.min(burst, this.#tokens + passed * perSecond);
    this.#at = now;
    if (this.#tokens < 1) return Math.ceil(((1 - this.#tokens) / perSecond) * 1_000);
    this.#tokens -= 1;
    return 0;
  }
}

/** What is worth a line in a log. None of it holds a secret, an address or anything that a stranger sent. */
export type ReceiverEvent =
  | { readonly event: 'delivery'; readonly webhook: string; readonly bytes: number }
  | { readonly event: 'refused'; readonly reason: RefusalReason; readonly times: number }
  | { readonly event: 'secrets-unreadable'; readonly code: string }
  /** A bug: the sender got a 500. Whether it sends again is its affair; the schedule finds the mail either way. */
  | { readonly event: 'failed'; readonly error: unknown };

interface ReceptionLimits {
  readonly bodyBytes: number;
  /**
   * Of one webhook. A burst is a mailing list's: the hints before it have the same mailbox compared already, and
   * what is refused may never come again, since retries of the service are not documented.
   */
  readonly deliveries: Rate;
  /** Of all who know no secret, together. */
  readonly strangers: Rate;
}

interface ReceptionPorts<Sender> {
  /** Must only take note: the answer waits for it. What the delivery says is a mere hint. */
  readonly onDelivery: (sender: Sender, delivery: DeliveryHint) => void;
  readonly log: (event: ReceiverEvent) => void;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/** However many strangers guess, a webhook that was created meanwhile is known after this long. */
const LEARN_MS = 5_000;
/** When a sender may try again, in milliseconds. */
const UNAVAILABLE_MS = 30_000;

const STATUS: Readonly<Record<RefusalReason, number>> = {
  path: 404,
  method: 405,
  secret: 401,
  rate: 429,
  'too-large': 413,
  broken: 400,
  unavailable: 503,
};

/** Decides about one request after the other. Whoever is not believed learns nothing but a status. */
class Reception<Sender extends { readonly id: string }> {
  readonly #refusals = new RefusalTally();
  readonly #strangers: TokenBucket;
  /** By webhook. */
  readonly #buckets = new Map<string, TokenBucket>();
  readonly #unreadable = new RefusalTally();
  #learntAt: number;

  constructor(
    private readonly known: Secrets<Sender>,
    private readonly limits: ReceptionLimits,
    private readonly ports: ReceptionPorts<Sender>,
  ) {
    this.#strangers = new TokenBucket(limits.strangers, ports.now());
    this.#learntAt = ports.now();
  }

  async answer(request: Request): Promise<Response> {
    const path = new URL(request.url).pathname;
    const secret = bearerOf(request.headers.get('authorization'));
    // What can be no delivery is answered without reading anything, and takes nothing from those that may be one.
    if (request.method === 'POST' && secret !== null && !this.#explains(path, secret)) {
      const refused = await this.#unexplained(path, secret);
      if (refused !== undefined) return refused;
    }
    if (!this.known.isPath(path)) return this.#refuse('path');
    if (request.method !== 'POST') return this.#refuse('method');
    const sender = secret === null ? undefined : this.known.match(secret);
    return sender === undefined ? this.#refuse('secret') : this.#take(request, sender);
  }

  /** Learns whose secrets there are, or whose this one is; returns false where that fails. Those known so far stay. */
  async learn(secret: string | null): Promise<boolean> {
    const { now, log } = this.ports;
    this.#learntAt = now();
    try {
      await this.known.learn(secret);
      return true;
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
      if (this.#unreadable.note('unavailable', now()) > 0) {
        log({ event: 'secrets-unreadable', code: error.code });
      }
      return false;
    }
  }

  /** Perhaps it was created a moment ago. */
  async #unexplained(path: string, secret: string): Promise<Response | undefined> {
    const { known, ports } = this;
    if (known.learnsCheaply) {
      if (!known.isPath(path)) return undefined;
      const isLearnt = await this.learn(secret);
      if (this.#explains(path, secret)) return undefined;
      if (!isLearnt) return this.#refuse('unavailable', UNAVAILABLE_MS);
      const waitMs = this.#strangers.take(ports.now());
      return waitMs > 0 ? this.#refuse('rate', waitMs) : undefined;
    }
    // Reading costs, so strangers may make us do it only so often.
    const waitMs = this.#strangers.take(ports.now());
    if (waitMs === 0 || this.#isLearningDue()) await this.learn(null);
    return waitMs > 0 && !this.#explains(path, secret) ? this.#refuse('rate', waitMs) : undefined;
  }

  #isLearningDue(): boolean {
    const passed = this.ports.now() - this.#learntAt;
    // Below 0 the clock was set back.
    return passed >= LEARN_MS || passed < 0;
  }

  #explains(path: string, secret: string | null): boolean {
    return secret !== null && this.known.isPath(path) && this.known.match(secret) !== undefined;
  }

  async #take(request: Request, sender: Sender): Promise<Response> {
    const { onDelivery, log, now } = this.ports;
    const waitMs = this.#bucket(sender.id).take(now());
    if (waitMs > 0) return this.#refuse('rate', waitMs);
    let body: Buffer | null;
    try {
      body = await readAtMost(request, this.limits.bodyBytes);
    } catch (error) {
      if (errnoOf(error) === undefined && !request.signal.aborted) throw error;
      return this.#refuse('broken');
    }
    // The secret identifies the mailbox: that much is worth knowing even when the rest is too long.
    onDelivery(sender, readDelivery(parsed(body)));
    if (body === null) return this.#refuse('too-large');
    log({ event: 'delivery', webhook: sender.id, bytes: body.length });
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
    case 'unavailable':
      return { 'retry-after': String(Math.ceil(waitMs / 1_000)) };
    case 'too-large':
      // What is left of the body is not read.
      return { connection: 'close' };
    case 'path':
    case 'broken':
      return {};
  }
}

/** RFC 6750: the scheme in any case, one space, and a token without spaces. */
function bearerOf(authorization: string | null): string | null {
  return /^bearer +([^\s]+)$/i.exec(authorization ?? '')?.[1] ?? null;
}

function parsed(body: Buffer | null): unknown {
  try {
    return body === null ? null : JSON.parse(body.toString('utf8'));
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

export type Hint = Readonly<ReturnType<typeof hintOf>>;

interface Listening {
  readonly listen: { readonly host: string; readonly port: number };
  readonly limits?: Partial<ReceptionLimits & ListenerLimits>;
}

export interface ReceiverOptions
  extends Omit<ReceptionPorts<KnownWebhook>, 'onDelivery'>,
    Listening {
  /** Must only take note: the answer waits for it. */
  readonly onHint: (hint: Hint) => void;
  /**
   * The webhooks to believe (`storedWebhooks` of the archive). Asked at the start, and when a delivery comes that
   * none of them explains.
   */
  readonly secrets: () => Promise<readonly KnownWebhook[]>;
  /** Address under which the service reaches this receiver, if configured. */
  readonly publicUrl?: string | null;
}

export type Receiver = Awaited<ReturnType<typeof listenOn>>;

const LIMITS: ReceptionLimits = {
  bodyBytes: 262_144,
  deliveries: { burst: 300, perSecond: 20 },
  strangers: { burst: 60, perSecond: 1 },
};

/**
 * Receives the deliveries of webhooks. Whoever carries a stored secret in `Authorization: Bearer` is believed that
 * something may have arrived in the mailbox of that webhook; what the body says beyond that is a mere hint, and no
 * body is wrong. Everybody else gets a status and nothing more.
 *
 * Deliveries are taken on `/`, `/webhook`, the path of `publicUrl` and the paths that webhooks were created with.
 *
 * @throws cannot-listen
 */
export async function startReceiver(options: ReceiverOptions): Promise<Receiver> {
  const { secrets, publicUrl, onHint, ...rest } = options;
  const known = new KnownSecrets(secrets, typeof publicUrl === 'string' ? [publicUrl] : []);
  const onDelivery = (webhook: KnownWebhook, delivery: DeliveryHint): void =>
    onHint(hintOf(webhook, delivery, rest.now()));
  return receiveFor(known, { ...rest, onDelivery });
}

/**
 * Receives deliveries for whoever the secrets are of, by the same rules.
 *
 * @throws cannot-listen
 */
export async function receiveFor<Sender extends { readonly id: string }>(
  secrets: Secrets<Sender>,
  options: ReceptionPorts<Sender> & Listening,
): Promise<Receiver> {
  const { listen, limits = {}, ...ports } = options;
  const reception = new Reception(secrets, { ...LIMITS, ...limits }, ports);
  await reception.learn(null);
  const app = new Hono()
    .all('*', (context) => reception.answer(context.req.raw))
    .onError((error, context) => {
      ports.log({ event: 'failed', error });
      return context.body(null, 500);
    });
  const onError = (error: Error): void => ports.log({ event: 'failed', error });
  const fetch = (request: Request): Response | Promise<Response> => app.fetch(request);
  // Behind a proxy it may have any name: the secret decides.
  const clients = { kind: 'programs', names: null } as const;
  return listenOn({ section: 'webhook', listen, clients, fetch, onError, limits });
}

/** Returns what a webhook's delivery comes to: something may have arrived. Never data to store. */
function hintOf(
  { id, account, host, mailboxId, mailbox: address }: KnownWebhook,
  delivery: DeliveryHint,
  receivedAt: number,
) {
  const own = isOfMailbox(delivery, { id: mailboxId, address });
  return {
    /** The webhook whose secret the delivery carried, and the mailbox that it is for. */
    ...{ webhookId: id, account, host, resourceId: mailboxId, address },
    /** Where the delivery says the message is; null when it does not, or speaks of another mailbox. */
    folder: own ? delivery.folder : null,
    uid: own ? delivery.uid : null,
    /** Milliseconds since the epoch. */
    receivedAt,
  };
}

/** Whether a delivery may be about this mailbox: a secret speaks for its own mailbox only. */
export function isOfMailbox(
  { mailbox }: DeliveryHint,
  { id, address }: { readonly id: string; readonly address: string },
): boolean {
  return mailbox === null || mailbox === id || mailbox.toLowerCase() === address.toLowerCase();
}
