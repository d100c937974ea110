import { expect, test } from 'vitest';
import { attentionOf } from '../../src/fleet/attention.ts';
import type { FleetStatus, SessionStatus } from '../../src/registry/status.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const SAFE = { isSynchronous: true, failedOverMs: undefined };

const session = (more: Partial<SessionStatus> = {}): SessionStatus => ({
  ...{ session: 's', node: 'n1', egress: 'n1', capacity: 10, isDraining: false, isDead: false },
  ...{ overMs: -20_000, archives: 5, ...more },
});

function status(more: Partial<FleetStatus> = {}): FleetStatus {
  return {
    sessions: [session()],
    accounts: [
      { state: 'active', holding: 'held', count: 5 },
      { state: 'paused', holding: 'free', count: 100 },
    ],
    commits: { none: 0, stale: 3, newest: undefined, oldest: undefined },
    tail: { archives: 0, bytes: 0, oldest: undefined },
    ...{ objects: [], purges: { unfinished: 0, oldest: [] }, struck: [] },
    ...more,
  };
}

function codes(more: Partial<FleetStatus> = {}, replication = SAFE, isFreshnessAsked = false) {
  return attentionOf(status(more), replication, isFreshnessAsked).map(({ code }) => code);
}

const oldest = (ageMs: number) => ({ tenant: 't', name: 'anna', ageMs });

function purge(ageMs: number): Partial<FleetStatus> {
  const one = { archive: 1, purges: 1, state: 'active', holder: null, ...oldest(ageMs) } as const;
  return { purges: { unfinished: 1, oldest: [one] } };
}

test('nothing is wrong with a fleet that is as it should be', () => {
  expect(codes()).toEqual([]);
  expect(codes(purge(23 * HOUR_MS))).toEqual([]);
  expect(codes({ tail: { archives: 1, bytes: 1, oldest: oldest(47 * HOUR_MS) } })).toEqual([]);
  // Nothing to do, and nobody to do it.
  expect(codes({ sessions: [], accounts: [] })).toEqual([]);
});

test('acknowledgements that a failover takes back come first', () => {
  const failedOver = { isSynchronous: false, failedOverMs: HOUR_MS };
  expect(codes({ sessions: [] }, { ...SAFE, isSynchronous: false })).toEqual([
    ...['not-synchronous', 'no-worker'],
  ]);
  expect(attentionOf(status(), { ...failedOver, failedOverMs: 30 * HOUR_MS }, false)).toEqual([
    { code: 'not-synchronous' },
  ]);
  expect(attentionOf(status(), failedOver, false)).toContainEqual({
    ...{ code: 'failed-over', ageMs: HOUR_MS },
  });
  expect(attentionOf(status(), { isSynchronous: true, failedOverMs: HOUR_MS }, false)).toEqual([]);
});

test('accounts need workers that take them, and enough of these', () => {
  expect(codes({ sessions: [session({ isDraining: true })] })).toEqual(['no-worker']);
  expect(codes({ sessions: [session({ isDead: true, overMs: 1_000 })] })).toEqual(['no-worker']);
  expect(codes({ sessions: [session({ capacity: 4 })] })).toEqual(['no-capacity']);
  const two = [session({ capacity: 4 }), session({ node: 'n2', capacity: 1 })];
  expect(codes({ sessions: two })).toEqual([]);
});

test('accounts of a dead session are to be taken soon', () => {
  const dead = (overMs: number, archives: number) => ({
    sessions: [session(), session({ node: 'n2', isDead: true, overMs, archives })],
  });
  expect(codes(dead(4 * MINUTE_MS, 3))).toEqual([]);
  expect(codes(dead(6 * MINUTE_MS, 0))).toEqual([]);
  expect(attentionOf(status(dead(6 * MINUTE_MS, 3)), SAFE, false)).toEqual([
    { code: 'orphaned', node: 'n2', archives: 3, ageMs: 6 * MINUTE_MS },
  ]);
});

test('what takes too long is named', () => {
  expect(codes(purge(25 * HOUR_MS))).toEqual(['forget-old']);
  expect(codes({ tail: { archives: 1, bytes: 1, oldest: oldest(49 * HOUR_MS) } })).toEqual([
    'tail-old',
  ]);
  expect(codes({}, SAFE, true)).toEqual(['stale']);
});
