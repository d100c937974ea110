import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { afterAll, expect, test } from 'vitest';
import { sealClosedSegments } from '../../src/archive/seal.ts';
import { writeBatches } from '../archive/sample-log.ts';
import { dyingAt, Killed, randomFrom } from './dying-store.ts';
import { sampleCopy } from './sample-copy.ts';

/** More by hand. */
const SEEDS = Number(process.env.MAILKEEP_COPIES ?? 8);
const COPIES = 12;

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
  'a copier that dies and begins again never uses a nonce twice under a key (seed %i)',
  async (seed) => {
    const random = randomFrom(seed);
    const sample = await sampleCopy();
    const { writer, known, dir, store } = sample;
    let mail = 1;
    try {
      for (let step = 0; step < COPIES; step += 1) {
        const drawn = random();
        if (drawn < 0.5 || mail === 1) {
          await writeBatches(writer, known, 1, mail);
          mail += 3;
        }
        if (drawn < 0.2) await writer.rollIfLarger(0);
        if (drawn > 0.4 && drawn < 0.6) await sealClosedSegments({ dir, before: writer.segment });
        const when = (['before', 'during', 'after'] as const)[Math.floor(random() * 3)] ?? 'after';
        const { dying } = dyingAt(store, 1 + Math.floor(random() * 12), when);
        await sample.copy({ store: dying, refresh: random() < 0.3 }).catch((error: unknown) => {
          if (!(error instanceof Killed)) throw error;
          deaths += 1;
        });
      }
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
