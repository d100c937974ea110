import { expect, test } from 'vitest';
import { manifestOf } from '../../src/fleet/manifest.ts';
import type { StoredArchive, StoredBatch, StoredCover } from '../../src/registry/reading.ts';
import { seeded } from '../bench/seeded.ts';
import { sha256 } from '../registry/servers/fleet.ts';

const SEED = Number(process.env.MAILKEEP_SEED ?? 1);
const hashOf = (number: number) => sha256(`commit ${number}`);

/** A random archive: sealed segments, then closed ones and a hot one in chunks and tail. */
function archive(seed: number): StoredArchive {
  const random = seeded('manifest', seed);
  const covers: StoredCover[] = [];
  const tail: StoredBatch[] = [];
  const [sealed, closed] = [random.below(4), random.below(3)];
  let number = 0;
  let at = 64;
  for (let segment = 1; segment <= sealed + closed + 1; segment += 1) {
    at = 64;
    const commits = segment <= sealed + closed ? 1 + random.below(5) : random.below(6);
    const first = number + 1;
    number += commits;
    const cover = (from: number, last: number, generation: number): StoredCover => ({
      ...{ first: from, last, lastHash: hashOf(last), segment, generation, at },
      ...{ key: `${segment}.${generation}/${from}`, bytes: 10, sha256: sha256('') },
    });
    if (segment <= sealed) {
      covers.push(cover(first, number, 2));
      continue;
    }
    const chunked = random.below(commits + 1);
    if (chunked > 0) {
      covers.push(cover(first, first + chunked - 1, 1));
      at += chunked * 100;
    }
    for (let one = first + chunked; one <= number; one += 1) {
      const rawBytes = 50 + random.below(100);
      const bytes = Buffer.from(`${one}`);
      tail.push({
        ...{ number: one, hash: hashOf(one), time: 1, segment, at, firstOrdinal: one },
        ...{ rawBytes, codec: 1, bytes },
      });
      at += rawBytes;
    }
  }
  const head = {
    ...{ archive: 1, epoch: 1, holder: null, headNumber: number, headHash: hashOf(number) },
    ...{ headTime: 1, hotSegment: sealed + closed + 1, hotOffset: at, hotOrdinal: 1 },
    ...{ hotPrevious: 0, hotPreviousHash: hashOf(0), purges: 0 },
  };
  const rest = { name: 'anna', settings: {}, snapshot: undefined, memory: undefined, purges: [] };
  const state = 'active' as const;
  return { head, logId: Buffer.alloc(8), covers, tail, state, ...rest };
}

test(`a manifest has each commit once and leaves no gap within a segment (MAILKEEP_SEED=${SEED})`, () => {
  for (let seed = SEED; seed < SEED + 300; seed += 1) {
    const stored = archive(seed);
    const { sealed, pieces } = manifestOf(stored);
    const held = [
      ...[...sealed.values()].map(({ first, last }) => [first, last] as const),
      ...pieces.map(({ first, last }) => [first, last] as const),
    ];
    const numbers = held.flatMap(([first, last]) =>
      Array.from({ length: last - first + 1 }, (_, at) => first + at),
    );
    const all = Array.from({ length: stored.head.headNumber }, (_, at) => at + 1);
    expect([seed, numbers]).toEqual([seed, all]);
    for (const [index, { segment, until }] of pieces.entries()) {
      const next = pieces[index + 1];
      if (next?.segment === segment) expect(until).toBe(next.at);
    }
    const hot = pieces.filter(({ segment }) => segment === stored.head.hotSegment);
    expect(hot.at(-1)?.until ?? stored.head.hotOffset).toBe(stored.head.hotOffset);
  }
});

test(`what does not make up a log is named by its first commit (MAILKEEP_SEED=${SEED})`, () => {
  let broken = 0;
  for (let seed = SEED; seed < SEED + 300; seed += 1) {
    const stored = archive(seed);
    const { covers, tail, head } = stored;
    const without = (index: number) => tail.filter((_, at) => at !== index);
    const wrongs: readonly Partial<StoredArchive>[] = [
      ...tail.map((_, index) => ({ tail: without(index) })),
      ...tail.map((batch) => ({ tail: [...tail, batch] })),
      ...covers.map((cover) => ({ covers: covers.filter((one) => one !== cover) })),
      ...covers.map((cover) => ({ covers: [...covers, cover] })),
      ...(head.headNumber === 0
        ? []
        : [
            { head: { ...head, headHash: hashOf(99) } },
            { head: { ...head, headNumber: head.headNumber - 1 } },
            { head: { ...head, headNumber: head.headNumber + 1 } },
          ]),
    ];
    for (const wrong of wrongs) {
      broken += 1;
      expect(() => manifestOf({ ...stored, ...wrong })).toThrow(
        expect.objectContaining({ code: 'manifest-damaged', family: 'damage' }),
      );
    }
  }
  expect(broken).toBeGreaterThan(1_000);
});
