import { expect, test } from 'vitest';
import { FleetMetrics } from '../../src/daemon/fleet-metrics.ts';
import type { Observation } from '../../src/daemon/notifier.ts';
import { FleetWatch } from '../../src/fleet/fleet-watch.ts';
import type { FleetNumbers } from '../../src/registry/numbers.ts';
import type { Replication } from '../../src/registry/reading.ts';
import type { SessionStatus } from '../../src/registry/status.ts';
import { FakeClock } from '../limiter/fake-clock.ts';

const HOUR_MS = 3_600_000;

const session = (id: string, more: Partial<SessionStatus> = {}): SessionStatus => ({
  ...{ session: id, node: id, egress: id, capacity: 10, isDraining: false, isDead: false },
  ...{ overMs: -20_000, archives: 5, ...more },
});

const anna = (hours: number) => ({ tenant: 't', name: 'anna', ageMs: hours * HOUR_MS });

const WELL: FleetNumbers = {
  sessions: [session('b'), session('c'), session('a', { isDead: true, archives: 0 })],
  accounts: [
    { state: 'active', holding: 'held', count: 7 },
    { state: 'active', holding: 'dead', count: 2 },
    { state: 'paused', holding: 'free', count: 1 },
  ],
  tail: { archives: 3, bytes: 500, ageMs: 47 * HOUR_MS, oldest: anna(47) },
  objects: [
    { state: 'live', count: 12 },
    { state: 'swept', count: 2 },
  ],
  purges: { unfinished: 0, oldest: [] },
};
const BAD: FleetNumbers = {
  ...WELL,
  tail: { ...WELL.tail, ageMs: 49 * HOUR_MS, oldest: anna(49) },
  purges: {
    unfinished: 1,
    oldest: [
      {
        ...{ archive: 1, purges: 1, state: 'active', holder: null },
        ...{ tenant: 't', name: 'ben', ageMs: 25 * HOUR_MS },
      },
    ],
  },
};

test('one node notifies of what needs a person, all show it, and nobody shows what is old', async () => {
  const clock = new FakeClock();
  let [numbers, isAway, asked] = [WELL, false, 0];
  let replication: Replication = { isSynchronous: true, failedOverMs: undefined };
  const nodes = ['b', 'c'].map((id) => {
    const observed: (readonly Observation[])[] = [];
    const watch = new FleetWatch({
      async ask() {
        asked += 1;
        if (isAway) throw new Error('away');
        return { numbers, replication };
      },
      session: () => id,
      notifier: { observe: (some) => void observed.push(some), close: async () => {} },
      ...{ after: clock.after, monotonic: clock.now },
      log: { say: () => {}, fail: () => {} } as never,
    });
    const metrics = new FleetMetrics('1');
    metrics.show({
      node: () => ({ held: 2, open: 1, budgets: [{ host: 'h', perMinute: 60 }] }),
      fleet: () => watch.facts,
    });
    return { watch, observed, metrics };
  });
  const [first, second] = nodes;
  if (first === undefined || second === undefined) throw new Error('there are two');
  for (const { watch } of nodes) watch.look();
  await clock.advance(0);
  await clock.advance(59_000);
  expect(asked).toBe(2);
  const failing = () =>
    (first.observed.at(-1) ?? []).flatMap(({ subject, failure }) =>
      failure === null ? [] : [[subject.name, failure.family]],
    );
  expect([first.observed.length, failing()]).toEqual([1, []]);

  [numbers, replication] = [BAD, { isSynchronous: false, failedOverMs: undefined }];
  await clock.advance(60_000);
  expect(failing()).toEqual([
    ['not-synchronous', 'config'],
    ['tail-old', 'held'],
    ['forget-old', 'held'],
  ]);
  expect(second.observed).toEqual([]);
  const text = await second.metrics.text(false);
  for (const line of [
    'fleet_sessions 2',
    'fleet_accounts{state="active"} 9',
    'fleet_accounts{state="unheld"} 2',
    'fleet_tail_bytes 500',
    `fleet_tail_age_seconds ${49 * 3_600}`,
    'fleet_objects{state="swept"} 2',
    'fleet_forgets_unfinished 1',
    `fleet_forget_age_seconds ${25 * 3_600}`,
    'fleet_replica_synchronous 0',
    'fleet_attention{code="tail-old"} 1',
    'fleet_attention{code="no-worker"} 0',
    'fleet_archives{state="open"} 1',
    'fleet_budget_requests_per_minute{host="h"} 60',
  ]) {
    expect(text).toContain(`mailkeep_${line}\n`);
  }
  expect(text).not.toMatch(/anna|ben/);

  isAway = true;
  await clock.advance(6 * 60_000);
  const later = await second.metrics.text(false);
  expect(later).not.toMatch(/^mailkeep_fleet_(?:sessions|attention|tail_bytes)[ {]/m);
  expect(later).toContain('fleet_archives{state="held"} 2');
  for (const { watch } of nodes) await watch.close();
});
