import { rmSync } from 'node:fs';
import { expect, test } from 'vitest';
import { sealClosedSegments } from '../../src/archive/seal.ts';
import { writeBatches } from '../archive/sample-log.ts';
import { dyingAt, Killed, MOMENTS, randomFrom } from './dying-store.ts';
import { batchesIn, broughtBack, sampleCopy } from './sample-copy.ts';

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
        const when = MOMENTS[Math.floor(random() * 3)] ?? 'before';
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
