import type { Place, Placement, ShardSize } from './accounts.ts';
import type { FleetRows, ShardRow, WorkerRow } from './overview.ts';

/** A shard with more than one of these takes no new accounts. */
export const FULL = { accounts: 300, messages: 500_000, catalogBytes: 2 * 1024 ** 3 } as const;
/** With fewer accounts a shard is not worth its processes. */
const WORTHWHILE_ACCOUNTS = 25;
/** So that the shards of a lost node spread over the others. */
const SHARDS_PER_NODE = 2;

interface Actions {
  /** Shards to claim, the most urgent first. */
  readonly claim: readonly number[];
  /** Shards to ship and release. */
  readonly release: readonly number[];
  /** Shards whose wanted node cannot take them. Any worker may clear the wish. */
  readonly unwant: readonly number[];
}

/**
 * Decides what a worker does. Every worker decides for all of them from the same rows, so that two rarely want the same
 * shard; the registry decides who gets it.
 *
 * @param session of the worker
 * @param now milliseconds since the epoch, compared only with times until which a shard avoids a node
 */
export function plan(rows: FleetRows, session: string, now: number): Actions {
  const living = rows.workers.filter(({ isDead }) => !isDead);
  const own = living.find((worker) => worker.session === session);
  if (own === undefined) return { claim: [], release: [], unwant: [] };
  const weights = accountsByShard(rows);
  const weightOf = ({ shard }: ShardRow) => weights.get(shard) ?? 0;
  const takers = living.filter(({ isDraining }) => !isDraining);
  const load = new Map(takers.map((worker) => [worker.session, 0]));
  const free: ShardRow[] = [];
  for (const row of rows.shards) {
    const holder = living.find((worker) => worker.session === row.holder);
    if (holder === undefined) free.push(row);
    else load.set(holder.session, (load.get(holder.session) ?? 0) + weightOf(row));
  }
  const canTake = (row: ShardRow) =>
    takers.some((worker) => mayTake(row, weightOf(row), worker, load, now));
  const wanted = rows.shards.filter(({ wantedNode }) => wantedNode !== null);
  /** Shards whose wanted node can take them now. Without this, they would be released and claimed by nobody. */
  const movable = new Set(wanted.filter(canTake));
  const claim: number[] = [];
  for (const row of free.filter(({ isCurrent }) => isCurrent).sort(heaviestFirst(weightOf))) {
    const taker = chooseWorker(row, weightOf(row), takers, load, now);
    if (taker === undefined) continue;
    load.set(taker.session, (load.get(taker.session) ?? 0) + weightOf(row));
    if (taker === own) claim.push(row.shard);
  }
  return {
    claim,
    release: rows.shards
      .filter(({ holder }) => holder === session)
      .filter((row) => own.isDraining || (row.wantedNode !== own.node && movable.has(row)))
      .map(({ shard }) => shard),
    unwant: wanted.filter((row) => !movable.has(row)).map(({ shard }) => shard),
  };
}

/** Returns the worker with the largest share of room left, or undefined if none may take the shard. */
function chooseWorker(
  row: ShardRow,
  weight: number,
  takers: readonly WorkerRow[],
  load: ReadonlyMap<string, number>,
  now: number,
): WorkerRow | undefined {
  const left = (worker: WorkerRow) => worker.room - (load.get(worker.session) ?? 0);
  const share = (worker: WorkerRow) => (left(worker) - weight) / Math.max(1, worker.room);
  return takers
    .filter((worker) => mayTake(row, weight, worker, load, now))
    .sort((a, b) => share(b) - share(a) || (a.session < b.session ? -1 : 1))[0];
}

function mayTake(
  { wantedNode, avoid }: ShardRow,
  weight: number,
  { session, node, room }: WorkerRow,
  load: ReadonlyMap<string, number>,
  now: number,
): boolean {
  const left = room - (load.get(session) ?? 0);
  const isAvoided = Date.parse(avoid[node]?.until ?? '') > now;
  // A shard that is larger than any node has to run somewhere.
  return (wantedNode ?? node) === node && !isAvoided && (left >= weight || left === room);
}

function heaviestFirst(weightOf: (row: ShardRow) => number) {
  return (a: ShardRow, b: ShardRow) => weightOf(b) - weightOf(a) || a.shard - b.shard;
}

function accountsByShard({ accounts }: FleetRows): ReadonlyMap<number, number> {
  const weights = new Map<number, number>();
  for (const { shard, state } of accounts) {
    if (state !== 'removed') weights.set(shard, (weights.get(shard) ?? 0) + 1);
  }
  return weights;
}

export interface Move {
  readonly shard: number;
  readonly node: string;
}

/** Returns moves after which no node could give a shard to another one and both be better balanced. */
export function rebalance(rows: FleetRows): readonly Move[] {
  const weights = accountsByShard(rows);
  const takers = rows.workers.filter(({ isDead, isDraining }) => !isDead && !isDraining);
  const held = new Map(takers.map(({ session }) => [session, new Set<number>()]));
  for (const { shard, holder } of rows.shards) held.get(holder ?? '')?.add(shard);
  const weightOf = (shard: number) => weights.get(shard) ?? 0;
  const loadOf = ({ session, room }: WorkerRow) =>
    [...(held.get(session) ?? [])].reduce((sum, shard) => sum + weightOf(shard), 0) / room;
  const moves = new Map<number, string>();
  for (let round = 0; round < rows.shards.length; round += 1) {
    const sorted = [...takers].sort((a, b) => loadOf(a) - loadOf(b));
    const [least, most] = [sorted[0], sorted.at(-1)];
    if (least === undefined || most === undefined || least === most) break;
    const gap = loadOf(most) - loadOf(least);
    const left = (one: number) =>
      Math.abs(gap - weightOf(one) / most.room - weightOf(one) / least.room);
    const shard = [...(held.get(most.session) ?? [])]
      .filter((one) => weightOf(one) > 0 && left(one) < gap)
      .sort((a, b) => left(a) - left(b) || a - b)[0];
    if (shard === undefined) break;
    held.get(most.session)?.delete(shard);
    held.get(least.session)?.add(shard);
    moves.set(shard, least.node);
  }
  return [...moves].map(([shard, node]) => ({ shard, node }));
}

/** Places new accounts in the emptiest shards, and adds shards so that every node gets some. */
export function placeEvenly(nodes: number): Placement {
  return (sizes, count) => {
    const known = sizes.reduce((sum, { accounts }) => sum + accounts, 0);
    const total = known + count;
    const wanted = Math.max(
      Math.ceil(total / FULL.accounts),
      Math.min(nodes * SHARDS_PER_NODE, Math.ceil(total / WORTHWHILE_ACCOUNTS)),
    );
    const open: { at: Place; accounts: number }[] = sizes
      .filter((size) => !isFull(size))
      .map(({ shard, accounts }) => ({ at: shard, accounts }));
    let added = 0;
    const add = () => {
      const fresh = { at: { added }, accounts: 0 };
      added += 1;
      open.push(fresh);
      return fresh;
    };
    while (sizes.length + added < wanted) add();
    return Array.from({ length: count }, () => {
      const [first] = open
        .filter(({ accounts }) => accounts < FULL.accounts)
        .sort((a, b) => a.accounts - b.accounts);
      const best = first ?? add();
      best.accounts += 1;
      return best.at;
    });
  };
}

function isFull({ accounts, messages, catalogBytes }: ShardSize): boolean {
  return (
    accounts >= FULL.accounts || messages >= FULL.messages || catalogBytes >= FULL.catalogBytes
  );
}
