import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { markGone, sweep } from '../../src/registry/collection.ts';
import { commit, type DecidedPurge, decidePurge, roll } from '../../src/registry/commits.ts';
import { initFleet, putSecret, saveMemory } from '../../src/registry/fleet.ts';
import { claim, leaveCache, release } from '../../src/registry/leases.ts';
import { endPurge, purgeRemaining } from '../../src/registry/purges.ts';
import {
  copiesToWipe,
  objectsToCollect,
  readArchive,
  readSecrets,
} from '../../src/registry/reading.ts';
import type { Registry } from '../../src/registry/registry.ts';
import { coverChunk, coverSegment, putSnapshot, register } from '../../src/registry/uploads.ts';
import {
  AT_ONCE,
  batchAfter,
  claimed,
  committedBatches,
  done,
  expectWholeLog,
  GENESIS,
  headAfter,
  newArchive,
  newSession,
  sha256,
  upload,
} from './servers/fleet.ts';
import { Postgres, withoutPostgres } from './servers/postgres.ts';

const skipped = withoutPostgres();
const tailState = (archive: number) =>
  sql<{ bytes: number; since: string | null }>`
    SELECT tail_bytes AS bytes, tail_since::text AS since FROM archive WHERE id = ${archive}`;
const tailMs = (archive: number) =>
  sql<{ ms: number }>`
    SELECT floor(extract(epoch FROM tail_since) * 1000)::bigint AS ms FROM archive WHERE id = ${archive}`;
let server: Postgres;
let registry: Registry;

beforeAll(async () => {
  if (!skipped) server = await Postgres.start();
});
afterAll(async () => {
  await server?.stop();
});
beforeEach(async () => {
  if (!skipped) registry = await server.open(await server.create());
});

