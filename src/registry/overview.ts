import { sql } from 'kysely';
import type { Fleet } from './fleet.ts';
import type { Registry } from './registry.ts';

/** Returns the fleet of a registry; undefined before there is one. */
export async function readFleet(registry: Registry): Promise<Fleet | undefined> {
  const [fleet] = await registry.read<Fleet>(
    'look at the fleet',
    sql`SELECT id, bucket, archive_format AS "archiveFormat", catalog_version AS "catalogVersion" FROM fleet`,
  );
  return fleet;
}

/** How many secrets a key has encrypted. */
export interface KeyUse {
  readonly keyId: string;
  readonly secrets: number;
}

/** Returns the keys that secrets of the registry were encrypted by, by their names. */
export async function keyUses(registry: Registry): Promise<readonly KeyUse[]> {
  return registry.read<KeyUse>(
    'count secrets by key',
    sql`SELECT key_id AS "keyId", count(*) AS secrets FROM secret GROUP BY key_id ORDER BY key_id`,
  );
}
