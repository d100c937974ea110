import fc from 'fast-check';
import { expect, test } from 'vitest';
import { matchRanges, SourceFinder } from '../../src/web/message-view.ts';

/** What a reader sees at once, found in the plainest way. */
function placesIn(source: string, text: string): number[] {
  const places: number[] = [];
  const [whole, sought] = [source.toLowerCase(), text.toLowerCase()];
  for (let at = whole.indexOf(sought); at >= 0; at = whole.indexOf(sought, at + sought.length))
    places.push(at);
  return places;
}

test('matches are found across any pieces, with the ones before and after', () => {
  const letters = fc.string({ unit: fc.constantFrom('a', 'A', 'b', 'B', '\n') });
  fc.assert(
    fc.property(
      fc.array(letters, { maxLength: 12 }),
      fc.string({ unit: fc.constantFrom('a', 'B', 'b'), minLength: 1, maxLength: 4 }),
      fc.nat(40),
      (pieces, text, from) => {
        const finder = new SourceFinder(text, from);
        for (const piece of pieces) finder.push(Buffer.from(piece));
        const places = placesIn(pieces.join(''), text);
        const behind = places.findIndex((at) => at >= from);
        const here = behind < 0 ? 0 : behind;
        const many = places.length > 1;
        expect(finder.found()).toEqual({
          count: places.length,
          at: places[here] ?? null,
          number: places.length === 0 ? 0 : here + 1,
          next: many ? places[(here + 1) % places.length] : null,
          previous: many ? places.at(here - 1) : null,
        });
      },
    ),
    { seed: 17, numRuns: 2_000 },
  );
});

test('bytes of no charset are found as they are', () => {
  const finder = new SourceFinder('é', 0);
  finder.push(Buffer.from([0xff, 0xc3]));
  finder.push(Buffer.from([0xa9, 0x80]));
  expect(finder.found()).toMatchObject({ count: 1, at: 1 });
});

test('what is marked is what was found', () => {
  expect(matchRanges('Ärger ÄRGER Received: received', 'RECEIVED')).toEqual([
    { start: 12, end: 20 },
    { start: 22, end: 30 },
  ]);
  expect(matchRanges('text', '')).toEqual([]);
});
