import { z } from 'zod';
import type { Mailbox } from '../store/mailbox.ts';
import type { Store } from '../store/store.ts';

const standingRecord = z.object({
  status: z.enum(['active', 'suspended']),
  /** Milliseconds since the epoch. */
  createdAt: z.number(),
  updatedAt: z.number(),
});
export type Standing = z.infer<typeof standingRecord>;
export type MailboxStatus = Standing['status'];

const KIND = 'standing';

/** What the account panel knows about a mailbox besides its mail: when it was created and whether it is suspended. */
export class Standings {
  readonly #byMailbox = new Map<string, Standing>();
  readonly #store: Store;
  readonly #now: () => number;

  constructor(store: Store, now: () => number) {
    this.#store = store;
    this.#now = now;
    for (const { id, body } of store.documents(KIND)) {
      this.#byMailbox.set(id, standingRecord.parse(body));
    }
  }

  /** A mailbox nobody asked about before is active, and was created now. */
  of(mailbox: Mailbox): Standing {
    const known = this.#byMailbox.get(mailbox.resourceId);
    if (known !== undefined) return known;
    const now = this.#now();
    return this.#put(mailbox, { status: 'active', createdAt: now, updatedAt: now });
  }

  setStatus(mailbox: Mailbox, status: MailboxStatus): void {
    this.#put(mailbox, { ...this.of(mailbox), status, updatedAt: this.#now() });
  }

  isSuspended(mailbox: Mailbox): boolean {
    return this.#byMailbox.get(mailbox.resourceId)?.status === 'suspended';
  }

  #put(mailbox: Mailbox, standing: Standing): Standing {
    this.#byMailbox.set(mailbox.resourceId, standing);
    this.#store.putDocument(KIND, mailbox.resourceId, standing);
    return standing;
  }
}
