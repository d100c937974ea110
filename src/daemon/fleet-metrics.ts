import { type Counter, Gauge, Histogram } from 'prom-client';
import { labelled, RunMetrics } from './metrics.ts';

/** What a node of a fleet has at the moment. */
export interface NodeFacts {
  /** Accounts that its session holds, and those of them whose archives are open. */
  readonly held: number;
  readonly open: number;
  /** For each open archive: its service, and the requests a minute that its token may make there. */
  readonly budgets: readonly { readonly host: string; readonly perMinute: number }[];
}

/** What a node knows of its fleet, as it last asked. Ages are in milliseconds; null where there is nothing. */
export interface FleetFacts {
  /** Sessions that live. */
  readonly sessions: number;
  /** By state; those that are active and that no living session holds are counted under `unheld` as well. */
  readonly accounts: ReadonlyMap<string, number>;
  readonly tailBytes: number;
  readonly tailAgeMs: number | null;
  readonly objects: ReadonlyMap<string, number>;
  readonly forgets: number;
  readonly forgetAgeMs: number | null;
  readonly isSynchronous: boolean;
  /** Codes of what needs a person, of all that there may be. */
  readonly attention: ReadonlyMap<string, boolean>;
}

interface FleetSources {
  readonly node: () => NodeFacts;
  /** Null while it is not known. */
  readonly fleet: () => FleetFacts | null;
}

const COMMIT_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const READY_BUCKETS = [0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800];
const COMMITS: ReadonlySet<string> = new Set(['commit', 'decide a purge']);

/** The metrics of a worker. What is about the whole fleet is the same on every node. Labels never name accounts. */
export class FleetMetrics extends RunMetrics {
  #sources: FleetSources = {
    node: () => ({ held: 0, open: 0, budgets: [] }),
    fleet: () => null,
  };
  readonly #commits = this.#histogram(
    'commit_duration_seconds',
    COMMIT_BUCKETS,
    'How long commits in PostgreSQL took',
  );
  readonly #ready = this.#histogram(
    'claim_to_ready_seconds',
    READY_BUCKETS,
    'From the claim of an account until its archive was open',
  );
  readonly #failures = this.#total('registry_failures', 'Requests to PostgreSQL that failed', [
    'code',
  ]);
  readonly #refusals = this.#total(
    'refusals',
    'Transactions that PostgreSQL refused, by what did not hold any more',
    ['reason'],
  );
  readonly #epochs = this.#total(
    'epochs_raised',
    'Epochs that were raised by claims, and to settle lost answers',
    [],
  );
  readonly #hints = this.#total('hints', 'Hints of webhooks, by what became of them', ['outcome']);

  constructor(version: string) {
    super(version);
    this.#nodeGauges();
    this.#fleetGauges();
  }

  /** Says where the gauges are from. */
  show(sources: FleetSources): void {
    this.#sources = sources;
  }

  transaction(name: string, ms: number, failure: string | null): void {
    if (failure !== null) this.#failures.inc({ code: failure });
    else if (COMMITS.has(name)) this.#commits.observe(ms / 1_000);
  }

  refused(reason: string): void {
    this.#refusals.inc({ reason });
  }

  epochsRaised(archives: number): void {
    this.#epochs.inc(archives);
  }

  hints(outcome: string, hints: number): void {
    this.#hints.inc({ outcome }, hints);
  }

  claimToReady(ms: number): void {
    this.#ready.observe(ms / 1_000);
  }

  #total(name: string, help: string, labels: string[]): Counter {
    return this.counter(`fleet_${name}_total`, help, labels);
  }

  #histogram(name: string, buckets: number[], help: string): Histogram {
    const registers = [this.registry];
    return new Histogram({ name: `mailkeep_fleet_${name}`, help, buckets, registers });
  }

  #nodeGauges(): void {
    labelled(
      this.registry,
      'fleet_archives',
      'Accounts that this worker holds, and open archives',
      ['state'],
      () => {
        const { held, open } = this.#sources.node();
        return [
          [{ state: 'held' }, held],
          [{ state: 'open' }, open],
        ];
      },
    );
    labelled(
      this.registry,
      'fleet_budget_requests_per_minute',
      'Requests a minute that the tokens of this worker may make',
      ['host'],
      () => {
        const sums = new Map<string, number>();
        for (const { host, perMinute } of this.#sources.node().budgets) {
          sums.set(host, (sums.get(host) ?? 0) + perMinute);
        }
        return [...sums].map(([host, sum]) => [{ host }, sum] as const);
      },
    );
  }

  #fleetGauges(): void {
    this.#one('sessions', 'Workers that live', ({ sessions }) => sessions);
    this.#each('accounts', 'Accounts of the fleet', 'state', ({ accounts }) => accounts);
    this.#one('tail_bytes', 'Bytes of commits in PostgreSQL', ({ tailBytes }) => tailBytes);
    this.#one('tail_age_seconds', 'How long the oldest of them is there', ({ tailAgeMs }) =>
      seconds(tailAgeMs),
    );
    this.#each(
      'objects',
      'Objects in the bucket; swept ones are deleted and settle',
      'state',
      ({ objects }) => objects,
    );
    this.#one('forgets_unfinished', 'Forgets that have not ended', ({ forgets }) => forgets);
    this.#one('forget_age_seconds', 'Since when the oldest of them waits', ({ forgetAgeMs }) =>
      seconds(forgetAgeMs),
    );
    this.#one('replica_synchronous', '1 while a failover takes no commit back', (all) =>
      Number(all.isSynchronous),
    );
    this.#each(
      'attention',
      '1 for what needs a person, as "mailkeep fleet status" names it',
      'code',
      ({ attention }) => new Map([...attention].map(([code, isSo]) => [code, Number(isSo)])),
    );
  }

  #one(name: string, help: string, read: (facts: FleetFacts) => number): void {
    const read1 = (): number | null => {
      const facts = this.#sources.fleet();
      return facts === null ? null : read(facts);
    };
    new Gauge({
      name: `mailkeep_fleet_${name}`,
      help,
      registers: [this.registry],
      collect() {
        const value = read1();
        if (value === null) this.remove();
        else this.set(value);
      },
    });
  }

  #each(
    name: string,
    help: string,
    label: string,
    read: (facts: FleetFacts) => ReadonlyMap<string, number>,
  ): void {
    labelled(this.registry, `fleet_${name}`, help, [label], () => {
      const facts = this.#sources.fleet();
      return facts === null
        ? []
        : [...read(facts)].map(([value, n]) => [{ [label]: value }, n] as const);
    });
  }
}

/** Nothing is old where there is nothing. */
function seconds(ms: number | null): number {
  return Math.max(0, ms ?? 0) / 1_000;
}
