import type { ErrorFamily } from '../core/errors.ts';
import type { FleetFacts } from '../daemon/fleet-metrics.ts';
import { PeriodicWatch, type WatchTiming } from '../daemon/integrations.ts';
import type { Notifier, Observation } from '../daemon/notifier.ts';
import type { FleetNumbers } from '../registry/numbers.ts';
import type { Replication } from '../registry/reading.ts';
import { attentionOf } from './attention.ts';
import { type Attention, attentionText } from './fleet-attention.ts';

export interface FleetWatchOptions extends WatchTiming {
  /** `fleetNumbers` and `replicationOf` of the registry. */
  readonly ask: () => Promise<{
    readonly numbers: FleetNumbers;
    readonly replication: Replication;
  }>;
  /** The session of this node; undefined between two sessions. */
  readonly session: () => string | undefined;
  /** Notifies of what needs a person, and of what no longer does. One node of the fleet does this. */
  readonly notifier: Pick<Notifier, 'observe' | 'close'>;
  /** Milliseconds of a clock that never goes back. */
  readonly monotonic: () => number;
}

const EVERY_MS = 60_000;
/** Numbers of before are not shown as those of today. */
const OLD_MS = 5 * EVERY_MS;

/** Who has to do something: without a family of these, a notification waits a while. */
const FAMILIES: Readonly<Record<Attention['code'], ErrorFamily>> = {
  'not-synchronous': 'config',
  'failed-over': 'damage',
  'no-worker': 'config',
  'no-capacity': 'config',
  orphaned: 'origin',
  'tail-old': 'held',
  'forget-old': 'held',
  stale: 'held',
};
/** Without one that only a person asks for. */
const CODES = (Object.keys(FAMILIES) as Attention['code'][]).filter((code) => code !== 'stale');

/** Asks for the numbers of the fleet once a minute: for metrics, and for what somebody is to be notified of. */
export class FleetWatch extends PeriodicWatch {
  #known: { readonly at: number; readonly facts: FleetFacts } | undefined;

  constructor(private readonly options: FleetWatchOptions) {
    super(options, EVERY_MS, 'the numbers of the fleet could not be asked for');
  }

  /** What was found last; null if that is long ago. */
  get facts(): FleetFacts | null {
    const { monotonic } = this.options;
    return this.#known === undefined || monotonic() - this.#known.at > OLD_MS
      ? null
      : this.#known.facts;
  }

  override async close(): Promise<void> {
    await super.close();
    await this.options.notifier.close();
  }

  protected override async round(): Promise<void> {
    const { ask, session, notifier, monotonic } = this.options;
    const { numbers, replication } = await ask();
    if (this.stopping.aborted) return;
    const found = attentionOf(numbers, replication, false);
    this.#known = { at: monotonic(), facts: factsOf(numbers, replication, found) };
    // Otherwise everybody who is to be notified would be, by each node.
    const first = numbers.sessions
      .filter(({ isDead }) => !isDead)
      .map((one) => one.session)
      .toSorted()
      .at(0);
    if (first !== undefined && first === session()) notifier.observe(observationsOf(found));
  }
}

/** One observation for each thing that may need a person; of several dead nodes, the first. */
function observationsOf(found: readonly Attention[]): Observation[] {
  return CODES.map((code) => {
    const one = found.find((attention) => attention.code === code);
    const failure =
      one === undefined ? null : { family: FAMILIES[code], code, message: attentionText(one) };
    return { subject: { kind: 'fleet', name: code }, failure };
  });
}

function factsOf(
  { sessions, accounts, tail, objects, purges }: FleetNumbers,
  { isSynchronous }: Replication,
  found: readonly Attention[],
): FleetFacts {
  const byState = new Map<string, number>([
    ...['active', 'paused', 'leaving', 'importing', 'unheld'].map((state) => [state, 0] as const),
  ]);
  const add = (state: string, count: number): unknown =>
    byState.set(state, (byState.get(state) ?? 0) + count);
  for (const { state, holding, count } of accounts) {
    add(state, count);
    if (state === 'active' && holding !== 'held') add('unheld', count);
  }
  return {
    sessions: sessions.filter(({ isDead }) => !isDead).length,
    accounts: byState,
    tailBytes: tail.bytes,
    tailAgeMs: tail.ageMs,
    objects: new Map([
      ...['live', 'uploading', 'condemned', 'swept'].map((state) => [state, 0] as const),
      ...objects.map(({ state, count }) => [state, count] as const),
    ]),
    forgets: purges.unfinished,
    forgetAgeMs: purges.oldest[0]?.ageMs ?? null,
    isSynchronous,
    attention: new Map(CODES.map((code) => [code, found.some((one) => one.code === code)])),
  };
}
