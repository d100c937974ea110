import {
  type ClearManifest,
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
import { isDamage } from '../core/errors.ts';
import type { FleetKeys } from './keys.ts';
import { type ShardKeys, shardKeys } from './keys.ts';
import { knownNodes } from './overview.ts';
import type { Registry } from './postgres.ts';
import { type FoundShard, recoverShard, shardsToRecover } from './recovery.ts';
import type { FleetRow } from './schema.ts';
import type { ObjectKind } from './ships.ts';
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

/**
 * Makes the rows of shards agree with the bucket, after PostgreSQL failed over or was restored: the manifest of the highest
 * epoch, and of those with the highest sequence, whose objects are all there.
 *
 * @throws errors of the registry and the store
 */
export async function recoverFleet(options: RecoverOptions): Promise<readonly Recovered[]> {
  const { registry, fleet, keys, store, signal, clock, settleMs, all } = options;
  const shards = await shardsToRecover(registry, all);
  if (shards.length === 0) return [];
  const nodes = (await knownNodes(registry)).map(({ node }) => node);
  // Uploads and deletions of the earlier timeline may still be under way.
  for (const shard of shards) {
    for (const upload of await store.unfinishedUploads(`shards/${shard}/`, signal)) {
      await store.giveUpUpload(upload, signal);
    }
  }
  await sleep({ ...clock, now: () => 0 }, settleMs, signal);
  const recovered: Recovered[] = [];
  for (const shard of shards) {
    const own = shardKeys(keys, fleet.id, shard, fleet.bucket);
    const { found, skipped } = await lookFor(shardStore(store, shard), shard, own, signal);
    const { outcome } = await recoverShard(registry, found, nodes, all);
    // Somebody else has recovered it, or holds it.
    if (outcome === 'refused') continue;
    recovered.push({ shard, commit: found.manifest?.commitNumber ?? null, skipped });
  }
  return recovered;
}

async function lookFor(
  store: ObjectStore,
  shard: number,
  keys: ShardKeys,
  signal: AbortSignal,
): Promise<{ readonly found: FoundShard; readonly skipped: number }> {
  const listed = new Map<string, ObjectFact>();
  for await (const fact of store.list('', signal)) listed.set(fact.name, fact);
  const manifests = [...listed.keys()]
    .flatMap((name) => {
      const facts = readFleetManifestName(name);
      return facts === undefined ? [] : [{ name, ...facts }];
    })
    .sort((a, b) => b.epoch - a.epoch || b.sequence - a.sequence);
  const epoch = manifests[0]?.epoch ?? 0;
  let skipped = 0;
  for (const { name } of manifests) {
    const manifest = await readWhole(store, name, listed, keys, signal);
    if (manifest === undefined) {
      skipped += 1;
      continue;
    }
    return { found: { shard, epoch, ...foundOf(manifest, listed) }, skipped };
  }
  return { found: { shard, epoch, objects: objectsOf(listed, new Map(), 0) }, skipped };
}

interface WholeManifest {
  readonly clear: ClearManifest;
  readonly kinds: ReadonlyMap<string, ObjectKind>;
  readonly clean: number;
  readonly purges: number;
}

/** Returns undefined if a manifest is damaged, or an object of it is not there as it was uploaded. */
async function readWhole(
  store: ObjectStore,
  name: string,
  listed: ReadonlyMap<string, ObjectFact>,
  { key }: ShardKeys,
  signal: AbortSignal,
): Promise<WholeManifest | undefined> {
  try {
    const bytes = await readSmallObject(store, name, MAX_MANIFEST_BYTES, signal);
    const clear = decodeManifest(bytes, name, key);
    const isWhole = clear.objects.every((one) => listed.get(one.name)?.length === one.length);
    if (!isWhole) return undefined;
    const { segments, tail, fleet } = await openManifest(clear, key.opening);
    const { clean = 0, purges = 0, snapshot, state } = fleet ?? {};
    const kinds = new Map<string, ObjectKind>([
      [name, 'manifest'],
      ...segments.map((one) => [one.name, 'segment'] as const),
      ...tail.map((one) => [one.name, 'tail'] as const),
      ...(snapshot === undefined ? [] : [[snapshot.name, 'snapshot'] as const]),
      ...(state === undefined ? [] : [[state.name, 'state'] as const]),
    ]);
    return { clear, kinds, clean, purges };
  } catch (error) {
    if (isDamage(error)) return undefined;
    throw error;
  }
}

function foundOf(
  { clear, kinds, clean, purges }: WholeManifest,
  listed: ReadonlyMap<string, ObjectFact>,
): Pick<FoundShard, 'manifest' | 'objects'> {
  const { name, sha256, sequence, commit: commitNumber, objects } = clear;
  return {
    manifest: {
      ...{ name, sha256: Buffer.from(sha256, 'hex'), sequence, commitNumber, clean, purges },
      names: objects.map((one) => one.name),
    },
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
