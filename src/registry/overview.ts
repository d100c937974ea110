import { sql } from 'kysely';
import { type AccountState, unfinishedForgets } from './accounts.ts';
import type { Fleet, SealedSecret } from './fleet.ts';
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

/**
 * Returns secrets that another key than `keyId` has encrypted, at most `most` of them, by archive and purpose.
 *
 * @param after the last secret of the page before
 */
export async function secretsOfOtherKeys(
  registry: Registry,
  keyId: string,
  most: number,
  after?: Pick<SealedSecret, 'archive' | 'purpose'>,
): Promise<readonly SealedSecret[]> {
  const { archive, purpose } = after ?? { archive: 0, purpose: '' };
  return registry.read<SealedSecret>(
    'look for secrets of other keys',
    sql`SELECT archive, purpose, key_id AS "keyId", nonce, sealed FROM secret
      WHERE (archive, purpose) > (${archive}::bigint, ${purpose}::text) AND key_id <> ${keyId}
      ORDER BY archive, purpose LIMIT ${most}`,
  );
}

/** What the registry knows of a node. */
export interface KnownNode {
  readonly node: string;
  /** Sessions that live. */
  readonly sessions: number;
  /** Archives that it may have bytes of. */
  readonly copies: number;
  /** Purges that are not finished and concern such an archive. */
  readonly purges: number;
}

/** Returns every node that had a session or may have bytes of an archive, by name. */
export async function knownNodes(registry: Registry): Promise<readonly KnownNode[]> {
  return registry.read<KnownNode>(
    'look at the nodes',
    sql`WITH copy AS (
        SELECT node, count(*) AS copies,
          sum((SELECT count(*) FROM purge p WHERE p.archive = c.archive AND p.finished_at IS NULL))::bigint AS purges
        FROM cache c GROUP BY node),
      living AS (
        SELECT node, count(*) FILTER (WHERE NOT dead) AS sessions FROM worker GROUP BY node)
      SELECT node, coalesce(sessions, 0) AS sessions, coalesce(copies, 0) AS copies,
        coalesce(purges, 0) AS purges
      FROM copy FULL JOIN living USING (node) ORDER BY node`,
  );
}

/** An account as lists show it. */
export interface ListedAccount {
  readonly archive: number;
  readonly tenantId: number;
  readonly tenant: string;
  readonly name: string;
  readonly state: AccountState;
  /** The node whose session holds it; null if nobody does. */
  readonly node: string | null;
  /** False if that session is dead, or its lease ran out: others may take the archive. */
  readonly isHolderAlive: boolean;
  readonly commits: number;
  /** When the last commit was made, in milliseconds since 1970; 0 if there is none. */
  readonly headTime: number;
  /** Bytes in PostgreSQL. */
  readonly tailBytes: number;
  /** Those that have not ended. */
  readonly forgets: number;
}

/** Returns the account whose archive has a log of this id; undefined if there is none. */
export async function accountOfLog(
  registry: Registry,
  logId: Buffer,
): Promise<Pick<ListedAccount, 'archive' | 'tenant' | 'name' | 'state' | 'commits'> | undefined> {
  const [account] = await registry.read<
    Pick<ListedAccount, 'archive' | 'tenant' | 'name' | 'state' | 'commits'>
  >(
    'look for an archive by its log',
    sql`SELECT a.id AS archive, t.name AS tenant, a.name, a.state, a.head_number AS commits
      FROM archive a JOIN tenant t ON t.id = a.tenant WHERE a.log_id = ${logId}`,
  );
  return account;
}

/** Which accounts are listed. */
export interface AccountFilter {
  readonly tenant?: string | undefined;
  readonly name?: string | undefined;
}

/**
 * Returns accounts by their tenants, in the order in which these were added, and their names.
 *
 * @param after the last account of the page before
 */
export async function listAccounts(
  registry: Registry,
  { tenant, name }: AccountFilter,
  most: number,
  after?: Pick<ListedAccount, 'tenantId' | 'name'>,
): Promise<readonly ListedAccount[]> {
  const last = after ?? { tenantId: 0, name: '' };
  return registry.read<ListedAccount>(
    'list accounts',
    sql`SELECT a.id AS archive, a.tenant AS "tenantId", t.name AS tenant, a.name, a.state, w.node,
        coalesce(NOT w.dead AND w.lease_until >= clock_timestamp(), false) AS "isHolderAlive",
        a.head_number AS commits, a.head_time AS "headTime", a.tail_bytes AS "tailBytes",
        ${unfinishedForgets(sql`a.id`)} AS forgets
      FROM archive a JOIN tenant t ON t.id = a.tenant LEFT JOIN worker w ON w.session = a.holder
      WHERE (a.tenant, a.name) > (${last.tenantId}::bigint, ${last.name}::text)
        AND (${tenant ?? null}::text IS NULL OR t.name = ${tenant ?? null})
        AND (${name ?? null}::text IS NULL OR a.name = ${name ?? null})
      ORDER BY a.tenant, a.name LIMIT ${most}`,
  );
}

/** A session that lives, and where it is reached. */
export interface ReachableSession {
  readonly session: string;
  readonly node: string;
  /** Host and port; empty where its configuration names none. */
  readonly address: string;
}

/** Returns the session that holds an archive; undefined if nobody does, or only a session whose lease ran out. */
export async function holderOf(
  registry: Registry,
  archive: number,
): Promise<ReachableSession | undefined> {
  const [holder] = await registry.read<ReachableSession>(
    'look for a holder',
    sql`SELECT w.session, w.node, w.address FROM archive a JOIN worker w ON w.session = a.holder
      WHERE a.id = ${archive} AND NOT w.dead AND w.lease_until >= clock_timestamp()`,
  );
  return holder;
}

/**
 * Returns sessions that can be reached and may claim an archive: those of a node first, then those with the most room.
 *
 * @param most how many at most
 */
export async function claimersOf(
  registry: Registry,
  { node, most }: { readonly node: string; readonly most: number },
): Promise<readonly ReachableSession[]> {
  return registry.read<ReachableSession>(
    'look for workers',
    sql`SELECT w.session, w.node, w.address FROM worker w
      WHERE NOT w.dead AND NOT w.draining AND w.lease_until >= clock_timestamp() AND w.address <> ''
      ORDER BY w.node = ${node} DESC,
        w.capacity - (SELECT count(*) FROM archive a WHERE a.holder = w.session) DESC, w.session
      LIMIT ${most}`,
  );
}
