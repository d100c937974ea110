import { sql } from 'kysely';
import type { NewAccount } from './accounts.ts';
import type { TailBatch } from './commits.ts';
import { insertSecret, type SealedSecret, tenantOf } from './fleet.ts';
import {
  CONDEMNED,
  HEAD_COLUMNS,
  type Head,
  heldBy,
  type Lease,
  type Outcome,
  outcomeOf,
  Refusal,
} from './outcome.ts';
import type { Registry, Tx } from './registry.ts';
import { condemnReplaced, makeLive, type Range, type Uploaded } from './uploads.ts';

/**
 * Begins the import of an archive that exists elsewhere: adds the account, its secrets, and its archive in the state
 * `importing`, in which nobody claims it. The session holds it, without being one of a worker. Refused if the tenant has an
 * account of that name, or if the fleet has an archive of that log.
 *
 * @param session random, and never used again
 * @param seal see `addAccount`
 * @throws outcome-unknown: the import may have begun, or may begin later, whole; another session can continue it
 */
export async function beginImport(
  registry: Registry,
  account: NewAccount,
  session: string,
  seal: (archive: number) => readonly SealedSecret[],
): Promise<Outcome<{ head: Head }>> {
  const { name, logId, genesis, settings } = account;
  return outcomeOf(registry, 'begin an import', async (tx) => {
    const tenant = await tenantOf(tx, account.tenant);
    // Of two that import the same log at the same moment, an index refuses one.
    const { rows } = await sql<Head>`
      INSERT INTO archive
        (tenant, name, log_id, settings, head_hash, hot_previous_hash, state, epoch, holder)
      SELECT ${tenant}::bigint, ${name}::text, ${logId}::bytea, ${JSON.stringify(settings)}::jsonb,
        ${genesis}::bytea, ${genesis}::bytea, 'importing', 1, ${session}::uuid
      WHERE NOT EXISTS (SELECT 1 FROM archive WHERE log_id = ${logId})
      ON CONFLICT DO NOTHING RETURNING ${HEAD_COLUMNS}`.execute(tx);
    const [head] = rows;
    if (head === undefined) {
      const { rows: named } = await sql`
        SELECT 1 FROM archive WHERE tenant = ${tenant} AND name = ${name}`.execute(tx);
      throw new Refusal({ by: named.length > 0 ? 'name' : 'log' });
    }
    for (const secret of seal(head.archive)) {
      await insertSecret({ ...secret, archive: head.archive }).execute(tx);
    }
    return { head };
  });
}

/**
 * Lets a session continue an import. It gets a new epoch, so that whatever an earlier importer still sends is refused.
 *
 * @throws outcome-unknown: yet another session can continue it
 */
export async function resumeImport(
  registry: Registry,
  archive: number,
  session: string,
): Promise<Outcome<{ head: Head }>> {
  const [head] = await registry.statement<Head>(
    'resume an import',
    sql`UPDATE archive SET epoch = epoch + 1, holder = ${session}
      WHERE id = ${archive} AND state = 'importing' RETURNING ${HEAD_COLUMNS}`,
  );
  return head === undefined ? { outcome: 'fenced', by: 'state' } : { outcome: 'committed', head };
}

/** Removes what an import has stored behind a commit, and condemns its objects and all unfinished uploads. */
export async function trimImport(registry: Registry, lease: Lease, last: number): Promise<Outcome> {
  const { archive } = lease;
  return outcomeOf(registry, 'trim an import', async (tx) => {
    await lockImporting(tx, lease);
    await sql`DELETE FROM tail WHERE archive = ${archive} AND number > ${last}`.execute(tx);
    const { rows } = await sql<{ key: string }>`
      DELETE FROM cover WHERE archive = ${archive} AND cover.last > ${last} RETURNING key`.execute(
      tx,
    );
    await condemnReplaced(tx, rows);
    await condemnUploading(tx, archive);
    return {};
  });
}

/** Commits that an import stores, and the commit that they follow. */
export interface ImportedRange extends Range {
  readonly previousHash: Buffer;
}

/**
 * Lets an object hold the next commits of an import: a sealed segment, or a part of one that is not sealed, in which case
 * the generation is 1. Refused unless they follow what is stored.
 */
