import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Registry } from '../../src/registry/registry.ts';
import { Postgres, withoutPostgres } from '../registry/servers/postgres.ts';
import { FleetArchive } from './commits/fleet-archive.ts';
import { Racer } from './commits/racer.ts';

const skipped = withoutPostgres();
const SEED = Number(process.env.MAILKEEP_SEED ?? Math.floor(Math.random() * 2 ** 31));
const HISTORIES = Number(process.env.MAILKEEP_FLEET_HISTORIES ?? 2);
const STEPS = 120;
const LIMIT_MS = 120_000;

let server: Postgres;
let database: string;
let registry: Registry;

beforeAll(async () => {
  if (skipped) return;
  server = await Postgres.start();
  database = await server.create();
  registry = await server.open(database);
});
afterAll(async () => {
  await server?.stop();
});

describe.skipIf(skipped)('two nodes write one archive, and requests get lost', () => {
  test.each(Array.from({ length: HISTORIES }, (_, at) => SEED + at))(
    'MAILKEEP_SEED=%i: what was acknowledged is stored and copied, what failed is not',
    async (seed) => {
      console.log(`fleet history: seed ${seed}`);
      const archive = await FleetArchive.add(registry, `history ${seed}`);
      const racers: Racer[] = [];
      for (const name of ['a', 'b']) {
        racers.push(await Racer.start(server, database, archive, { name, seed, others: racers }));
      }
      try {
        await Promise.all(racers.map((racer) => racer.act(STEPS)));
        await archive.expectTruth();
        for (const racer of racers) await racer.proxy.deliver();
        await archive.expectTruth();
        for (const racer of racers) {
          await racer.takeAtLast();
          expect(await racer.node.commit()).toBe('acknowledged');
          await racer.node.open();
        }
        const { stored, commits } = await archive.expectTruth();
        console.log(
          `${commits.length} commits, ${archive.failed.size} failed, ${stored.covers.length} chunks, ` +
            `${stored.head.hotSegment} segments, epoch ${stored.head.epoch}`,
        );
      } finally {
        for (const racer of racers) await racer.stop();
      }
    },
    LIMIT_MS,
  );
});
