import { z } from 'zod';
import type { Mailbox } from '../store/mailbox.ts';
import type { Store } from '../store/store.ts';

const orderRecord = z.object({ id: z.string(), userId: z.string() });
export type Order = z.infer<typeof orderRecord>;

const KIND = 'order';

/** Mail orders of the hosting account and the users they belong to. */
export class Orders {
  readonly #byId = new Map<string, Order>();
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
    for (const { id, body } of store.documents(KIND)) this.#byId.set(id, orderRecord.parse(body));
  }

  get(id: string): Order | null {
    return this.#byId.get(id) ?? null;
  }

  put(order: Order): void {
    this.#byId.set(order.id, order);
    this.#store.putDocument(KIND, order.id, order);
  }

  /** A mailbox of one of the user's orders; null for one that is not there or belongs to somebody else. */
  mailboxOfUser(resourceId: string, userId: string): Mailbox | null {
    const mailbox = this.#store.mailboxes.get(resourceId);
    if (mailbox === undefined) return null;
    return this.get(mailbox.orderId)?.userId === userId ? mailbox : null;
  }

  mailboxesOf(order: Order): Mailbox[] {
    return [...this.#store.mailboxes.values()].filter((mailbox) => mailbox.orderId === order.id);
  }
}
