import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { sql } from 'kysely';
import { scanLog } from '../../../src/archive/log-reader.ts';
import { decodeManifest, openManifest } from '../../../src/copies/format/manifest.ts';
import { readSmallObject } from '../../../src/copies/manifests.ts';
import { hasCode } from '../../../src/core/errors.ts';
import { readFleetKeys, shardKeys } from '../../../src/fleet/keys.ts';
import { requireFleet } from '../../../src/fleet/schema.ts';
import { markDead } from '../../../src/fleet/sessions.ts';
import { shardStore } from '../../../src/fleet/uploads.ts';
import type { Random } from '../../../src/sandbox/generated-mail.ts';
import type { FleetNode, RunningWorker } from '../servers/fleet-nodes.ts';
import { signal } from '../servers/nodes.ts';
import type { Faults } from './faults.ts';

/** Sweeps at rest until a shard has to be what the origin is: a folder goes when two listings agree. */
const SWEEPS = 4;
/** A worker that cannot reach the registry when it starts ends, as often as that happens. */
const MOST_STARTS = 60;
const MAX_MANIFEST = 1 << 20;
export const NODES = ['one', 'two'] as const;

interface Shipped {
  readonly shard: number;
  readonly manifest: string | null;
}

/** Two workers, what is done to them, and what the registry has acknowledged meanwhile. */
export class History {
  /** Hashes of shipped commits, by shard and number. They were seen from outside, so nothing may take them back. */
  readonly #ledger = new Map<number, Map<number, string>>();
  readonly #noted = new Set<string>();
  readonly #workers = new Map<string, RunningWorker>();
  readonly did: string[] = [];
  waits = '';
  #starts = 0;
  #isOver = false;

  constructor(
    private readonly program: string,
    private readonly nodes: ReadonlyMap<string, FleetNode>,
    private readonly random: Random,
    private readonly faults: Faults,
  ) {}

