import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Stretch } from '../../src/catalog/search-sets.ts';

/** Docids of a stretch, near each other and far apart, and numbers of which some are among them. */
const ascending = fc
  .uniqueArray(fc.oneof(fc.nat(200), fc.nat(2 ** 40)), { maxLength: 150 })
  .map((docids) => docids.toSorted((a, b) => a - b));
const anyOf = (docids: readonly number[]) =>
  fc.array(docids.length === 0 ? fc.nat(200) : fc.oneof(fc.constantFrom(...docids), fc.nat(200)));
const withTwo = ascending.chain((docids) =>
  fc.record({ docids: fc.constant(docids), a: anyOf(docids), b: anyOf(docids) }),
);

test('sets have what sets of numbers have, whatever the order in which they are listed', () => {
  fc.assert(
    fc.property(withTwo, ({ docids, a, b }) => {
      const stretch = new Stretch(docids);
      const [left, right] = [stretch.of(a), stretch.of(b)];
      const among = (holds: (docid: number) => boolean) => docids.filter(holds);
      const found = (set: typeof left) => [...set.ascending()];
      expect(found(left)).toEqual(among((docid) => a.includes(docid)));
      expect(found(left.and(right))).toEqual(
        among((docid) => a.includes(docid) && b.includes(docid)),
      );
      expect(found(left.or(right))).toEqual(
        among((docid) => a.includes(docid) || b.includes(docid)),
      );
      expect(found(left.without(right))).toEqual(
        among((docid) => a.includes(docid) && !b.includes(docid)),
      );
      expect(found(left.flipped())).toEqual(among((docid) => !a.includes(docid)));
      expect([...left.descending()]).toEqual(found(left).reverse());
      expect(left.count()).toBe(found(left).length);
      expect(left.isEmpty()).toBe(found(left).length === 0);
      expect(found(stretch.all())).toEqual(docids);
      expect(stretch.none().isEmpty()).toBe(true);
    }),
  );
});

test('a range has its lower bound and not its upper one', () => {
  fc.assert(
    fc.property(ascending, fc.nat(300), fc.nat(300), (docids, low, high) => {
      expect([...new Stretch(docids).between(low, high).ascending()]).toEqual(
        docids.filter((docid) => docid >= low && docid < high),
      );
    }),
  );
});
