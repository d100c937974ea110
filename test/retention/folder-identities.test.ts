import { expect, test } from 'vitest';
import type { Fact } from '../../src/archive/format.ts';
import { FolderIdentities } from '../../src/verify/find-purged.ts';

const MAILBOX = { host: 'mail.example.org', mailbox: 'm1' };
const renamed = (folder: string, to: string): Fact => ({
  fact: 'folder-renamed',
  ...MAILBOX,
  folder,
  to,
});
const at = (folder: string) => ({ ...MAILBOX, folder, generation: 1, uid: 1 });

test('two readings agree on a folder whatever else they were asked about before', () => {
  const [asked, other] = [new FolderIdentities(), new FolderIdentities()];
  for (const path of ['INBOX', 'Work', 'Old']) other.keyOf(at(path));
  expect(asked.keyOf(at('Work'))).toBe(other.keyOf(at('Work')));
  for (const fact of [renamed('Work', 'Old'), renamed('INBOX', 'Work')]) {
    asked.note(fact);
    other.note(fact);
  }
  expect(asked.keyOf(at('Work'))).toBe(other.keyOf(at('Work')));
  expect(asked.keyOf(at('INBOX'))).toBe(other.keyOf(at('INBOX')));
});

test('a folder keeps its key through renames, and another one of its name has another', () => {
  const folders = new FolderIdentities();
  const first = folders.keyOf(at('Work'));
  folders.note(renamed('Work', 'Old'));
  expect(folders.keyOf(at('Old'))).toBe(first);
  const second = folders.keyOf(at('Work'));
  expect(second).not.toBe(first);
  folders.note(renamed('Work', 'Done'));
  folders.note(renamed('Old', 'Work'));
  expect([folders.keyOf(at('Work')), folders.keyOf(at('Done'))]).toEqual([first, second]);
  const third = folders.keyOf(at('Old'));
  expect([first, second]).not.toContain(third);
  expect(folders.keyOf({ ...at('Work'), uid: 2 })).not.toBe(first);
});