export async function coverImported(
  registry: Registry,
  lease: Lease,
  uploaded: Uploaded,
  range: ImportedRange,
): Promise<Outcome> {
  const { archive } = lease;
  const { first, last, lastHash, segment, generation, at, previousHash } = range;
  return outcomeOf(registry, 'cover an import', async (tx) => {
    const head = await lockImporting(tx, lease);
    const stored = await storedEnd(tx, head);
    if (first !== stored.number + 1 || !previousHash.equals(stored.hash)) {
      throw new Refusal({ by: 'head', head });
    }
    const isNext = segment === stored.segment + 1 && at === SEGMENT_BEGIN;
    const isOpen = segment === stored.segment && stored.generation === 1 && generation === 1;
    if (!(isNext || isOpen) || last < first) throw new Refusal({ by: 'range', head });
    await makeLive(tx, lease, uploaded, generation > 1 ? 'sealed' : 'chunk', head);
    await sql`INSERT INTO cover (archive, first, last, key, segment, generation, at, last_hash)
      VALUES (${archive}, ${first}, ${last}, ${uploaded.key}, ${segment}, ${generation}, ${at},
        ${lastHash})`.execute(tx);
    return {};
  });
}

/** Stores the next commits of an import in the tail. Refused unless they follow what is stored. */
export async function tailImported(
  registry: Registry,
  lease: Lease,
  batches: readonly TailBatch[],
): Promise<Outcome> {
  const { archive } = lease;
  return outcomeOf(registry, 'store the tail of an import', async (tx) => {
    const head = await lockImporting(tx, lease);
    let previous: Pick<StoredEnd, 'number' | 'hash'> = await storedEnd(tx, head);
    for (const batch of batches) {
      const { number, segment, at, firstOrdinal, rawBytes, hash, time, codec, bytes } = batch;
      if (number !== previous.number + 1 || !batch.previousHash.equals(previous.hash)) {
        throw new Refusal({ by: 'head', head });
      }
      await sql`INSERT INTO tail
          (archive, number, segment, at, first_ordinal, raw_bytes, hash, time, codec, bytes)
        VALUES (${archive}, ${number}, ${segment}, ${at}, ${firstOrdinal}, ${rawBytes}, ${hash},
          ${time}, ${codec}, ${bytes})`.execute(tx);
      previous = { number, hash };
    }
    return {};
  });
}

/** The end of an imported log. */
export type ImportedEnd = Omit<Head, 'archive' | 'epoch' | 'holder' | 'purges'>;

/** What saves the first holder of an imported archive work. */
export interface ImportedExtras {
  readonly snapshot?: {
    readonly uploaded: Uploaded;
    readonly number: number;
    readonly hash: Buffer;
    readonly catalogVersion: number;
  };
  /** See `saveMemory`. */
  readonly memory?: Buffer;
}

/**
 * Ends an import: moves the head over everything that is stored, and makes the archive one that anybody may claim. Refused
 * unless that is every commit of the log once.
 *
 * @throws outcome-unknown: `resolve` says whether it happened, since it is refused then
 */
export async function finishImport(
  registry: Registry,
  lease: Lease,
  end: ImportedEnd,
  { snapshot, memory }: ImportedExtras = {},
): Promise<Outcome> {
  const { archive } = lease;
  return outcomeOf(registry, 'finish an import', async (tx) => {
    const head = await lockImporting(tx, lease);
    await refuseIncomplete(tx, head, end);
    if (snapshot !== undefined) {
      const { uploaded, number, hash, catalogVersion } = snapshot;
      await makeLive(tx, lease, uploaded, 'snapshot', head);
      await sql`INSERT INTO snapshot (archive, key, number, hash, catalog_version)
        VALUES (${archive}, ${uploaded.key}, ${number}, ${hash}, ${catalogVersion})`.execute(tx);
    }
    if (memory !== undefined) {
      await sql`INSERT INTO memory (archive, number, purges, bytes)
        VALUES (${archive}, ${end.headNumber}, ${head.purges}, ${memory})`.execute(tx);
    }
    await condemnUploading(tx, archive);
    await sql`UPDATE archive SET state = 'active', holder = NULL,
        head_number = ${end.headNumber}, head_hash = ${end.headHash}, head_time = ${end.headTime},
        hot_segment = ${end.hotSegment}, hot_offset = ${end.hotOffset},
        hot_ordinal = ${end.hotOrdinal}, hot_previous = ${end.hotPrevious},
        hot_previous_hash = ${end.hotPreviousHash}, tail_bytes = t.bytes,
        tail_since = CASE WHEN t.rows > 0 THEN clock_timestamp() END
      FROM (SELECT count(*) AS rows, coalesce(sum(length(bytes)), 0) AS bytes
        FROM tail WHERE archive = ${archive}) AS t
      WHERE id = ${archive}`.execute(tx);
    return {};
  });
}

