import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
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
import { termsOf } from '../../src/web/query-text.ts';
import type { CompletionRow } from '../../src/web/typed-word.ts';

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
