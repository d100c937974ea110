import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Sandbox, startSandbox } from '../../../src/sandbox/sandbox.ts';
import { type Random, randomFrom } from '../../../src/sandbox/seed/random.ts';
import { mailkeep } from '../../cli/child.ts';
import { Actor } from '../../soak/origin-actor.ts';
import { type Servers, startServers, withoutServers } from '../servers/scene.ts';
import type { Place } from './place.ts';
import { accountsOf, addAccounts, nodeOf, RunningWorker } from './running-worker.ts';

const skipped = withoutServers();
const SEED = Number(process.env.MAILKEEP_SEED ?? Math.floor(Math.random() * 2 ** 31));
const HISTORIES = Number(process.env.MAILKEEP_WORKER_HISTORIES ?? 1);
const TURNS = 10;
const CHANGES = 15;
/** Sweeps at rest until the archive has to be what the origin is: a folder goes when two listings agree. */
const SWEEPS = 4;
const NODES = ['one', 'two'] as const;
const ADDRESSES = ['anna', 'ben', 'cleo'].map((name) => `${name}@example.org`);
const OFTEN = { sync: '* * * * * *', sweep: '*/3 * * * * *', jitterSeconds: 0 };

let servers: Servers;

beforeAll(async () => {
  if (!skipped) servers = await startServers();
}, 120_000);
afterAll(() => servers?.stop());

/** Two workers, what is done to them, and what the registry has acknowledged meanwhile. */
class History {
  readonly #ledger = new Map<string, string>();
  readonly #workers = new Map<string, RunningWorker>();
  readonly did: string[] = [];

  constructor(
    private readonly places: ReadonlyMap<string, Place>,
    private readonly random: Random,
  ) {}

  start(node: string): void {
    const place = this.places.get(node);
    if (place !== undefined) this.#workers.set(node, new RunningWorker(place));
  }

  async turn(): Promise<void> {
    const node = NODES[this.random.below(NODES.length)] ?? 'one';
    const worker = this.#workers.get(node);
    const act = this.random.unit();
    if (worker === undefined) return;
    await this.#progress();
    if (act < 0.35) {
      this.did.push(`kill ${node}`);
      await worker.end('SIGKILL');
      await this.#expire(node);
      this.start(node);
    } else if (act < 0.65) {
      // It believes that it holds its archives, and continues when others do.
      this.did.push(`stop ${node}`);
      worker.signal('SIGSTOP');
      await this.#expire(node);
      const other = NODES.find((one) => one !== node) ?? 'two';
      await this.#held(other);
      worker.signal('SIGCONT');
    } else if (act < 0.8) {
      this.did.push(`end ${node}`);
      await this.#end(worker);
      this.start(node);
    }
    await this.note();
  }

