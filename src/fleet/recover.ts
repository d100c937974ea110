import { sql } from 'kysely';
import {
  decodeManifest,
  MAX_MANIFEST_BYTES,
  openManifest,
  readFleetManifestName,
} from '../copies/format/manifest.ts';
import { readSmallObject } from '../copies/manifests.ts';
import type { ObjectFact, ObjectStore, UploadingStore } from '../copies/object-store.ts';
import type { S3Store } from '../copies/s3-store.ts';
import type { Clock } from '../core/concurrency.ts';
import { sleep } from '../core/concurrency.ts';
import { isDamage, MailkeepError } from '../core/errors.ts';
import { fleetError } from './errors.ts';
import { type FleetKeys, type ShardKeys, shardKeys } from './keys.ts';
import type { BegunUpload, NewManifest, ObjectKind } from './objects.ts';
import { addEvent, type Outcome, one, structural } from './outcomes.ts';
import { knownNodes } from './overview.ts';
import type { Registry } from './postgres.ts';
import { type FleetRow, skipNumbers, TIMELINE } from './schema.ts';
import { shardStore } from './uploads.ts';

export interface RecoverOptions {
  readonly registry: Registry;
  readonly fleet: FleetRow;
  readonly keys: FleetKeys;
  readonly store: UploadingStore & Pick<S3Store, 'unfinishedUploads'>;
  readonly signal: AbortSignal;
  readonly clock: Pick<Clock, 'after'>;
  /** Milliseconds after which no deletion of an earlier holder is under way any more. */
  readonly settleMs: number;
  /** Also shards that seem to be current. */
  readonly all: boolean;
}

/** The client gives up a request, and the server one that it has read, in less time. */
export const RECOVER_SETTLE_MS = 120_000;

interface Recovered {
  readonly shard: number;
  /** Last commit of the shard; null if the bucket has no manifest of it. */
  readonly commit: number | null;
  /** Manifests that were passed over, because objects of them are missing or they are damaged. */
  readonly skipped: number;
}

interface RecoverRound {
  readonly recovered: readonly Recovered[];
  /** Shards for which the next round is. */
  readonly failures: readonly { readonly shard: number; readonly error: MailkeepError }[];
}

/**
 * Makes the rows of shards agree with the bucket, after PostgreSQL failed over or was restored: the manifest of the highest
 * epoch, and of those with the highest sequence, whose objects are all there.
 *
 * @throws errors of the registry and the store
 */
export async function recoverFleet(options: RecoverOptions): Promise<RecoverRound> {
  const { registry, fleet, keys, store, signal, clock, settleMs, all } = options;
  const shards = await shardsToRecover(registry, all);
  if (shards.length === 0) return { recovered: [], failures: [] };
  await structural(registry, 'skip numbers', async (tx) => {
    await skipNumbers(tx, true);
    return {};
  });
  const nodes = (await knownNodes(registry)).map(({ node }) => node);
  // Uploads and deletions of the earlier timeline may still be under way.
  for (const shard of shards) {
    for (const upload of await store.unfinishedUploads(`shards/${shard}/`, signal)) {
      await store.giveUpUpload(upload, signal);
    }
  }
  await sleep({ ...clock, now: () => 0 }, settleMs, signal);
  const recovered: Recovered[] = [];
  const failures: { shard: number; error: MailkeepError }[] = [];
  for (const shard of shards) {
    try {
      const own = shardKeys(keys, fleet.id, shard, fleet.bucket);
      const found = await lookFor(shardStore(store, shard), shard, own, signal);
      const { outcome } = await recoverShard(registry, found, nodes, all);
      // Somebody else has recovered it, or holds it.
      if (outcome === 'refused') continue;
      recovered.push({
        shard,
        commit: found.manifest?.commitNumber ?? null,
        skipped: found.skipped ?? 0,
      });
    } catch (error) {
      const isOfShard = error instanceof MailkeepError && !/^(?:store|registry)-/.test(error.code);
      if (!isOfShard) throw error;
      failures.push({ shard, error });
    }
  }
  return { recovered, failures };
}

