import { expect, test } from 'vitest';
import type { Boundary } from '../../src/copies/copy-log.ts';
import { segmentMark } from '../../src/copies/format/manifest.ts';
import {
  type CopyScan,
  MAX_TAIL,
  type ObjectEntry,
  type PlannedObject,
  planCopy,
  type TailRange,
} from '../../src/copies/upload-copy.ts';

const nameKey = Buffer.alloc(32, 7);

function surveyOf(boundaries: readonly Boundary[]): CopyScan {
  const commit = boundaries.at(-1) ?? { number: 0, hash: 'genesis', time: 0 };
  return {
    archiveId: '00',
    format: 'mailkeep archive 2',
    commit,
    closed: [],
    open: { segment: 1, boundaries },
  };
}

function entryOf({ mark, what }: PlannedObject<TailRange>): ObjectEntry {
  return { name: mark, length: what.to - what.from, sha256: '' };
}

/** Deterministic numbers below 1, from a seed. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

test.each([1, 2, 3, 4, 5, 6])(
  'the tail covers every byte once, is short, and is not uploaded over and over (seed %i)',
  (seed) => {
    const random = randomFrom(seed);
    const boundaries: Boundary[] = [];
    let known = new Map<string, ObjectEntry>();
    let [offset, uploaded] = [64, 0];
    while (offset < 64 * 1024 * 1024) {
      offset += Math.ceil(random() ** 4 * 2_000_000) + 200;
      const number = boundaries.length + 1;
      boundaries.push({ number, hash: `c${number}`, offset, time: 0 });
      if (random() < 0.3) continue;
      const { tail } = planCopy(surveyOf(boundaries), known, nameKey);
      expect(tail.length).toBeLessThanOrEqual(MAX_TAIL);
      let at = 0;
      for (const { what } of tail) {
        expect(what.from).toBe(at);
        expect(what.to).toBeGreaterThan(what.from);
        at = what.to;
      }
      expect(at).toBe(offset);
      for (const { there, what } of tail) if (there === undefined) uploaded += what.to - what.from;
      known = new Map(tail.map((piece) => [piece.mark, entryOf(piece)]));
    }
    // Each byte once for each doubling from the smallest object to the largest, at the most.
    expect(uploaded / offset).toBeLessThan(10);
    const { tail } = planCopy(surveyOf(boundaries), known, nameKey);
    const all = new Map(tail.map((piece) => [piece.mark, entryOf(piece)]));
    const again = planCopy(surveyOf(boundaries), all, nameKey);
    expect(again.tail.every(({ there }) => there !== undefined)).toBe(true);
  },
);

test('a segment that is there stays; one with another purge is uploaded', () => {
  const end = { number: 7, hash: 'c7', time: 0 };
  const archiveScan: CopyScan = {
    ...{ archiveId: '00', format: 'mailkeep archive 1', commit: end, open: undefined },
    closed: [{ segment: 1, end, purged: '' }],
  };
  const entry = { name: 'data/1', length: 5, sha256: '' };
  const mark = segmentMark(nameKey, { segment: 1, end, purged: '' });
  const known = new Map([[mark, entry]]);
  expect(planCopy(archiveScan, known, nameKey).segments.map(({ there }) => there)).toEqual([entry]);
  const purged = { ...archiveScan, closed: [{ segment: 1, end, purged: 'ff' }] };
  expect(planCopy(purged, known, nameKey).segments.map(({ there }) => there)).toEqual([undefined]);
});

test('where nothing was committed there is nothing to copy', () => {
  expect(planCopy(surveyOf([]), new Map(), nameKey)).toEqual({ segments: [], tail: [] });
});
