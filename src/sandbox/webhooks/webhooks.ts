import { randomBytes } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { z } from 'zod';
import type { Mailbox } from '../store/mailbox.ts';
import type { Store } from '../store/store.ts';

/** A UUID of version 7 (RFC 9562, 5.7): 48 bits of Unix milliseconds, the rest random. */
export function uuidV7(nowMs: number): string {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(Math.floor(nowMs), 0, 6);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x70, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

const webhookState = z.object({
  id: z.string(),
  /** Resource id of the mailbox it is attached to. */
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

/** The fields a client sets. */
export type WebhookFields = Pick<Webhook, 'name' | 'description' | 'events' | 'status' | 'url'>;

/** Called after the store has the change. */
interface WebhookEvents {
  changed: [Webhook];
  removed: [Webhook];
}

const KIND = 'webhook';

/** The webhooks of all mailboxes; both surfaces manage the same ones. */
export class Webhooks {
  readonly events = new EventEmitter<WebhookEvents>();
  readonly #byId = new Map<string, Webhook>();

  constructor(
    private readonly store: Store,
    private readonly now: () => number,
  ) {
    for (const { id, body } of store.documents(KIND)) this.#byId.set(id, webhookState.parse(body));
  }

  get(id: string): Webhook | null {
    return this.#byId.get(id.toLowerCase()) ?? null;
  }

  /** Of some mailboxes, in order of creation. */
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

  /** A new secret; the old one is dead at once. */
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
