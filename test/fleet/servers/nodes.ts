import { createHash } from 'node:crypto';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'vitest';
import { genesisHash, logFolder } from '../../../src/archive/format.ts';
import { dropOldGenerations, sealClosedSegments } from '../../../src/archive/seal.ts';
import { withFetching } from '../../../src/archive/segment-files.ts';
import { CATALOG_VERSION } from '../../../src/catalog/database.ts';
import type { Writer } from '../../../src/catalog/open-writer.ts';
import type { UploadingStore } from '../../../src/copies/object-store.ts';
import { S3Client } from '../../../src/copies/s3-client.ts';
import { s3Store } from '../../../src/copies/s3-store.ts';
import { chunkUpload, makeChunk, storeChunk } from '../../../src/fleet/chunks.ts';
import { Claims } from '../../../src/fleet/claims.ts';
import { HeldArchive } from '../../../src/fleet/held-archive.ts';
import { ObjectNames } from '../../../src/fleet/object-names.ts';
import { FleetPurges } from '../../../src/fleet/purges.ts';
import { storeSnapshot } from '../../../src/fleet/snapshots.ts';
import { type TakeOverOptions, takeOver } from '../../../src/fleet/take-over.ts';
import { addArchive, addTenant } from '../../../src/registry/fleet.ts';
import { readArchive, type StoredArchive } from '../../../src/registry/reading.ts';
import type { Registry } from '../../../src/registry/registry.ts';
import { endSession } from '../../../src/registry/sessions.ts';
import { Positions } from '../../archive/positions.ts';
import { fill, sampleMail } from '../../archive/sample-log.ts';
import { seeded } from '../../bench/seeded.ts';
import { mailkeep } from '../../cli/child.ts';
import { targetAt } from '../../objects/servers/s3-server.ts';
import { signal } from '../../objects/store-contract.ts';
import { done, newSession } from '../../registry/servers/fleet.ts';
import { keysIn } from './keys-in.ts';
import { FLEET, type Servers } from './scene.ts';

const LOG_ID = Buffer.from('0123456789abcdef', 'hex');
const NOW = 1_770_000_000_000;

let archives = 0;

/** Folders of nodes, removed with the test. */
export class Folders {
  readonly #made: string[] = [];

  readonly make = (): string => {
    const folder = mkdtempSync(path.join(tmpdir(), 'node-'));
    this.#made.push(folder);
    return path.join(folder, 'anna');
  };

  remove(): void {
    for (const folder of this.#made.splice(0)) rmSync(folder, { recursive: true, force: true });
  }
}

/** The segments in a folder, by name, with the SHA-256 of their bytes. */
export function segmentsIn(dir: string): Record<string, string> {
  const names = readdirSync(logFolder(dir)).filter((name) => name.endsWith('.seg'));
  const hashOf = (name: string) =>
    createHash('sha256')
      .update(readFileSync(path.join(logFolder(dir), name)))
      .digest('hex');
  return Object.fromEntries(names.sort().map((name) => [name, hashOf(name)]));
}

/** One archive of a fleet, and the nodes that hold it one after the other. */
export class Fleet {
  readonly known = new Positions();
  /** Hashes of commits that were acknowledged. */
  readonly commits: string[] = [];
  readonly messages: string[] = [];
  /** What takeovers could not use, and why. */
  readonly unusable: string[] = [];
  #session: string | undefined;
  #nodes = 0;

  private constructor(
    readonly registry: Registry,
    readonly objects: UploadingStore,
    readonly archive: number,
    readonly names: ObjectNames,
    private readonly client: S3Client,
  ) {}

  static async make(servers: Servers): Promise<Fleet> {
    archives += 1;
    const registry = await servers.postgres.open(await servers.postgres.create());
    const target = targetAt(servers.gateway, 'fleet', { prefix: `taken-${archives}` });
    const objects = s3Store(target);
    const tenant = await addTenant(registry, { name: 'tenant', weight: 1 });
    const genesis = Buffer.from(genesisHash(LOG_ID), 'hex');
    const facts = { tenant, name: 'anna', logId: LOG_ID, genesis, settings: {} };
    const archive = await addArchive(registry, facts);
    if (archive === undefined) throw new Error('there is one already');
    const random = seeded('names', archives);
    const names = new ObjectNames({ fleet: FLEET, logId: LOG_ID }, (n) => random.bytes(n));
    return new Fleet(registry, objects, archive, names, new S3Client(target, {}));
  }

