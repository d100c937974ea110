import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import type { SearchNode } from '../../src/catalog/query-ast.ts';
import {
  addTerm,
  asOfTermText,
  findTerm,
  removeTerm,
  replaceTerm,
  termsOf,
  toggleTerm,
} from '../../src/web/query-text.ts';

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
