import { sql } from 'kysely';
import type { ObjectKind } from './objects.ts';
import {
  CONDEMNED,
  fencedByPurges,
  type Head,
  heldBy,
  type Lease,
  lockHeld,
  type Outcome,
  outcomeOf,
  Refusal,
} from './outcome.ts';
import type { Registry, Tx } from './registry.ts';

/** An object that was read back, so that it may be relied on. */
export interface Uploaded {
  readonly key: string;
  readonly bytes: number;
  readonly sha256: Buffer;
}

/** The commits whose bytes an object holds, and where they are in their segment. */
export interface Range {
  readonly first: number;
  readonly last: number;
  readonly lastHash: Buffer;
  readonly segment: number;
  readonly generation: number;
  readonly at: number;
}

/**
 * Registers an upload that was begun, before its first part is sent. Names the number of purges that its content was made
 * with: if more were decided since, it is refused. A key is never used twice.
 */
export async function register(
  registry: Registry,
  lease: Lease,
  upload: {
    readonly key: string;
    readonly kind: ObjectKind;
    readonly uploadId: string;
    readonly purges: number;
  },
): Promise<Outcome> {
  const { key, kind, uploadId, purges } = upload;
  // The lock makes the conditions hold until the row is there.
  const rows = await registry.statement(
    'register',
    sql`INSERT INTO object (key, archive, kind, state, upload_id, epoch, purges)
      SELECT ${key}::text, id, ${kind}::text, 'uploading', ${uploadId}::text, epoch, purges FROM archive
      WHERE ${heldBy(lease)} AND purges = ${purges} FOR UPDATE
      ON CONFLICT DO NOTHING RETURNING key`,
  );
  if (rows.length === 1) return { outcome: 'committed' };
  return fencedByPurges(registry, lease, 'object', purges);
}

/**
 * Lets a chunk hold a part of a segment, instead of the tail. A chunk has the bytes as they were committed, so it is refused
 * for commits that have purged records.
 */
export async function coverChunk(
  registry: Registry,
  lease: Lease,
  uploaded: Uploaded,
  range: Range,
): Promise<Outcome> {
  return outcomeOf(registry, 'cover a chunk', async (tx) => {
    const head = await lockHeld(tx, lease);
    const { rows } = await sql`
      SELECT 1 FROM purge WHERE archive = ${lease.archive} AND EXISTS
        (SELECT 1 FROM unnest(commits) AS number WHERE number BETWEEN ${range.first} AND ${range.last})
      LIMIT 1`.execute(tx);
    if (rows.length > 0) throw new Refusal({ by: 'bytes', head });
    await cover(tx, lease, { uploaded, range, kind: 'chunk' });
    return {};
  });
}

/**
 * Lets a sealed segment hold all commits of that segment, instead of the tail, of chunks, or of an earlier generation.
 * Refused while the segment is appended to.
 */
export async function coverSegment(
  registry: Registry,
  lease: Lease,
  uploaded: Uploaded,
  range: Range,
): Promise<Outcome> {
  return outcomeOf(registry, 'cover a segment', async (tx) => {
    const head = await lockHeld(tx, lease);
    if (head.hotSegment <= range.segment) throw new Refusal({ by: 'segment', head });
    await cover(tx, lease, { uploaded, range, kind: 'sealed' });
    const { rows } = await sql`
      SELECT number FROM tail WHERE archive = ${lease.archive} AND segment = ${range.segment}
      UNION ALL SELECT first FROM cover WHERE archive = ${lease.archive}
        AND segment = ${range.segment} AND key <> ${uploaded.key} LIMIT 1`.execute(tx);
    if (rows.length > 0) throw new Refusal({ by: 'range', head });
    return {};
  });
}

/** Lets a snapshot of the catalog be the one that a new holder begins with; the one before is condemned. */
export async function putSnapshot(
  registry: Registry,
  lease: Lease,
  uploaded: Uploaded,
  of: { readonly number: number; readonly hash: Buffer; readonly catalogVersion: number },
): Promise<Outcome> {
  const { archive } = lease;
  return outcomeOf(registry, 'put a snapshot', async (tx) => {
    const head = await lockHeld(tx, lease);
    if (of.number > head.headNumber) throw new Refusal({ by: 'head', head });
    await makeLive(tx, lease, uploaded, 'snapshot', head);
    const { rows } = await sql<{ key: string }>`
      DELETE FROM snapshot WHERE archive = ${archive} RETURNING key`.execute(tx);
    await condemnReplaced(tx, rows);
    await sql`INSERT INTO snapshot (archive, key, number, hash, catalog_version)
      VALUES (${archive}, ${uploaded.key}, ${of.number}, ${of.hash}, ${of.catalogVersion})`.execute(
      tx,
    );
    return {};
  });
}

