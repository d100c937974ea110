import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { localMoment, wallTime } from '../../src/catalog/query-dates.ts';
import { openingText, snippet, soughtPhrases } from '../../src/catalog/snippets.ts';
import { nearest } from '../../src/core/names.ts';
import { readSize } from '../../src/core/quantities.ts';
import {
  bigrams,
  foldLetters,
  foldWord,
  ftsString,
  indexText,
  splitRuns,
} from '../../src/mail/normalise.ts';
import { contains } from '../catalog/plain-scan.ts';

describe('one form of text', () => {
  test('ASCII stays what it is', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme-ascii' }), (text) => {
        expect(indexText(text)).toBe(text);
      }),
    );
  });

  test.each([
    ['東京都', ' 東京 京都 都 '],
    ['a東b', 'a 東 b'],
    ['ﬁ ① Ⅳ', 'fi 1 IV'],
    ['Straße ŁÓDŹ', 'Strasse LÓDŹ'],
    ['。「」', ' '],
    ['ver\u00adi\u2069fy', 'verify'],
    ['🎁🛍️Get', ' Get'],
  ])('%s is indexed as «%s»', (text, indexed) => {
    expect(indexText(text)).toBe(indexed);
  });

  test('ASCII that is left out of the rewriting changes nothing', () => {
    const whole = (text: string) =>
      splitRuns(foldLetters(text))
        .map((part) => (part.unspaced ? ` ${bigrams(part.text).join(' ')} ` : part.text))
        .join('');
    const piece = fc.oneof(
      fc.string({ unit: 'grapheme-ascii', minLength: 12, maxLength: 40 }),
      fc.constantFrom('e', 'o', ' ', '\n', '\u0301', '\u0327', '\u00ad', '\u200d', '\u0345'),
      fc.constantFrom(
        'é',
        '“',
        '…',
        '¨',
        'ﬁ',
        '①',
        'Ａ',
        'ß',
        'ς',
        'ἀ',
        'ё',
        '½',
        '\u212a',
        '\u0e33',
      ),
      fc.constantFrom('東京', '한글', '\u1100\u1161\u11a8', 'ไทย', 'ｱﾞ', '🎁', '\ud800', '\udc00'),
      fc.constant('\u0301'.repeat(35)),
      fc.string({ unit: 'binary', maxLength: 4 }),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const text = pieces.join('');
        expect(indexText(text)).toBe(whole(text));
      }),
      { numRuns: 2_000 },
    );
  });

  test('more than 30 marks on a letter are cut, and the letters around them stay', () => {
    const marks = (n: number) => '\u0301\u0317'.repeat(n / 2);
    const most = indexText(`z${marks(30)}o`);
    expect(most.normalize('NFD')).toHaveLength(32);
    expect(indexText(`z${marks(1000)}o`)).toBe(most);
    expect(indexText(`z${'\u0301\u200d\u0317'.repeat(500)}o`)).toBe(most);
    expect(foldWord(`z${marks(1000)}o`)).toBe('zo');
    expect(ftsString(`z${marks(1000)}o`, false)).toBe(ftsString(most, false));
  });

  test('folding twice changes nothing more', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        expect(foldWord(foldWord(text))).toBe(foldWord(text));
      }),
    );
  });

  test('a string for MATCH is quoted words and nothing else', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.boolean(), (text, prefix) => {
        const string = ftsString(text, prefix);
        if (string !== undefined) expect(string).toMatch(/^"[\p{L}\p{N}\p{M}\p{Co} ]+"( \*)?$/u);
      }),
    );
  });
});