describe.skipIf(skipped)('PostgreSQL', () => {
  test('a log grows, is moved into objects, and comes back whole', async () => {
    const session = await newSession(registry, 'a');
    const archive = await newArchive(registry, 'anna');
    const { lease, head: empty } = await claimed(registry, session, archive);
    expect(empty).toMatchObject({ epoch: 1, headNumber: 0, headHash: GENESIS, hotOffset: 64 });
    const head = await committedBatches(registry, lease, empty, 4);
    await expectWholeLog(registry, archive);

    // A chunk of the middle would leave two ranges; one of the beginning leaves the end.
    const chunk = await upload(registry, lease, 'chunk', 'c/1-2');
    const range = { segment: 1, generation: 1, at: 64 };
    done(
      await coverChunk(registry, lease, chunk, {
        ...range,
        first: 1,
        last: 2,
        lastHash: sha256('batch 2'),
      }),
    );
    await expectWholeLog(registry, archive);

    const { head: rolled } = done(
      await roll(registry, lease, { segment: 1, headHash: head.headHash }),
    );
    expect(rolled).toMatchObject({
      hotSegment: 2,
      hotOffset: 64,
      hotOrdinal: 0,
      hotPrevious: 4,
      hotPreviousHash: head.headHash,
    });
    // An empty segment is not closed.
    expect(await roll(registry, lease, { segment: 2, headHash: head.headHash })).toMatchObject({
      outcome: 'fenced',
      by: 'head',
    });
    const last = await committedBatches(registry, lease, rolled, 1);
    const sealed = await upload(registry, lease, 'sealed', 's/1.2');
    const whole = { ...range, generation: 2, first: 1, last: 4, lastHash: sha256('batch 4') };
    done(await coverSegment(registry, lease, sealed, whole));
    await expectWholeLog(registry, archive);

    const stored = await readArchive(registry, archive);
    expect(stored?.covers).toEqual([
      { ...whole, key: 's/1.2', bytes: 1_000, sha256: sha256('s/1.2') },
    ]);
    expect(stored?.tail.map(({ number, bytes }) => [number, String(bytes)])).toEqual([
      [5, 'batch 5'],
    ]);
    expect(stored?.head).toEqual(last);
    // The chunk waits for its collection.
    expect(await objectsToCollect(registry, AT_ONCE, 10)).toEqual([
      {
        ...{ key: 'c/1-2', uploadId: 'upload of c/1-2', state: 'condemned', sweptAt: null },
        begunAt: expect.any(String),
      },
    ]);
  });

  test('the size and age of a tail follow what is moved out of it', async () => {
    const session = await newSession(registry, 'a');
    const archive = await newArchive(registry, 'anna');
    const { lease, head } = await claimed(registry, session, archive);
    const state = () =>
      registry.statement<{ bytes: number; since: string | null }>('test', tailState(archive));
    expect(await state()).toEqual([{ bytes: 0, since: null }]);
    await committedBatches(registry, lease, head, 3);
    const [before] = await state();
    expect(before?.bytes).toBe(3 * 'batch 1'.length);
    const middle = await upload(registry, lease, 'chunk', 'c/2-2');
    const range = { segment: 1, generation: 1, at: 64 };
    const of = (number: number) => ({
      ...range,
      first: number,
      last: number,
      lastHash: sha256(`batch ${number}`),
    });
    done(await coverChunk(registry, lease, middle, of(2)));
    // The first batch still waits since then.
    expect(await state()).toEqual([{ bytes: 2 * 'batch 1'.length, since: before?.since }]);
    done(await coverChunk(registry, lease, await upload(registry, lease, 'chunk', 'c/1'), of(1)));
    const [after] = await state();
    expect(after?.bytes).toBe('batch 1'.length);
    expect(Date.parse(after?.since ?? '')).toBeGreaterThanOrEqual(Date.parse(before?.since ?? ''));
    done(await coverChunk(registry, lease, await upload(registry, lease, 'chunk', 'c/3'), of(3)));
    expect(await state()).toEqual([{ bytes: 0, since: null }]);
  });

  test('a tail waits since the oldest commit that is left, whenever its object was begun', async () => {
    const archive = await newArchive(registry, 'anna');
    const { lease, head } = await claimed(registry, await newSession(registry, 'a'), archive);
    const chunk = await upload(registry, lease, 'chunk', 'c/1');
    const first = await committedBatches(registry, lease, head, 1);
    const since = () => registry.read<{ ms: number }>('test', tailMs(archive));
    const [{ ms } = { ms: 0 }] = await since();
    const second = batchAfter(first);
    done(await commit(registry, lease, { ...second, time: ms + 1 }));
    const range = { segment: 1, at: 64, first: 1, last: 1, lastHash: first.headHash };
    done(await coverChunk(registry, lease, chunk, { ...range, generation: 1 }));
    expect(await since()).toEqual([{ ms: ms + 1 }]);
    // What replaces an object only takes nothing out of the tail.
    const { head: next } = done(await roll(registry, lease, { segment: 1, headHash: second.hash }));
    const rest = await upload(registry, lease, 'chunk', 'c/2');
    const of = { ...range, first: 2, last: 2, lastHash: second.hash, generation: 1 };
    const sealed = await upload(registry, lease, 'sealed', 's/1.2');
    done(await coverChunk(registry, lease, rest, of));
    done(await commit(registry, lease, { ...batchAfter(next), time: 0 }));
    const before = await since();
    const whole = { ...of, first: 1, generation: 2 };
    done(await coverSegment(registry, lease, sealed, whole));
    expect(await since()).toEqual(before);
  });

  test('a cover replaces exactly its range, and nothing of one that is refused stays', async () => {
    const session = await newSession(registry, 'a');
    const archive = await newArchive(registry, 'anna');
    const { lease, head: empty } = await claimed(registry, session, archive);
    const head = await committedBatches(registry, lease, empty, 4);
    const range = { segment: 1, generation: 1, at: 64 };
    const over = (first: number, last: number) => ({
      ...range,
      first,
      last,
      lastHash: sha256(`batch ${last}`),
    });
    done(
      await coverChunk(
        registry,
        lease,
        await upload(registry, lease, 'chunk', 'c/2-3'),
        over(2, 3),
      ),
    );
    const chunk = await upload(registry, lease, 'chunk', 'c/other');
    const refusedBy = async (first: number, last: number, lastHash = sha256(`batch ${last}`)) =>
      coverChunk(registry, lease, chunk, { ...range, first, last, lastHash });
    // Half of another object, beyond the head, the last commit another one.
    for (const [first, last] of [
      [3, 4],
      [1, 2],
      [3, 3],
      [4, 5],
      [5, 5],
    ] as const) {
      expect([first, last, await refusedBy(first, last)]).toEqual([
        first,
        last,
        expect.objectContaining({ outcome: 'fenced', by: 'range' }),
      ]);
    }
    expect(await refusedBy(1, 4, sha256('another'))).toMatchObject({ by: 'range' });
    expect(await refusedBy(2, 3, sha256('another'))).toMatchObject({ by: 'range' });
    await expectWholeLog(registry, archive);
    // Still appended to; then closed, but not all of it.
    const sealed = await upload(registry, lease, 'sealed', 's/1.2');
    expect(await coverSegment(registry, lease, sealed, over(1, 4))).toMatchObject({
      by: 'segment',
    });
    done(await roll(registry, lease, { segment: 1, headHash: head.headHash }));
    expect(await coverSegment(registry, lease, sealed, over(1, 3))).toMatchObject({ by: 'range' });
    // The wrong kind.
    expect(await coverSegment(registry, lease, chunk, over(1, 4))).toMatchObject({ by: 'object' });
    done(await coverSegment(registry, lease, sealed, { ...over(1, 4), generation: 2 }));
    await expectWholeLog(registry, archive);
    // An earlier generation, which an upload of long ago may be.
    expect(await refusedBy(1, 4)).toMatchObject({ by: 'range' });
  });

  test('a purge ends when no row, object, snapshot or other node can have the bytes', async () => {
    const [a, b] = [await newSession(registry, 'a'), await newSession(registry, 'b')];
    const archive = await newArchive(registry, 'anna');
    const first = await claimed(registry, a, archive);
    done(await release(registry, first.lease));
    const { lease, head: empty } = await claimed(registry, b, archive);
    let head = await committedBatches(registry, lease, empty, 2);
    const chunk = await upload(registry, lease, 'chunk', 'c/1-1');
    const chunkRange = {
      ...{ first: 1, last: 1, lastHash: sha256('batch 1') },
      ...{ segment: 1, generation: 1, at: 64 },
    };
    done(await coverChunk(registry, lease, chunk, chunkRange));
    const snapshot = await upload(registry, lease, 'snapshot', 'catalog/2');
    const of = { number: 2, hash: head.headHash, catalogVersion: 1 };
    done(await putSnapshot(registry, lease, snapshot, of));
    await upload(registry, lease, 'chunk', 'c/late');
    const memory = { number: 2, bytes: Buffer.from('memory'), purges: 0 };
    done(await saveMemory(registry, lease, memory));

    const batch = batchAfter(head);
    const work = { commits: [1], records: [{ segment: 1, ordinal: 3 }] };
    expect(done(await decidePurge(registry, lease, batch, work))).toMatchObject({ purges: 1 });
    head = headAfter(head, batch);
    expect((await readArchive(registry, archive))?.purges).toEqual([
      { purges: 1, number: 3, ...work },
    ]);
    const left = () => purgeRemaining(registry, archive, 1, b);
    const both = { tail: 0, covers: 1, snapshots: 0, memory: 0, objects: 2, nodes: ['a'] };
    expect(await left()).toEqual(both);
    // What the archive remembered may have purged bytes; what it remembers since has none.
    expect((await readArchive(registry, archive))?.memory).toBeUndefined();
    expect(await saveMemory(registry, lease, memory)).toMatchObject({ by: 'purges' });
    done(await saveMemory(registry, lease, { ...memory, purges: 1 }));
    expect(await left()).toEqual(both);
    expect(await endPurge(registry, lease, 1)).toMatchObject({ by: 'bytes' });
    // What was made before is late; what is made since names the purge. A chunk would have the bytes as they were.
    const late = { key: 'c/x', kind: 'chunk', uploadId: 'x', purges: 0 } as const;
    expect(await register(registry, lease, late)).toMatchObject({ by: 'purges' });
    const again = await upload(registry, lease, 'chunk', 'c/1-1 again', 1);
    expect(await coverChunk(registry, lease, again, chunkRange)).toMatchObject({ by: 'bytes' });

    done(await roll(registry, lease, { segment: 1, headHash: head.headHash }));
    const sealed = await upload(registry, lease, 'sealed', 's/1.2', 1);
    const whole = { ...chunkRange, last: 3, lastHash: head.headHash, generation: 2 };
    done(await coverSegment(registry, lease, sealed, whole));
    expect(await left()).toEqual({ ...both, covers: 0, objects: 3 });

    const [copy] = await copiesToWipe(registry, 'a');
    expect(copy).toEqual({ archive, node: 'a', entry: first.entry });
    expect(await copiesToWipe(registry, 'b')).toEqual([]);
    done(await leaveCache(registry, { archive, node: 'a', entry: first.entry }));
    for (const { key, state } of await objectsToCollect(registry, AT_ONCE, 10)) {
      expect([key, state]).toEqual([key, 'condemned']);
      expect(await endPurge(registry, lease, 1)).toMatchObject({ by: 'bytes' });
      const { sweptAt } = done(await sweep(registry, key));
      expect(await endPurge(registry, lease, 1)).toMatchObject({ by: 'bytes' });
      done(await markGone(registry, key, sweptAt, 0));
    }
    expect(await left()).toEqual({
      ...{ tail: 0, covers: 0, snapshots: 0 },
      ...{ memory: 0, objects: 0, nodes: [] },
    });
    done(await endPurge(registry, lease, 1));
    expect((await readArchive(registry, archive))?.purges).toEqual([]);
    expect(await endPurge(registry, lease, 1)).toMatchObject({ by: 'purges' });
  });

  test('a purge of records in no commit is refused, and its batch with it', async () => {
    const archive = await newArchive(registry, 'anna');
    const { lease, head } = await claimed(registry, await newSession(registry, 'a'), archive);
    const work = { commits: [], records: { records: [[1, [2]]] } };
    await expect(decidePurge(registry, lease, batchAfter(head), work)).rejects.toMatchObject({
      ...{ code: 'registry-refused', facts: { constraint: 'purge_of_commits' } },
    });
    const array = { commits: [], records: [] };
    await expect(decidePurge(registry, lease, batchAfter(head), array)).rejects.toMatchObject({
      code: 'registry-refused',
    });
    expect((await readArchive(registry, archive))?.head).toEqual(head);
    // What was pruned has no records any more when it is forgotten.
    const none = { commits: [], records: { records: [] } };
    done(await decidePurge(registry, lease, batchAfter(head), none));
    // @ts-expect-error JSON has no maps.
    const map: DecidedPurge['records'] = new Map([[1, [2]]]);
    expect(JSON.stringify(map)).toBe('{}');
  });

  test('purged bytes in the tail keep a purge open', async () => {
    const session = await newSession(registry, 'a');
    const archive = await newArchive(registry, 'anna');
    const { lease, head } = await claimed(registry, session, archive);
    const next = await committedBatches(registry, lease, head, 1);
    done(await decidePurge(registry, lease, batchAfter(next), { commits: [1], records: [] }));
    expect(await purgeRemaining(registry, archive, 1, session)).toMatchObject({ tail: 1 });
    expect(await endPurge(registry, lease, 1)).toMatchObject({ by: 'bytes' });
  });

  test('a snapshot replaces the one before, which is condemned', async () => {
    const session = await newSession(registry, 'a');
    const archive = await newArchive(registry, 'anna');
    const { lease, head: empty } = await claimed(registry, session, archive);
    const head = await committedBatches(registry, lease, empty, 1);
    const of = { number: 1, hash: head.headHash, catalogVersion: 3 };
    const one = await upload(registry, lease, 'snapshot', 'catalog/1');
    done(await putSnapshot(registry, lease, one, of));
    const two = await upload(registry, lease, 'snapshot', 'catalog/2');
    expect(await putSnapshot(registry, lease, two, { ...of, number: 2 })).toMatchObject({
      by: 'head',
    });
    done(await putSnapshot(registry, lease, two, of));
    expect((await readArchive(registry, archive))?.snapshot?.key).toBe('catalog/2');
    expect((await objectsToCollect(registry, AT_ONCE, 9)).map(({ key }) => key)).toEqual([
      'catalog/1',
    ]);
    // A program that cannot read it leaves the archive to others.
    done(await release(registry, lease));
    const claims = { session, most: 5, archive };
    expect(done(await claim(registry, { ...claims, catalogVersion: 2 })).claimed).toEqual([]);
    expect(done(await claim(registry, { ...claims, catalogVersion: 3 })).claimed).toHaveLength(1);
  });

  test('a fleet is made once; memory and secrets are replaced by newer ones only', async () => {
    const fleet = {
      ...{ id: 'aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa', bucket: 'mail' },
      ...{ archiveFormat: 1, catalogVersion: 10 },
    };
    expect(await initFleet(registry, fleet)).toEqual(fleet);
    expect(await initFleet(registry, { ...fleet, bucket: 'other' })).toEqual(fleet);
    const session = await newSession(registry, 'a');
    const archive = await newArchive(registry, 'anna');
    const { lease, head } = await claimed(registry, session, archive);
    await committedBatches(registry, lease, head, 2);
    const memory = (number: number) => ({ number, bytes: Buffer.from(`memory ${number}`) });
    const save = (number: number) => saveMemory(registry, lease, { ...memory(number), purges: 0 });
    done(await save(2));
    expect(await save(1)).toMatchObject({ by: 'head' });
    expect(await save(3)).toMatchObject({ by: 'head' });
    expect((await readArchive(registry, archive))?.memory).toEqual(memory(2));

    const secret = (keyId: string) => ({
      ...{ archive, purpose: 'token', keyId },
      ...{ nonce: sha256(keyId).subarray(0, 12), sealed: Buffer.from(`by ${keyId}`) },
    });
    const [k1, k2, k3] = [secret('k1'), secret('k2'), secret('k3')];
    done(await putSecret(registry, k1, null));
    expect(await putSecret(registry, k2, null)).toMatchObject({ by: 'key' });
    done(await putSecret(registry, k2, k1.nonce));
    expect(await putSecret(registry, k3, k1.nonce)).toMatchObject({ by: 'key' });
    expect(await readSecrets(registry, archive)).toEqual([k2]);
  });
});
