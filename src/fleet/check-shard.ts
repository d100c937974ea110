import { mkdtempSync, rmSync } from 'node:fs';
import path from 'node:path';
import { sql } from 'kysely';
import { type CheckedCopy, checkObjects, checkSegments, drawSample } from '../copies/check-copy.ts';
import type { ObjectStore, UploadingStore } from '../copies/object-store.ts';
import { copiedSegments, openCopy } from '../copies/restore-copy.ts';
import type { SegmentProver } from '../verify/check-segment.ts';
import type { ClaimedShard } from './claims.ts';
import type { FleetKeys } from './keys.ts';
import { shardKeys } from './keys.ts';
import type { Registry } from './postgres.ts';
import type { FleetRow } from './schema.ts';
import { currentManifest } from './take-over.ts';
import { shardStore } from './uploads.ts';

/** The holder ships meanwhile, and objects that its manifest no longer names may be deleted. */
const TRIES = 3;

export interface CheckOptions {
  readonly registry: Registry;
  readonly fleet: FleetRow;
  readonly keys: FleetKeys;
  readonly store: UploadingStore;
  readonly prover: SegmentProver;
  /** Folder for one segment at a time. */
  readonly temporary: string;
  readonly sample: Parameters<typeof drawSample>[1]['sample'];
  readonly random: () => number;
  readonly signal: AbortSignal;
}

/** What the row of a shard says about its copy. */
type ShippedRow = Pick<ClaimedShard, 'manifest' | 'manifestSha256'> & { readonly shard: number };

/** @param shard undefined for all @returns shards of which something was shipped */
export async function shippedShards(
  registry: Registry,
  shard?: number,
): Promise<readonly ShippedRow[]> {
  return registry.read<ShippedRow>(
    'look at shipped shards',
    sql`SELECT id AS shard, manifest, manifest_sha256 AS "manifestSha256" FROM shard
      WHERE manifest IS NOT NULL AND id = coalesce(${shard ?? null}, id) ORDER BY id`,
  );
}

/**
 * Reads what the bucket has of a shard: opens its segments, or a sample of them, as a restore would, and compares the other
 * objects with the manifest.
 *
 * @throws object-damaged and object-missing for the manifest; errors of the store and the registry
 */
export async function checkShard(
  options: CheckOptions,
  row: ShippedRow,
): Promise<CheckedCopy & { readonly commit: number }> {
  const { registry, keys, fleet } = options;
  const { shard } = row;
  const own = {
    store: shardStore(options.store, shard),
    keys: shardKeys(keys, fleet.id, shard, fleet.bucket),
  };
  for (let tries = 1, claimed = row; ; tries += 1) {
    const [result] = await Promise.allSettled([checkManifest(options, own, claimed)]);
    const isSound = result.status === 'fulfilled' && result.value.findings.length === 0;
    const [now = claimed] = await shippedShards(registry, shard);
    if (!isSound && now.manifest !== claimed.manifest && tries < TRIES) claimed = now;
    else if (result.status === 'rejected') throw result.reason;
    else return result.value;
  }
}

async function checkManifest(
  { prover, temporary, sample, random, signal }: CheckOptions,
  { store, keys }: { readonly store: ObjectStore; readonly keys: ReturnType<typeof shardKeys> },
  claimed: ShippedRow,
): Promise<CheckedCopy & { readonly commit: number }> {
  const shipped = await currentManifest({ claimed, store, keys, signal });
  if (shipped === undefined) throw new Error('a shard that was shipped has no manifest');
  const { clear, secret } = shipped;
  const opened = await openCopy(store, clear, keys.key.opening);
  const segments = copiedSegments(secret);
  const read = new Set(segments.flatMap(({ pieces }) => pieces.map(({ name }) => name)));
  const others = clear.objects.filter(({ name }) => !read.has(name));
  const compared = await checkObjects({ store, objects: others, signal });
  const all = segments.map(({ segment }) => segment);
  const scratch = mkdtempSync(path.join(temporary, 'mailkeep-shard-'));
  try {
    const checked = await checkSegments({
      ...{ ...opened, prover, scratch, signal },
      chosen: sample === undefined ? undefined : new Set(drawSample(all, { sample, random })),
    });
    const findings = [...compared.findings, ...checked.findings];
    return { ...checked, findings, commit: clear.commit };
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}
