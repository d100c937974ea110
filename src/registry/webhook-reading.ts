import { sql } from 'kysely';
import type { SealedSecret } from './fleet.ts';
import type { Registry } from './registry.ts';
import type { KeptWebhook } from './webhooks.ts';

/** Returns the webhooks that holders of an archive registered at the service. */
export async function webhooksOf(
  registry: Registry,
  archive: number,
): Promise<readonly KeptWebhook[]> {
  return registry.read<KeptWebhook>(
    'look at webhooks',
    sql`SELECT id, host, mailbox_id AS "mailboxId", mailbox, url FROM webhook
      WHERE archive = ${archive} ORDER BY id`,
  );
}

/** A secret that was looked up, and the webhook that it is of; null where somebody brought it by hand. */
export interface FoundSecret extends SealedSecret {
  readonly lookup: Buffer;
  readonly mailboxId: string | null;
  readonly mailbox: string | null;
}

/** Returns the secrets that are looked up by these hashes: at most `most` of them, by archive. */
export async function secretsByLookup(
  registry: Registry,
  lookups: readonly Buffer[],
  most: number,
): Promise<readonly FoundSecret[]> {
  return registry.read<FoundSecret>(
    'look up secrets of webhooks',
    sql`SELECT s.archive, s.purpose, s.key_id AS "keyId", s.nonce, s.sealed, s.lookup,
        w.mailbox_id AS "mailboxId", w.mailbox
      FROM secret s LEFT JOIN webhook w ON w.archive = s.archive AND s.purpose = 'webhook/' || w.id
      WHERE s.lookup = ANY(${[...lookups]}::bytea[]) ORDER BY s.archive, s.purpose LIMIT ${most}`,
  );
}
