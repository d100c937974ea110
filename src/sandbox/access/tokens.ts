import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { Mailbox } from '../store/mailbox.ts';
import type { Store } from '../store/store.ts';

/**
 * What a bearer token may reach. The two surfaces have tokens of their own: a mailbox token belongs to one
 * order and may be narrowed to some of its mailboxes; a platform token belongs to a user and sees that
 * user's orders.
 */
const tokenRecord = z.discriminatedUnion('surface', [
  z.object({
    surface: z.literal('mailbox'),
    orderId: z.string(),
    /** Resource ids, or null for all mailboxes of the order. */
    mailboxes: z.array(z.string()).nullable(),
    /** Milliseconds since the epoch, or null. */
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
export type Token = z.infer<typeof tokenRecord>;
export type MailboxToken = Extract<Token, { surface: 'mailbox' }>;
export type PlatformToken = Extract<Token, { surface: 'platform' }>;

const KIND = 'token';

/** Tokens by the SHA-256 of their secret, so that a state file holds none that works. */
export class Tokens {
  readonly #byHash = new Map<string, Token>();

  constructor(private readonly store: Store) {
    for (const { id, body } of store.documents(KIND)) this.#byHash.set(id, tokenRecord.parse(body));
  }

  /** Adds a token, or changes what one may reach. */
  put(secret: string, token: Token): void {
    const hash = hashOf(secret);
    this.#byHash.set(hash, token);
    this.store.putDocument(KIND, hash, token);
  }

  has(secret: string): boolean {
    return this.#byHash.has(hashOf(secret));
  }

  /** @returns false when there is no such token */
  revoke(secret: string, now: number): boolean {
    const token = this.#byHash.get(hashOf(secret));
    if (token === undefined) return false;
    this.put(secret, { ...token, revokedAt: now });
    return true;
  }

  /** The token of an `Authorization` header that works on a surface now; null is a 401. */
  authorize<S extends Token['surface']>(
    header: string | undefined,
    surface: S,
    now: number,
  ): Extract<Token, { surface: S }> | null {
    const secret = /^Bearer +([^\s]+) *$/i.exec(header ?? '')?.[1];
    if (secret === undefined) return null;
    const token = this.#byHash.get(hashOf(secret));
    if (token === undefined || !isOf(token, surface)) return null;
    if (token.revokedAt !== null && token.revokedAt <= now) return null;
    if (token.expiresAt !== null && token.expiresAt <= now) return null;
    return token;
  }
}

/** Returns whether a token reaches a mailbox of its order: any, unless it is narrowed to some. */
export function reaches({ orderId, mailboxes }: MailboxToken, mailbox: Mailbox): boolean {
  if (mailbox.orderId !== orderId) return false;
  return mailboxes === null || mailboxes.includes(mailbox.resourceId);
}

function isOf<S extends Token['surface']>(
  token: Token,
  surface: S,
): token is Extract<Token, { surface: S }> {
  return token.surface === surface;
}

function hashOf(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}
