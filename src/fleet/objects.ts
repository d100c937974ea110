import { sql } from 'kysely';
import type { UploadingStore } from '../copies/object-store.ts';
import { hasCode, MailkeepError } from '../core/errors.ts';
import {
  fence,
  interval,
  type Lease,
  lockHeld,
  type Outcome,
  oneHeld,
  outcomeOf,
  Refusal,
  refusable,
} from './outcomes.ts';
import type { Registry } from './postgres.ts';
import { TIMELINE } from './schema.ts';

export type ObjectKind = 'segment' | 'tail' | 'snapshot' | 'state' | 'manifest';

/** A multipart upload that was started and has no bytes yet. */
export interface BegunUpload {
  readonly name: string;
  readonly kind: ObjectKind;
  /** Assigned by the store. */
  readonly uploadId: string;
  /** Length, or 0 for a manifest: it is not known before its other objects are uploaded. */
  readonly bytes: number;
  /** Purges that had been carried out in the folder when its content was read. */
  readonly purges: number;
}

/**
 * Registers uploads before their first byte is sent, so that whatever may be in the bucket has a row by which it is
 * collected. Refused if a name was ever registered.
 */
export async function register(
  registry: Registry,
  lease: Lease,
  uploads: readonly BegunUpload[],
): Promise<Outcome> {
  return refusable(registry, 'register', async (tx) => {
    // A claim that is under way waits, or this statement waits and then finds another epoch.
    const { purges } = await lockHeld(tx, lease, 'SHARE');
    if (uploads.some((upload) => upload.purges > purges)) throw new Refusal('purges');
    const column = <T>(of: (upload: BegunUpload) => T) => uploads.map(of);
    const { rows } = await sql`
      INSERT INTO object (shard, epoch, name, kind, upload_id, bytes, purges)
      SELECT ${lease.shard}, ${lease.epoch}, * FROM unnest(
        ${column(({ name }) => name)}::text[], ${column(({ kind }) => kind)}::text[],
        ${column(({ uploadId }) => uploadId)}::text[], ${column(({ bytes }) => bytes)}::bigint[],
        ${column((upload) => upload.purges)}::int[])
      ON CONFLICT DO NOTHING RETURNING name`.execute(tx);
    if (rows.length < uploads.length) throw new Refusal('object');
    return {};
  });
}

export interface NewManifest {
  readonly name: string;
  readonly sha256: Buffer;
  readonly sequence: number;
  readonly commitNumber: number;
  /** Name of the manifest that it follows, or null. */
  readonly previous: string | null;
  /** All objects that it needs, without itself. */
  readonly names: readonly string[];
  /** Purges that had been carried out in the folder when it was planned. */
  readonly clean: number;
  readonly messages: number;
  readonly catalogBytes: number;
}

/**
 * Makes a manifest the current one of a shard. What it names becomes live, what it no longer names is condemned.
 *
 * Refused if it does not follow the current manifest, if an object that it names has been condemned, and if a snapshot
 * or a state digest is older than a purge that the manifest claims to be clean of.
 */
export async function ship(
  registry: Registry,
  lease: Lease,
  manifest: NewManifest,
): Promise<Outcome> {
  const { name, sha256, sequence, commitNumber, previous, clean, messages, catalogBytes } =
    manifest;
  const names = [name, ...manifest.names];
  const { shard } = lease;
  return refusable(registry, 'ship', async (tx) => {
    const moved = sql`
      UPDATE shard SET manifest = ${name}, manifest_sha256 = ${sha256}, sequence = ${sequence},
        commit_number = ${commitNumber}, clean = ${clean}, messages = ${messages},
        catalog_bytes = ${catalogBytes}, shipped_at = clock_timestamp()
      WHERE ${fence(lease)} AND manifest IS NOT DISTINCT FROM ${previous}
        AND sequence < ${sequence} AND clean <= ${clean} AND purges >= ${clean}
      RETURNING id`;
    await oneHeld(tx, lease, moved, 'manifest');
    await sql`UPDATE object SET state = 'live'
      WHERE shard = ${shard} AND name = ANY(${names}::text[]) AND state = 'uploading'`.execute(tx);
    const { rows: live } = await sql<{ isOld: boolean }>`
      SELECT kind IN ('snapshot', 'state') AND purges < ${clean} AS "isOld" FROM object
      WHERE shard = ${shard} AND name = ANY(${names}::text[]) AND state = 'live'`.execute(tx);
    if (live.length !== new Set(names).size) throw new Refusal('object');
    if (live.some(({ isOld }) => isOld)) throw new Refusal('purges');
    await sql`UPDATE object SET state = 'condemned', condemned_at = clock_timestamp()
      WHERE shard = ${shard} AND state = 'live' AND name <> ALL(${names}::text[])`.execute(tx);
    return {};
  });
}

