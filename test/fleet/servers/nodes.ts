import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type LogWriter, openLogWriter } from '../../../src/archive/log-writer.ts';
import { openCatalog, type WritableCatalog } from '../../../src/catalog/catalog.ts';
import { catchUp } from '../../../src/catalog/rebuild.ts';
import type { UploadingStore } from '../../../src/copies/object-store.ts';
import { ensureBucket, S3Store } from '../../../src/copies/s3-store.ts';
import { openState } from '../../../src/core/state.ts';
import type { MailboxKey } from '../../../src/core/types.ts';
import { type ClaimedShard, claim } from '../../../src/fleet/claims.ts';
import {
  carryOutPurges,
  encodeWork,
  type MergeResult,
  mergeFolder,
} from '../../../src/fleet/exclusive.ts';
import { FleetKeys, type ShardKeys, shardKeys } from '../../../src/fleet/keys.ts';
import type { Registry } from '../../../src/fleet/postgres.ts';
import { decidePurge } from '../../../src/fleet/purges.ts';
import type { RecoverOptions } from '../../../src/fleet/recover.ts';
import { createFleet } from '../../../src/fleet/schema.ts';
import { endSession } from '../../../src/fleet/sessions.ts';
import { Shipper, type ShipResult } from '../../../src/fleet/ship.ts';
import { readNote, type TakenOver, takeOver, writeNote } from '../../../src/fleet/take-over.ts';
import { Positions } from '../../archive/positions.ts';
import { writeBatches } from '../../archive/sample-log.ts';
import { type Radosgw, startRadosgw, withoutRadosgw } from '../../objects/servers/radosgw.ts';
import { targetAt } from '../../objects/servers/s3-server.ts';
import { batchesIn, prover } from '../../offsite/sample-copy.ts';
import { Postgres, withoutPostgres } from './postgres.ts';
import { done, newSession, newShard } from './scene.ts';

export const signal = new AbortController().signal;
export const FLEET = '6c0f51f1-6ffb-4f0e-8f0c-0f0e0d0c0b0a';
export const KEYS = FleetKeys.parse(`key-1 ${'5a'.repeat(32)}\n`, 'test');

export function withoutServers(): boolean {
  return [withoutPostgres(), withoutRadosgw()].some((isMissing) => isMissing);
}

/** PostgreSQL and RadosGW, for one test file. */
export class Servers {
  #buckets = 0;

  private constructor(
    readonly postgres: Postgres,
    readonly radosgw: Radosgw,
  ) {}

  static async start(postgres = Postgres.start()): Promise<Servers> {
    return new Servers(await postgres, await startRadosgw());
  }

  /** Makes a fleet with one shard in a database and a bucket of its own. */
  async fleet(): Promise<Fleet> {
    this.#buckets += 1;
    const bucket = `fleet-${this.#buckets}`;
    const target = targetAt(this.radosgw, bucket);
    await ensureBucket(target, signal);
    const store = new S3Store(target);
    const database = await this.postgres.create();
    const registry = await this.postgres.open(database);
    await createFleet(registry, { id: FLEET, bucket: store.label });
    const { shard } = await newShard(registry, 'anna');
    const keys = shardKeys(KEYS, FLEET, shard, store.label);
    const work = mkdtempSync(path.join(tmpdir(), 'shards-'));
    return { registry, database, store, shard, keys, work };
  }

  async stop(): Promise<void> {
    await this.postgres.stop();
    await this.radosgw.stop();
  }
}

export interface Fleet {
  readonly registry: Registry;
  readonly database: string;
  readonly store: RecoverOptions['store'];
  readonly shard: number;
  readonly keys: ShardKeys;
  readonly work: string;
}

export async function endFleet({ store, work }: Fleet): Promise<void> {
  await store.close();
  rmSync(work, { recursive: true, force: true });
}

export const CONTEXT = {
  globals: { config: undefined, data: undefined },
  environment: { env: {}, cwd: '/' },
  ...{ signal, now: () => 1_770_000_000_000, report: () => undefined },
  words: { finding: () => '', error: () => '' },
};

/** Messages are numbered over all nodes, so that none is the same as another. */
let mails = 1;

/** A node with a disk, which outlives its sessions. */
export class Node {
  session = '';
  claimed: ClaimedShard | undefined;
  taken: TakenOver | undefined;
  shipper: Shipper | undefined;
  #writer: { readonly log: LogWriter; readonly catalog: WritableCatalog } | undefined;
  #known = new Positions();
  /** Number of purges that it knows. */
  purges = 0;
  /** The store as this node's shipper sees it. */
  objects: UploadingStore;

  constructor(
    readonly name: string,
    readonly fleet: Fleet,
    /** What the node's requests to PostgreSQL go through. */
    readonly registry: Registry = fleet.registry,
  ) {
    this.objects = fleet.store;
  }

  get dir(): string {
    return path.join(this.fleet.work, this.name, String(this.fleet.shard));
  }

  /** Claims the shard in a new session, and makes its folder what was claimed. */
  async takeOver(): Promise<TakenOver> {
    const { registry, shard } = this.fleet;
    this.session = await newSession(registry, this.name);
    const [claimed] = done(await claim(registry, this.session, [shard])).claimed;
    if (claimed === undefined) throw new Error('the shard is not free');
    this.claimed = claimed;
    return this.open();
  }

