import crypto from 'node:crypto';
import { rmSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { afterAll, expect, test } from 'vitest';
import { sealClosedSegments } from '../../src/archive/seal.ts';
import { writeBatches } from '../archive/sample-log.ts';
import { dyingAt, Killed, MOMENTS, randomFrom } from './dying-store.ts';
import { batchesIn, broughtBack, sampleCopy } from './sample-copy.ts';

/** More by hand. */
const SEEDS = Number(process.env.MAILKEEP_COPIES ?? 8);

/** Each key with each of its nonces, as they came to the one place that encrypts. */
const used = new Set<string>();
let [ciphers, deaths] = [0, 0];
const original = crypto.createCipheriv;
crypto.createCipheriv = ((...given: Parameters<typeof original>) => {
  const [, key, nonce] = given.slice(0, 3).map((part) => Buffer.from(part as Buffer));
  ciphers += 1;
  used.add(`${key?.toString('latin1')} ${nonce?.toString('latin1')}`);
  return original(...given);
}) as typeof original;
syncBuiltinESMExports();
afterAll(() => {
  crypto.createCipheriv = original;
  syncBuiltinESMExports();
});

test.each(Array.from({ length: SEEDS }, (_, seed) => seed + 1))(
  'whenever a copier dies, the newest manifest leads to a complete archive, and no nonce is used twice (seed %i)',
  async (seed) => {
    const random = randomFrom(seed);
    const sample = await sampleCopy();
    const { writer, known, dir, store } = sample;
    const seal = () => sealClosedSegments({ dir, before: writer.segment });
    /** How often everything is uploaded again. */
    const refreshes = seed % 2 === 0 ? 0.1 : 0.3;
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
        const when = MOMENTS[Math.floor(random() * 3)] ?? 'before';
        const { dying } = dyingAt(store, 1 + Math.floor(random() * 14), when);
        if (known.batches.length === 0) continue;
        const copied = await sample
          .copy({ store: dying, refresh: random() < refreshes })
          .catch((error: unknown) => {
            if (!(error instanceof Killed)) throw error;
            deaths += 1;
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
    expect(used.size).toBe(ciphers);
  },
);

test('there were deaths, and there was something to encrypt', () => {
  console.info(`${ciphers} ciphers, ${deaths} deaths`);
  expect(ciphers).toBeGreaterThan(20 * SEEDS);
  expect(deaths).toBeGreaterThan(SEEDS);
});
