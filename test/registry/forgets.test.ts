import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { changeState } from '../../src/registry/accounts.ts';
import { decidePurge } from '../../src/registry/commits.ts';
import { forgetsOf, waitingForgets } from '../../src/registry/forget-reading.ts';
import { askForget, settleForgets } from '../../src/registry/forgets.ts';
import { listAccounts } from '../../src/registry/overview.ts';
import { endPurge } from '../../src/registry/purges.ts';
import type { Registry } from '../../src/registry/registry.ts';
import { fleetStatus } from '../../src/registry/status.ts';
import { upkeepOf } from '../../src/registry/upkeep.ts';
import { batchAfter, claimed, done, newArchive, newSession } from './servers/fleet.ts';
import { Postgres, withoutPostgres } from './servers/postgres.ts';

const skipped = withoutPostgres();
let server: Postgres;
let registry: Registry;

beforeAll(async () => {
  if (!skipped) server = await Postgres.start();
});
beforeEach(async () => {
  if (!skipped) registry = await server.open(await server.create());
});
afterAll(() => server?.stop());

const WANTED = [{ message: 'ab'.repeat(32) }, { message: 'cd'.repeat(32) }];

describe.skipIf(skipped)('a request to forget', () => {
  test('waits, is settled by the holder, and ends with the purges that were decided until then', async () => {
    const session = await newSession(registry, 'a');
    const archive = await newArchive(registry, 'anna');
    const { lease, head } = await claimed(registry, session, archive);
    const request = { id: randomUUID(), archive, node: 'b', wanted: WANTED };
    done(await askForget(registry, request));
    // Sent again because its answer was lost.
    done(await askForget(registry, request));
    expect(await waitingForgets(registry, archive)).toEqual([{ id: request.id, wanted: WANTED }]);
    const state = async () => (await forgetsOf(registry, archive, { id: request.id }))[0];
    const facts = { id: request.id, node: 'b', messages: 2, state: 'active', holder: session };
    expect(await state()).toMatchObject({ ...facts, isSettled: false, purge: null });

    // It counts wherever forgets are counted before a purge has it.
    const status = await fleetStatus(registry, { staleBefore: 0, most: 5 });
    expect(status.purges).toMatchObject({ unfinished: 1, oldest: [{ archive, purges: null }] });
    expect(await listAccounts(registry, {}, 9)).toMatchObject([{ forgets: 1 }]);
    expect(await upkeepOf(registry, session)).toMatchObject([{ archive, forgets: 1 }]);

    const purge = { commits: [], records: { records: [] } };
    done(await decidePurge(registry, lease, batchAfter(head), purge));
    done(await settleForgets(registry, lease, [request.id]));
    expect(await state()).toMatchObject({ ...facts, isSettled: true, purge: 1 });
    expect(await waitingForgets(registry, archive)).toEqual([]);
    expect(await upkeepOf(registry, session)).toMatchObject([{ forgets: 0 }]);
    // A purge that is decided later is none of it.
    const next = batchAfter({ ...head, ...headAfter(batchAfter(head)) });
    done(await decidePurge(registry, lease, next, purge));
    done(await endPurge(registry, lease, 1));
    expect(await state()).toMatchObject({ isSettled: true, purge: null });
  });

  test('is listed with others, newest first, and waits for an account that is paused', async () => {
    const archive = await newArchive(registry, 'anna');
    const [first, second] = [randomUUID(), randomUUID()];
    for (const id of [first, second]) {
      done(await askForget(registry, { id, archive, node: 'b', wanted: WANTED }));
    }
    const listed = await forgetsOf(registry, archive, { most: 10 });
    expect(listed.map(({ id }) => id)).toEqual([second, first]);
    expect(await forgetsOf(registry, archive, { most: 1 })).toHaveLength(1);
    expect(await forgetsOf(registry, archive + 1, { id: first })).toEqual([]);
    const paused = done(await changeState(registry, archive, ['active'], 'paused'));
    expect(paused).toMatchObject({ forgets: 2 });
    expect((await forgetsOf(registry, archive, { id: first }))[0]).toMatchObject({
      ...{ state: 'paused', holder: null, isSettled: false },
    });
    // Asked for while it is paused: it waits like the others.
    done(await askForget(registry, { id: randomUUID(), archive, node: 'b', wanted: WANTED }));
  });
});

function headAfter(batch: ReturnType<typeof batchAfter>) {
  const { number, hash, at, rawBytes, firstOrdinal, records } = batch;
  return {
    ...{ headNumber: number, headHash: hash, hotOffset: at + rawBytes },
    hotOrdinal: firstOrdinal + records + 1,
  };
}
