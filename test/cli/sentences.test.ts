import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import '../../src/cli/all-errors.ts';
import { configError } from '../../src/core/error-tables.ts';
import { describeError, describeFacts, didYouMean, MailkeepError } from '../../src/core/errors.ts';
import { root, sourceFiles } from '../architecture/source-tree.ts';

const codes = sourceFiles(['src'])
  .filter(({ text }) => text.includes('defineErrors({'))
  .flatMap(({ text }) => [...text.matchAll(/^ {4}'?([a-z]+(?:[.-][a-z]+)+)'?: (?:\(|\w+,$)/gm)])
  .map((match) => match[1] ?? '');

test('every code has one sentence, which the command line loads', () => {
  expect(codes.length).toBeGreaterThan(300);
  expect(codes.filter((code, i) => codes.indexOf(code) < i)).toEqual([]);
  expect(codes.filter((code) => describeFacts(code, {}).hint?.includes('MAILKEEP_DEBUG'))).toEqual(
    [],
  );
});

test('every code that any file raises has a sentence', () => {
  const raised = sourceFiles(['src']).flatMap(({ file }) => {
    const text = readFileSync(path.join(root, file), 'utf8');
    return [
      ...text.matchAll(/new MailkeepError\(\s*'[a-z-]+',\s*'([^']+)'/g),
      ...text.matchAll(/(?<!Mailkeep)Error\(\s*'([a-z]+(?:[.-][a-z]+)+)',/g),
    ].map((match) => match[1] ?? '');
  });
  expect(new Set(raised).size).toBeGreaterThan(30);
  expect([...new Set(raised)].filter((code) => !codes.includes(code))).toEqual([]);
});

test('a sentence says what, where and what to do', () => {
  const error = configError('token-missing', { source: 'file', name: '/home/me/token' });
  expect(describeError(error)).toEqual({
    code: 'token-missing',
    message: 'There is no token: the token file /home/me/token does not exist.',
    hint: 'Put the token there, or name another source in the configuration.',
  });
});

test('words of a server that end with a full stop add none', () => {
  const facts = { user: 'anna', host: 'mail.example.org', response: null, command: 'CREATE' };
  for (const [words, shown] of [
    ['Authentication failed.', 'Authentication failed.'],
    ['Wait ...  \r\n', 'Wait.'],
    ['no', 'no.'],
    ['Please wait!', 'Please wait.'],
  ] as const) {
    for (const [code, known] of [
      ['restore-login-refused', { ...facts, text: words }],
      ['restore-refused', { ...facts, text: words }],
      ['restore-throttled', { ...facts, text: words }],
      ['restore-connection-lost', { ...facts, reason: words }],
    ] as const) {
      expect(describeFacts(code, known).message).toMatch(`: ${shown}`);
      expect(describeFacts(code, known).message).not.toMatch(/\.\.|!/);
    }
  }
});

test('what nobody foresaw is called a bug', () => {
  expect(describeError(new TypeError('x is undefined'))).toMatchObject({
    code: 'bug',
    message: 'Unexpected error: TypeError: x is undefined',
    hint: expect.stringContaining('report it'),
  });
});

test('facts that came from elsewhere cannot steer a terminal', () => {
  const evil = '\u001b]0;owned\u0007\u001b[2J';
  const { message } = describeFacts('config-not-found', { searched: [`/tmp/${evil}`] });
  expect(message).not.toContain('\u001b');
  const differs = { target: '/tmp', found: evil, wanted: 'eml' };
  expect(describeFacts('export-format-differs', differs).hint).not.toContain('\u001b');
  expect(describeError(new Error(evil)).message).not.toContain('\u001b');
  expect(describeError(new MailkeepError('mail', 'nobody-knows', { evil })).message).not.toContain(
    '\u001b',
  );
  // The one letter that begins a sequence as well is not escaped by JSON.
  expect(describeFacts('nobody-knows', { evil: '\u009b2J' }).message).not.toContain('\u009b');
});

test('facts of another version than ours are shown as they came, with the code', () => {
  const { message, hint } = describeFacts('config-not-found', { paths: ['/tmp/\u001b[2J'] });
  expect(message).toMatch(/^config-not-found \{"paths":\["\/tmp\//);
  expect(message).not.toContain('\u001b');
  expect(hint).toContain('the same version on both');
  for (const code of codes)
    for (const facts of [{}, { searched: null, reason: 7, errno: true }])
      expect([code, describeFacts(code, facts).message.length > 0]).toEqual([code, true]);
});

test.each([
  ['newer_than:3m', 'Write 3min for minutes, 3mo for months.'],
  ['after:90M', 'Write 90min for minutes, 90mo for months.'],
  ['older_than:soon', 'A span is 90s, 15min, 6h, 3d, 2w, 6mo or 1y.'],
  [
    'before:soon',
    'A date is 2026-03-01, 2026-03 or 2026; a span is 90s, 15min, 6h, 3d, 2w, 6mo or 1y.',
  ],
])('%s is answered with how to write it', (query, hint) => {
  let thrown: unknown;
  try {
    parseQuery(query, { now: 0 });
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toBeInstanceOf(MailkeepError);
  if (thrown instanceof MailkeepError) expect(describeError(thrown).hint).toBe(hint);
});

test('a name that was probably meant is cut where it is long', () => {
  expect(didYouMean('inbox', 'or not')).toBe('Did you mean "inbox"? or not');
  expect(didYouMean(`INBOX${'x'.repeat(100_000)}`).length).toBeLessThan(250);
});
