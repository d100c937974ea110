import { deflateSync } from 'node:zlib';
import type { Client } from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type ChunkContent, makeChunk, rawChunk, storeChunk } from '../../src/fleet/chunks.ts';
import { decidePurge } from '../../src/registry/commits.ts';
import type { Registry } from '../../src/registry/registry.ts';
import { CuttingProxy } from '../registry/servers/cutting-proxy.ts';
import { batchAfter, done, newSession } from '../registry/servers/fleet.ts';
import { Postgres, withoutPostgres } from '../registry/servers/postgres.ts';
import { FleetArchive, Node, patienceOf } from './commits/fleet-archive.ts';

const skipped = withoutPostgres();
let server: Postgres;
let proxy: CuttingProxy;
let registry: Registry;
let admin: Client;
let archive: FleetArchive;
let node: Node;

beforeAll(async () => {
  if (!skipped) server = await Postgres.start();
});
afterAll(async () => {
  await server?.stop();
});
beforeEach(async () => {
  if (skipped) return;
  const database = await server.create();
  proxy = await CuttingProxy.start(server.socket);
  registry = await server.open(database);
  admin = await server.connect(database);
  archive = await FleetArchive.add(registry, 'anna');
  const behind = await server.open(database, {}, proxy.folder);
  node = new Node(behind, archive, patienceOf(10_000));
  await node.take(await newSession(registry, 'a'));
  await node.open(1024 * 1024);
  for (let at = 0; at < 5; at += 1) expect(await node.commit(3)).toBe('acknowledged');
});
afterEach(async () => {
  await node?.remove();
  await proxy?.stop();
});

/** The chunk that is due, which has to be there. */
async function chunk(segment = 1, mostRawBytes?: number): Promise<ChunkContent> {
  const content = await makeChunk(node.held, segment, mostRawBytes);
  if (content === undefined) throw new Error('there is nothing to make a chunk of');
  return content;
}

const store = (content: ChunkContent) =>
  storeChunk(node.held, content, archive.uploadUnder(node.held));

describe.skipIf(skipped)('chunks', () => {
  test('hold commits instead of the tail, one after the other', async () => {
    const log = await archive.expectTruth();
    const [, second, third] = log.stored.tail;
    const ends = (second?.at ?? 0) + (second?.rawBytes ?? 0);
    const first = await chunk(1, ends - 64);
    expect(first).toMatchObject({ first: 1, last: 2, at: 64, segment: 1, generation: 1 });
    done(await store(first));
    const rest = await chunk();
    expect(rest).toMatchObject({ first: 3, last: 5, at: third?.at });
    done(await store(rest));
    const { stored } = await archive.expectTruth();
    expect(stored.covers).toHaveLength(2);
    expect(stored.tail).toEqual([]);
    expect(await makeChunk(node.held, 1)).toBeUndefined();
    expect(await makeChunk(node.held, 9)).toBeUndefined();
    await node.open();
  });

  test('have one commit at least, and one segment at most', async () => {
    expect(await chunk(1, 1)).toMatchObject({ first: 1, last: 1 });
    await node.writer.rollIfLarger(1);
    await node.commit();
    done(await store(await chunk()));
    const content = await chunk(2);
    expect(content).toMatchObject({ first: 6, last: 6, segment: 2, at: 64 });
    done(await store(content));
    await archive.expectTruth();
    await node.open();
  });

  test('end where another one begins', async () => {
    done(await store(await chunk(1, 1)));
    await admin.query('UPDATE tail SET number = 9 WHERE number = 4');
    expect(await chunk()).toMatchObject({ first: 2, last: 3 });
  });

  test('have no commit with purged records', async () => {
    const batch = batchAfter(node.held.head);
    done(await decidePurge(registry, node.held.lease, batch, { commits: [3], records: [] }));
    const content = await chunk();
    expect(content).toMatchObject({ first: 1, last: 2, purges: 1 });
    done(await store(content));
    expect(await makeChunk(node.held, 1)).toBeUndefined();
  });

  test.each([
    ['are other bytes', `bytes = decode('00', 'hex')`],
    ['are packed in another way', 'codec = 7'],
    ['are not packed', 'codec = 0'],
    ['are longer than they should be', 'raw_bytes = raw_bytes - 1'],
    ['are shorter than they should be', 'raw_bytes = raw_bytes + 1'],
    ['have another hash', 'hash = sha256(hash)'],
    ['have another place', 'at = at + 1'],
    ['have another ordinal', 'first_ordinal = first_ordinal + 1'],
  ])('are not made of commits that %s', async (_, change) => {
    // The first of the chunk: nothing else has its place.
    done(await store(await chunk(1, 1)));
    await admin.query(`UPDATE tail SET ${change} WHERE number = 2`);
    await expect(chunk()).rejects.toMatchObject({ code: 'log-damaged' });
  });

  test('are not made of commits of another chain', async () => {
    done(await store(await chunk(1, 1)));
    await admin.query('UPDATE cover SET last_hash = sha256(last_hash)');
    await expect(chunk()).rejects.toMatchObject({
      code: 'log-damaged',
      facts: { reason: 'chain' },
    });
  });

  test('cover nothing where the upload or the cover is refused', async () => {
    const content = await chunk();
    const refusing = async () => ({ outcome: 'fenced', by: 'purges' }) as const;
    expect(await storeChunk(node.held, content, refusing)).toMatchObject({ by: 'purges' });
    done(await store(await chunk(1, 1)));
    expect(await store(content)).toMatchObject({ by: 'range' });
    await archive.expectTruth();
  });

  test.each(['before', 'after'] as const)(
    'cover their commits or not where the answer is lost: cut %s the server had COMMIT',
    async (how) => {
      // The upload has a statement of its own.
      const content = await chunk();
      const upload = archive.uploadUnder(node.held);
      proxy.cutNext('commit\0', how);
      await expect(storeChunk(node.held, content, upload)).rejects.toMatchObject({
        code: 'outcome-unknown',
      });
      const { stored } = await archive.expectTruth();
      expect(stored.tail).toHaveLength(how === 'after' ? 0 : 5);
      if (how === 'before') done(await store(await chunk()));
      await node.open();
      expect(await node.commit()).toBe('acknowledged');
    },
  );

  test('of a store that gives anything back take no more memory than there can be', async () => {
    const content = await chunk();
    const { bytes } = content;
    const place = { key: 'c/1', segment: 1, at: 64 };
    const { hotOffset } = node.held.head;
    const raw = await rawChunk(place, bytes, hotOffset);
    expect(raw.equals(await rawChunk(place, bytes, undefined))).toBe(true);
    expect(raw).toHaveLength(hotOffset - 64);
    const wrong: [Buffer, number | undefined][] = [
      [deflateSync(Buffer.alloc(200 * 1024 * 1024)), undefined],
      [deflateSync(Buffer.alloc(hotOffset)), hotOffset],
      [bytes, hotOffset + 1],
      [bytes, hotOffset - 1],
      [bytes.subarray(0, -1), undefined],
      [Buffer.alloc(100), undefined],
      [Buffer.alloc(0), undefined],
    ];
    for (const [stored, until] of wrong) {
      await expect(rawChunk(place, stored, until)).rejects.toMatchObject({
        code: 'log-damaged',
        facts: { file: 'c/1', segment: 1, offset: 64, reason: 'payload' },
      });
    }
  });
});
