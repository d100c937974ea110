import { rmSync } from 'node:fs';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sealClosedSegments } from '../../src/archive/seal.ts';
import { objectError } from '../../src/copies/errors.ts';
import { hasCode, MailkeepError } from '../../src/core/errors.ts';
import { collectRound } from '../../src/fleet/objects.ts';
import { ShardLost } from '../../src/fleet/outcomes.ts';
import { asideOf } from '../../src/fleet/take-over.ts';
import { type Seeded, seeded } from '../bench/seeded.ts';
import { type Cut, CuttingProxy } from './servers/cutting-proxy.ts';
import {
  bound,
  endFleet,
  type Fleet,
  Node,
  Servers,
  signal,
  withoutServers,
} from './servers/nodes.ts';
import { statement } from './servers/scene.ts';

const SEEDS = Number(process.env.MAILKEEP_SHARD_HISTORIES ?? 6);
const STEPS = 40;
const AT_ONCE = { abandonedMs: 0, windowMs: 0, settleMs: 0 };

/** What was said to be shipped, by number of the commit. It has to stay so. */
type Ledger = Map<number, string>;

describe.skipIf(withoutServers())('random histories of a shard', () => {
  let servers: Servers;

  beforeAll(async () => {
    servers = await Servers.start();
  });
  afterAll(async () => {
    await servers?.stop();
  });

  test.each(Array.from({ length: SEEDS }, (_, at) => at + 1))('seed %i', async (seed) => {
    const fleet = await servers.fleet();
    const random = seeded('shard history', seed);
    const proxies = await Promise.all(
      [0, 1].map(() => CuttingProxy.start(servers.postgres.socket)),
    );
    const [first, second] = await Promise.all(
      proxies.map(async (proxy, at) => {
        const registry = await servers.postgres.open(fleet.database, {}, proxy.folder);
        return new Node('ab'[at] ?? '', fleet, registry);
      }),
    );
    if (first === undefined || second === undefined) throw new Error('two nodes are needed');
    const history = new History(fleet, [first, second], proxies, random);
    try {
      for (let step = 0; step < STEPS; step += 1) await history.step();
      await history.rest();
    } catch (error) {
      throw new Error(`seed ${seed} after: ${history.trace.join(', ')}`, { cause: error });
    } finally {
      await first.close();
      await second.close();
      for (const proxy of proxies) await proxy.stop();
      await endFleet(fleet);
    }
  });
});

class History {
  readonly trace: string[] = [];
  readonly #ledger: Ledger = new Map();
  /** The node that others believe to hold the shard. */
  #holder: Node | undefined;

  constructor(
    private readonly fleet: Fleet,
    private readonly nodes: readonly [Node, Node],
    private readonly proxies: readonly CuttingProxy[],
    private readonly random: Seeded,
  ) {}

  async step(): Promise<void> {
    const { random } = this;
    const node = this.nodes[random.below(2)] ?? this.nodes[0];
    const draw = random.below(100);
    if (this.#holder === undefined || draw < 12) await this.#takeOver(node);
    else if (node.shipper === undefined) return;
    else if (draw < 50) await this.#act(node, 'store', () => node.store(1 + random.below(3)));
    else if (draw < 60) await this.#act(node, 'roll', () => roll(node));
    else if (draw < 90) await this.#ship(node);
    else await this.#collect();
  }

  async #act(node: Node, what: string, act: () => Promise<unknown>): Promise<void> {
    this.trace.push(`${node.name} ${what}`);
    await act();
  }

  /** The holder dies or is cut off, without knowing. */
  async #takeOver(node: Node): Promise<void> {
    this.trace.push(`${node.name} takes over`);
    if (this.#holder !== undefined) await this.#holder.lose();
    if (node.shipper !== undefined) await node.close();
    const from = await this.#open(node);
    this.trace.push(`(from ${from})`);
    this.#holder = node;
    await this.#expectShipped(node);
    // A merge is not part of this: what was not shipped and ran ahead is dropped.
    for (const aside of asideOf(node.dir)) rmSync(aside, { recursive: true });
  }