  /** Opens what was claimed. */
  async open(): Promise<TakenOver> {
    const { claimed, fleet } = this;
    if (claimed === undefined) throw new Error('nothing was claimed');
    const { keys } = fleet;
    const taken = await takeOver({
      ...{ claimed, fleet: FLEET, dir: this.dir, store: this.objects, keys, prover, signal },
    });
    this.taken = taken;
    this.purges = Math.max(claimed.ended, ...claimed.purges.map(({ number }) => number));
    await carryOutPurges(CONTEXT, this.dir, claimed.purges, (sealed) => sealed);
    await this.startWriter();
    this.shipper = new Shipper({
      ...{ registry: this.registry, lease: claimed.lease, dir: this.dir, keys, prover },
      store: this.objects,
      ...{ node: this.name, now: () => 1_770_000_000_000, shipped: taken.shipped },
      ...{ done: () => readNote(this.dir)?.done ?? 0, purges: () => this.purges },
      onShipped: async ({ clear }) => {
        const note = readNote(this.dir);
        if (note === undefined) return;
        await writeNote(this.dir, { ...note, manifest: clear.name, commit: clear.commit });
      },
    });
    return taken;
  }

  /** Opens the folder as its daemon does. */
  async startWriter(): Promise<void> {
    const { dir } = this;
    const catalog = await openCatalog(dir);
    const now = () => 1_770_000_000_000;
    const log = await openLogWriter({ dir, now, expected: catalog.reached() });
    await catchUp({ dir, target: catalog, signal });
    openState(dir).close();
    this.#writer = { log, catalog };
    this.#known = new Positions();
  }

  get log(): LogWriter {
    if (this.#writer === undefined) throw new Error('the folder is closed');
    return this.#writer.log;
  }

  get catalog(): WritableCatalog {
    if (this.#writer === undefined) throw new Error('the folder is closed');
    return this.#writer.catalog;
  }

  /** Stores three messages in one commit. */
  async store(commits = 1): Promise<void> {
    for (let made = 0; made < commits; made += 1) {
      await writeBatches(this.log, this.#known, 1, mails);
      mails += 3;
      const batch = this.#known.batches.at(-1);
      if (batch !== undefined) this.#writer?.catalog.foldBatch(batch);
    }
  }

  async ship(withSnapshot = false): Promise<ShipResult> {
    if (this.shipper === undefined) throw new Error('nothing was taken over');
    return this.shipper.ship(signal, withSnapshot);
  }

  /** Decides to forget messages. @param from only these mailboxes lose them; all by default */
  async decide(
    messages: readonly string[],
    mailboxes: readonly MailboxKey[] = [],
    from?: readonly MailboxKey[],
  ): Promise<void> {
    if (this.claimed === undefined) throw new Error('nothing was claimed');
    const work = encodeWork({
      ...{ messages: [...messages], mailboxes: [...mailboxes] },
      ...(from === undefined ? {} : { from: [...from] }),
    });
    const purge = { reason: 'forgotten', work, askedBy: 'x' } as const;
    const { lease } = this.claimed;
    this.purges = done(await decidePurge(this.registry, lease, purge)).number;
  }

  /** Merges the folders that were set aside, and removes them. */
  async merge(): Promise<readonly MergeResult[]> {
    const { claimed, taken, dir } = this;
    if (claimed === undefined || taken === undefined) throw new Error('nothing was taken over');
    await this.close();
    const generation = -claimed.lease.epoch;
    const results: MergeResult[] = [];
    for (const aside of taken.aside) {
      const folders = { dir, aside, generation };
      results.push(await mergeFolder(CONTEXT, folders, claimed.purges, (sealed) => sealed));
      rmSync(aside, { recursive: true });
    }
    await this.startWriter();
    return results;
  }

  /** Ids of the messages whose bytes are in a folder. */
  async messages(dir = this.dir): Promise<readonly string[]> {
    return (await batchesIn(dir)).flatMap(({ records }) =>
      records.flatMap((record) => (record.kind === 'message' ? [record.id] : [])),
    );
  }

  /** Closes the folder, as when the daemon ends. */
  async close(): Promise<void> {
    await this.#writer?.log.close();
    this.#writer?.catalog.close();
    this.#writer = undefined;
  }

  /** The session ends for everyone else. This node does not know. */
  async lose(): Promise<void> {
    done(await endSession(this.fleet.registry, this.session));
  }

  /** Hashes of the commits in the folder. */
  async commits(dir = this.dir): Promise<readonly string[]> {
    return (await batchesIn(dir)).map(({ commit }) => commit.hash);
  }
}

/** A store whose methods can be replaced. */
export function bound(store: UploadingStore): UploadingStore {
  const methods = new Proxy(store, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  return {
    label: methods.label,
    ...{ put: methods.put, get: methods.get, lock: methods.lock, versions: methods.versions },
    ...{ head: methods.head, list: methods.list, delete: methods.delete, close: methods.close },
    ...{ abilities: methods.abilities, beginUpload: methods.beginUpload },
    ...{ sendParts: methods.sendParts, completeUpload: methods.completeUpload },
    giveUpUpload: methods.giveUpUpload,
  };
}
