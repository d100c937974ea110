import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import type { ParseContext, SearchNode } from '../../src/catalog/query-ast.ts';
import { MailkeepError } from '../../src/core/errors.ts';

const CONTEXT: ParseContext = { now: Date.UTC(2024, 5, 15, 12), timeZone: 'Europe/Berlin' };

/** A query as it was understood, in short: brackets, operators in words. */
function shown(node: SearchNode): string {
  switch (node.kind) {
    case 'and':
    case 'or':
      return `(${node.nodes.map(shown).join(` ${node.kind} `)})`;
    case 'not':
      return `not ${shown(node.node)}`;
    case 'text': {
      const text = `${node.text.includes(' ') ? `"${node.text}"` : node.text}${node.prefix ? '*' : ''}`;
      return node.field === 'any' ? text : `${node.field}=${text}`;
    }
    case 'near':
      return `near${node.distance}(${node.terms.map(shown).join(' ')})`;
    case 'all':
      return 'all';
    case 'has':
      return `has=${node.what}`;
    case 'state':
      return node.state;
    case 'received':
      return `received ${time(node.from)}..${time(node.to)}`;
    case 'observed':
      return `${node.what} ${time(node.from)}..${time(node.to)}`;
    case 'size':
      return `size ${node.min ?? ''}..${node.max ?? ''}`;
    case 'me':
      return `${node.field}:me`;
    default:
      return `${node.kind}=${node.value}`;
  }
}

const time = (ms: number | null) =>
  ms === null ? '' : new Date(ms).toISOString().replace(':00.000Z', 'Z');

const read = (query: string) => shown(parseQuery(query, CONTEXT).node);