  /** Takes over, perhaps after attempts that end in the middle. */
  async #open(node: Node): Promise<string> {
    const { random, fleet } = this;
    let left = random.below(3) === 0 ? random.below(5) : Number.POSITIVE_INFINITY;
    node.objects = {
      ...bound(fleet.store),
      get(name, options) {
        left -= 1;
        if (left < 0) throw objectError('object-missing', { store: 'the network', name });
        return fleet.store.get(name, options);
      },
    };
    try {
      return (await node.takeOver()).from;
    } catch (error) {
      if (left >= 0 || !hasCode(error, 'object-missing')) throw error;
      this.trace.push('(cut off)');
      left = Number.POSITIVE_INFINITY;
      return (await node.open()).from;
    }
  }

  async #ship(node: Node): Promise<void> {
    const { random } = this;
    const proxy = this.proxies[this.nodes.indexOf(node)];
    const cuts: readonly Cut[] = ['after', 'before', 'held', 'doubled'];
    const cut = random.below(3) === 0 ? cuts[random.below(4)] : undefined;
    const texts = ['commit\0', 'INSERT INTO object', 'UPDATE shard', 'SELECT purges'];
    if (cut === 'doubled') proxy?.cutNext('commit\0', cut);
    else if (cut !== undefined) proxy?.cutNext(texts[random.below(4)] ?? '', cut);
    this.trace.push(`${node.name} ships${cut === undefined ? '' : ` (${cut})`}`);
    const commits = await node.commits();
    try {
      const result = await node.ship(random.below(4) === 0);
      this.trace.push(`(${result})`);
      const manifest = node.shipper?.current;
      if (manifest !== undefined) {
        const { number, hash } = manifest.secret.commit;
        expect(commits[number - 1]).toBe(hash);
        this.#ledger.set(number, hash);
      }
    } catch (error) {
      if (error instanceof ShardLost) {
        this.trace.push(`(lost by ${error.by})`);
        expect(node).not.toBe(this.#holder);
      } else if (error instanceof MailkeepError) this.trace.push(`(${error.code})`);
      else throw error;
    } finally {
      proxy?.cutNothing();
      await proxy?.deliver();
      await proxy?.answered();
    }
  }

  async #collect(): Promise<void> {
    this.trace.push('a collector');
    const { registry, store } = this.fleet;
    const { failures } = await collectRound(registry, () => store, AT_ONCE, signal);
    expect(failures).toEqual([]);
  }

  /** Everything that was said to be shipped is in a folder, and what it has is one chain. */
  async #expectShipped(node: Node): Promise<void> {
    const commits = await node.commits();
    for (const [number, hash] of this.#ledger) expect(commits[number - 1]).toBe(hash);
  }

  async rest(): Promise<void> {
    const { fleet } = this;
    const [a] = this.nodes;
    await this.#takeOver(a);
    await a.store();
    let result = await a.ship();
    if (result === 'again') result = await a.ship();
    expect(result).toBe('shipped');
    await a.lose();
    const c = new Node('c', fleet);
    try {
      expect((await c.takeOver()).from).toBe('bucket');
      await this.#expectShipped(c);
      expect(await c.commits()).toEqual(await a.commits());
    } finally {
      await c.close();
    }
    for (let round = 0; round < 3; round += 1) await this.#collect();
    const { store, registry } = fleet;
    const rows = await statement<{ name: string; state: string }>(
      registry,
      sql`SELECT name, state FROM object ORDER BY name`,
    );
    expect(rows.filter(({ state }) => state !== 'live')).toEqual([]);
    const stored: string[] = [];
    for await (const { name } of store.list('', signal)) stored.push(name);
    expect(stored.toSorted()).toEqual(rows.map(({ name }) => name).toSorted());
  }
}

async function roll(node: Node): Promise<void> {
  await node.log.rollIfLarger(1);
  await sealClosedSegments({ dir: node.dir, before: node.log.segment });
}
