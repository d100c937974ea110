import { errnoOf, MailkeepError } from '../errors/mailkeep-error.ts';
import { readDelivery } from '../wire/delivery.ts';
import { readAtMost } from './body.ts';
import type { Hint, KnownWebhook } from './hint.ts';
import type { KnownSecrets } from './known-secrets.ts';
import { type RefusalReason, RefusalTally } from './refusals.ts';
import { type Rate, TokenBucket } from './token-bucket.ts';

/** What is worth a line in a log. None of it holds a secret, an address or anything that a stranger sent. */
export type ReceiverEvent =
  | { readonly event: 'delivery'; readonly webhook: string; readonly bytes: number }
  | { readonly event: 'refused'; readonly reason: RefusalReason; readonly times: number }
  | { readonly event: 'secrets-unreadable'; readonly code: string }
  /** A bug: the sender got a 500. Whether it sends again is its affair; the schedule finds the mail either way. */
  | { readonly event: 'failed'; readonly error: unknown };

export interface ReceptionLimits {
  readonly bodyBytes: number;
  /**
   * Of one webhook. A burst is a mailing list's: the hints before it have the same mailbox compared already, and
   * what is refused may never come again, since retries of the service are not documented.
   */
  readonly deliveries: Rate;
  /** Of all who know no secret, together. */
  readonly strangers: Rate;
}

export interface ReceptionPorts {
  /** Must only take note: the answer waits for it. */
  readonly onHint: (hint: Hint) => void;
  readonly log: (event: ReceiverEvent) => void;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/** However many strangers guess, a webhook that was created meanwhile is known after this long. */
const RELOAD_MS = 5_000;

const STATUS: Readonly<Record<RefusalReason, number>> = {
  path: 404,
  method: 405,
  secret: 401,
  rate: 429,
  'too-large': 413,
  broken: 400,
};

/** Decides about one request after the other. Whoever is not believed learns nothing but a status. */
export class Reception {
  readonly #known: KnownSecrets;
  readonly #limits: ReceptionLimits;
  readonly #ports: ReceptionPorts;
  readonly #refusals = new RefusalTally();
  readonly #strangers: TokenBucket;
  /** By webhook. */
  readonly #buckets = new Map<string, TokenBucket>();
  #reloadedAt: number;

  constructor(known: KnownSecrets, limits: ReceptionLimits, ports: ReceptionPorts) {
    this.#known = known;
    this.#limits = limits;
    this.#ports = ports;
    this.#strangers = new TokenBucket(limits.strangers, ports.now());
    this.#reloadedAt = ports.now();
  }

  async answer(request: Request): Promise<Response> {
    const path = new URL(request.url).pathname;
    const secret = bearerOf(request.headers.get('authorization'));
    // What can be no delivery is answered without reading anything, and takes nothing from those that may be one.
    if (request.method === 'POST' && secret !== null && !this.#explains(path, secret)) {
      // Perhaps it was created a moment ago. Reading costs, so strangers may make us do it only so often.
      const waitMs = this.#strangers.take(this.#ports.now());
      if (waitMs === 0 || this.#isReloadDue()) await this.reload();
      if (waitMs > 0 && !this.#explains(path, secret)) return this.#refuse('rate', waitMs);
    }
    if (!this.#known.isPath(path)) return this.#refuse('path');
    if (request.method !== 'POST') return this.#refuse('method');
    const webhook = secret === null ? undefined : this.#known.match(secret);
    return webhook === undefined ? this.#refuse('secret') : this.#take(request, webhook);
  }

  /** Reads the webhooks again; where that fails, those known so far stay. */
  async reload(): Promise<void> {
    this.#reloadedAt = this.#ports.now();
    try {
      await this.#known.reload();
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
      this.#ports.log({ event: 'secrets-unreadable', code: error.code });
    }
  }

  #isReloadDue(): boolean {
    const passed = this.#ports.now() - this.#reloadedAt;
    // Below 0 the clock was set back.
    return passed >= RELOAD_MS || passed < 0;
  }

  #explains(path: string, secret: string | null): boolean {
    return secret !== null && this.#known.isPath(path) && this.#known.match(secret) !== undefined;
  }

  async #take(request: Request, webhook: KnownWebhook): Promise<Response> {
    const { onHint, log, now } = this.#ports;
    const waitMs = this.#bucket(webhook.id).take(now());
    if (waitMs > 0) return this.#refuse('rate', waitMs);
    let body: Buffer | null;
    try {
      body = await readAtMost(request, this.#limits.bodyBytes);
    } catch (error) {
      if (errnoOf(error) === undefined && !request.signal.aborted) throw error;
      return this.#refuse('broken');
    }
    // The secret said which mailbox it is: that much is worth knowing even when the rest is too long.
    onHint(hintOf(webhook, body, now()));
    if (body === null) return this.#refuse('too-large');
    log({ event: 'delivery', webhook: webhook.id, bytes: body.length });
    return new Response(null, { status: 204 });
  }

  #bucket(webhook: string): TokenBucket {
    const known = this.#buckets.get(webhook);
    if (known !== undefined) return known;
    const bucket = new TokenBucket(this.#limits.deliveries, this.#ports.now());
    this.#buckets.set(webhook, bucket);
    return bucket;
  }

  #refuse(reason: RefusalReason, waitMs = 0): Response {
    const times = this.#refusals.note(reason, this.#ports.now());
    if (times > 0) this.#ports.log({ event: 'refused', reason, times });
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

function hintOf(webhook: KnownWebhook, body: Buffer | null, receivedAt: number): Hint {
  const { mailbox, folder, uid } = readDelivery(parsed(body));
  const { id, account, host, mailboxId, mailbox: address } = webhook;
  // A secret speaks for its own mailbox only.
  const own = mailbox === null || mailbox === mailboxId || sameAddress(mailbox, address);
  return {
    webhookId: id,
    account,
    host,
    resourceId: mailboxId,
    address,
    folder: own ? folder : null,
    uid: own ? uid : null,
    receivedAt,
  };
}

function sameAddress(a: string, b: string): boolean {
  return a.toLowerCase() === b.toLowerCase();
}

function parsed(body: Buffer | null): unknown {
  try {
    return body === null ? null : JSON.parse(body.toString('utf8'));
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}