describe('understanding queries', () => {
  test.each([
    ['word', 'word'],
    ['one two', '(one and two)'],
    ['one AND two', '(one and two)'],
    ['one OR two three', '(one or (two and three))'],
    ['one | two', '(one or two)'],
    ['one or two', '(one and or and two)'],
    ['{one two}', '(one or two)'],
    ['-one', 'not one'],
    ['NOT one two', '(not one and two)'],
    ['one -(two OR three)', '(one and not (two or three))'],
    ['"two words" word*', '("two words" and word*)'],
    ['"two words"*', '"two words"*'],
    ['“typographic” „quotes“', '(typographic and quotes)'],
    ['*', 'all'],
    ['from:me to:ME', '(from:me and to:me)'],
    ['thread:3f2a account:work', '(thread=3f2a and account=work)'],
    ['a NEAR b', 'near10(a b)'],
    ['a NEAR/3 "b c" NEAR/5 d', 'near5(a "b c" d)'],
    ['from:anna', 'from=anna'],
    ['FROM:anna', 'from=anna'],
    ['subject:"two words"', 'subject="two words"'],
    ['subject:(a b)', '(subject=a and subject=b)'],
    ['from:(a OR -b)', '(from=a or not from=b)'],
    ['-from:a', 'not from=a'],
    ['from:a NEAR/2 from:b', 'near2(from=a from=b)'],
    ['filename:pdf file:x attachment:y', '(filename=pdf and filename=x and filename=y)'],
    ['in:INBOX folder:"Sent Items"', '(folder=INBOX and folder=Sent Items)'],
    ['in:(A OR B)', '(folder=A or folder=B)'],
    ['in:Work*', 'folder=Work*'],
    ['mailbox:me@example.net', 'mailbox=me@example.net'],
    ['is:unread is:seen is:FLAGGED', '(unread and read and starred)'],
    ['flag:$Junk keyword:work', '(flag=$Junk and flag=work)'],
    ['has:attachment has:inline', '(has=attachment and has=inline)'],
    ['id:<a@b> msgid:c', '(id=<a@b> and id=c)'],
    ['list:rust mime:image/png', '(list=rust and mime=image/png)'],
    ['larger:10k', 'size 10001..'],
    ['smaller:1.5M', 'size ..1499999'],
    ['size:10Ki..2MiB', 'size 10240..2097152'],
    ['size:..5', 'size ..5'],
    ['size:7', 'size 7..7'],
    // What is no operator.
    ['http://example.org/x', 'http://example.org/x'],
    ['12:30', '12:30'],
    ['a-b --- -', 'a-b'],
    ['"from:anna"', 'from:anna'],
    // Days are those of the zone; Berlin is two hours ahead in June and one in January.
    ['before:2024-06-15', 'received ..2024-06-14T22:00Z'],
    ['after:2024-01-01', 'received 2023-12-31T23:00Z..'],
    ['on:2024-06-15', 'received 2024-06-14T22:00Z..2024-06-15T22:00Z'],
    ['on:2024/3', 'received 2024-02-29T23:00Z..2024-03-31T22:00Z'],
    ['date:2024', 'received 2023-12-31T23:00Z..2024-12-31T23:00Z'],
    ['date:2024-01..2024-02', 'received 2023-12-31T23:00Z..2024-02-29T23:00Z'],
    ['date:..2024-02-01', 'received ..2024-02-01T23:00Z'],
    ['date:2024-06-15T10:30..', 'received 2024-06-15T08:30Z..'],
    ['after:2024-06-15T10:30:00Z', 'received 2024-06-15T10:30Z..'],
    ['after:2024-06-15T10:30-05:30', 'received 2024-06-15T16:00Z..'],
    ['after:@1700000000', 'received 2023-11-14T22:13:20.000Z..'],
    ['on:today', 'received 2024-06-14T22:00Z..2024-06-15T22:00Z'],
    ['on:yesterday', 'received 2024-06-13T22:00Z..2024-06-14T22:00Z'],
    ['added:2024-05-17', 'added 2024-05-16T22:00Z..2024-05-17T22:00Z'],
    ['deleted:2024-05', 'deleted 2024-04-30T22:00Z..2024-05-31T22:00Z'],
    ['deleted:7d..', 'deleted 2024-06-08T12:00Z..'],
    ['added:..2024-05-17', 'added ..2024-05-17T22:00Z'],
    ['newer_than:6h', 'received 2024-06-15T06:00Z..'],
    ['newer_than:2d', 'received 2024-06-13T12:00Z..'],
    ['older_than:1w', 'received ..2024-06-08T12:00Z'],
    // Across the change of clocks the wall time stays.
    ['older_than:6mo', 'received ..2023-12-15T13:00Z'],
    ['older_than:1y', 'received ..2023-06-15T12:00Z'],
    ['after:3d', 'received 2024-06-12T12:00Z..'],
  ])('%s', (query, understood) => {
    expect(read(query)).toBe(understood);
  });

  test('as of is about the query: the last moment of a day or longer', () => {
    const { node, asOf } = parseQuery('asof:2024-01-31 rent', CONTEXT);
    expect(shown(node)).toBe('rent');
    expect(asOf).toBe(Date.UTC(2024, 0, 31, 23) - 1);
    expect(parseQuery('asof:2024-01-31', CONTEXT).node.kind).toBe('all');
    expect(parseQuery('rent', CONTEXT).asOf).toBeNull();
  });

  test('words without a letter or digit are left out, and said', () => {
    const { node, ignored } = parseQuery('rent & -! due', CONTEXT);
    expect(shown(node)).toBe('(rent and due)');
    expect(ignored).toEqual([
      { start: 5, end: 6 },
      { start: 8, end: 9 },
    ]);
  });

  test('nodes know where they stand', () => {
    const { node } = parseQuery('one (from:two OR "three four")', CONTEXT);
    expect(node.span).toEqual({ start: 0, end: 30 });
    if (node.kind !== 'and') throw new Error('not an and');
    expect(node.nodes[1]?.span).toEqual({ start: 4, end: 30 });
  });
});

