import { expect, test } from 'vitest';
import { type ArchiveFacts, dueFor } from '../../src/fleet/plan.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const MIB = 1024 * 1024;
const NOTHING: ArchiveFacts = {
  ...{ tailBytes: 0, tailAgeMs: null, tailSegment: null },
  snapshot: { ageMs: null, commits: 0, messages: 0 },
};
const CHUNK = { do: 'chunk', segment: 3 } as const;

function due(facts: Partial<ArchiveFacts>) {
  return dueFor({ ...NOTHING, ...facts });
}

test('a chunk is due at 1 MiB of the tail, or when its oldest bytes are a day old', () => {
  const young = { tailAgeMs: DAY_MS - 1, tailSegment: 3 };
  expect(due({})).toEqual([]);
  expect(due({ ...young, tailBytes: MIB - 1 })).toEqual([]);
  expect(due({ ...young, tailBytes: MIB })).toEqual([CHUNK]);
  expect(due({ ...young, tailBytes: 1, tailAgeMs: DAY_MS })).toEqual([CHUNK]);
});

test('a snapshot is due after 2,000 messages, or after 90 days in which anything happened', () => {
  const snapshot = (facts: Partial<ArchiveFacts['snapshot']>) =>
    due({ snapshot: { ageMs: DAY_MS, commits: 1, messages: 1, ...facts } });
  expect(snapshot({})).toEqual([]);
  expect(snapshot({ messages: 1_999 })).toEqual([]);
  expect(snapshot({ messages: 2_000 })).toEqual([{ do: 'snapshot' }]);
  expect(snapshot({ ageMs: 90 * DAY_MS })).toEqual([{ do: 'snapshot' }]);
  expect(snapshot({ ageMs: 90 * DAY_MS, commits: 0, messages: 0 })).toEqual([]);
  expect(snapshot({ ageMs: null, messages: 1_999 })).toEqual([]);
});
