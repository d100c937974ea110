import type { ObjectStore } from '../../src/copies/object-store.ts';

/** A process that is gone: nothing it awaited comes to it. */
export class Killed extends Error {}

/** When in a call the process ends. */
export const MOMENTS = ['before', 'during', 'after'] as const;
export type Moment = (typeof MOMENTS)[number];

/**
 * A store in front of another that ends the process at one of its calls: before the call, after it (its answer is lost),
 * or while the bytes are on their way.
 */
export function dyingAt(store: ObjectStore, call: number, when: Moment) {
  let calls = 0;
  let dead = false;
  const step = async <T>(act: () => Promise<T>): Promise<T> => {
    if (dead) throw new Killed();
    calls += 1;
    if (calls !== call) return act();
    dead = true;
    if (when !== 'before') await act();
    throw new Killed();
  };
  const dying: ObjectStore = {
    label: store.label,
    put: (name, length, bytes, options) =>
      step(async () => {
        const cut = when === 'during' && calls === call;
        await store.put(name, length, cut ? half(bytes) : bytes, options).catch((error) => {
          if (!cut) throw error;
        });
      }),
    async *get(name, options) {
      await step(async () => undefined);
      yield* store.get(name, options);
    },
    lock: (name, until, signal) => step(() => store.lock(name, until, signal)),
    versions: (name, signal) => store.versions(name, signal),
    head: (name, signal) => step(() => store.head(name, signal)),
    async *list(prefix, signal) {
      await step(async () => undefined);
      yield* store.list(prefix, signal);
    },
    delete: (name, signal) => step(() => store.delete(name, signal)),
    abilities: (signal) => store.abilities(signal),
    close: () => store.close(),
  };
  return { dying, calls: () => calls };
}

async function* half(bytes: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  for await (const piece of bytes) {
    yield piece.subarray(0, Math.floor(piece.length / 2));
    throw new Killed();
  }
}

/** Deterministic numbers below 1, from a seed. */
export function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
