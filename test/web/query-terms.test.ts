import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import type { SearchNode } from '../../src/catalog/query-ast.ts';
import {
  chipLabel,
  findChips,
  withDeleted,
  withFolder,
  withSlot,
} from '../../src/web/client/filter-chips.tsx';
import {
  completionRest,
  highlightQuery,
  insertCompletion,
} from '../../src/web/client/query-box.tsx';
import {
  addTerm,
  asOfTermText,
  findTerm,
  removeTerm,
  replaceTerm,
  termsOf,
  toggleTerm,
} from '../../src/web/query-text.ts';
import { type CompletionRow, liveQuery, typedWord } from '../../src/web/typed-word.ts';

const NOW = Date.UTC(2026, 10, 20, 12);
const parsed = (query: string): SearchNode => parseQuery(query, { now: NOW }).node;

/** What a query means: without places, and without brackets that change nothing. */
function meaning(node: SearchNode): unknown {
  if (node.kind === 'and') return conjunction(node.nodes.map(meaning));
  if (node.kind === 'or') return { or: node.nodes.map(meaning) };
  if (node.kind === 'not') return { not: meaning(node.node) };
  if (node.kind === 'near')
    return { near: node.terms.map(meaning), distance: node.distance, kind: 'near' };
  const { span: _, ...rest } = node;
  return rest;
}

function conjunction(parts: readonly unknown[]): unknown {
  const flat = parts.flatMap((part) =>
    typeof part === 'object' && part !== null && 'and' in part && Array.isArray(part.and)
      ? part.and
      : [part],
  );
  return flat.length === 1 ? flat[0] : { and: flat };
}

const word = fc.constantFrom('lease', 'deposit', 'müller', '敷金', 'a-b', '12:30', 'x@example.org');
const blank = fc.constantFrom(' ', '  ', '\t', '\u00a0');
const value = fc.oneof(word, fc.constantFrom('"two words"', '“in pairs”', '"INBOX.Old (1)"'));
const filter = fc.oneof(
  fc
    .tuple(fc.constantFrom('from', 'TO', 'subject', 'in', 'folder', 'list'), value)
    .map((parts) => parts.join(':')),
  fc.constantFrom('has:attachment', 'is:unread', 'is:ended', 'after:2025-06', 'larger:5M'),
  fc.tuple(word, word).map(([a, b]) => `from:(${a} OR ${b})`),
);
const { query } = fc.letrec<{ query: string; both: string; term: string; simple: string }>(
  (tie) => ({
    simple: fc.oneof(
      word,
      value,
      filter,
      fc.tuple(word, word).map(([a, b]) => `${a} NEAR/3 ${b}`),
    ),
    term: fc.oneof(
      { weight: 6, arbitrary: tie('simple') },
      tie('simple').map((simple) => `-${simple}`),
      tie('simple').map((simple) => `NOT ${simple}`),
      tie('query').map((inner) => `(${inner})`),
      fc.tuple(word, word).map(([a, b]) => `{${a} ${b}}`),
    ),
    both: fc
      .array(fc.tuple(tie('term'), fc.oneof(blank, fc.constant(' AND '))), {
        minLength: 1,
        maxLength: 5,
      })
      .map((parts) => parts.flat().slice(0, -1).join('')),
    query: fc.oneof(
      { maxDepth: 3 },
      { weight: 4, arbitrary: tie('both') },
      fc.tuple(tie('both'), tie('both')).map(([a, b]) => `${a} OR ${b}`),
    ),
  }),
);
const added = fc.constantFrom('has:attachment', '-is:deleted', 'in:"Sent Items"', 'after:2026');
/** Queries that mean something, with room for more: one of 50 terms takes no other. */
const good = query.filter((text) => {
  try {
    return parsed(text) !== undefined && parsed(`(${text}) and three more`) !== undefined;
  } catch {
    return false;
  }
});