  /** Another node claims the archive, after the session of the one before has ended. */
  async claimed(node?: string, registry = this.registry): Promise<HeldArchive> {
    if (this.#session !== undefined) await endSession(this.registry, this.#session);
    this.#nodes += 1;
    this.#session = await newSession(this.registry, node ?? `node-${this.#nodes}`);
    const claims = new Claims(this.registry, this.#session, CATALOG_VERSION);
    const [taken] = await claims.take({ most: 1, archive: this.archive });
    if (taken === undefined) throw new Error('the archive cannot be claimed');
    return new HeldArchive(registry, this.#session, taken);
  }

  async stored(): Promise<StoredArchive> {
    const stored = await readArchive(this.registry, this.archive);
    if (stored === undefined) throw new Error('there is no such archive');
    return stored;
  }

  async open(held: HeldArchive, dir: string, more: Partial<TakeOverOptions> = {}): Promise<Writer> {
    const { objects, names } = this;
    const stored = await this.stored();
    return takeOver({
      ...{ held, stored, objects, names, dir, codec: 'zstd', signal },
      patience: { forMs: 0, now: () => 0, wait: () => Promise.resolve() },
      purges: new FleetPurges(held, stored),
      onUnusable: (what, { code }) => this.unusable.push(`${what}: ${code}`),
      now: () => NOW,
      ...more,
    });
  }

  async takenOver(dir: string): Promise<{ held: HeldArchive; writer: Writer }> {
    const held = await this.claimed();
    return { held, writer: await this.open(held, dir) };
  }

  async write(writer: Writer, count: number): Promise<void> {
    for (let made = 0; made < count; made += 1) {
      const first = this.commits.length * 3 + 1;
      const raws = [first, first + 1, first + 2].map((n) => sampleMail(n));
      await this.commit(writer, raws, first);
    }
  }

  async commit({ log, catalog }: Writer, raws: readonly Buffer[], firstUid: number): Promise<void> {
    const batch = await log.commit(fill(log.newBatch(), raws, this.known, firstUid));
    this.known.fold(batch);
    catalog.foldBatch(batch);
    this.commits.push(batch.commit.hash);
    for (const record of batch.records)
      if (record.kind === 'message') this.messages.push(record.id);
  }

  /** Every object that is there, by name. */
  async objectsThere(): Promise<ReadonlyMap<string, Buffer>> {
    const there = new Map<string, Buffer>();
    for (const name of await keysIn(this.client)) {
      const pieces: Buffer[] = [];
      for await (const piece of this.objects.get(name, { signal })) pieces.push(piece);
      there.set(name, Buffer.concat(pieces));
    }
    return there;
  }

  /** Moves the tail of a segment into chunks. */
  async chunk(held: HeldArchive, segment: number): Promise<void> {
    const content = await makeChunk(held, segment);
    if (content === undefined) throw new Error('there is nothing in the tail');
    const upload = chunkUpload({ held, objects: this.objects, signal }, this.names);
    done(await storeChunk(held, content, upload));
  }

  /** Seals and publishes what is closed, as the end of a pass does. */
  async seal({ dataDir, log, segments, sealer, codec }: Writer): Promise<void> {
    await sealClosedSegments({ dir: dataDir, before: log.segment, codec, sealer });
    await dropOldGenerations({ dir: dataDir, now: Date.now(), keepMs: 0, segments });
  }

  async snapshot(held: HeldArchive, { dataDir: dir, catalog }: Writer): Promise<void> {
    const { names, objects } = this;
    done(await storeSnapshot({ held, objects, signal }, { dir, logId: LOG_ID, catalog, names }));
  }

  /**
   * A log with everything in it: a sealed segment, a closed one in chunks and tail, and a hot one in both. Copies of the folder
   * are kept on the way.
   */
  async filled(
    dir: string,
    newFolder: () => string,
  ): Promise<{ readonly early: string; readonly late: string }> {
    const { held, writer } = await this.takenOver(dir);
    const [early, late] = [newFolder(), newFolder()];
    await this.write(writer, 3);
    cpSync(dir, early, { recursive: true });
    await writer.log.rollIfLarger(1);
    await this.write(writer, 1);
    await this.seal(writer);
    await this.snapshot(held, writer);
    await this.write(writer, 2);
    await this.chunk(held, 2);
    await this.write(writer, 1);
    await writer.log.rollIfLarger(1);
    await this.write(writer, 2);
    await this.chunk(held, 3);
    await this.write(writer, 2);
    await writer.close();
    cpSync(dir, late, { recursive: true });
    return { early, late };
  }

  /** The copy has what was acknowledged, all of it can be read and found, and it can be written on. */
  async expectWhole(held: HeldArchive, writer: Writer): Promise<void> {
    const { log, catalog, sources, segments, dataDir } = writer;
    expect(log.last).toMatchObject({ number: this.commits.length, hash: this.commits.at(-1) });
    expect(catalog.reached()).toMatchObject({ number: this.commits.length });
    for (const id of this.messages) await withFetching(segments, () => sources.readMessage(id));
    await this.write(writer, 1);
    await this.seal(writer);
    const { head } = held;
    expect([head.headNumber, head.headHash.toString('hex')]).toEqual([
      this.commits.length,
      this.commits.at(-1),
    ]);
    const numbers = Array.from({ length: log.segment - 1 }, (_, at) => at + 1);
    await segments.fetch(numbers);
    await writer.close();
    const verified = await mailkeep(['verify', '--data', dataDir]);
    const hashed = `Rebuilt and hashed ${this.messages.length} messages.`;
    expect([verified.stdout, verified.stderr].join('\n')).toContain(hashed);
    expect([verified.stdout, verified.stderr, verified.code]).toEqual([
      expect.stringContaining('Everything is as it was written.'),
      '',
      0,
    ]);
  }
}
