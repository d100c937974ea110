import fc from 'fast-check';
import { expect, test } from 'vitest';
import { canonicalJson, type Fact, type FactName, isFact } from '../../src/archive/format.ts';
import { appeared, place } from './sample-log.ts';

const mailbox = { host: 'mail.example.org', mailbox: 'm1' };
const folder = { ...mailbox, folder: 'INBOX' };
const id = 'ab'.repeat(32);
const first = appeared(7, Buffer.from('x'));
if (first.fact !== 'appeared') throw new Error('the sample is another fact');

/** One of each, with every optional field. */
const samples: { readonly [Name in FactName]: Extract<Fact, { fact: Name }> } = {
  mailbox: { fact: 'mailbox', ...mailbox, address: 'ada@example.org', account: 'ada' },
  folder: {
    fact: 'folder',
    ...folder,
    name: 'INBOX',
    delimiter: '.',
    specialUse: null,
    generation: 1,
  },
  'folder-renamed': { fact: 'folder-renamed', ...folder, to: 'INBOX.Old' },
  'folder-gone': { fact: 'folder-gone', ...folder },
  generation: { fact: 'generation', ...folder, generation: 2, reason: 'contradicted' },
  appeared: { ...first, accepted: 'host-rule', assumedFrom: place(3) },
  flags: { fact: 'flags', ...place(7), flags: ['\\Seen'] },
  ended: { fact: 'ended', ...place(7), reason: 'missing' },
  reopened: { fact: 'reopened', ...place(7), flags: [], reason: 'answers again' },
  held: { fact: 'held', ...place(7), held: true },
  verified: {
    fact: 'verified',
    ...place(7),
    message: id,
    docid: 64,
    size: 1,
    corrected: false,
  },
  quarantined: {
    fact: 'quarantined',
    ...place(7),
    listing: first.listing,
    reason: 'short',
    detail: '',
    kept: id,
  },
  released: { fact: 'released', ...place(7), reason: 'stored' },
  acknowledged: { fact: 'acknowledged', ...place(7) },
  certificate: {
    fact: 'certificate',
    ...folder,
    generation: 1,
    originTotal: 5,
    stored: 4,
    assumed: 0,
    quarantined: 1,
    held: 0,
    forgotten: 0,
    complete: true,
    since: '2026-02-03T04:05:06Z',
  },
  missing: { fact: 'missing', kind: 'blob', hash: 'a'.repeat(64), size: 12 },
  purged: {
    fact: 'purged',
    message: id,
    reason: 'forgotten',
    places: [place(7)],
    from: { host: 'mail.example.org', mailbox: 'm1', message: id, last: true },
    again: true,
  },
};

const optional: Readonly<Record<string, readonly string[]>> = {
  mailbox: ['account'],
  appeared: ['accepted', 'assumedFrom'],
  quarantined: ['kept'],
  purged: ['places', 'from', 'again'],
};

test.each(Object.entries(samples))('%s is read as it was written', (_name, fact) => {
  const read: unknown = JSON.parse(canonicalJson(fact));
  expect(isFact(read)).toBe(true);
  expect(read).toEqual(fact);
});

test.each(Object.entries(samples))('%s without a field it needs is no fact', (name, fact) => {
  for (const field of Object.keys(fact)) {
    if (field === 'fact') continue;
    const rest = Object.fromEntries(Object.entries(fact).filter(([key]) => key !== field));
    expect([field, isFact(rest)]).toEqual([field, optional[name]?.includes(field) ?? false]);
    expect([field, isFact({ ...fact, [field]: Symbol('wrong') })]).toEqual([field, false]);
  }
});

test('what a newer version adds is let through', () => {
  expect(isFact({ ...samples.flags, since: 'today' })).toBe(true);
  expect(isFact({ fact: 'something-new', host: 1 })).toBe(true);
  expect(isFact({ fact: 7 })).toBe(false);
  expect(isFact(['flags'])).toBe(false);
  expect(isFact(null)).toBe(false);
});

test('canonical JSON is the same for the same content, and is JSON', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const text = canonicalJson(value);
      // -0 has no text of its own in JSON.
      expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
      expect(canonicalJson(JSON.parse(text))).toBe(text);
    }),
  );
  expect(canonicalJson({ b: 1, a: [undefined, null], c: undefined, é: '\u2028' })).toBe(
    '{"a":[null,null],"b":1,"é":"\u2028"}',
  );
  expect(canonicalJson({ '\uffff': 1, '\u{1f600}': 2 })).toBe('{"\u{1f600}":2,"\uffff":1}');
});