  start(name: string): RunningWorker {
    this.#starts += 1;
    if (this.#isOver || this.#starts > MOST_STARTS) throw new Error('too many starts');
    const worker = this.#node(name).start(this.program);
    this.#workers.set(name, worker);
    return worker;
  }

  async turn(): Promise<void> {
    const node = NODES[this.random.below(NODES.length)] ?? 'one';
    const act = this.random.unit();
    await this.#progress();
    await this.note();
    const worker = this.#workers.get(node);
    if (worker === undefined) return;
    if (act < 0.35) {
      this.did.push(`kill ${node}`);
      await worker.end('SIGKILL');
      await this.#expire(node);
      this.start(node);
    } else if (act < 0.65) {
      // It believes that it holds its shards, and continues when others do. Its daemons never stop.
      this.did.push(`stop ${node}`);
      worker.signal('SIGSTOP');
      await this.#expire(node);
      await this.#heldBy(NODES.find((one) => one !== node) ?? 'two');
      worker.signal('SIGCONT');
    } else if (act < 0.8) {
      this.did.push(`end ${node}`);
      await this.#end(node);
      this.start(node);
    }
    if (this.random.chance(0.5)) await this.faults.deliver();
    await this.note();
  }

  /** Writes down what the registry has acknowledged of each shard. */
  async note(): Promise<void> {
    const { registry, keyFile } = this.#node('one');
    const fleet = await requireFleet(registry);
    const rows = await registry.read<Shipped>(
      'look at manifests',
      sql`SELECT id AS shard, manifest FROM shard`,
    );
    const store = this.#node('one').store();
    try {
      for (const { shard, manifest: name } of rows) {
        if (name === null || this.#noted.has(name)) continue;
        const { key } = shardKeys(readFleetKeys(keyFile), fleet.id, shard, fleet.bucket);
        const bytes = await readSmallObject(shardStore(store, shard), name, MAX_MANIFEST, signal);
        const { commit } = await openManifest(decodeManifest(bytes, name, key), key.opening);
        const known = this.#ledger.get(shard) ?? new Map<number, string>();
        this.#ledger.set(shard, known.set(commit.number, commit.hash));
        this.#noted.add(name);
      }
    } catch (error) {
      // It was replaced and collected since it was read.
      if (!hasCode(error, 'object-missing')) throw error;
    } finally {
      await store.close();
    }
  }

  /** One worker alone has everything, and looks at everything. */
  async rest(accounts: readonly string[]): Promise<void> {
    for (const name of NODES) await this.#end(name);
    await this.faults.end();
    const worker = this.start('one');
    for (const account of accounts) {
      this.waits = `waits for sweeps of ${account}`;
      await worker.said('run finished', { account, kind: 'sweep' }, SWEEPS);
    }
    await this.note();
    await this.#end('one');
    await this.note();
  }

  /** A node with an empty disk takes over everything. */
  async takeOver(name: string, shards: number): Promise<void> {
    const worker = this.start(name);
    this.waits = `waits until ${name} has taken over`;
    await worker.said('shard taken over', { from: 'bucket' }, shards);
    await this.#end(name);
  }

  /** Shipped commits that are not in a node's folder of a shard, and folders that nobody has merged. */
  async missing(name: string, shard: number): Promise<string[]> {
    const { cache } = this.#node(name);
    const there = new Map<number, string>();
    for await (const event of scanLog({ dir: path.join(cache, String(shard)) })) {
      if (event.what !== 'batch' || !event.sound) continue;
      there.set(event.batch.commit.number, event.batch.commit.hash);
    }
    const aside = existsSync(cache)
      ? readdirSync(cache).filter((one) => /aside|new/.test(one))
      : [];
    return [
      ...[...(this.#ledger.get(shard) ?? [])]
        .filter(([number, hash]) => there.get(number) !== hash)
        .map(([number]) => `${name}, shard ${shard}: commit ${number} was shipped and is missing`),
      ...aside.map((folder) => `${name}: ${folder} was not merged`),
    ];
  }

  /** What it waits for, and what workers said last. */
  get story(): string {
    const said = [...this.#workers].map(([name, { story }]) => `\n${name}: ${story}`);
    return `${this.did.join(', ')}; ${this.waits}${said.join('')}`;
  }

  kill(): void {
    this.#isOver = true;
  }

  #node(name: string): FleetNode {
    const node = this.nodes.get(name);
    if (node === undefined) throw new Error('there is no such node');
    return node;
  }

  /** Ends a worker in good order. It listens to signals once it has begun; before that it may end by itself. */
  async #end(name: string): Promise<void> {
    const worker = this.#workers.get(name);
    if (worker === undefined) return;
    this.waits = `ends ${name}`;
    while (!worker.hasEnded && !worker.lines.some(({ msg }) => msg === 'session started')) {
      await worker.news();
    }
    if (worker.hasEnded) return;
    const code = await worker.end('SIGTERM');
    if (code !== 0) throw new Error(`a worker ended with ${code}: ${worker.story}`);
    this.#workers.delete(name);
  }

  /** Resolves once some worker has finished another run. Those that ended by themselves are started again. */
  async #progress(): Promise<void> {
    const runs = () =>
      [...this.#workers.values()].reduce(
        (sum, { lines }) => sum + lines.filter(({ msg }) => msg === 'run finished').length,
        0,
      );
    const before = runs();
    this.waits = 'waits for a run';
    while (runs() <= before) await this.#news();
  }

  async #news(): Promise<void> {
    for (const [name, worker] of this.#workers) {
      if (worker.hasEnded) {
        this.did.push(`${name} ended by itself`);
        this.start(name);
        return;
      }
    }
    await Promise.race([...this.#workers.values()].map((worker) => worker.news()));
  }

  async #expire(name: string): Promise<void> {
    // What is held within a transaction keeps others waiting.
    await this.faults.deliver();
    await this.#node('one').registry.statement(
      'let a lease run out',
      sql`UPDATE worker SET lease_until = clock_timestamp() - interval '1 s' WHERE node = ${name}`,
    );
    await markDead(this.#node('one').registry);
  }

  /** Resolves once a node holds everything. */
  async #heldBy(name: string): Promise<void> {
    this.waits = `waits until ${name} has everything`;
    for (;;) {
      const [row] = await this.#node('one').registry.read<{ others: number }>(
        'look at holders',
        sql`SELECT count(*)::int AS others FROM shard
          LEFT JOIN worker ON worker.session = shard.holder WHERE node IS DISTINCT FROM ${name}`,
      );
      if (row?.others === 0) return;
      const worker = this.#workers.get(name);
      if (worker?.hasEnded === true) this.start(name);
      await this.#workers.get(name)?.news();
    }
  }
}