  /** Writes down what the registry has acknowledged of each archive. */
  async note(): Promise<void> {
    const rows = await this.#registry.read<{ id: number; number: number; hash: Buffer }>(
      'look at heads',
      sql`SELECT id, head_number AS number, head_hash AS hash FROM archive`,
    );
    for (const { id, number, hash } of rows)
      this.#ledger.set(`${id} ${number}`, hash.toString('hex'));
  }

  /** What was acknowledged and is in no archive any more. */
  async lost(): Promise<string[]> {
    const known = await this.#registry.read<{ id: number; number: number; hash: Buffer }>(
      'look at commits',
      sql`SELECT archive AS id, number, hash FROM tail
        UNION ALL SELECT archive, last, last_hash FROM cover
        UNION ALL SELECT id, head_number, head_hash FROM archive`,
    );
    const there = new Map(
      known.map(({ id, number, hash }) => [`${id} ${number}`, hash.toString('hex')]),
    );
    return [...this.#ledger].flatMap(([at, hash]) => {
      const found = there.get(at);
      return found === undefined || found === hash ? [] : [at];
    });
  }

  /** One worker alone has everything, and looks at everything. */
  async rest(accounts: readonly string[]): Promise<Place> {
    for (const worker of this.#workers.values()) await this.#end(worker);
    this.start('one');
    const worker = this.#workers.get('one');
    for (const account of accounts) {
      await worker?.saidOf('run finished', { account, kind: 'sweep' }, SWEEPS);
    }
    expect(await worker?.end('SIGTERM')).toBe(0);
    const place = this.places.get('one');
    if (place === undefined) throw new Error('there is no such node');
    return place;
  }

  async kill(): Promise<void> {
    for (const worker of this.#workers.values()) await worker.end('SIGKILL');
  }

  get #registry() {
    const place = this.places.get('one');
    if (place === undefined) throw new Error('there is no such node');
    return place.registry;
  }

  /** It listens to signals once it has begun. */
  async #end(worker: RunningWorker): Promise<void> {
    await worker.said('session begun');
    expect(await worker.end('SIGTERM')).toBe(0);
  }

  /** Resolves once some worker has finished another run. */
  async #progress(): Promise<void> {
    const workers = [...this.#workers.values()];
    const runs = () =>
      workers.reduce(
        (sum, { lines }) => sum + lines.filter(({ msg }) => msg === 'run finished').length,
        0,
      );
    const before = runs();
    while (runs() === before) await Promise.race(workers.map((worker) => worker.news()));
  }

  async #expire(node: string): Promise<void> {
    await this.#registry.statement(
      'let a lease run out',
      sql`UPDATE worker SET lease_until = clock_timestamp() - interval '1 s' WHERE node = ${node}`,
    );
  }

  /** Resolves once a node holds everything. */
  async #held(node: string): Promise<void> {
    const place = this.places.get(node);
    const worker = this.#workers.get(node);
    if (place === undefined || worker === undefined) return;
    while ((await accountsOf(place)).some((one) => one.node !== node)) await worker.news();
  }
}

async function played(seed: number): Promise<void> {
  const random = randomFrom(seed, 'workers');
  const sandbox: Sandbox = await startSandbox({
    seed,
    addresses: ADDRESSES,
    mail: { messages: 60 },
  });
  const places = new Map<string, Place>();
  for (const node of NODES) {
    const first = places.get('one');
    const settings = { schedule: OFTEN };
    places.set(
      node,
      await nodeOf(servers, node, first === undefined ? { settings } : { first, settings }),
    );
  }
  const history = new History(places, random);
  try {
    const [one] = places.values();
    if (one === undefined) return;
    const accounts = await addAccounts(one, sandbox);
    const actor = new Actor(sandbox, random);
    for (const node of NODES) history.start(node);
    for (let turn = 0; turn < TURNS; turn += 1) {
      for (let change = 0; change < CHANGES; change += 1) actor.change();
      await history.turn();
    }
    const place = await history.rest([...accounts.keys()]);
    console.log(`seed ${seed}: ${actor.changes} changes; ${history.did.join(', ')}`);
    expect(await history.lost()).toEqual([]);
    // Everything is there; the server of a test has no replica.
    expect(await place.json(['check', '--read'], { code: 1 })).toMatchObject([{ damaged: 0 }]);
    for (const { account, archive } of await accountsOf(place)) {
      const config = path.join(place.folder, `${account}.json`);
      const dataDir = path.join(place.folder, 'cache', String(archive));
      const own = { name: account, token: { file: 'token' }, ...accounts.get(account) };
      writeFileSync(config, JSON.stringify({ dataDir, accounts: [own] }), { mode: 0o600 });
      const verified = await mailkeep(['verify', '--data', dataDir]);
      expect([account, verified.stderr, verified.code]).toEqual([account, expect.anything(), 0]);
      const origin = await mailkeep(['verify', '--origin', '--config', config]);
      expect([account, origin.stdout, origin.stderr, origin.code]).toEqual([
        ...[account, expect.anything(), expect.anything(), 0],
      ]);
    }
  } finally {
    await history.kill();
    for (const place of places.values()) place.remove();
    await sandbox.close();
  }
}

describe.skipIf(skipped)('workers that are killed, stopped and ended', () => {
  test(`leave archives that are what the origin is (MAILKEEP_SEED=${SEED})`, async () => {
    for (let at = 0; at < HISTORIES; at += 1) await played(SEED + at);
  }, 3_600_000);
});
