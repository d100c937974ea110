import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { genesisHash } from '../../src/archive/format/headers.ts';
import { segmentPath } from '../../src/archive/format/layout.ts';
import { fetching } from '../../src/archive/read/segment-store.ts';
import { dropOldGenerations } from '../../src/archive/write/compact-segments.ts';
import { sealClosedSegments } from '../../src/archive/write/sealer.ts';
import { CATALOG_VERSION } from '../../src/catalog/open.ts';
import type { Writer } from '../../src/engine/archive/writer.ts';
import { makeChunk, storeChunk } from '../../src/fleet/chunks.ts';
import { Claims } from '../../src/fleet/claims.ts';
import { HeldArchive } from '../../src/fleet/held-archive.ts';
import { ObjectNames } from '../../src/fleet/object-names.ts';
import { storeSnapshot } from '../../src/fleet/snapshots.ts';
import { takeOver } from '../../src/fleet/take-over.ts';
import { uploadObject } from '../../src/fleet/uploads.ts';
import { s3Store } from '../../src/objects/s3-store.ts';
import type { UploadingStore } from '../../src/objects/store.ts';
import { addArchive, addTenant } from '../../src/registry/fleet.ts';
import { readArchive } from '../../src/registry/reading.ts';
import type { Registry } from '../../src/registry/registry.ts';
import { endSession } from '../../src/registry/sessions.ts';
import { Positions } from '../archive/positions.ts';
import { fill, sampleMail } from '../archive/sample-log.ts';
import { seeded } from '../bench/seeded.ts';
import { mailkeep } from '../cli/child.ts';
import { targetAt } from '../objects/servers/s3-server.ts';
import { signal } from '../objects/store-contract.ts';
import { done, newSession } from '../registry/servers/fleet.ts';
import { FLEET, type Servers, startServers, withoutServers } from './servers/scene.ts';

const skipped = withoutServers();
const LOG_ID = Buffer.from('0123456789abcdef', 'hex');
const NOW = 1_770_000_000_000;

let servers: Servers;
let archives = 0;
const folders: string[] = [];

beforeAll(async () => {
  if (!skipped) servers = await startServers();
});
afterAll(async () => {
  await servers?.stop();
});
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

function newFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'node-'));
  folders.push(folder);
  return path.join(folder, 'anna');
}

/** One archive of a fleet, and the nodes that hold it one after the other. */
class Fleet {
  readonly known = new Positions();
  /** Hashes of commits that were acknowledged. */
  readonly commits: string[] = [];
  readonly messages: string[] = [];
  #session: string | undefined;
  #nodes = 0;

  private constructor(
    readonly registry: Registry,
    readonly objects: UploadingStore,
    readonly archive: number,
    readonly names: ObjectNames,
  ) {}

  static async make(): Promise<Fleet> {
    archives += 1;
    const registry = await servers.postgres.open(await servers.postgres.create());
    const objects = s3Store(targetAt(servers.gateway, 'fleet', { prefix: `taken-${archives}` }));
    const tenant = await addTenant(registry, { name: 'tenant', weight: 1 });
    const genesis = Buffer.from(genesisHash(LOG_ID), 'hex');
    const facts = { tenant, name: 'anna', logId: LOG_ID, genesis, settings: {} };
    const archive = await addArchive(registry, facts);
    if (archive === undefined) throw new Error('there is one already');
    const random = seeded('names', archives);
    const names = new ObjectNames({ fleet: FLEET, logId: LOG_ID }, (n) => random.bytes(n));
    return new Fleet(registry, objects, archive, names);
  }

