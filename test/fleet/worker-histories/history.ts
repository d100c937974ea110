import { sql } from 'kysely';
import { scanLog } from '../../../src/archive/log-reader.ts';
import type { Random } from '../../../src/sandbox/generated-mail.ts';
import type { Place } from '../commands/place.ts';
import { RunningWorker } from '../commands/running-worker.ts';
import type { Faults } from './faults.ts';

/** Sweeps at rest until the archive has to be what the origin is: a folder goes when two listings agree. */
const SWEEPS = 4;
/** A worker that cannot reach the registry when it starts ends, as often as that happens. */
const MOST_STARTS = 60;
export const NODES = ['one', 'two'] as const;

interface Acknowledged {
  readonly archive: number;
  readonly number: number;
  readonly hash: Buffer;
}

/** Two workers, what is done to them, and what the registry has acknowledged meanwhile. */
export class History {
  /** Hashes of heads, by archive and number. They were seen from outside, so nothing may take them back. */
  readonly #ledger = new Map<number, Map<number, string>>();
  readonly #workers = new Map<string, RunningWorker>();
  readonly did: string[] = [];
  waits = '';
  #starts = 0;
  #isOver = false;

  constructor(
    private readonly program: string,
    private readonly places: ReadonlyMap<string, Place>,
    private readonly random: Random,
    private readonly faults: Faults,
  ) {}

  start(node: string): RunningWorker {
    const place = this.places.get(node);
    this.#starts += 1;
    if (place === undefined || this.#isOver || this.#starts > MOST_STARTS)
      throw new Error('too many starts');
    const worker = new RunningWorker(place, this.program);
    this.#workers.set(node, worker);
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
      // It believes that it holds its archives, and continues when others do.
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

  /** Writes down what the registry has acknowledged of each archive. */
  async note(): Promise<void> {
    const rows = await this.#registry.read<Acknowledged>(
      'look at heads',
      sql`SELECT id AS archive, head_number AS number, head_hash AS hash FROM archive`,
    );
    for (const { archive, number, hash } of rows) {
      const known = this.#ledger.get(archive) ?? new Map<number, string>();
      this.#ledger.set(archive, known.set(number, hash.toString('hex')));
    }
  }

  /** One worker alone has everything, and looks at everything. */
  async rest(accounts: readonly string[]): Promise<Place> {
    for (const node of NODES) await this.#end(node);
    await this.faults.end();
    const worker = this.start('one');
    for (const account of accounts) {
      this.waits = `waits for sweeps of ${account}`;
      await worker.saidOf('run finished', { account, kind: 'sweep' }, SWEEPS);
    }
    await this.note();
    await this.#end('one');
    await this.note();
    const place = this.places.get('one');
    if (place === undefined) throw new Error('there is no such node');
    return place;
  }

  /** Acknowledged commits that are not in the log of a folder. */
  async lost(archive: number, dir: string): Promise<string[]> {
    const there = new Map<number, string>();
    for await (const event of scanLog({ dir })) {
      if (event.what !== 'batch' || !event.sound) continue;
      there.set(event.batch.commit.number, event.batch.commit.hash);
    }
    return [...(this.#ledger.get(archive) ?? [])]
      .filter(([number, hash]) => number > 0 && there.get(number) !== hash)
      .map(([number]) => `archive ${archive}: commit ${number} was acknowledged and is not there`);
  }

  /** What it waits for, and what workers said last. */
  get story(): string {
    const said = [...this.#workers].map(
      ([node, { lines, stderr }]) =>
        `\n${node}: ${stderr}${lines
          .filter(({ msg }) => msg !== 'run finished')
          .slice(-40)
          .map((line) => `\n  ${JSON.stringify(line)}`)
          .join('')}`,
    );
    return `${this.did.join(', ')}; ${this.waits}${said.join('')}`;
  }

  async kill(): Promise<void> {
    this.#isOver = true;
    for (const worker of this.#workers.values()) await worker.end('SIGKILL');
  }

  /** Past the proxies. */
  get #registry() {
    const place = this.places.get('one');
    if (place === undefined) throw new Error('there is no such node');
    return place.registry;
  }

  /** Ends a worker in good order. It listens to signals once it has begun; before that it may end by itself. */
  async #end(node: string): Promise<void> {
    const worker = this.#workers.get(node);
    if (worker === undefined) return;
    this.waits = `ends ${node}`;
    while (!worker.hasEnded && !worker.lines.some(({ msg }) => msg === 'session begun')) {
      await worker.news();
    }
    if (worker.hasEnded) return;
    const code = await worker.end('SIGTERM');
    if (code !== 0) throw new Error(`a worker ended with ${code}: ${worker.stderr}`);
    this.#workers.delete(node);
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
    for (const [node, worker] of this.#workers) {
      if (worker.hasEnded) {
        this.did.push(`${node} ended by itself`);
        this.start(node);
        return;
      }
    }
    await Promise.race([...this.#workers.values()].map((worker) => worker.news()));
  }

  async #expire(node: string): Promise<void> {
    // What is held within a transaction keeps others waiting.
    await this.faults.deliver();
    await this.#registry.statement(
      'let a lease run out',
      sql`UPDATE worker SET lease_until = clock_timestamp() - interval '1 s' WHERE node = ${node}`,
    );
  }

  /** Resolves once a node holds everything. */
  async #heldBy(node: string): Promise<void> {
    this.waits = `waits until ${node} has everything`;
    for (;;) {
      const [row] = await this.#registry.read<{ others: number }>(
        'look at holders',
        sql`SELECT count(*)::int AS others FROM archive
          LEFT JOIN worker ON worker.session = archive.holder WHERE node IS DISTINCT FROM ${node}`,
      );
      if (row?.others === 0) return;
      const worker = this.#workers.get(node);
      if (worker?.hasEnded === true) this.start(node);
      await this.#workers.get(node)?.news();
    }
  }
}