/** Condemns uploads that nobody will finish. A ship that names one of them is refused. */
export async function abandon(registry: Registry, names: readonly string[]): Promise<number> {
  const rows = await registry.statement(
    'abandon uploads',
    sql`UPDATE object SET state = 'condemned', condemned_at = clock_timestamp()
      WHERE name = ANY(${[...names]}::text[]) AND state = 'uploading' RETURNING name`,
  );
  return rows.length;
}

/** Milliseconds. */
export interface CollectionTimes {
  /** Nobody finishes an upload after this time. */
  readonly abandonedMs: number;
  /** Time until condemned objects are deleted, unless a purge is newer than they are. */
  readonly windowMs: number;
  /** Time between the deletion of an object and the check that it is gone. */
  readonly settleMs: number;
}

/** Nothing is collected for shards of another timeline: an object's row may be older than the object's role. */
const CURRENT = sql`EXISTS (SELECT 1 FROM shard s
  WHERE s.id = object.shard AND s.timeline = ${TIMELINE})`;

/**
 * Condemns uploads that nobody will finish: old ones, and those older than a purge that the manifest is clean of. If
 * somebody was about to name one, the ship is refused and uploads it again. Returns their number, at most `most`.
 */
export async function condemnAbandoned(
  registry: Registry,
  { abandonedMs }: Pick<CollectionTimes, 'abandonedMs'>,
  most: number,
): Promise<number> {
  // In one order and without waiting, so that collectors and ships do not wait for each other.
  const rows = await registry.statement(
    'condemn abandoned uploads',
    sql`UPDATE object SET state = 'condemned', condemned_at = clock_timestamp()
      WHERE name IN (
        SELECT name FROM object WHERE state = 'uploading' AND ${CURRENT}
          AND (begun_at < clock_timestamp() - ${interval(abandonedMs)}
            OR purges < (SELECT clean FROM shard WHERE id = object.shard))
        ORDER BY name LIMIT ${most} FOR UPDATE SKIP LOCKED)
      RETURNING name`,
  );
  return rows.length;
}

interface ObjectToCollect {
  readonly name: string;
  readonly shard: number;
  readonly uploadId: string;
  /** When it was deleted, as PostgreSQL's text with microseconds; null if it was not. */
  readonly sweptAt: string | null;
}

/** Returns objects to delete or to look at again, ordered by name. @param after the last name of the previous page */
export async function objectsToCollect(
  registry: Registry,
  { windowMs, settleMs }: Pick<CollectionTimes, 'windowMs' | 'settleMs'>,
  most: number,
  after = '',
): Promise<readonly ObjectToCollect[]> {
  const window = interval(windowMs);
  // Each part reads few rows of an index: there are hundreds of thousands of condemned objects. Its conditions need now(),
  // and OFFSET keeps the planner from joining all of them at once.
  return registry.read(
    'look for condemned objects',
    sql<ObjectToCollect>`
      SELECT name, shard, upload_id AS "uploadId", swept_at::text AS "sweptAt" FROM (
        SELECT * FROM object WHERE state = 'swept' AND swept_at < now() - ${interval(settleMs)}
        UNION ALL
        SELECT * FROM object WHERE state = 'condemned' AND condemned_at < now() - ${window}
        UNION ALL
        SELECT of_purges.* FROM shard s CROSS JOIN LATERAL (
          SELECT * FROM object WHERE shard = s.id AND state = 'condemned' AND purges < s.purges
            AND condemned_at >= now() - ${window} OFFSET 0) of_purges
      ) object WHERE name > ${after} AND ${CURRENT} ORDER BY name LIMIT ${most}`,
  );
}