async function lookFor(
  store: ObjectStore,
  shard: number,
  keys: ShardKeys,
  signal: AbortSignal,
): Promise<FoundShard> {
  const listed = new Map<string, ObjectFact>();
  for await (const fact of store.list('', signal)) listed.set(fact.name, fact);
  const manifests = [...listed.keys()]
    .flatMap((name) => {
      const facts = readFleetManifestName(name);
      return facts === undefined ? [] : [{ name, ...facts }];
    })
    .sort((a, b) => b.epoch - a.epoch || b.sequence - a.sequence);
  const about = { shard, epoch: manifests[0]?.epoch ?? 0 };
  const unreadable: unknown[] = [];
  for (const [skipped, { name }] of manifests.entries()) {
    try {
      const found = await readWhole(store, name, listed, keys, signal);
      if (found !== undefined) return { ...about, ...found, skipped };
    } catch (error) {
      if (!isDamage(error)) throw error;
      unreadable.push(error);
    }
  }
  // Another key makes everything look damaged. What nobody can read must not be removed.
  if (unreadable.length > 0 && unreadable.length === manifests.length) {
    const facts = { shard, manifests: manifests.length };
    throw fleetError('fleet-manifests-unreadable', facts, unreadable[0]);
  }
  const objects = objectsOf(listed, new Map(), 0);
  return { ...about, objects, skipped: manifests.length };
}

/**
 * Returns undefined if an object of a manifest is not there as it was uploaded.
 *
 * @throws if the manifest is damaged, or made with another key
 */
async function readWhole(
  store: ObjectStore,
  name: string,
  listed: ReadonlyMap<string, ObjectFact>,
  { key }: ShardKeys,
  signal: AbortSignal,
): Promise<Pick<FoundShard, 'manifest' | 'objects'> | undefined> {
  const bytes = await readSmallObject(store, name, MAX_MANIFEST_BYTES, signal);
  const clear = decodeManifest(bytes, name, key);
  const { sequence, commit: commitNumber, objects } = clear;
  if (!objects.every((one) => listed.get(one.name)?.length === one.length)) return undefined;
  const { segments, tail, fleet } = await openManifest(clear, key.opening);
  const { clean = 0, purges = 0, node, snapshot, state } = fleet ?? {};
  const kinds = new Map<string, ObjectKind>([
    [name, 'manifest'],
    ...segments.map((one) => [one.name, 'segment'] as const),
    ...tail.map((one) => [one.name, 'tail'] as const),
    ...(snapshot === undefined ? [] : [[snapshot.name, 'snapshot'] as const]),
    ...(state === undefined ? [] : [[state.name, 'state'] as const]),
  ]);
  const sha256 = Buffer.from(clear.sha256, 'hex');
  const names = objects.map((one) => one.name);
  return {
    manifest: { name, sha256, sequence, commitNumber, clean, purges, node, names },
    objects: objectsOf(listed, kinds, clean),
  };
}

/** What the manifest names is as clean as it is. Nothing is known of the others. */
function objectsOf(
  listed: ReadonlyMap<string, ObjectFact>,
  kinds: ReadonlyMap<string, ObjectKind>,
  clean: number,
): FoundShard['objects'] {
  return [...listed.values()].map(({ name, length: bytes }) => {
    const known = kinds.get(name);
    const kind = known ?? (readFleetManifestName(name) === undefined ? 'segment' : 'manifest');
    return { name, kind, bytes, purges: known === undefined ? 0 : clean };
  });
}

/** What the bucket has of a shard. */
interface FoundShard {
  readonly shard: number;
  /** Highest epoch of any manifest, also of branches that were dropped. */
  readonly epoch: number;
  /** Later manifests that are not whole. */
  readonly skipped?: number;
  /** The manifest of the highest epoch, and of those with the highest sequence, whose objects are all there. */
  readonly manifest?:
    | (Omit<NewManifest, 'previous' | 'messages' | 'catalogBytes'> & {
        readonly purges: number;
        /** That shipped it: its claim may be younger than the registry. */
        readonly node?: string | undefined;
      })
    | undefined;
  /** All objects of the shard, with the purges that their content is clean of; 0 if unknown. */
  readonly objects: readonly Omit<BegunUpload, 'uploadId'>[];
}

/**
 * Makes the row of a shard agree with the bucket, after PostgreSQL failed over, was restored or was lost. From then on
 * requests of the earlier timeline are refused for good.
 *
 * Uploads that the bucket listed as unfinished have been aborted, and deletions that were under way have ended.
 *
 * @param nodes all nodes that may have a folder of the shard
 * @param isForced also if the timeline is the same, unless somebody holds the shard
 */
