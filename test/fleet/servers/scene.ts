import { sql } from 'kysely';
import { expect } from 'vitest';
import type { UploadingStore } from '../../../src/copies/object-store.ts';
import { childrenOf } from '../../../src/copies/s3-client.ts';
import { ensureBucket, S3Store, s3Store } from '../../../src/copies/s3-store.ts';
import { HeldArchive } from '../../../src/fleet/held-archive.ts';
import { ObjectNames } from '../../../src/fleet/object-names.ts';
import type { PurgedRecords } from '../../../src/fleet/publish-sealed.ts';
import { FleetStore } from '../../../src/fleet/segments.ts';
import type { Uploading } from '../../../src/fleet/uploads.ts';
import { addArchive, addTenant } from '../../../src/registry/fleet.ts';
import type { ObjectState } from '../../../src/registry/objects.ts';
import { readArchive, type StoredArchive } from '../../../src/registry/reading.ts';
import type { Registry } from '../../../src/registry/registry.ts';
import { endSession } from '../../../src/registry/sessions.ts';
import { DIR } from '../../archive/sample-log.ts';
import type { SimulatedDisk } from '../../archive/simulated-disk.ts';
import { seeded } from '../../bench/seeded.ts';
import { HttpProxy } from '../../objects/servers/http-proxy.ts';
import { ImpatientClock, LIMITS } from '../../objects/servers/impatient-clock.ts';
import { type Radosgw, startRadosgw, withoutRadosgw } from '../../objects/servers/radosgw.ts';
import { targetAt } from '../../objects/servers/s3-server.ts';
import { signal } from '../../objects/store-contract.ts';
import { CuttingProxy } from '../../registry/servers/cutting-proxy.ts';
import { claimed, newSession } from '../../registry/servers/fleet.ts';
import { Postgres, withoutPostgres } from '../../registry/servers/postgres.ts';
import { Collector } from './collector.ts';
import { keysIn } from './keys-in.ts';
import { commitAll, type SampleArchive, sampleArchive } from './sample-archive.ts';

const BUCKET = 'fleet';
export const FLEET = '0f0e0d0c-0b0a-4908-8706-050403020100';

/**
 * True where PostgreSQL or RadosGW is not installed.
 *
 * @throws Error if MAILKEEP_PEERS=required
 */
export function withoutServers(): boolean {
  const missing = [withoutPostgres(), withoutRadosgw()];
  return missing.includes(true);
}

export interface Servers {
  readonly postgres: Postgres;
  readonly gateway: Radosgw;
  stop(): Promise<void>;
}

export async function startServers(): Promise<Servers> {
  const postgres = await Postgres.start();
  try {
    const gateway = await startRadosgw();
    await ensureBucket(targetAt(gateway, BUCKET), signal);
    const stop = async () => {
      await postgres.stop();
      await gateway.stop();
    };
    return { postgres, gateway, stop };
  } catch (error) {
    await postgres.stop();
    throw error;
  }
}

const ALL_OBJECTS = sql<{ key: string; state: ObjectState; purges: number }>`
  SELECT key, state, purges FROM object ORDER BY begun_at, key`;

let scenes = 0;

/** One archive whose commits are all in the tail, held by a worker that reaches both servers through proxies. */
export class Scene {
  readonly controller = new AbortController();
  readonly collector: Collector;

  private constructor(
    readonly sample: SampleArchive,
    readonly http: HttpProxy,
    readonly sql: CuttingProxy,
    readonly archive: number,
    /** Through the proxies. */
    readonly registry: Registry,
    readonly objects: UploadingStore,
    /** Past them. */
    readonly direct: { readonly registry: Registry; readonly objects: UploadingStore },
    private readonly client: S3Store,
    readonly held: HeldArchive,
    readonly names: ObjectNames,
  ) {
    this.collector = new Collector(direct.registry, direct.objects);
  }

  static async make({ postgres, gateway }: Servers, segments = 3): Promise<Scene> {
    scenes += 1;
    const database = await postgres.create();
    const [http, sql] = [
      await HttpProxy.start(gateway.port),
      await CuttingProxy.start(postgres.socket),
    ];
    const target = (more = {}) => targetAt(gateway, BUCKET, { prefix: `scene-${scenes}`, ...more });
    const clock = new ImpatientClock();
    http.onSilence = () => clock.expire();
    const options = { clock, random: () => 0.5, timeouts: LIMITS };
    const objects = s3Store(target({ port: http.port }), options);
    const direct = {
      registry: await postgres.open(database),
      objects: s3Store(target(), options),
    };
    const registry = await postgres.open(database, {}, sql.folder);
    const sample = await sampleArchive(segments);
    const archive = await addedArchive(direct.registry, sample);
    const session = await newSession(direct.registry, 'node-1');
    const { lease, head, entry } = await claimed(direct.registry, session, archive);
    const held = new HeldArchive(registry, session, { head, entry });
    held.moved(await commitAll(direct.registry, lease, head, sample));
    const random = seeded('names of objects', scenes);
    const names = new ObjectNames({ fleet: FLEET, logId: sample.logId }, (n) => random.bytes(n));
    const client = new S3Store(target());
    return new Scene(sample, http, sql, archive, registry, objects, direct, client, held, names);
  }