describe('errors name the place', () => {
  test.each<[string, string, Record<string, unknown>]>([
    ['', 'search-empty', {}],
    [' & ()', 'search-empty', {}],
    ['a frm:bob', 'search-unknown-operator', { position: 2, found: 'frm:', suggestion: 'from' }],
    ['sbuject:x', 'search-unknown-operator', { suggestion: 'subject' }],
    ['re: hello', 'search-unknown-operator', { found: 're:' }],
    ['xyzzy:1', 'search-unknown-operator', { suggestion: null }],
    ['label:work', 'search-foreign-operator', { found: 'label:', instead: 'in' }],
    ['category:social', 'search-foreign-operator', { instead: null }],
    // Keys that every object has.
    ['constructor:x', 'search-unknown-operator', { found: 'constructor:' }],
    ['toString:x', 'search-unknown-operator', { found: 'toString:' }],
    ['has:constructor', 'search-bad-value', { operator: 'has', found: 'constructor' }],
    ['has:__proto__', 'search-bad-value', { operator: 'has', found: '__proto__' }],
    ['from:', 'search-missing-value', { position: 0, found: 'from:' }],
    ['a from: b', 'search-missing-value', { position: 2 }],
    ['(from:)', 'search-missing-value', { position: 1 }],
    ['has:atachment', 'search-bad-value', { position: 4, suggestion: 'attachment' }],
    ['is:unraed', 'search-bad-value', { suggestion: 'unread' }],
    ['is:important', 'search-bad-value', { operator: 'is' }],
    ['before:01/02/2006', 'search-ambiguous-date', { position: 7, operator: 'before' }],
    ['on:2024-02-30', 'search-bad-date', { position: 3, found: '2024-02-30' }],
    ['on:2024-13', 'search-bad-date', {}],
    ['after:soon', 'search-bad-date', {}],
    ['newer_than:5m', 'search-bad-date', { operator: 'newer_than', found: '5m' }],
    ['date:..', 'search-bad-date', {}],
    ['date:2024..nonsense', 'search-bad-date', { position: 11, found: 'nonsense' }],
    ['larger:big', 'search-bad-size', { position: 7, operator: 'larger' }],
    ['size:1k..x', 'search-bad-size', { position: 9, found: 'x' }],
    ['(a b', 'search-unbalanced', { position: 0, found: '(' }],
    ['a) b', 'search-unbalanced', { position: 1, found: ')' }],
    ['a "b c', 'search-unbalanced', { position: 2, found: '"' }],
    ['{a b)', 'search-unbalanced', { found: ')' }],
    ['a OR', 'search-missing-operand', { position: 2, found: 'OR' }],
    ['OR a', 'search-missing-operand', { position: 0 }],
    ['a OR OR b', 'search-missing-operand', { position: 2 }],
    ['a AND', 'search-missing-operand', { position: 2 }],
    ['AND a', 'search-missing-operand', { position: 0 }],
    ['a NOT', 'search-missing-operand', { position: 2 }],
    ['a NEAR', 'search-missing-operand', { position: 2 }],
    ['NEAR a', 'search-missing-operand', { position: 0 }],
    ['a NEAR (b OR c)', 'search-near-operand', { position: 2 }],
    ['from:a NEAR b', 'search-near-operand', {}],
    ['a NEAR in:INBOX', 'search-near-operand', {}],
    ['a OR asof:2024', 'search-misplaced-asof', {}],
    ['(asof:2024 a)', 'search-misplaced-asof', {}],
    ['-asof:2024', 'search-misplaced-asof', {}],
    ['asof:2023 asof:2024', 'search-misplaced-asof', {}],
  ])('%s', (query, code, facts) => {
    let thrown: unknown;
    try {
      parseQuery(query, CONTEXT);
    } catch (error) {
      thrown = error;
    }
    if (!(thrown instanceof MailkeepError)) throw new Error(`no error: ${String(thrown)}`);
    expect(thrown.code).toBe(code);
    expect(thrown.facts).toMatchObject(facts);
    expect(thrown.family).toBe('usage');
  });
});

test('what was understood can be written down and understood again', () => {
  const word = fc.constantFrom('one', 'two', 'Straße', '東京');
  const { query } = fc.letrec<{ query: string }>((tie) => ({
    query: fc.oneof(
      { depthSize: 'small' },
      word,
      word.map((a) => `subject:${a}`),
      fc.tuple(word, word).map(([a, b]) => `"${a} ${b}"`),
      fc.tuple(tie('query'), tie('query')).map(([a, b]) => `(${a} ${b})`),
      fc.tuple(tie('query'), tie('query')).map(([a, b]) => `(${a} OR ${b})`),
      tie('query').map((a) => `-${a}`),
    ),
  }));
  const write = (node: SearchNode): string => {
    if (node.kind === 'and') return `(${node.nodes.map(write).join(' ')})`;
    if (node.kind === 'or') return `(${node.nodes.map(write).join(' OR ')})`;
    if (node.kind === 'not') return `-${write(node.node)}`;
    if (node.kind !== 'text') throw new Error(node.kind);
    return `${node.field === 'any' ? '' : `${node.field}:`}"${node.text}"`;
  };
  fc.assert(
    fc.property(query, (text) => {
      fc.pre(!text.includes('--'));
      const { node } = parseQuery(text, CONTEXT);
      expect(shown(parseQuery(write(node), CONTEXT).node)).toBe(shown(node));
    }),
  );
});
