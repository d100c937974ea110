import { randomUUID } from 'node:crypto';
import { acquireLock } from '../archive/lock.ts';
import type { EngineContext } from '../catalog/open-reader.ts';
import { openWriter } from '../catalog/open-writer.ts';
import type { UploadingStore } from '../copies/object-store.ts';
import { sleep, systemClock } from '../core/concurrency.ts';
import type { Settings } from '../core/config-schema.ts';
import { MailkeepError } from '../core/errors.ts';
import type { SegmentProver } from '../verify/check-segment.ts';
import { addAccounts, type NewAccount, newShard } from './accounts.ts';
import { release } from './claims.ts';
import { fleetError } from './errors.ts';
import type { FleetKeys } from './keys.ts';
import { shardKeys } from './keys.ts';
import {
  addEvent,
  committed,
  type Lease,
  type Outcome,
  ShardLost,
  structural,
} from './outcomes.ts';
import type { Registry } from './postgres.ts';
import { type FleetRow, skipNumbers } from './schema.ts';
import { endSession, insertSession, renew } from './sessions.ts';
import { Shipper } from './ship.ts';
import { shardStore } from './uploads.ts';

/** The session of an import is renewed in a third of this. */
const LEASE_MS = 300_000;
/** Until a ship that failed is tried again. */
const AGAIN_MS = 5_000;

interface AdoptOptions {
  readonly registry: Registry;
  readonly fleet: FleetRow;
  readonly keys: FleetKeys;
  readonly store: UploadingStore;
  readonly prover: SegmentProver;
  /** Name of this node, for the event. */
  readonly node: string;
  readonly context: EngineContext;
  readonly codec: Settings['archive']['codec'];
  readonly signal: AbortSignal;
}

/** Adds a shard that a session holds, which claims nothing else. */
export async function holdNewShard(
  registry: Registry,
  { session, node }: { readonly session: string; readonly node: string },
): Promise<Outcome<{ lease: Lease }>> {
  return structural(registry, 'add a shard', async (tx, version) => {
    const importing = { session, node, address: '', room: 0, isDraining: true };
    await insertSession(tx, importing, LEASE_MS, version);
    await skipNumbers(tx);
    const shard = await newShard(tx, version, session);
    await addEvent(tx, { who: node, what: 'import', shard, facts: { session } });
    return { lease: { shard, epoch: 1, session } };
  });
}

/**
 * Makes an archive of a single machine a shard: ships it, and then adds its accounts. The folder stays as it is, and the
 * fleet does not know it. An import that was cut off leaves a shard without accounts at most.
 *
 * @param accounts those of the archive, with the same servers and mailboxes
 * @returns undefined if one of the names was taken meanwhile
 * @throws archive-in-use, fleet-import-cut-off; errors of the archive, the store and the registry
 */
export async function adoptArchive(
  options: AdoptOptions,
  dir: string,
  accounts: readonly NewAccount[],
): Promise<{ readonly shard: number; readonly commit: number } | undefined> {
  const { registry, node, context, codec } = options;
  // Brings the catalog up to date: commits that it lacks are not shipped.
  await (await openWriter(context, dir, codec)).close();
  const lock = acquireLock(dir);
  const over = new AbortController();
  const session = randomUUID();
  let renewing: Promise<void> | undefined;
  try {
    const { lease } = committed(await holdNewShard(registry, { session, node }));
    renewing = keepAlive(registry, session, over);
    const commit = await shipAll(options, dir, lease, over.signal);
    const place = () => accounts.map(() => lease.shard);
    const { outcome } = await addAccounts(registry, accounts, place, 'operator');
    await release(registry, lease);
    return outcome === 'committed' ? { shard: lease.shard, commit } : undefined;
  } catch (error) {
    if (error instanceof ShardLost) throw fleetError('fleet-import-cut-off', { folder: dir });
    throw error;
  } finally {
    over.abort();
    lock.release();
    await renewing;
    if (renewing !== undefined) await endSession(registry, session);
  }
}

async function shipAll(
  { registry, fleet, keys, store, prover, node, context, signal }: AdoptOptions,
  dir: string,
  lease: Lease,
  over: AbortSignal,
): Promise<number> {
  const { shard } = lease;
  const { now } = context;
  const shipper = new Shipper({
    ...{ registry, lease, dir, prover, node, now, store: shardStore(store, shard) },
    keys: shardKeys(keys, fleet.id, shard, fleet.bucket),
    ...{ shipped: undefined, done: () => 0, purges: () => 0, onShipped: async () => undefined },
  });
  const either = AbortSignal.any([signal, over]);
  while (shipper.isBehind()) {
    either.throwIfAborted();
    if ((await shipper.ship(either, true)) === 'again') await sleep(systemClock, AGAIN_MS, either);
  }
  return shipper.current?.clear.commit ?? 0;
}

/** Renews a session until it is over, or is found to be dead. */
async function keepAlive(
  registry: Registry,
  session: string,
  over: AbortController,
): Promise<void> {
  while (!over.signal.aborted) {
    try {
      await sleep(systemClock, LEASE_MS / 3, over.signal);
      const outcome = await renew(registry, session, LEASE_MS);
      if (outcome.outcome === 'refused') over.abort(new ShardLost(outcome.by));
    } catch (error) {
      // The next time is early enough.
      if (!(error instanceof MailkeepError) && !over.signal.aborted) throw error;
    }
  }
}
