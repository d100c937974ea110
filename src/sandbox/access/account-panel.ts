import { z } from 'zod';
import type { Mailbox } from '../store/mailbox.ts';
import type { Store } from '../store/store.ts';

const orderRecord = z.object({ id: z.string(), userId: z.string() });
export type Order = z.infer<typeof orderRecord>;

/** Mail orders of the hosting account and the users they belong to. */
export class Orders {
  readonly #byId = new Map<string, Order>();

  constructor(private readonly store: Store) {
    for (const { id, body } of store.documents('order'))
      this.#byId.set(id, orderRecord.parse(body));
  }

  get(id: string): Order | null {
    return this.#byId.get(id) ?? null;
  }

  put(order: Order): void {
    this.#byId.set(order.id, order);
    this.store.putDocument('order', order.id, order);
  }

  /** A mailbox of one of the user's orders; null for one that is not there or belongs to somebody else. */
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
export type Standing = z.infer<typeof standingRecord>;
export type MailboxStatus = Standing['status'];

/** What the account panel knows about a mailbox besides its mail: when it was created and whether it is suspended. */
export class Standings {
  readonly #byMailbox = new Map<string, Standing>();

  constructor(
    private readonly store: Store,
    private readonly now: () => number,
  ) {
    for (const { id, body } of store.documents('standing')) {
      this.#byMailbox.set(id, standingRecord.parse(body));
    }
  }

  /** A mailbox nobody asked about before is active, and was created now. */
  of(mailbox: Mailbox): Standing {
    const known = this.#byMailbox.get(mailbox.resourceId);
    if (known !== undefined) return known;
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
