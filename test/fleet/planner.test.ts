import { expect, test } from 'vitest';
import type { FleetRows, ShardRow, WorkerRow } from '../../src/fleet/overview.ts';
import { FULL, placeEvenly, plan, rebalance } from '../../src/fleet/planner.ts';
import { seeded } from '../bench/seeded.ts';

const worker = (node: string, more: Partial<WorkerRow> = {}): WorkerRow => ({
  ...{ session: `session ${node}`, node, address: `${node}:1`, room: 100 },
  ...{ isDraining: false, isDead: false, ...more },
});
const shardOf = (shard: number, more: Partial<ShardRow> = {}): ShardRow => ({
  ...{ shard, epoch: 1, holder: null, wantedNode: null, avoid: {}, failing: null, purges: 0 },
  ...{ messages: 0, catalogBytes: 0, isCurrent: true, ...more },
});
/** @param weights accounts of each shard, from shard 1 on */
const rowsOf = (
  workers: readonly WorkerRow[],
  shards: readonly ShardRow[],
  weights: readonly number[],
): FleetRows => ({
  version: 1,
  workers,
  shards,
  accounts: weights.flatMap((weight, at) =>
    Array.from({ length: weight }, (_, n) => ({
      ...{ account: at * 1000 + n, tenant: 't', name: `${at} ${n}`, shard: at + 1 },
      ...{ settings: {}, version: 1, state: 'active' as const },
    })),
  ),
});
const planOf = (rows: FleetRows, node: string) => plan(rows, `session ${node}`, 1_000);
const NOTHING = { claim: [], release: [], unwant: [] };

test('free shards are shared out by weight and room, and each by one worker', () => {
  const shards = [1, 2, 3, 4].map((shard) => shardOf(shard));
  const rows = rowsOf(
    [worker('a'), worker('b'), worker('c', { isDead: true })],
    shards,
    [60, 50, 20, 10],
  );
  expect(planOf(rows, 'a')).toEqual({ ...NOTHING, claim: [1, 4] });
  expect(planOf(rows, 'b')).toEqual({ ...NOTHING, claim: [2, 3] });
  expect(planOf(rows, 'c')).toEqual(NOTHING);
  expect(planOf(rows, 'unknown')).toEqual(NOTHING);
});

test('shards of dead sessions are free, those of living ones are not', () => {
  const dead = worker('c', { isDead: true });
  const shards = [
    shardOf(1, { holder: dead.session }),
    shardOf(2, { holder: 'session b' }),
    shardOf(3, { holder: 'a session whose row is gone' }),
    shardOf(4, { isCurrent: false }),
  ];
  expect(planOf(rowsOf([worker('a'), dead, worker('b')], shards, [1, 1, 1, 1]), 'a').claim).toEqual(
    [1, 3],
  );
});

test('a node takes no more than it has room for, unless a shard is larger than any room', () => {
  const shards = [shardOf(1), shardOf(2)];
  const small = worker('a', { room: 10 });
  expect(planOf(rowsOf([small], shards, [8, 7]), 'a').claim).toEqual([1]);
  expect(planOf(rowsOf([small], shards, [80, 7]), 'a').claim).toEqual([1]);
});

test('a shard avoids a node until the time is over, and goes to the node that is wanted', () => {
  const until = (ms: number) => ({ a: { until: new Date(ms).toISOString(), code: 'disk-full' } });
  const both = [worker('a'), worker('b')];
  const avoiding = rowsOf(both, [shardOf(1, { avoid: until(2_000) })], [1]);
  expect(planOf(avoiding, 'a').claim).toEqual([]);
  expect(planOf(avoiding, 'b').claim).toEqual([1]);
  const over = rowsOf(both, [shardOf(1, { avoid: until(500) })], [1]);
  expect(planOf(over, 'a').claim).toEqual([1]);
  const wanted = rowsOf(both, [shardOf(1, { wantedNode: 'b' })], [1]);
  expect(planOf(wanted, 'a')).toEqual(NOTHING);
  expect(planOf(wanted, 'b').claim).toEqual([1]);
});

