import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { HistoryLine } from '../../src/catalog/messages.ts';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import type { SearchHit } from '../../src/catalog/search.ts';
import { soughtPhrases } from '../../src/catalog/snippets.ts';
import { matchRanges, readHops, SourceFinder } from '../../src/web/message-view.ts';
import { conversationText, roughSpan } from '../../src/web/pages/conversation.tsx';
import { rowSnippet } from '../../src/web/pages/mail-page.tsx';
import { historySteps } from '../../src/web/pages/message-pane.tsx';
import { textPieces } from '../../src/web/understood-query.ts';

const words = (query: string) => soughtPhrases(parseQuery(query, { now: 0 }).node);

test('a text of quotes and answers line by line keeps every line, in a limited number of pieces', () => {
  const text = 'answer\n> quote\n'.repeat(50_000);
  const pieces = textPieces(text);
  expect(pieces).toHaveLength(2_000);
  expect(pieces.flatMap(({ lines }) => lines).join('\n')).toBe(text);
});

test('what the query matched is marked where it stands in its piece', () => {
  const pieces = textPieces('The Lease,\r\nand "the lease".\n> a deposit\n-- \nDéposit', [
    ...words('lease OR deposit -the'),
  ]);
  const marked = pieces.map(({ kind, lines, matches }) => [
    kind,
    matches.map(({ start, end }) => lines.join('\n').slice(start, end)),
  ]);
  expect(marked).toEqual([
    ['text', ['Lease', 'lease']],
    ['quote', ['deposit']],
    ['signature', ['Déposit']],
  ]);
});

test('matches are marked up to a limit, in a text of any length', () => {
  const pieces = textPieces('lease '.repeat(500_000), words('lease'));
  expect(pieces.flatMap(({ matches }) => matches)).toHaveLength(1_000);
  const late = textPieces(`${'x '.repeat(500_000)}lease`, words('lease'));
  expect(late.flatMap(({ matches }) => matches)).toEqual([]);
});

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

const received = (...values: string[]) => values.map((value) => ({ name: 'Received', value }));

test('the lowest Received line is the first hop, and each has the time since the one before', () => {
  const hops = readHops([
    { name: 'Delivered-To', value: 'bob@example.org' },
    ...received(
      'from relay.example (relay.example [192.0.2.7]) by mx.example (Postfix) with ESMTPS id 4F1 for <bob@example.org>; Mon, 2 Feb 2026 10:01:05 +0000 (UTC)',
      'from [10.0.0.5] by relay.example with ESMTPSA; Mon, 2 Feb 2026 11:00:00 +0100',
    ),
  ]);
  expect(hops).toEqual([
    {
      from: '[10.0.0.5]',
      by: 'relay.example',
      with: 'ESMTPSA',
      time: Date.UTC(2026, 1, 2, 10),
      delay: null,
    },
    {
      from: 'relay.example (relay.example [192.0.2.7])',
      by: 'mx.example',
      with: 'ESMTPS',
      time: Date.UTC(2026, 1, 2, 10, 1, 5),
      delay: 65_000,
    },
  ]);
});

test('clocks that differ give a negative delay, and a line without a time none', () => {
  const hops = readHops(
    received(
      'by c.example; Mon, 2 Feb 2026 10:00:10 +0000',
      'by b.example with nonsense; not a date',
      'by a.example; Mon, 2 Feb 2026 10:00:30 +0000',
    ),
  );
  expect(hops.map(({ by, delay }) => [by, delay])).toEqual([
    ['a.example', null],
    ['b.example', null],
    ['c.example', -20_000],
  ]);
});

test('words in comments are no clauses, and a semicolon in one does not end the line', () => {
  const [hop] = readHops(
    received('from a (by evil; with (nested) lies) by b with SMTP; Mon, 2 Feb 2026 10:00:00 +0000'),
  );
  expect(hop).toMatchObject({
    from: 'a (by evil; with (nested) lies)',
    by: 'b',
    with: 'SMTP',
    time: Date.UTC(2026, 1, 2, 10),
  });
});

test('hostile lines are read in limits', () => {
  const started = performance.now();
  const lines = [
    '('.repeat(1_000_000),
    `${'from '.repeat(200_000)};`,
    `by ${'x'.repeat(1_000_000)}; ${'1 '.repeat(500_000)}`,
    `from ${'(a) '.repeat(250_000)}`,
    '',
    ';;;;',
    ')))) from ((((',
  ];
  const hops = readHops(
    received(...lines, ...Array.from({ length: 100_000 }, () => 'from a by b')),
  );
  expect(hops).toHaveLength(100);
  for (const { from, by, with: how } of hops)
    expect(Math.max(from.length, by.length, how.length)).toBeLessThanOrEqual(200);
  // Linear work takes some milliseconds; quadratic work would take hours.
  expect(performance.now() - started).toBeLessThan(5_000);
});

const historyLine = (day: number, event: string, more: Partial<HistoryLine> = {}): HistoryLine => ({
  time: new Date(Date.UTC(2026, 2, day)).toISOString(),
  commit: day,
  event,
  id: 'ab',
  mailbox: 'ada@example.org',
  folder: 'INBOX',
  generation: 1,
  uid: 7,
  ...more,
});
const lines = [
  historyLine(13, 'appeared', { flags: [] }),
  historyLine(14, 'flags', { flags: ['\\Flagged', '\\Seen'] }),
  historyLine(20, 'flags', { flags: ['\\Flagged', '\\Seen', '$Label1'] }),
  historyLine(30, 'ended', { detail: { reason: 'missing' } }),
];
const at = (day: number) => Date.UTC(2026, 2, day);

