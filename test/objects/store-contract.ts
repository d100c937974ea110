import { expect } from 'vitest';
import type { ObjectFact, ObjectStore } from '../../src/copies/object-store.ts';
import { seeded } from '../bench/seeded.ts';

export const signal = new AbortController().signal;

/** Yields bytes in uneven pieces. */
export async function* inPieces(bytes: Buffer, piece = 100_003): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += piece) yield bytes.subarray(at, at + piece);
}

/** Stores bytes under a name. */
export async function putBytes(
  store: ObjectStore,
  name: string,
  bytes: Buffer | string,
  options: { readonly lockUntil?: number } = {},
): Promise<void> {
  const buffer = Buffer.from(bytes);
  await store.put(name, buffer.length, inPieces(buffer), { signal, ...options });
}

/** Reads an object to its end. */
export async function getBytes(store: ObjectStore, name: string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of store.get(name, { signal })) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** Returns everything that a store lists. */
export async function listed(store: ObjectStore, prefix = ''): Promise<ObjectFact[]> {
  const facts: ObjectFact[] = [];
  for await (const fact of store.list(prefix, signal)) facts.push(fact);
  return facts;
}

/** Returns the names that a store lists. */
export async function listedNames(store: ObjectStore, prefix = ''): Promise<string[]> {
  return (await listed(store, prefix)).map(({ name }) => name);
}

/** What every store has to do, whatever it is in: it is empty at first. */
export async function expectStoreContract(
  store: ObjectStore,
  /** Bytes of the largest object. */ largest: number,
): Promise<void> {
  const before = Date.now();
  expect(await listed(store)).toEqual([]);
  expect(await store.head('data/none', signal)).toBeUndefined();
  await expect(getBytes(store, 'data/none')).rejects.toMatchObject({ code: 'object-missing' });
  await store.delete('data/none', signal);

  const objects = new Map(
    [0, 1, 70_000, largest].map((length, i) => [`data/${i}-x`, seeded('store', i).bytes(length)]),
  );
  for (const [name, bytes] of objects) await putBytes(store, name, bytes);
  for (const [name, bytes] of objects) {
    expect((await getBytes(store, name)).equals(bytes)).toBe(true);
    const fact = await store.head(name, signal);
    expect(fact).toMatchObject({ name, length: bytes.length });
    // Servers round to seconds, and their clock is this machine's.
    expect(fact?.modified).toBeGreaterThan(before - 3_000);
    expect(fact?.modified).toBeLessThan(Date.now() + 3_000);
    expect(await listed(store, name)).toEqual([
      { name, length: bytes.length, modified: expect.any(Number) },
    ]);
  }

  for (const name of ['data-1', 'data0', 'keys/a/b', 'data/3']) await putBytes(store, name, name);
  expect(await listedNames(store)).toEqual(
    [...objects.keys(), 'data-1', 'data0', 'keys/a/b', 'data/3'].sort(),
  );
  expect(await listedNames(store, 'data/3')).toEqual(['data/3', 'data/3-x']);
  expect(await listedNames(store, 'keys/a/')).toEqual(['keys/a/b']);
  expect(await listedNames(store, 'none')).toEqual([]);

  await putBytes(store, 'data/3', 'other');
  expect((await getBytes(store, 'data/3')).toString()).toBe('other');
  for (const [announced, found] of [
    [5, 4],
    [5, 6],
    [0, 1],
    [largest, largest - 1],
    [largest, largest + 1],
  ] as const) {
    const wrong = store.put('data/wrong', announced, inPieces(Buffer.alloc(found)), { signal });
    await expect(wrong).rejects.toMatchObject({ code: 'object-length', facts: { announced } });
  }
  expect(await store.head('data/wrong', signal)).toBeUndefined();
  const broken = store.put('data/wrong', largest, breaking(largest), { signal });
  await expect(broken).rejects.toThrow('the source broke');
  await expect(putBytes(store, '../outside', 'x')).rejects.toThrow('no name of an object');
  await expect(putBytes(store, 'data//x', 'x')).rejects.toThrow('no name of an object');

  await store.delete('data/3', signal);
  await store.delete('data/3', signal);
  expect(await store.head('data/3', signal)).toBeUndefined();
  expect(await listedNames(store, 'data/3')).toEqual(['data/3-x']);
  const gone = new AbortController();
  gone.abort(new Error('stopped'));
  await expect(store.head('data/3', gone.signal)).rejects.toThrow('stopped');
  await expect(
    store.put('data/9', 1, inPieces(Buffer.alloc(1)), { signal: gone.signal }),
  ).rejects.toThrow('stopped');
}

async function* breaking(length: number): AsyncGenerator<Buffer> {
  yield* inPieces(Buffer.alloc(length - 1));
  throw new Error('the source broke');
}
