import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Folder, type SourceFacts } from '../../../src/sandbox/folder.ts';

const FACTS: SourceFacts = { size: (source) => (source * 7) % 5, received: (source) => -source };

type Step =
  | { readonly kind: 'append'; readonly flags: string[] }
  | { readonly kind: 'remove' | 'see' | 'unsee'; readonly at: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('append' as const),
      flags: fc.subarray(['\\Seen', 'x']),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constantFrom('remove', 'see', 'unsee'), at: fc.nat() }),
  },
);

interface Plain {
  readonly uid: number;
  readonly source: number;
  flags: readonly string[];
}

test('a folder answers like a plain list, whatever was appended and removed before', () => {
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 250 }),
      fc.nat(20),
      fc.nat(20),
      (steps, offset, limit) => {
        const folder = new Folder(1, 'INBOX', null);
        let plain: Plain[] = [];
        let next = 1;
        for (const made of steps) {
          if (made.kind === 'append') {
            folder.append(next, next + 100, made.flags);
            plain.push({ uid: next, source: next + 100, flags: made.flags });
            // Uids may be left out, as after a restart.
            next += made.flags.length === 2 ? 3 : 1;
            continue;
          }
          const target = plain[made.at % Math.max(1, plain.length)];
          if (target === undefined) continue;
          if (made.kind === 'remove') {
            expect(folder.remove(target.uid)).toBe(target.source);
            expect(folder.remove(target.uid)).toBeNull();
            plain = plain.filter((message) => message !== target);
          } else {
            target.flags = made.kind === 'see' ? ['\\Seen'] : [];
            expect(folder.setFlags(target.uid, target.flags)).toBe(true);
          }
        }
        expect(folder.count).toBe(plain.length);
        expect(folder.unread).toBe(plain.filter(({ flags }) => !flags.includes('\\Seen')).length);
        expect(folder.lastUid).toBe(plain.at(-1)?.uid ?? 0);
        expect([...folder.entries()].map(({ uid }) => uid)).toEqual(plain.map(({ uid }) => uid));
        const sorted = {
          uid: plain,
          date: [...plain].sort((a, b) => b.source - a.source),
          size: [...plain].sort(
            (a, b) => FACTS.size(a.source) - FACTS.size(b.source) || a.uid - b.uid,
          ),
        };
        for (const sort of ['uid', 'date', 'size'] as const) {
          for (const descending of [false, true]) {
            const expected = descending ? [...sorted[sort]].reverse() : sorted[sort];
            expect(
              folder.page(sort, descending, offset, limit, FACTS).map(({ uid }) => uid),
            ).toEqual(expected.slice(offset, offset + limit).map(({ uid }) => uid));
          }
        }
        const [low, high] = [offset, offset + limit * 3];
        const inside = plain.filter(({ uid }) => uid >= low && uid <= high);
        expect(folder.countBetween(low, high)).toBe(inside.length);
        expect(folder.between(low, high, 2, limit).map(({ uid }) => uid)).toEqual(
          inside.slice(2, 2 + limit).map(({ uid }) => uid),
        );
      },
    ),
  );
});

test('a uid is never handed out twice', () => {
  const folder = new Folder(1, 'INBOX', null);
  folder.append(5, 1, []);
  folder.remove(5);
  expect(folder.nextUid).toBe(6);
  expect(() => folder.append(5, 2, [])).toThrow(RangeError);
});
