import { expect, test } from 'vitest';
import { findFolders } from '../../src/core/names.ts';

const folder = (path: string, specialUse: string | null = null) => ({ path, specialUse });
const FOLDERS = [
  folder('INBOX'),
  folder('INBOX.Sent', '\\Sent'),
  folder('INBOX.Junk', '\\Junk'),
  folder('INBOX.sent'),
  folder('Archive'),
  folder('Old mail', '\\Archive'),
  folder('A*'),
  folder('A1'),
];

test.each([
  ['INBOX.Sent', ['INBOX.Sent']],
  ['inbox', ['INBOX']],
  ['sent', ['INBOX.Sent']],
  ['SENT', ['INBOX.Sent']],
  ['spam', ['INBOX.Junk']],
  ['junk', ['INBOX.Junk']],
  // A path comes before what the word stands for, and before the pattern.
  ['Archive', ['Archive']],
  ['archive', ['Old mail']],
  ['A*', ['A*']],
  ['INBOX.*', ['INBOX.Sent', 'INBOX.Junk', 'INBOX.sent']],
  ['*e*t', ['INBOX.Sent', 'INBOX.sent']],
  ['drafts', []],
  ['Sen', []],
  ['constructor', []],
])('%s', (name, paths) => {
  expect(findFolders(name, FOLDERS).map(({ path }) => path)).toEqual(paths);
});
