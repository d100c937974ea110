import { expect, test } from 'vitest';
import { type ArchiveFacts, dueFor } from '../../src/fleet/plan.ts';

const NOW = 1_770_000_000_000;
const HOUR_MS = 3_600_000;
const MIB = 1024 * 1024;
const NOTHING: ArchiveFacts = {
  tailBytes: 0,
  tailSince: undefined,
  hot: { segment: 3, offset: 64 },
  closed: [],
  snapshot: { at: NOW, commits: 0, messages: 0 },
};
const CHUNK = { do: 'chunk', segment: 3 } as const;

function due(facts: Partial<ArchiveFacts>) {
  return dueFor({ ...NOTHING, ...facts }, NOW);
}

test('a chunk is due at 1 MiB of the tail, or when its oldest bytes are a day old', () => {
  const young = { tailSince: NOW - 24 * HOUR_MS + 1 };
  expect(due({})).toEqual([]);
  expect(due({ ...young, tailBytes: MIB - 1 })).toEqual([]);
  expect(due({ ...young, tailBytes: MIB })).toEqual([CHUNK]);
  expect(due({ tailBytes: 1, tailSince: NOW - 24 * HOUR_MS })).toEqual([CHUNK]);
  // Clocks differ.
  expect(due({ tailBytes: 1, tailSince: NOW + HOUR_MS })).toEqual([]);
});

test('a segment of 64 MiB is closed, and what is closed is sealed, before any chunk', () => {
  const waiting = { tailBytes: 30 * MIB, tailSince: NOW };
  expect(due({ ...waiting, hot: { segment: 3, offset: 64 * MIB - 1 } })).toEqual([CHUNK]);
  expect(due({ ...waiting, hot: { segment: 3, offset: 64 * MIB } })).toEqual([{ do: 'roll' }]);
  expect(due({ ...waiting, closed: [1, 2] })).toEqual([
    { do: 'seal', segment: 1 },
    { do: 'seal', segment: 2 },
  ]);
});

test('a snapshot is due after 2,000 messages, or after 90 days in which anything happened', () => {
  const at = NOW - 90 * 24 * HOUR_MS;
  const SNAPSHOT = [{ do: 'snapshot' }];
  expect(due({ snapshot: { at: NOW, commits: 40, messages: 1_999 } })).toEqual([]);
  expect(due({ snapshot: { at: NOW, commits: 40, messages: 2_000 } })).toEqual(SNAPSHOT);
  expect(due({ snapshot: { at, commits: 1, messages: 0 } })).toEqual(SNAPSHOT);
  expect(due({ snapshot: { at: at + 1, commits: 1, messages: 0 } })).toEqual([]);
  expect(due({ snapshot: { at, commits: 0, messages: 0 } })).toEqual([]);
});
