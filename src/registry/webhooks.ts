import { sql } from 'kysely';
import { insertSecret, type SealedSecret } from './fleet.ts';
import { type Lease, lockHeld, type Outcome, outcomeOf } from './outcome.ts';
import type { Registry } from './registry.ts';

/** A webhook that a holder registered at the service. */
export interface KeptWebhook {
  /** At the service. */
  readonly id: string;
  /** Host and port of the service. */
  readonly host: string;
  /** Resource id and address of the mailbox. */
  readonly mailboxId: string;
  readonly mailbox: string;
  readonly url: string;
}

/**
 * Stores a webhook of a held archive and its secret, both or neither. If there is one of that id, its secret is replaced.
 * Refused if the lease is lost: another holder then decides about webhooks.
 */
export async function keepWebhook(
  registry: Registry,
  lease: Lease,
  { id, host, mailboxId, mailbox, url }: KeptWebhook,
  secret: SealedSecret,
): Promise<Outcome> {
  return outcomeOf(registry, 'keep a webhook', async (tx) => {
    await lockHeld(tx, lease);
    await sql`INSERT INTO webhook (archive, id, host, mailbox_id, mailbox, url)
      VALUES (${lease.archive}, ${id}, ${host}, ${mailboxId}, ${mailbox}, ${url})
      ON CONFLICT (archive, id) DO UPDATE SET host = excluded.host, mailbox_id = excluded.mailbox_id,
        mailbox = excluded.mailbox, url = excluded.url`.execute(tx);
    await sql`${insertSecret(secret)} ON CONFLICT (archive, purpose) DO UPDATE SET key_id = excluded.key_id,
      nonce = excluded.nonce, sealed = excluded.sealed, lookup = excluded.lookup`.execute(tx);
    return {};
  });
}

/** Removes a webhook that the service does not have any more, and its secret. Refused if the lease is lost. */
export async function forgetWebhook(
  registry: Registry,
  lease: Lease,
  { id, purpose }: { readonly id: string; readonly purpose: string },
): Promise<Outcome> {
  return outcomeOf(registry, 'forget a webhook', async (tx) => {
    await lockHeld(tx, lease);
    await sql`DELETE FROM webhook WHERE archive = ${lease.archive} AND id = ${id}`.execute(tx);
    await sql`DELETE FROM secret WHERE archive = ${lease.archive} AND purpose = ${purpose}`.execute(
      tx,
    );
    return {};
  });
}