describe('snippets', () => {
  const of = (text: string, query: string) => {
    const found = snippet(text, soughtPhrases(parseQuery(query, { now: 0 }).node));
    return (
      found && [found.text, found.matches.map(({ start, end }) => found.text.slice(start, end))]
    );
  };
  const filler = 'lorem ipsum dolor '.repeat(30);

  test.each<[string, string, string[]]>([
    ['The rent is due', 'rent', ['rent']],
    ['The RENT is due', 'rent due', ['RENT', 'due']],
    ['line one\n\n\tline   two', '"one line"', ['one line']],
    ['Le Café fermé', 'cafe ferme', ['Café', 'fermé']],
    ['renting and rents', 'rent*', ['renting', 'rents']],
    ['parent and current', 'rent', []],
    ['東京都庁に行く', '京都', ['京都']],
    ['字が字', '字', ['字', '字']],
    ['mail anna@example.org now', 'anna@example.org', ['anna@example.org']],
    ['a foo-bar b', '"foo bar"', ['foo-bar']],
    ['rent is not due', 'rent -due', ['rent']],
    ['subject only', 'subject:only', []],
    ['Straße', 'strasse', ['Straße']],
    ['Η ΟΔΟΣ μας', 'οδος', ['ΟΔΟΣ']],
    ['😀 rent 😀', 'rent', ['rent']],
  ])('in «%s» %s marks %j', (text, query, marked) => {
    expect(of(text, query)?.[1] ?? []).toEqual(marked);
  });

  test('й is not и, as in the index', () => {
    expect(of('мои и мой', 'мой')?.[1]).toEqual(['мой']);
    expect(of('мои', 'мой')).toBeUndefined();
  });

  test('a letter before a word makes it another, also one of two units', () => {
    expect(of('parent 𝐚rent érent rent', 'rent')?.[1]).toEqual(['rent']);
  });

  test('marks something exactly where a plain scan finds it', () => {
    const pieces = fc.constantFrom(
      ...['rent', 'RENT', 'rents', 'Café', 'cafe', 'мой', 'мои', 'Straße', 'ОДОΣ', 'ὁδός', 'a1'],
      ...[
        '東京都',
        'İstanbul',
        'ﬁ',
        'x',
        ' ',
        '\n',
        '-',
        '“',
        '’',
        '…',
        '\u00a0',
        '😀',
        ' '.repeat(30),
        'lorem '.repeat(60),
      ],
    );
    const query = fc.constantFrom(
      ...['rent', 'rent*', '"cafe rent"', 'café', 'мой', 'мои', 'strasse', 'οδος', '京', 'fi', 'x'],
    );
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 30 }), query, (words, asked) => {
        const text = words.join('');
        const found = of(text, asked);
        const plain = asked.replaceAll(/["*]/g, '');
        expect(found !== undefined).toBe(contains(text, plain, asked.endsWith('*')));
        for (const mark of (found?.[1] ?? []) as string[])
          expect(contains(mark, plain, asked.endsWith('*'))).toBe(true);
      }),
      { numRuns: 2_000 },
    );
  });

  test('a long text gives the piece around its first match', () => {
    const [text = '', marked] = of(`${filler}needle ${filler}`, 'needle') ?? [];
    expect(text).toMatch(/^… .*needle.* …$/);
    expect(text.length).toBeLessThan(220);
    expect(marked).toEqual(['needle']);
  });

  test('nothing to mark gives the beginning', () => {
    expect(of(filler, 'needle')).toBeUndefined();
    expect(openingText(`\n  ${filler}`)).toMatch(/^lorem ipsum .* …$/);
    expect(openingText('')).toBe('');
  });

  test('ranges lie within the text and never cut a character', () => {
    const word = fc.constantFrom('a', 'needle', 'é', '東京', '😀', '\n', ' ', '"', 'İ');
    fc.assert(
      fc.property(fc.array(word, { maxLength: 80 }), (words) => {
        const found = snippet(
          words.join(''),
          soughtPhrases(parseQuery('needle 東京 éa*', { now: 0 }).node),
        );
        if (found === undefined) return;
        // A lone half of a pair would come back as another character.
        expect(Buffer.from(found.text).toString()).toBe(found.text);
        let last = 0;
        for (const { start, end } of found.matches) {
          expect(start).toBeGreaterThanOrEqual(last);
          expect(end).toBeGreaterThan(start);
          last = end;
        }
        expect(last).toBeLessThanOrEqual(found.text.length);
      }),
    );
  });
});

describe('time on the wall', () => {
  const zones = ['UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kathmandu', 'Pacific/Apia'];
  const fields = ({
    year,
    month,
    day,
    hour,
    minute,
    second,
  }: Required<ReturnType<typeof wallTime>>) => [year, month, day, hour, minute, second];

  test('a moment read off the wall is the moment, but for hours shown twice', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...zones),
        fc.integer({ min: 0, max: 2_000_000_000 }),
        (zone, second) => {
          const again = localMoment(wallTime(second * 1000, zone), zone);
          expect(fields(wallTime(again, zone))).toEqual(fields(wallTime(second * 1000, zone)));
          expect(Math.abs(again - second * 1000)).toBeLessThanOrEqual(3_600_000);
        },
      ),
      { numRuns: 500 },
    );
  });

  test.each([
    // Skipped in spring, shown twice in autumn, and a day that never was.
    [
      'Europe/Berlin',
      { year: 2024, month: 3, day: 31, hour: 2, minute: 30 },
      '2024-03-31T01:30:00.000Z',
    ],
    [
      'Europe/Berlin',
      { year: 2024, month: 10, day: 27, hour: 2, minute: 30 },
      '2024-10-27T00:30:00.000Z',
    ],
    ['America/New_York', { year: 2024, month: 1, day: 1 }, '2024-01-01T05:00:00.000Z'],
    ['Asia/Kathmandu', { year: 2024, month: 1, day: 1 }, '2023-12-31T18:15:00.000Z'],
  ])('%s %j', (zone, wall, moment) => {
    expect(new Date(localMoment(wall, zone)).toISOString()).toBe(moment);
  });

  test("this machine's zone needs no name", () => {
    const wall = { year: 2024, month: 5, day: 6, hour: 7, minute: 8, second: 9 };
    expect(wallTime(localMoment(wall))).toEqual(wall);
  });
});

test.each([
  ['10', 10],
  ['10k', 10_000],
  ['10KB', 10_000],
  ['1.5M', 1_500_000],
  ['2Mi', 2_097_152],
  ['1GiB', 1_073_741_824],
  ['7b', 7],
  ['k', undefined],
  ['-5', undefined],
  ['1e3', undefined],
  ['99999999999G', undefined],
])('size %s', (text, bytes) => {
  expect(readSize(text)).toBe(bytes);
});

test('the nearest name is one mistake away, or the only one with that prefix', () => {
  const names = ['from', 'subject', 'filename', 'before'];
  expect(nearest('fron', names)).toBe('from');
  expect(nearest('form', names)).toBe('from');
  expect(nearest('subj', names)).toBe('subject');
  expect(nearest('zzz', names)).toBeNull();
});

test('looking for the nearest name takes no time that grows with what strangers call their folders', () => {
  const long = 'a'.repeat(1_000_000);
  const names = [...Array.from({ length: 200 }, (_, i) => `${long}${i}`), 'aaab'];
  expect(nearest('aaac', names)).toBe('aaab');
  expect(nearest(`${long}x`, names)).toBeNull();
});
