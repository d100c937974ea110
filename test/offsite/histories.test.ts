import { rmSync } from 'node:fs';
import { expect, test } from 'vitest';
import { sealClosedSegments } from '../../src/archive/write/sealer.ts';
import type { ObjectStore } from '../../src/objects/store.ts';
import { writeBatches } from '../archive/sample-log.ts';
import { batchesIn, broughtBack, sampleCopy } from './sample-copy.ts';

/** A process that is gone: nothing it awaited comes to it. */
class Killed extends Error {}

/**
 * A store in front of another that ends the process at one of its calls: before the call, after it (its answer is lost),
 * or while the bytes are on their way.
 */
function dyingAt(store: ObjectStore, call: number, when: 'before' | 'during' | 'after') {
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
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const SEEDS = Number(process.env.MAILKEEP_COPIES ?? 5);

test.each(Array.from({ length: SEEDS }, (_, seed) => seed + 1))(
  'whenever a copier dies, the newest manifest leads to a complete archive (seed %i)',
  async (seed) => {
    const random = randomFrom(seed);
    const sample = await sampleCopy();
    const { writer, known, dir, store } = sample;
    const seal = () => sealClosedSegments({ dir, before: writer.segment });
    let [mail, reached] = [1, 0];
    try {
      for (let step = 0; step < 14; step += 1) {
        const drawn = random();
        if (drawn < 0.6) {
          const batches = 1 + Math.floor(random() * 3);
          await writeBatches(writer, known, batches, mail);
          mail += batches * 3;
        }
        if (drawn < 0.25) await writer.rollIfLarger(0);
        if (drawn > 0.5 && drawn < 0.75) await seal();
        const when = (['before', 'during', 'after'] as const)[Math.floor(random() * 3)] ?? 'before';
        const { dying } = dyingAt(store, 1 + Math.floor(random() * 14), when);
        if (known.batches.length === 0) continue;
        const copied = await sample
          .copy({ store: dying, refresh: random() < 0.1 })
          .catch((error: unknown) => {
            if (!(error instanceof Killed)) throw error;
            return undefined;
          });
        const back = await broughtBack(sample, `back-${step}`);
        if (copied !== undefined) expect(back?.number).toBe(copied.number);
        expect(back?.number ?? 0).toBeGreaterThanOrEqual(reached);
        if (back === undefined) continue;
        reached = back.number;
        expect(back.lost).toEqual([]);
        expect(await batchesIn(back.dir)).toEqual(known.batches.slice(0, reached));
        rmSync(back.dir, { recursive: true });
      }
      const last = await sample.copy();
      expect(last.number).toBe(known.batches.length);
      const again = await sample.copy();
      expect(again).toMatchObject({ uploaded: 0, bytes: 0, number: last.number });
    } finally {
      await sample.close();
    }
  },
);