  async stop(): Promise<void> {
    await this.registry.close();
    await this.sql.stop();
    await this.http.stop();
    await this.objects.close();
    await this.direct.objects.close();
    await this.client.close();
  }

  /** What uploads are made with. */
  get uploading(): Uploading {
    return { held: this.held, objects: this.objects, signal: this.controller.signal };
  }

  /** Lets nothing of the worker reach a server any more. */
  kill(): void {
    this.http.faultFor = () => ({ do: 'cut-before' });
    this.controller.abort(new Error('killed'));
    this.sql.killClients();
  }

  async stored(): Promise<StoredArchive> {
    const stored = await readArchive(this.direct.registry, this.archive);
    if (stored === undefined) throw new Error('there is no such archive');
    return stored;
  }

  /** The store of a holder, as it is after a claim. */
  async store(more: {
    readonly held?: HeldArchive;
    readonly disk?: SimulatedDisk;
    readonly purges?: () => PurgedRecords;
  }): Promise<FleetStore> {
    const { held = this.held, disk = this.sample.disk, purges = () => new Map() } = more;
    return FleetStore.open({
      ...{ held, objects: this.objects, names: this.names, files: disk.files, dir: DIR },
      stored: await this.stored(),
      unfinishedPurges: purges,
      signal: this.controller.signal,
    });
  }

  /**
   * Another session holds the archive from here on; it reaches the registry past the proxy.
   *
   * @param from who holds it now
   */
  async takenOver(node = 'node-2', from = this.held): Promise<HeldArchive> {
    const { registry } = this.direct;
    await endSession(registry, from.session);
    const session = await newSession(registry, node);
    const { head, entry } = await claimed(registry, session, this.archive);
    return new HeldArchive(registry, session, { head, entry });
  }

  /** The states of all objects that were ever registered, oldest first. */
  async states(): Promise<readonly ObjectState[]> {
    return (await this.rows()).map(({ state }) => state);
  }

  async rows(): Promise<
    readonly { readonly key: string; readonly state: ObjectState; readonly purges: number }[]
  > {
    return this.direct.registry.read('look at objects', ALL_OBJECTS);
  }

  /** Names whose upload was begun and is not finished. */
  /** Every object that is there, up to 1,000: the store lists none with a dot in its name. */
  async keys(): Promise<string[]> {
    return keysIn(this.client);
  }

  async unfinished(): Promise<string[]> {
    return (await this.client.unfinishedUploads('', signal)).map(({ name }) => name);
  }

  /** Names whose upload has bytes and is not finished. */
  async unfinishedWithBytes(): Promise<string[]> {
    const names: string[] = [];
    for (const { name, uploadId } of await this.client.unfinishedUploads('', signal)) {
      const request = { operation: 'ListParts', method: 'GET', name, query: { uploadId } } as const;
      const { xml } = await this.client.request(request, signal);
      if (xml !== undefined && childrenOf(xml, 'Part').length > 0) names.push(name);
    }
    return names;
  }

  /** Returns a header of an object. */
  async headerOf(name: string, header: string): Promise<unknown> {
    const request = { operation: 'HeadObject', method: 'HEAD', name } as const;
    return (await this.client.request(request, signal)).headers[header];
  }

  /**
   * Collects all garbage. The store then has what the registry names, and nothing else.
   *
   * @param unregistered how many uploads there are without bytes that the registry does not know
   */
  async expectCollected(unregistered: number | 'any' = 0): Promise<void> {
    await this.collector.sweep();
    await this.collector.settle();
    const rows = await this.rows();
    const live = rows.filter(({ state }) => state === 'live').map(({ key }) => key);
    expect(rows.filter(({ state }) => state !== 'live' && state !== 'gone')).toEqual([]);
    expect(await this.keys()).toEqual(live.toSorted());
    expect(await this.unfinishedWithBytes()).toEqual([]);
    if (unregistered !== 'any') expect(await this.unfinished()).toHaveLength(unregistered);
    const { covers } = await this.stored();
    expect(covers.map(({ key }) => key).toSorted()).toEqual(live.toSorted());
  }
}

async function addedArchive(registry: Registry, sample: SampleArchive): Promise<number> {
  const tenant = await addTenant(registry, { name: 'tenant', weight: 1 });
  const { logId, genesis } = sample;
  const facts = { tenant, name: 'anna', logId, genesis, settings: {} };
  const archive = await addArchive(registry, facts);
  if (archive === undefined) throw new Error('there is an archive of that name');
  return archive;
}