/**
 * Calls an import off: the account and all that was stored of it is removed, and its objects are condemned. Anybody may do so
 * before it ends; the importer is refused from then on.
 *
 * @returns how many objects were condemned
 */
export async function callOffImport(
  registry: Registry,
  archive: number,
): Promise<Outcome<{ objects: number }>> {
  return outcomeOf(registry, 'call off an import', async (tx) => {
    const { rows } = await sql`SELECT 1 FROM archive
      WHERE id = ${archive} AND state = 'importing' FOR UPDATE`.execute(tx);
    if (rows.length === 0) throw new Refusal({ by: 'state' });
    await sql`DELETE FROM tail WHERE archive = ${archive}`.execute(tx);
    await sql`DELETE FROM cover WHERE archive = ${archive}`.execute(tx);
    await sql`DELETE FROM secret WHERE archive = ${archive}`.execute(tx);
    const { rows: objects } = await sql`UPDATE object SET ${CONDEMNED}
      WHERE archive = ${archive} AND state IN ('uploading', 'live') RETURNING key`.execute(tx);
    await sql`DELETE FROM archive WHERE id = ${archive}`.execute(tx);
    return { objects: objects.length };
  });
}

/** Behind the header of a segment. */
const SEGMENT_BEGIN = 64;

/** The last commit that an import has stored, and where it is. */
interface StoredEnd {
  readonly number: number;
  readonly hash: Buffer;
  /** 0 before the first one. */
  readonly segment: number;
  readonly generation: number;
}

async function lockImporting(tx: Tx, lease: Lease): Promise<Head> {
  const { rows } = await sql<Head>`SELECT ${HEAD_COLUMNS} FROM archive
    WHERE ${heldBy(lease)} AND state = 'importing' FOR UPDATE`.execute(tx);
  const [head] = rows;
  if (head === undefined) throw new Refusal({ by: 'lease' });
  return head;
}

async function storedEnd(tx: Tx, { archive, headHash }: Head): Promise<StoredEnd> {
  const { rows } = await sql<StoredEnd>`
    SELECT last AS number, last_hash AS hash, segment, generation FROM cover
      WHERE archive = ${archive}
    UNION ALL SELECT number, hash, segment, 1 FROM tail WHERE archive = ${archive}
    ORDER BY number DESC LIMIT 1`.execute(tx);
  return rows[0] ?? { number: 0, hash: headHash, segment: 0, generation: 0 };
}

/** Each step came behind the one before, so what is stored has no gaps; the count finds damage of the registry. */
async function refuseIncomplete(tx: Tx, head: Head, end: ImportedEnd): Promise<void> {
  const stored = await storedEnd(tx, head);
  if (stored.number !== end.headNumber || !stored.hash.equals(end.headHash)) {
    throw new Refusal({ by: 'head', head });
  }
  const { rows } = await sql<{ commits: number }>`
    SELECT coalesce((SELECT sum(last - first + 1) FROM cover WHERE archive = ${head.archive}), 0)::bigint
      + (SELECT count(*) FROM tail WHERE archive = ${head.archive}) AS commits`.execute(tx);
  const isAll = rows[0]?.commits === end.headNumber;
  // Nothing can be appended to a sealed segment.
  const least = stored.generation > 1 || stored.segment === 0 ? stored.segment + 1 : stored.segment;
  if (!isAll || end.hotSegment < least) throw new Refusal({ by: 'range', head });
}

async function condemnUploading(tx: Tx, archive: number): Promise<void> {
  await sql`UPDATE object SET ${CONDEMNED}
    WHERE archive = ${archive} AND state = 'uploading'`.execute(tx);
}