  /** Another node claims the archive, after the session of the one before has ended. */
  async claimed(): Promise<HeldArchive> {
    if (this.#session !== undefined) await endSession(this.registry, this.#session);
    this.#nodes += 1;
    this.#session = await newSession(this.registry, `node-${this.#nodes}`);
    const claims = new Claims(this.registry, this.#session, CATALOG_VERSION);
    const [taken] = await claims.take({ most: 1, archive: this.archive });
    if (taken === undefined) throw new Error('the archive cannot be claimed');
    return new HeldArchive(this.registry, this.#session, taken);
  }

  async open(held: HeldArchive, dir: string, objects = this.objects): Promise<Writer> {
    const stored = await readArchive(this.registry, this.archive);
    if (stored === undefined) throw new Error('there is no such archive');
    return takeOver({
      ...{ held, stored, objects, names: this.names, dir, codec: 'zstd', signal },
      patience: { forMs: 0, now: () => 0, wait: () => Promise.resolve() },
      unfinishedPurges: () => new Map(),
      now: () => NOW,
    });
  }

  async takenOver(dir: string): Promise<{ held: HeldArchive; writer: Writer }> {
    const held = await this.claimed();
    return { held, writer: await this.open(held, dir) };
  }

  async write({ log, catalog }: Writer, count: number): Promise<void> {
    for (let made = 0; made < count; made += 1) {
      const first = this.commits.length * 3 + 1;
      const raws = [first, first + 1, first + 2].map((n) => sampleMail(n));
      const batch = await log.commit(fill(log.newBatch(), raws, this.known, first));
      this.known.fold(batch);
      catalog.foldBatch(batch);
      this.commits.push(batch.commit.hash);
      for (const record of batch.records)
        if (record.kind === 'message') this.messages.push(record.id);
    }
  }

  /** Moves the tail of a segment into chunks. */
  async chunk(held: HeldArchive, segment: number): Promise<void> {
    const content = await makeChunk(held, segment);
    if (content === undefined) throw new Error('there is nothing in the tail');
    const { bytes, purges, logId, first, last, lastHash } = content;
    const outcome = await storeChunk(held, content, () =>
      uploadObject(
        { held, objects: this.objects, signal },
        {
          ...{ kind: 'chunk', length: bytes.length, purges },
          sha256: createHash('sha256').update(bytes).digest(),
          name: (epoch) => this.names.chunk(segment, { first, last }, epoch),
          async *bytes() {
            yield bytes;
          },
          metadata: { logId, first, last, lastHash },
        },
      ),
    );
    done(outcome);
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
  async filled(dir: string): Promise<{ readonly early: string; readonly late: string }> {
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
    for (const id of this.messages) await fetching(segments, () => sources.readMessage(id));
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
    expect(verified.stdout).toContain(hashed);
    expect([verified.stdout, verified.stderr, verified.code]).toEqual([
      expect.stringContaining('Everything is as it was written.'),
      '',
      0,
    ]);
  }
}

/** The hot segment of a folder. */
function hotOf(dir: string): string {
  return segmentPath(dir, { segment: 3, generation: 1 });
}

describe.skipIf(skipped)('PostgreSQL and RadosGW', () => {
  test('an archive without commits is opened, and what is committed is there for the next holder', async () => {
    const fleet = await Fleet.make();
    const first = await fleet.takenOver(newFolder());
    await fleet.write(first.writer, 2);
    await first.writer.close();
    const second = await fleet.takenOver(newFolder());
    await fleet.expectWhole(second.held, second.writer);
  });

  test.each([
    ['is empty', () => undefined],
    [
      'is that of an earlier holder',
      (dir: string, { early }: { early: string }) => cpSync(early, dir, { recursive: true }),
    ],
    [
      'is complete',
      (dir: string, { late }: { late: string }) => cpSync(late, dir, { recursive: true }),
    ],
    [
      'has bytes that nobody accepted',
      (dir: string, { late }: { late: string }) => {
        cpSync(late, dir, { recursive: true });
        writeFileSync(hotOf(dir), 'more', { flag: 'a' });
      },
    ],
    [
      'has a segment that was not begun',
      (dir: string, { late, early }: { late: string; early: string }) => {
        cpSync(late, dir, { recursive: true });
        const stray = segmentPath(early, { segment: 1, generation: 1 });
        cpSync(stray, segmentPath(dir, { segment: 4, generation: 1 }));
      },
    ],
    [
      'has the first generation of what was sealed',
      (dir: string, { late, early }: { late: string; early: string }) => {
        cpSync(late, dir, { recursive: true });
        const file = { segment: 1, generation: 1 };
        cpSync(segmentPath(early, file), segmentPath(dir, file));
        rmSync(segmentPath(dir, { segment: 1, generation: 2 }));
      },
    ],
    [
      'has damage in the hot segment',
      (dir: string, { late }: { late: string }) => {
        cpSync(late, dir, { recursive: true });
        const bytes = readFileSync(hotOf(dir));
        bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 1;
        writeFileSync(hotOf(dir), bytes);
      },
    ],
    [
      'has a catalog that is none',
      (dir: string, { late }: { late: string }) => {
        cpSync(late, dir, { recursive: true });
        writeFileSync(path.join(dir, 'catalog.sqlite'), 'no database');
      },
    ],
    [
      'has half of a snapshot',
      (dir: string, { late }: { late: string }) => {
        cpSync(late, dir, { recursive: true });
        rmSync(path.join(dir, 'catalog.sqlite'));
        writeFileSync(path.join(dir, 'catalog.sqlite.fetched'), 'half');
      },
    ],
  ] as const)('a folder that %s becomes a copy', async (_, prepare) => {
    const fleet = await Fleet.make();
    const copies = await fleet.filled(newFolder());
    const dir = newFolder();
    prepare(dir, copies);
    const { held, writer } = await fleet.takenOver(dir);
    expect(existsSync(segmentPath(dir, { segment: 1, generation: 1 }))).toBe(false);
    await fleet.expectWhole(held, writer);
    expect(readdirSync(dir).filter((name) => /fetched|snapshot/.test(name))).toEqual([]);
  });

  test('a catalog of commits that nobody accepted goes, and the snapshot takes its place', async () => {
    const fleet = await Fleet.make();
    const { late } = await fleet.filled(newFolder());
    const other = await Fleet.make();
    const dir = newFolder();
    await other.filled(dir);
    // Another history of as many commits: its catalog is of another chain.
    const mine = newFolder();
    cpSync(late, mine, { recursive: true });
    for (const name of readdirSync(mine).filter((one) => one.startsWith('catalog.sqlite')))
      rmSync(path.join(mine, name));
    const further = await other.takenOver(dir);
    await other.write(further.writer, 1);
    await further.writer.close();
    cpSync(path.join(dir, 'catalog.sqlite'), path.join(mine, 'catalog.sqlite'));
    const { held, writer } = await fleet.takenOver(mine);
    await fleet.expectWhole(held, writer);
  });

  test('wherever a takeover is cut off, the next one succeeds', async () => {
    const fleet = await Fleet.make();
    const { early } = await fleet.filled(newFolder());
    const dir = newFolder();
    cpSync(early, dir, { recursive: true });
    for (let pieces = 0; ; pieces += 1) {
      let left = pieces;
      const objects = new Proxy(fleet.objects, {
        get(store, name) {
          if (name !== 'get')
            return Reflect.get(store, name).bind?.(store) ?? Reflect.get(store, name);
          return async function* (...asked: Parameters<UploadingStore['get']>) {
            for await (const piece of store.get(...asked)) {
              if (left === 0) throw new Error('cut off');
              left -= 1;
              yield piece;
            }
          };
        },
      });
      const held = await fleet.claimed();
      try {
        const writer = await fleet.open(held, dir, objects);
        await writer.close();
        expect(pieces).toBeGreaterThan(2);
        break;
      } catch (error) {
        expect(error).toMatchObject({ message: 'cut off' });
      }
    }
    const { held, writer } = await fleet.takenOver(dir);
    await fleet.expectWhole(held, writer);
  });

  test('whoever lost the archive opens nothing', async () => {
    const fleet = await Fleet.make();
    await fleet.filled(newFolder());
    const late = await fleet.claimed();
    await fleet.claimed();
    const dir = newFolder();
    await expect(fleet.open(late, dir)).rejects.toMatchObject({ code: 'log-fenced' });
    expect([late.lostBy, existsSync(dir)]).toEqual(['lease', false]);
  });
});