interface Replaced {
  readonly key: string;
  readonly last: number;
  readonly hash: Buffer;
  readonly count: number;
  readonly generation: number;
}

interface Covering {
  readonly uploaded: Uploaded;
  readonly range: Range;
  readonly kind: 'chunk' | 'sealed';
}

/**
 * Replaces what holds a range by an object. The row of the archive is locked. Whatever holds a commit of the range is
 * removed; that together it was the range, no more and no less, is found by counting. A range of two segments, and an object
 * that is no newer generation than what it replaces, are refused.
 */
async function cover(tx: Tx, lease: Lease, { uploaded, range, kind }: Covering): Promise<void> {
  const { archive } = lease;
  const { first, last, lastHash, segment, generation, at } = range;
  await makeLive(tx, lease, uploaded, kind);
  const { rows: tail } = await sql<{ number: number; hash: Buffer; stored: number }>`
    DELETE FROM tail WHERE archive = ${archive} AND segment = ${segment}
      AND number BETWEEN ${first} AND ${last}
    RETURNING number, hash, length(bytes) AS stored`.execute(tx);
  const { rows: covers } = await sql<Replaced>`
    DELETE FROM cover WHERE archive = ${archive} AND segment = ${segment}
      AND first >= ${first} AND last <= ${last}
    RETURNING key, last, last_hash AS hash, last - first + 1 AS count, generation`.execute(tx);
  const { rows: overlapping } = await sql`
    SELECT 1 FROM cover WHERE archive = ${archive} AND first <= ${last} AND last >= ${first}
    LIMIT 1`.execute(tx);
  const replaced = covers.reduce((sum, { count }) => sum + count, tail.length);
  const ends = [
    ...tail.filter(({ number }) => number === last),
    ...covers.filter((entry) => entry.last === last),
  ];
  const isExact = replaced === last - first + 1 && overlapping.length === 0;
  const isNewer = covers.every((entry) => entry.generation < generation);
  if (!isExact || !isNewer || !ends.every(({ hash }) => hash.equals(lastHash))) {
    throw new Refusal({ by: 'range' });
  }
  await condemnReplaced(tx, covers);
  await sql`INSERT INTO cover (archive, first, last, key, segment, generation, at, last_hash)
    VALUES (${archive}, ${first}, ${last}, ${uploaded.key}, ${segment}, ${generation}, ${at},
      ${lastHash})`.execute(tx);
  if (tail.length > 0) await shortenTail(tx, archive, first, tail);
}

/**
 * Takes rows out of the size of a tail, and corrects its age. The age never falls: rows carry the clock of whoever made
 * them, which may be wrong.
 */
async function shortenTail(
  tx: Tx,
  archive: number,
  first: number,
  removed: readonly { readonly stored: number }[],
): Promise<void> {
  const stored = removed.reduce((sum, row) => sum + row.stored, 0);
  // While a row in front of the range is left, the tail waits since then.
  await sql`UPDATE archive SET tail_bytes = tail_bytes - ${stored}, tail_since = (
      SELECT CASE WHEN number < ${first} THEN tail_since
        ELSE greatest(tail_since, least(to_timestamp(time / 1000.0), clock_timestamp())) END
      FROM tail WHERE archive = ${archive} ORDER BY number LIMIT 1)
    WHERE id = ${archive}`.execute(tx);
}

/** Makes an upload live if nobody condemned it meanwhile. */
export async function makeLive(
  tx: Tx,
  { archive }: Lease,
  { key, bytes, sha256 }: Uploaded,
  kind: ObjectKind,
  head?: Head,
): Promise<void> {
  const { rows } = await sql`
    UPDATE object SET state = 'live', bytes = ${bytes}, sha256 = ${sha256}
    WHERE key = ${key} AND archive = ${archive} AND kind = ${kind} AND state = 'uploading'
    RETURNING key`.execute(tx);
  if (rows.length === 0) throw new Refusal({ by: 'object', ...(head && { head }) });
}

/** Condemns objects that nothing names any more. */
export async function condemnReplaced(
  tx: Tx,
  rows: readonly { readonly key: string }[],
): Promise<void> {
  const keys = rows.map(({ key }) => key);
  await sql`UPDATE object SET ${CONDEMNED} WHERE key = ANY(${keys}::text[])`.execute(tx);
}