/** Condition that an object still waits for its deletion, or for a look at what was deleted. */
function isAsRead(name: string, sweptAt: string | null) {
  return sql<boolean>`name = ${name} AND ${CURRENT}
    AND CASE WHEN ${sweptAt}::timestamptz IS NULL THEN state = 'condemned'
      ELSE state = 'swept' AND swept_at = ${sweptAt}::timestamptz END`;
}

/** Records that a condemned object's upload was aborted and the object deleted. */
export async function sweep(
  registry: Registry,
  name: string,
  sweptAt: string | null,
): Promise<Outcome> {
  const rows = await registry.statement(
    'sweep',
    sql`UPDATE object SET state = 'swept', swept_at = clock_timestamp()
      WHERE ${isAsRead(name, sweptAt)} RETURNING name`,
  );
  return outcomeOf(rows, 'object');
}

/**
 * Removes the row of an object that was not there `settleMs` after it was deleted: a store may complete an upload while
 * it aborts it, but not later.
 *
 * @param sweptAt of the deletion that was checked
 */
export async function markGone(
  registry: Registry,
  name: string,
  sweptAt: string,
  { settleMs }: Pick<CollectionTimes, 'settleMs'>,
): Promise<Outcome> {
  const rows = await registry.statement(
    'mark an object gone',
    sql`DELETE FROM object WHERE name = ${name} AND state = 'swept' AND ${CURRENT}
      AND swept_at = ${sweptAt}::timestamptz
      AND swept_at < clock_timestamp() - ${interval(settleMs)} RETURNING name`,
  );
  return outcomeOf(rows, 'object');
}

/** Store of a shard's objects. */
type StoreOf = (shard: number) => Pick<UploadingStore, 'giveUpUpload' | 'delete' | 'head'>;

export interface Collected {
  readonly swept: number;
  readonly gone: number;
  /** Kept by a lock of the store. */
  readonly locked: number;
  /** They are tried again in the next round. */
  readonly failures: readonly { readonly name: string; readonly error: MailkeepError }[];
}

/**
 * Deletes condemned objects, and removes the rows of those that are gone. Rows decide alone, never what a listing lacks.
 * Several processes may collect at the same time.
 *
 * @throws errors of the registry; the signal's reason
 */
export async function collectRound(
  registry: Registry,
  storeOf: StoreOf,
  times: CollectionTimes,
  signal: AbortSignal,
): Promise<Collected> {
  await condemnAbandoned(registry, times, PAGE);
  const failures: { name: string; error: MailkeepError }[] = [];
  let [swept, gone, locked] = [0, 0, 0];
  let after = '';
  for (;;) {
    const page = await objectsToCollect(registry, times, PAGE, after);
    for (const object of page) {
      signal.throwIfAborted();
      try {
        const result = await collect(registry, storeOf(object.shard), object, times, signal);
        if (result === 'swept') swept += 1;
        if (result === 'gone') gone += 1;
      } catch (error) {
        const { name } = object;
        if (hasCode(error, 'object-locked')) locked += 1;
        else if (error instanceof MailkeepError) failures.push({ name, error });
        else throw error;
      }
    }
    after = page.at(-1)?.name ?? after;
    if (page.length < PAGE) return { swept, gone, locked, failures };
  }
}

const PAGE = 500;

async function collect(
  registry: Registry,
  store: ReturnType<StoreOf>,
  { name, uploadId, sweptAt }: ObjectToCollect,
  times: CollectionTimes,
  signal: AbortSignal,
): Promise<'swept' | 'gone' | undefined> {
  // The page was read some time ago, and a recovery may have found that the object is needed.
  const rows = await registry.read(
    'look at a condemned object',
    sql`SELECT 1 FROM object WHERE ${isAsRead(name, sweptAt)}`,
  );
  if (rows.length === 0) return undefined;
  // The upload first: an object that is completed after its deletion would stay. A recovered object has none.
  if (uploadId !== '') await store.giveUpUpload({ name, uploadId }, signal);
  if (sweptAt !== null && (await store.head(name, signal)) === undefined) {
    const { outcome } = await markGone(registry, name, sweptAt, times);
    return outcome === 'committed' ? 'gone' : undefined;
  }
  await store.delete(name, signal);
  const { outcome } = await sweep(registry, name, sweptAt);
  return outcome === 'committed' ? 'swept' : undefined;
}