export async function recoverShard(
  registry: Registry,
  { shard, epoch, manifest, objects, skipped = 0 }: FoundShard,
  nodes: readonly string[],
  isForced = false,
): Promise<Outcome> {
  return structural(registry, 'recover a shard', async (tx, version) => {
    const recovered = sql<{ epoch: number; isLess: boolean }>`
      UPDATE shard s SET epoch = greatest(s.epoch, ${epoch}) + 1, holder = NULL,
        timeline = ${TIMELINE}, wanted_node = NULL, version = ${version},
        manifest = ${manifest?.name ?? null}, manifest_sha256 = ${manifest?.sha256 ?? null}::bytea,
        sequence = ${manifest?.sequence ?? -1}, commit_number = ${manifest?.commitNumber ?? 0},
        clean = ${manifest?.clean ?? 0}, purges = greatest(s.purges, ${manifest?.purges ?? 0})
      FROM (SELECT id, sequence FROM shard WHERE id = ${shard} FOR UPDATE) before
      WHERE s.id = before.id AND (s.timeline <> ${TIMELINE} OR (${isForced} AND NOT EXISTS (
        SELECT 1 FROM worker w WHERE w.session = s.holder AND NOT w.dead)))
      RETURNING s.epoch, before.sequence > s.sequence AS "isLess"`;
    const row = await one(tx, recovered, 'state');
    await sql`UPDATE purge SET ended_at = NULL
      WHERE shard = ${shard} AND number > ${manifest?.clean ?? 0}`.execute(tx);
    const needed = new Set(manifest === undefined ? [] : [manifest.name, ...manifest.names]);
    const column = <T>(of: (object: FoundShard['objects'][number]) => T) => objects.map(of);
    await sql`DELETE FROM object WHERE shard = ${shard}
      AND name = ANY(${column(({ name }) => name)}::text[])`.execute(tx);
    // What has a row and is not in the bucket may be an upload: it stays, condemned, until it is collected.
    await sql`UPDATE object SET state = 'condemned', condemned_at = clock_timestamp()
      WHERE shard = ${shard}`.execute(tx);
    await sql`INSERT INTO object
        (shard, epoch, upload_id, name, kind, bytes, purges, state, condemned_at)
      SELECT ${shard}, ${row.epoch}, '', *, clock_timestamp() FROM unnest(
        ${column(({ name }) => name)}::text[], ${column(({ kind }) => kind)}::text[],
        ${column(({ bytes }) => bytes)}::bigint[], ${column(({ purges }) => purges)}::int[],
        ${column(({ name }) => (needed.has(name) ? 'live' : 'condemned'))}::text[])`.execute(tx);
    const holders = new Set(manifest?.node === undefined ? nodes : [...nodes, manifest.node]);
    // A folder may have what the bucket has lost: its node compares it before it is wiped.
    await sql`INSERT INTO folder (shard, node, entry, ahead)
      SELECT ${shard}, unnest(${[...holders]}::text[]), ${version}, ${skipped > 0 || row.isLess}
      ON CONFLICT (shard, node) DO UPDATE SET ahead = folder.ahead OR excluded.ahead`.execute(tx);
    const facts = { epoch: row.epoch, manifest: manifest?.name ?? null };
    await addEvent(tx, { who: 'operator', what: 'recovered', shard, facts });
    return {};
  });
}

/** Returns shards that have to be recovered before anyone claims them. @param all returns all shards */
export async function shardsToRecover(registry: Registry, all = false): Promise<readonly number[]> {
  const rows = await registry.read<{ id: number }>(
    'look for shards to recover',
    sql`SELECT id FROM shard WHERE ${all} OR timeline <> ${TIMELINE} ORDER BY id`,
  );
  return rows.map(({ id }) => id);
}

/**
 * Has all shards compared with the bucket before anyone claims or writes them: the registry is older than what was read or
 * shipped, so it was reset to a snapshot, or a dump was loaded.
 *
 * @param node that found it
 */
export async function distrustShards(registry: Registry, node: string): Promise<void> {
  await structural(registry, 'distrust all shards', async (tx, version) => {
    await sql`UPDATE shard SET timeline = '', version = ${version}`.execute(tx);
    await addEvent(tx, { who: node, what: 'registry-reset' });
    return {};
  });
}
