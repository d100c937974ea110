import { sql } from 'kysely';
import { type DecidedPurge, livingNode } from './claims.ts';
import {
  addEvent,
  fence,
  type Lease,
  lockHeld,
  type Outcome,
  one,
  oneHeld,
  Refusal,
  refusable,
  structural,
} from './outcomes.ts';
import type { Registry } from './postgres.ts';

/** Decides a purge: from now on every holder carries it out, so the request can be answered. */
export async function decidePurge(
  registry: Registry,
  lease: Lease,
  { reason, work, askedBy }: Omit<DecidedPurge, 'number'> & { readonly askedBy: string },
): Promise<Outcome<{ number: number }>> {
  const { shard } = lease;
  return structural(registry, 'decide a purge', async (tx, version) => {
    const decided = sql<{ number: number }>`
      UPDATE shard SET purges = purges + 1, version = ${version}
      WHERE ${fence(lease)} RETURNING purges AS number`;
    const { number } = await oneHeld(tx, lease, decided);
    await sql`INSERT INTO purge (shard, number, reason, work, asked_by)
      VALUES (${shard}, ${number}, ${reason}, ${work}, ${askedBy})`.execute(tx);
    await addEvent(tx, { who: askedBy, what: 'purge', shard, facts: { number, reason } });
    return { number };
  });
}

/**
 * Ends purges, in order, and returns their numbers. A purge has ended when the manifest is clean of it, all older objects
 * that the manifest does not name are gone, and no other node has a folder of the shard.
 *
 * @param hasAside a folder on this node waits for its merge, and may have the bytes
 */
export async function endPurges(
  registry: Registry,
  lease: Lease,
  hasAside: boolean,
): Promise<Outcome<{ ended: readonly number[] }>> {
  const { shard, session } = lease;
  return refusable(registry, 'end purges', async (tx) => {
    const { clean } = await lockHeld(tx, lease);
    const node = await livingNode(tx, session);
    // The objects of a purge are among those of later ones.
    const { rows } = await sql<{ number: number }>`
      UPDATE purge p SET ended_at = clock_timestamp()
      WHERE shard = ${shard} AND ended_at IS NULL AND number <= ${clean}
        AND NOT EXISTS (SELECT 1 FROM folder
          WHERE shard = ${shard} AND (${hasAside} OR node <> ${node}))
        AND NOT EXISTS (SELECT 1 FROM object o
          WHERE o.shard = ${shard} AND o.state <> 'live' AND o.purges < p.number)
      RETURNING number`.execute(tx);
    const ended = rows.map(({ number }) => number).toSorted((a, b) => a - b);
    if (ended.length > 0) {
      await addEvent(tx, { who: node, what: 'purge-ended', shard, facts: { ended } });
    }
    return { ended };
  });
}

/** A folder on the disk of a session's node. */
interface NodeFolder {
  readonly shard: number;
  /** Of the claim that made it. */
  readonly entry: number;
}

/**
 * Records that a node has wiped its folder of a shard that it does not hold.
 *
 * @param session a living session of the node
 */
export async function wiped(
  registry: Registry,
  session: string,
  { shard, entry }: NodeFolder,
): Promise<Outcome> {
  return refusable(registry, 'record a wiped folder', async (tx) => {
    const node = await livingNode(tx, session);
    // A claim of this node that is under way comes before or after, and makes another entry.
    await sql`SELECT id FROM shard WHERE id = ${shard} FOR UPDATE`.execute(tx);
    const gone = sql`
      DELETE FROM folder f WHERE shard = ${shard} AND node = ${node} AND entry = ${entry}
        AND NOT EXISTS (SELECT 1 FROM shard s JOIN worker w ON w.session = s.holder
          WHERE s.id = f.shard AND w.node = f.node AND NOT w.dead)
      RETURNING shard`;
    await one(tx, gone, 'folder');
    return {};
  });
}

/**
 * Records that a node's folder has mail that was not shipped, and asks for the shard to move there: the node merges the
 * folder when it has claimed the shard.
 */
export async function ranAhead(
  registry: Registry,
  session: string,
  { shard, entry }: NodeFolder,
): Promise<Outcome> {
  return structural(registry, 'record a folder that ran ahead', async (tx, version) => {
    const node = await livingNode(tx, session, true);
    const ahead = sql`UPDATE folder SET ahead = true WHERE shard = ${shard} AND node = ${node}
        AND entry = ${entry} AND NOT ahead RETURNING shard`;
    await one(tx, ahead, 'folder');
    await sql`UPDATE shard SET wanted_node = ${node}, version = ${version}
      WHERE id = ${shard}`.execute(tx);
    await addEvent(tx, { who: node, what: 'ran-ahead', shard });
    return {};
  });
}

export interface FolderRow extends NodeFolder {
  /** It has mail that was not shipped, and waits for its merge. */
  readonly isAhead: boolean;
  /** An unfinished purge waits for it, or did when it was read. */
  readonly hasPurge: boolean;
}

/** Returns the folders that a node may have, in order. */
export async function nodeFolders(registry: Registry, node: string): Promise<readonly FolderRow[]> {
  return registry.read<FolderRow>(
    'look at the folders of a node',
    sql`SELECT shard, entry, ahead AS "isAhead", EXISTS (SELECT 1 FROM purge p
        WHERE p.shard = f.shard AND p.ended_at IS NULL) AS "hasPurge"
      FROM folder f WHERE node = ${node} ORDER BY shard`,
  );
}

/** Returns all purges of a shard after a number, also those that have ended, in order. */
export async function purgesSince(
  registry: Registry,
  shard: number,
  done: number,
): Promise<readonly DecidedPurge[]> {
  return registry.read<DecidedPurge>(
    'look at purges',
    sql`SELECT number, reason, work FROM purge
      WHERE shard = ${shard} AND number > ${done} ORDER BY number`,
  );
}

/** Records that the holder has merged a folder that ran ahead, and wiped it. @param facts what was merged */
export async function merged(registry: Registry, lease: Lease, facts: object): Promise<Outcome> {
  const { shard, session } = lease;
  return refusable(registry, 'record a merge', async (tx) => {
    await lockHeld(tx, lease);
    const node = await livingNode(tx, session);
    const done = sql`UPDATE folder SET ahead = false
      WHERE shard = ${shard} AND node = ${node} AND ahead RETURNING shard`;
    await one(tx, done, 'folder');
    await addEvent(tx, { who: node, what: 'merge', shard, facts });
    return {};
  });
}

/**
 * Removes all folders of a node whose disk is destroyed, for an operator. Returns their number. Refused while a session of
 * the node lives.
 */
export async function removeNode(
  registry: Registry,
  node: string,
): Promise<Outcome<{ folders: number }>> {
  return structural(registry, 'remove a node', async (tx, version) => {
    await sql`UPDATE worker SET dead = true, version = ${version}
      WHERE node = ${node} AND NOT dead AND lease_until < clock_timestamp()`.execute(tx);
    const { rows: alive } = await sql`
      SELECT session FROM worker WHERE node = ${node} AND NOT dead LIMIT 1`.execute(tx);
    if (alive.length > 0) throw new Refusal('session');
    const { rows } = await sql`DELETE FROM folder WHERE node = ${node} RETURNING shard`.execute(tx);
    await sql`DELETE FROM node WHERE name = ${node}`.execute(tx);
    await sql`UPDATE shard SET wanted_node = NULL, version = ${version}
      WHERE wanted_node = ${node}`.execute(tx);
    await addEvent(tx, { who: 'operator', what: 'node-removed', facts: { node } });
    return { folders: rows.length };
  });
}
