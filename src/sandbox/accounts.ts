import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { Mailbox, Store } from './store.ts';

const orderRecord = z.object({ id: z.string(), userId: z.string() });
export type Order = z.infer<typeof orderRecord>;

export class Orders {
  readonly #byId = new Map<string, Order>();

  constructor(private readonly store: Store) {
    for (const [id, body] of store.documents('order')) this.#byId.set(id, orderRecord.parse(body));
  }

  get(id: string): Order | null {
    return this.#byId.get(id) ?? null;
  }

  put(order: Order): void {
    this.#byId.set(order.id, order);
    this.store.putDocument('order', order.id, order);
  }

  /** Returns the mailbox if it belongs to one of the user's orders. */
  mailboxOfUser(resourceId: string, userId: string): Mailbox | null {
    const mailbox = this.store.mailboxes.get(resourceId);
    if (mailbox === undefined) return null;
    return this.get(mailbox.orderId)?.userId === userId ? mailbox : null;
  }

  mailboxesOf(order: Order): Mailbox[] {
    return [...this.store.mailboxes.values()].filter((mailbox) => mailbox.orderId === order.id);
  }
}

const standingRecord = z.object({
  status: z.enum(['active', 'suspended']),
  /** Milliseconds since the epoch. */
  createdAt: z.number(),
  updatedAt: z.number(),
});
type Standing = z.infer<typeof standingRecord>;
type MailboxStatus = Standing['status'];

/** Creation times and suspensions of mailboxes, as set in the account panel. */
export class MailboxStatuses {
  readonly #byMailbox = new Map<string, Standing>();

  constructor(
    private readonly store: Store,
    private readonly now: () => number,
  ) {
    for (const [id, body] of store.documents('standing')) {
      this.#byMailbox.set(id, standingRecord.parse(body));
    }
  }

  /** Returns a mailbox's status. A mailbox without a record is treated as active and newly created. */
  of(mailbox: Mailbox): Standing {
    const entry = this.#byMailbox.get(mailbox.resourceId);
    if (entry !== undefined) return entry;
    const now = this.now();
    return this.#put(mailbox, { status: 'active', createdAt: now, updatedAt: now });
  }

  setStatus(mailbox: Mailbox, status: MailboxStatus): void {
    this.#put(mailbox, { ...this.of(mailbox), status, updatedAt: this.now() });
  }

  isSuspended(mailbox: Mailbox): boolean {
    return this.#byMailbox.get(mailbox.resourceId)?.status === 'suspended';
  }

  #put(mailbox: Mailbox, standing: Standing): Standing {
    this.#byMailbox.set(mailbox.resourceId, standing);
    this.store.putDocument('standing', mailbox.resourceId, standing);
    return standing;
  }
}

/**
 * A bearer token's permissions. The two APIs have separate tokens. A mailbox token belongs to one order and can be
 * limited to some of its mailboxes. A platform token belongs to a user and covers that user's orders.
 */
const tokenRecord = z.discriminatedUnion('surface', [
  z.object({
    surface: z.literal('mailbox'),
    orderId: z.string(),
    /** Resource ids, or null for every mailbox of the order. */
    mailboxes: z.array(z.string()).nullable(),
    /** Milliseconds since the epoch. */
    expiresAt: z.number().nullable(),
    revokedAt: z.number().nullable(),
  }),
  z.object({
    surface: z.literal('platform'),
    userId: z.string(),
    expiresAt: z.number().nullable(),
    revokedAt: z.number().nullable(),
  }),
]);
type Token = z.infer<typeof tokenRecord>;
export type MailboxToken = Extract<Token, { surface: 'mailbox' }>;
export type PlatformToken = Extract<Token, { surface: 'platform' }>;

const KIND = 'token';

/** Stores tokens by the SHA-256 of their secret, so that a state file contains no usable token. */
export class Tokens {
  readonly #byHash = new Map<string, Token>();

  constructor(private readonly store: Store) {
    for (const [id, body] of store.documents(KIND)) this.#byHash.set(id, tokenRecord.parse(body));
  }

  put(secret: string, token: Token): void {
    const hash = hashSecret(secret);
    this.#byHash.set(hash, token);
    this.store.putDocument(KIND, hash, token);
  }

  has(secret: string): boolean {
    return this.#byHash.has(hashSecret(secret));
  }

  /** @returns false if the token is unknown */
  revoke(secret: string, now: number): boolean {
    const token = this.#byHash.get(hashSecret(secret));
    if (token === undefined) return false;
    this.put(secret, { ...token, revokedAt: now });
    return true;
  }

  /** Returns the token in an `Authorization` header if it is valid for this API. */
  authorize<S extends Token['surface']>(
    header: string | undefined,
    surface: S,
    now: number,
  ): Extract<Token, { surface: S }> | null {
    const secret = /^Bearer +([^\s]+) *$/i.exec(header ?? '')?.[1];
    if (secret === undefined) return null;
    const token = this.#byHash.get(hashSecret(secret));
    if (token === undefined || !isFor(token, surface)) return null;
    if (token.revokedAt !== null && token.revokedAt <= now) return null;
    if (token.expiresAt !== null && token.expiresAt <= now) return null;
    return token;
  }
}

export function coversMailbox({ orderId, mailboxes }: MailboxToken, mailbox: Mailbox): boolean {
  if (mailbox.orderId !== orderId) return false;
  return mailboxes === null || mailboxes.includes(mailbox.resourceId);
}

function isFor<S extends Token['surface']>(
  token: Token,
  surface: S,
): token is Extract<Token, { surface: S }> {
  return token.surface === surface;
}

function hashSecret(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}