describe('for every query', () => {
  test('the terms are what its understanding has at the top', () => {
    fc.assert(
      fc.property(good, (text) => {
        const { terms, isEither, isComplete } = termsOf(text);
        expect(isComplete).toBe(true);
        const node = parsed(text);
        const isBracketed = terms.length === 1;
        if (isEither) expect(node.kind).toBe('or');
        else if (isBracketed) expect(terms[0]).toMatchObject(node.span);
        else {
          expect(node.kind).toBe('and');
          const nodes = node.kind === 'and' ? node.nodes : [];
          expect(terms.map(({ start, end }) => ({ start, end }))).toEqual(
            nodes.map(({ span }) => span),
          );
          // Brackets may hold an exclusion, and are none.
          const bare = (_: unknown, i: number) => !/^[({]/.test(terms[i]?.text ?? '');
          expect(terms.filter(bare).map(({ negated }) => negated)).toEqual(
            nodes.filter(bare).map(isExcluding),
          );
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test('another term is asked for as well, and what was typed stays byte for byte', () => {
    fc.assert(
      fc.property(good, added, (text, more) => {
        const longer = addTerm(text, more);
        expect(longer).toContain(text);
        expect(meaning(parsed(longer))).toEqual(
          conjunction([meaning(parsed(text)), meaning(parsed(more))]),
        );
        expect(findTerm(longer, more)?.text).toBeDefined();
        const shorter = removeTerm(longer, termsOf(longer).terms.at(-1) ?? { start: 0, end: 0 });
        expect(shorter).toBe(termsOf(text).isEither ? `(${text})` : text);
      }),
      { numRuns: 1_000 },
    );
  });

  test('without a term, the others are what they were', () => {
    fc.assert(
      fc.property(good, fc.nat(), (text, n) => {
        const { terms, isEither } = termsOf(text);
        fc.pre(!isEither && terms.length > 1);
        const at = n % terms.length;
        const gone = terms[at];
        if (gone === undefined) throw new Error('there is such a term');
        const rest = terms.filter((term) => term !== gone);
        const shorter = removeTerm(text, gone);
        expect(termsOf(shorter).terms.map((term) => term.text)).toEqual(
          rest.map((term) => term.text),
        );
        expect(meaning(parsed(shorter))).toEqual(
          conjunction(rest.map((term) => meaning(parsed(term.text)))),
        );
      }),
      { numRuns: 1_000 },
    );
  });

  test('a term changes in its place', () => {
    fc.assert(
      fc.property(good, added, fc.nat(), (text, other, n) => {
        const { terms, isEither } = termsOf(text);
        fc.pre(!isEither);
        const at = n % terms.length;
        const texts = terms.map((term, i) => (i === at ? other : term.text));
        const changed = replaceTerm(text, terms[at] ?? { start: 0, end: 0 }, other);
        expect(termsOf(changed).terms.map((term) => term.text)).toEqual(texts);
      }),
      { numRuns: 1_000 },
    );
  });
});

function isExcluding(node: SearchNode): boolean {
  return node.kind === 'not' && node.node.kind !== 'not';
}

test('whatever is typed has terms, and a term that is added to it is found', () => {
  const piece = fc.constantFrom(
    '"',
    '(',
    ')',
    '{',
    '}',
    '-',
    ' OR ',
    'AND',
    'NEAR',
    'in:',
    'a',
    ' ',
  );
  const any = fc.oneof(
    fc.array(piece, { maxLength: 12 }).map((all) => all.join('')),
    fc.string(),
  );
  fc.assert(
    fc.property(any, added, (text, more) => {
      // What begins with NEAR joins whatever is written before it.
      fc.pre(!/^\s*NEAR/.test(text));
      const longer = addTerm(text, more);
      expect(longer).toContain(text.trim());
      if (!termsOf(longer).isEither) expect(findTerm(longer, more)).toBeDefined();
      for (const term of termsOf(text).terms) removeTerm(text, term);
    }),
    { numRuns: 2_000 },
  );
});

test.each([
  ['lease', 'lease has:attachment'],
  ['lease has:attachment', 'lease'],
  ['has:attachment lease', 'lease'],
  ['lease  has:ATTACHMENTS  "a b"', 'lease   "a b"'],
  ['a AND has:attachment AND b', 'a AND b'],
  ['has:attachment AND b', 'b'],
  ['"a"has:attachment"b"', '"a" "b"'],
  ['a OR b', '(a OR b) has:attachment'],
  ['(a OR has:attachment)', '(a OR has:attachment) has:attachment'],
  ['-has:attachment', '-has:attachment has:attachment'],
  ['subject:"has:attachment"', 'subject:"has:attachment" has:attachment'],
  ['"not closed', 'has:attachment "not closed'],
  ['(a b', 'has:attachment (a b'],
  ['a OR', 'has:attachment a OR'],
  ['', 'has:attachment'],
  ['  ', 'has:attachment'],
])('a click on the filter makes of %j the query %j', (before, after) => {
  expect(toggleTerm(before, 'has:attachment')).toBe(after);
});

test('values are read without quotes and operators without aliases', () => {
  const said = (query: string) =>
    termsOf(query).terms.map(({ operator, value, negated }) => [operator, value, negated]);
  expect(said('Folder:"Sent Items" -newer:2026-01 lea* from:(a b) x NEAR y is:')).toEqual([
    ['in', 'Sent Items', false],
    ['after', '2026-01', true],
    [null, 'lea*', false],
    ['from', null, false],
    [null, null, false],
    ['is', null, false],
  ]);
  expect(findTerm('is:flagged', 'is:starred')).toBeDefined();
  expect(findTerm('is:unseen', 'is:read')).toBeUndefined();
  expect(findTerm('in:Sent', 'in:sent')).toBeUndefined();
});

test('the moment of a query is found where it stands', () => {
  expect(asOfTermText('a ASOF:2026-03-14T18:00 b')).toBe('ASOF:2026-03-14T18:00');
  expect(asOfTermText('"asof:2026" (asof:3d)')).toBe('');
});

/** The caret is where the bar stands. */
function wordAt(text: string) {
  const caret = text.indexOf('|');
  const query = text.replace('|', '');
  const word = typedWord(query, caret);
  return { ...word, replaced: query.slice(word.from, word.to) };
}

test.each([
  ['fr|', { operator: null, typed: 'fr', replaced: 'fr' }],
  ['ferry fr|', { operator: null, typed: 'fr', replaced: 'fr' }],
  ['fr|om:anna', { operator: null, typed: 'fr', replaced: 'from:' }],
  ['from:an|', { operator: 'from', typed: 'an', replaced: 'an' }],
  ['from:an|na ferry', { operator: 'from', typed: 'an', replaced: 'anna' }],
  ['FROM:|', { operator: 'from', typed: '', replaced: '' }],
  ['-in:Ol|', { operator: 'in', typed: 'Ol', replaced: 'Ol', excluded: true }],
  ['NOT in:Ol|', { operator: 'in', typed: 'Ol', excluded: true }],
  ['in:"Old ma|', { operator: 'in', typed: 'Old ma', replaced: '"Old ma' }],
  ['in:"Old ma|il" x', { operator: 'in', typed: 'Old ma', replaced: '"Old mail"' }],
  ['in:„Old ma|il“ x', { operator: 'in', typed: 'Old ma', replaced: '„Old mail“' }],
  ['(from:an|)', { operator: 'from', typed: 'an', replaced: 'an' }],
  ['"from:an|na"', { operator: null }],
  ['a | b', { operator: null, typed: '', replaced: '' }],
  ['@sav|', { operator: null, typed: '@sav', replaced: '@sav' }],
  ['|', { operator: null, typed: '', replaced: '' }],
])('%s', (text, expected) => {
  expect(wordAt(text)).toMatchObject({ excluded: false, ...expected });
});

test.each([
  ['inv|', 'inv*'],
  ['in|v oice', 'inv* oice'],
  ['lease inv|', 'lease inv*'],
  ['lease (inv| OR rent)', 'lease (inv* OR rent)'],
  ['-rent lease|', '-rent lease*'],
  ['-(rent) lease|', '-(rent) lease*'],
  ['subject:inv|', 'subject:inv*'],
  ['from:ann|', 'from:ann*'],
  ['from:anna@exa|', 'from:anna@exa*'],
  ['Mül|', 'Mül*'],
])('%s searches for words that start so', (typed, searched) => {
  const caret = typed.indexOf('|');
  expect(liveQuery(typed.replace('|', ''), caret)).toBe(searched);
});

test.each([
  ...['inv |', '|inv', 'in|', 'inv*|', '"inv|"', '"inv|', '"rent is due"|', '-inv|', 'NOT inv|'],
  ...['-(rent inv|)', '-subject:inv|', 'NOT (a (b {inv|', 'is:unr|', 'in:Inb|', 'before:2026|'],
  ...[
    'id:abcd|',
    '@trip|',
    'from:<anna@example.org>|',
    'subject:"inv|"',
    'e.g.|',
    'AND|',
    'from:|',
  ],
])('%s is searched for as it is', (typed) => {
  const query = typed.replace('|', '');
  expect(liveQuery(query, typed.indexOf('|'))).toBe(query);
});

test('whatever is typed, the stretch holds the caret and lies within the query', () => {
  const piece = fc.constantFrom(
    '"',
    '“',
    '”',
    '„',
    ' ',
    '(',
    ')',
    '-',
    'in:',
    'a',
    ':',
    '\ud83d',
    '@',
    'NOT ',
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 20 }), fc.integer({ min: -3, max: 30 }), (all, at) => {
      const query = all.join('');
      const { from, to } = typedWord(query, at);
      const caret = Math.max(0, Math.min(query.length, at));
      expect(from).toBeLessThanOrEqual(caret);
      expect(to).toBeGreaterThanOrEqual(caret);
      expect(to).toBeLessThanOrEqual(query.length);
    }),
    { numRuns: 3_000 },
  );
});

const row = (from: number, to: number, insert: string): CompletionRow => ({
  kind: 'value',
  ...{ from, to, insert, label: insert, detail: '' },
  count: null,
});

describe('the underlay', () => {
  const piece = fc.constantFrom('"', '(', '-', ' OR ', 'in:', 'ASOF:', 'müller', ' ', '😀', 'NEAR');
  const text = fc.oneof(
    fc.array(piece, { maxLength: 10 }).map((all) => all.join('')),
    fc.string(),
  );

  test('draws each character once, whatever is typed and wherever an error stands', () => {
    fc.assert(
      fc.property(text, fc.nat(20), fc.nat(20), (query, a, b) => {
        const start = Math.min(a, query.length);
        const wrong = { start, end: Math.min(start + b, query.length) };
        const inks = highlightQuery(query, wrong);
        expect(inks.map((ink) => query.slice(ink.start, ink.end)).join('')).toBe(query);
        const marked = inks.filter((ink) => ink.wrong);
        expect(marked.map((ink) => query.slice(ink.start, ink.end)).join('')).toBe(
          query.slice(wrong.start, wrong.end),
        );
      }),
      { numRuns: 1_000 },
    );
  });

  test('tints operators, not text', () => {
    const tints = (query: string) =>
      highlightQuery(query, null).map(({ start, end, tint }) => [query.slice(start, end), tint]);
    expect(tints('lease from:anna -in:Junk OR "in:x" asof:3d')).toEqual([
      ['lease ', 'text'],
      ['from:', 'op'],
      ['anna ', 'text'],
      ['-', 'neg'],
      ['in:', 'op'],
      ['Junk ', 'text'],
      ['OR', 'op'],
      [' "in:x" ', 'text'],
      ['asof:', 'past'],
      ['3d', 'text'],
    ]);
  });
});

describe('a completion', () => {
  test('replaces the word under the caret, and a blank follows what is finished', () => {
    const typed = (text: string) => ({ text, caret: text.length });
    expect(insertCompletion(typed('lease ha'), row(6, 8, 'has:'))).toEqual(typed('lease has:'));
    expect(insertCompletion(typed('has:at'), row(4, 6, 'attachment'))).toEqual(
      typed('has:attachment '),
    );
    expect(
      insertCompletion({ text: 'in:un lease', caret: 5 }, row(3, 5, '"INBOX.Unit 4"')),
    ).toEqual({
      text: 'in:"INBOX.Unit 4" lease',
      caret: 18,
    });
  });

  test('stands grey behind the caret only where it continues what was typed, at the end', () => {
    const ghost = (text: string, completion: CompletionRow, caret = text.length) =>
      completionRest({ text, caret }, completion);
    expect(ghost('from:ru', row(5, 7, '<ruth@example.org>'))).toBe('th@example.org');
    expect(ghost('in:INBOX.un', row(3, 11, '"INBOX.Unit 4"'))).toBe('it 4');
    expect(ghost('in:"INBOX.un', row(3, 12, '"INBOX.Unit 4"'))).toBe('it 4"');
    expect(ghost('in:uni', row(3, 6, '"INBOX.Unit 4"'))).toBe('');
    expect(ghost('from:', row(5, 5, 'me'))).toBe('');
    expect(ghost('ha lease', row(0, 2, 'has:'), 2)).toBe('');
  });
});

describe('chips', () => {
  test('say what a query asks for at its top, and leave words alone', () => {
    const query = 'deposit "a lease" after:2025-06 has:attachment -in:INBOX.Junk (a OR b) @rent';
    const { slots, attachment, unread, deleted, others, either } = findChips(query);
    expect(slots.since?.text).toBe('after:2025-06');
    expect([slots.in, slots.from, unread, either]).toEqual([undefined, undefined, undefined, null]);
    expect(attachment?.text).toBe('has:attachment');
    expect(deleted).toBe('shown');
    expect(others.map(chipLabel)).toEqual(['Not in Junk', '(a OR b)', '@rent']);
    const odd = { operator: 'constructor', value: 'x', negated: false, text: 'constructor:x' };
    expect(chipLabel({ ...odd, start: 0, end: odd.text.length })).toBe('constructor:x');
  });

  test('say a query in one piece that OR parts', () => {
    const { slots, others, either, attachment } = findChips('in:a OR has:attachment');
    expect(either).toBe('in:a OR has:attachment');
    expect([slots.in, attachment, others]).toEqual([undefined, undefined, []]);
  });

  test.each([
    ['after:2025-06', 'Since Jun 2025'],
    ['newer:2025-06-03', 'Since 3 Jun 2025'],
    ['-before:2025', 'Not before 2025'],
    ['asof:2026-10-02T08:00:00', 'As of 2 Oct 2026 08:00'],
    ['added:2026-10-02', 'Stored 2 Oct 2026'],
    ['deleted:2026-10-02..2026-10-09', 'Deleted 2 Oct 2026 – 9 Oct 2026'],
    ['deleted:14d..', 'Deleted in the last 14 days'],
    ['date:2025..', 'On since 2025'],
    ['from:<anna@example.org>', 'From anna@example.org'],
    ['folder:"INBOX.Old mail"', 'In Old mail'],
    ['-is:starred', 'Not: Starred'],
    ['subject:(a b)', 'subject:(a b)'],
    ['thread:3f2a', 'thread:3f2a'],
  ])('call %s %j', (text, label) => {
    expect(termsOf(text).terms.map(chipLabel)).toEqual([label]);
  });

  test('change one term in its place', () => {
    expect(withSlot('a in:x  b', 'in', 'in:"y z"')).toBe('a in:"y z"  b');
    expect(withSlot('a in:x  b', 'in', null)).toBe('a  b');
    expect(withSlot('a', 'from', 'from:me')).toBe('a from:me');
    expect(withSlot('a OR b', 'since', 'after:2026')).toBe('(a OR b) after:2026');
    expect(withSlot('a -in:x', 'in', 'in:y')).toBe('a -in:x in:y');
  });

  test('name the mailbox with the folder where the side does', () => {
    const both = withFolder('lease', 'mailbox:ada@example.org in:INBOX asof:2026');
    expect(both).toBe('lease mailbox:ada@example.org in:INBOX');
    expect(withFolder(both, 'mailbox:bob@example.org in:Sent')).toBe(
      'lease mailbox:bob@example.org in:Sent',
    );
    expect(withFolder(both, 'mailbox:bob@example.org')).toBe('lease mailbox:bob@example.org');
    expect(withFolder(both, '')).toBe('lease');
  });

  test('show, hide and single out what was deleted', () => {
    expect(withDeleted('lease', 'only')).toBe('lease is:deleted');
    expect(withDeleted('is:ended lease', 'hidden')).toBe('-is:deleted lease');
    expect(withDeleted('-is:deleted lease', 'shown')).toBe('lease');
    expect(withDeleted('lease', 'shown')).toBe('lease');
    expect(withDeleted('is:deleted lease', 'week')).toBe('deleted:7d.. lease');
    expect(withDeleted('deleted:7d.. lease', 'month')).toBe('deleted:30d.. lease');
    expect(withDeleted('deleted:30d.. lease', 'shown')).toBe('lease');
    expect(findChips('deleted:7d.. lease').deleted).toBe('week');
    expect(findChips('deleted:7d.. lease').others).toEqual([]);
    // Any other time has a chip of its own.
    expect(findChips('deleted:2026-11').others.map(chipLabel)).toEqual(['Deleted Nov 2026']);
    expect(findChips('lease -is:ended').deleted).toBe('hidden');
    expect(findChips('is:deleted').deleted).toBe('only');
  });
});