test('a holder releases what another node wants, and everything when it drains', () => {
  const held = [
    shardOf(1, { holder: 'session a', wantedNode: 'b' }),
    shardOf(2, { holder: 'session a' }),
    shardOf(3, { holder: 'session a', wantedNode: 'gone' }),
  ];
  const rows = rowsOf([worker('a'), worker('b')], held, [1, 1, 1]);
  expect(planOf(rows, 'a')).toEqual({ claim: [], release: [1], unwant: [3] });
  const draining = rowsOf([worker('a', { isDraining: true }), worker('b')], held, [1, 1, 1]);
  expect(planOf(draining, 'a').release).toEqual([1, 2, 3]);
});

test('a holder keeps what the wanted node cannot take: it would be held by nobody', () => {
  const avoid = { b: { until: new Date(2_000).toISOString(), code: 'disk-full' } };
  const mine = { holder: 'session a', wantedNode: 'b' };
  const held = [
    shardOf(1, mine),
    shardOf(2, { ...mine, avoid }),
    shardOf(3, { holder: 'session b' }),
  ];
  const full = rowsOf([worker('a'), worker('b', { room: 30 })], held, [11, 1, 20]);
  expect(planOf(full, 'a')).toEqual({ claim: [], release: [], unwant: [1, 2] });
  const roomy = rowsOf([worker('a'), worker('b', { room: 31 })], held, [11, 1, 20]);
  expect(planOf(roomy, 'a')).toEqual({ claim: [], release: [1], unwant: [2] });
});

test('rebalancing ends, moves nothing twice, and narrows the gap', () => {
  for (let seed = 1; seed <= 50; seed += 1) {
    const random = seeded('rebalance', seed);
    const nodes = ['a', 'b', 'c'].slice(0, 2 + random.below(2));
    const workers = nodes.map((node) => worker(node, { room: 50 + random.below(100) }));
    const weights = Array.from({ length: 1 + random.below(12) }, () => random.below(30));
    const shards = weights.map((_, at) =>
      shardOf(at + 1, { holder: workers[random.below(workers.length)]?.session ?? null }),
    );
    const rows = rowsOf(workers, shards, weights);
    const moves = rebalance(rows);
    const after = {
      ...rows,
      shards: rows.shards.map((row) => {
        const move = moves.find(({ shard }) => shard === row.shard);
        return move === undefined ? row : { ...row, holder: `session ${move.node}` };
      }),
    };
    const gap = ({ shards: all }: FleetRows) => {
      const loads = workers.map(
        ({ session, room }) =>
          all.reduce(
            (sum, { shard, holder }) => sum + (holder === session ? (weights[shard - 1] ?? 0) : 0),
            0,
          ) / room,
      );
      return Math.max(...loads) - Math.min(...loads);
    };
    expect(gap(after), `seed ${seed}`).toBeLessThanOrEqual(gap(rows));
    expect(rebalance(after), `seed ${seed}`).toEqual([]);
  }
});

test('accounts are spread over shards that are worth their processes, and never over-fill one', () => {
  const counts = (places: ReturnType<ReturnType<typeof placeEvenly>>) => {
    const found = new Map<string, number>();
    for (const place of places) {
      const key = JSON.stringify(place);
      found.set(key, (found.get(key) ?? 0) + 1);
    }
    return [...found.values()].toSorted((a, b) => b - a);
  };
  expect(counts(placeEvenly(2)([], 10))).toEqual([10]);
  expect(counts(placeEvenly(2)([], 100))).toEqual([25, 25, 25, 25]);
  expect(counts(placeEvenly(2)([], 2_000))).toHaveLength(7);
  expect(Math.max(...counts(placeEvenly(2)([], 2_000)))).toBeLessThanOrEqual(FULL.accounts);
  const full = { shard: 1, accounts: 5, messages: FULL.messages, catalogBytes: 0 };
  const room = { shard: 2, accounts: 299, messages: 0, catalogBytes: 0 };
  expect(placeEvenly(1)([full, room], 3)).toEqual([2, { added: 0 }, { added: 0 }]);
  expect(placeEvenly(1)([full], 1)).toEqual([{ added: 0 }]);
});
