import { expect, test } from 'vitest';
import { folderLabels } from '../../src/web/side-tree.ts';

function labels(delimiter: string, ...paths: readonly string[]): string[] {
  const found = folderLabels(paths.map((path) => ({ path, delimiter })));
  return paths.map((path) => found.get(path) ?? '');
}

test('folders are called by what is below INBOX, part by part', () => {
  expect(labels('.', 'INBOX', 'INBOX.Sent', 'INBOX.Lists.gardening', 'inbox.x', 'Other.y')).toEqual(
    ['INBOX', 'Sent', 'Lists / gardening', 'x', 'Other / y'],
  );
  expect(labels('/', 'INBOX.Sent', 'a/b', 'Inboxes/c')).toEqual([
    'INBOX.Sent',
    'a / b',
    'Inboxes / c',
  ]);
});

test('folders that would be called the same keep their paths', () => {
  expect(labels('.', 'Sent', 'INBOX.Sent', 'INBOX.INBOX', 'INBOX')).toEqual([
    'Sent',
    'INBOX.Sent',
    'INBOX.INBOX',
    'INBOX',
  ]);
  expect(labels('/', 'a/b', 'INBOX/a/b')).toEqual(['a/b', 'INBOX/a/b']);
});

test('odd paths are shown as they are', () => {
  expect(labels('.', 'INBOX.', '.x', 'a..b')).toEqual(['INBOX.', '.x', 'a..b']);
  expect(labels('', 'INBOX.Sent')).toEqual(['INBOX.Sent']);
});