test('flags are put in words, and what is unknown of them stays as it is', () => {
  const steps = historySteps(lines, [], at(12), null);
  expect(steps.map(({ title }) => title)).toEqual([
    'Received',
    'Appeared, unread',
    'Read, and starred',
    'Flags changed',
    'Deleted at the service',
  ]);
  expect(steps[3]?.details).toEqual(['flags: \\Flagged \\Seen $Label1']);
  expect(steps[4]).toMatchObject({ kind: 'ended', details: ['no longer at the service'] });
  expect(steps.some(({ isLater }) => isLater)).toBe(false);
});

test('the moment that is shown stands between what happened before it and after', () => {
  const steps = historySteps(lines, [], at(12), at(15));
  expect(steps.map(({ kind, isLater }) => [kind, isLater])).toEqual([
    ['fact', false],
    ['fact', false],
    ['fact', false],
    ['here', false],
    ['fact', true],
    ['ended', true],
  ]);
  expect(historySteps(lines, [], null, at(31)).at(-1)?.kind).toBe('here');
});

test('a move is no deletion', () => {
  const moved = historyLine(30, 'ended', { detail: { reason: 'moved' } });
  expect(historySteps([moved], [], null, null)).toMatchObject([
    { kind: 'fact', title: 'Moved away' },
  ]);
});

test('a deletion knows when the message was last there', () => {
  const [found, seen] = [at(30), at(28)];
  const end = { commit: 30, generation: 1, uid: 7, found, seen };
  const [steps, other] = [end, { ...end, uid: 8 }].map((one) =>
    historySteps(lines, [one], null, null),
  );
  expect(steps?.at(-1)).toMatchObject({ kind: 'ended', seen });
  expect(other?.at(-1)).toMatchObject({ kind: 'ended', seen: null });
});

test('places of one message have flags of their own', () => {
  const steps = historySteps(
    [
      historyLine(1, 'appeared', { flags: ['\\Seen'] }),
      historyLine(2, 'appeared', { folder: 'Work', uid: 1, flags: [] }),
      historyLine(3, 'flags', { folder: 'Work', uid: 1, flags: ['\\Seen'] }),
    ],
    [],
    null,
    null,
  );
  expect(steps.map(({ title }) => title)).toEqual(['Appeared, read', 'Appeared, unread', 'Read']);
});

const HOUR = 3_600_000;

function hit(name: string, address: string, day: number, mailbox = 'ada@example.org'): SearchHit {
  const date = new Date(Date.UTC(2026, 1, day, 12)).toISOString();
  const place = { mailbox, folder: 'INBOX', uid: day, flags: [], date };
  const known = { ...place, firstSeen: date, endedAt: null };
  return {
    docid: day,
    matches: [],
    attachmentMatches: [],
    line: {
      ...known,
      id: 'ab',
      size: 1,
      subject: null,
      from: { name, address },
      messageId: null,
      places: [known],
      snippet: '',
      attachments: [],
      matchedAttachments: [],
    },
  };
}

test('people are counted once, and those who write through a list by their names', () => {
  const hits = [
    hit('Ada', 'ada@example.org', 1),
    hit('Ada', 'ADA@example.org', 2),
    hit('Ben via list', 'list@example.org', 3),
    hit('Cleo via list', 'list@example.org', 4, 'office@example.org'),
  ];
  expect(conversationText(hits, false)).toBe(
    '4 messages of 3 people, 1 Feb 2026 – 4 Feb 2026, in 2 mailboxes',
  );
  expect(conversationText(hits.slice(0, 1), false)).toBe('1 message of 1 person, 1 Feb 2026');
  expect(conversationText(hits, true)).toMatch(/^The first 4 messages of/);
});

test('a span is said in its largest unit, never longer than it is', () => {
  expect(
    [0, 59_999, 17.9 * HOUR, 49 * HOUR, 40 * 24 * HOUR, 800 * 24 * HOUR].map(roughSpan),
  ).toEqual([
    'less than a minute',
    'less than a minute',
    '17 hours',
    '2 days',
    '1 month',
    '2 years',
  ]);
});

const cut = (text: string, word: string) => {
  const start = text.indexOf(word);
  const found = rowSnippet(text, [{ start, end: start + word.length }]);
  expect(found.matches.map((match) => found.text.slice(match.start, match.end))).toEqual([word]);
  return found.text;
};

describe('the snippet of a row', () => {
  test('begins with a word shortly before what was found', () => {
    expect(cut('… We met in Dublin and agreed to move the report to Friday.', 'report')).toBe(
      '… agreed to move the report to Friday.',
    );
  });

  test('stays as it is where what was found is near its beginning, and where nothing was', () => {
    const text = 'The report is a page long, and the rest of it is on the web.';
    expect(cut(text, 'report')).toBe(text);
    expect(rowSnippet(text, [])).toEqual({ text, matches: [] });
  });

  test('is cut within a word where there are no blanks, and never within a character', () => {
    expect(cut(`${'東'.repeat(60)}京都`, '京都')).toBe(`… ${'東'.repeat(20)}京都`);
    expect(cut(`a${'😀'.repeat(30)}!`, '!')).toBe(`… ${'😀'.repeat(10)}!`);
    expect(cut(`${'😀'.repeat(30)}x!`, '!')).toBe(`… ${'😀'.repeat(9)}x!`);
  });
});
