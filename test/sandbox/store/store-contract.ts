import { expect, test } from 'vitest';
import type { Store } from '../../../src/sandbox/store.ts';

const RECEIVED = Date.UTC(2026, 0, 1);

function source(text: string): Buffer {
  return Buffer.from(`Subject: ${text}\r\n\r\n${text}\r\n`);
}

/** What a store must do, with or without a state file. */
export function storeContract(open: () => Store): void {
  function filled(texts: readonly string[]) {
    const store = open();
    const mailbox = store.addMailbox('ada@example.org', 'OR1', 1);
    const inbox = store.folderFor(mailbox, 'INBOX');
    for (const [index, text] of texts.entries()) {
      store.add(inbox, source(text), RECEIVED + index * 1000, []);
    }
    return { store, mailbox, inbox };
  }

  test('a mailbox has its standing folders', () => {
    const { store, mailbox } = filled([]);
    expect([...mailbox.folders.values()].map(({ path, specialUse }) => [path, specialUse])).toEqual(
      [
        ['INBOX', null],
        ['INBOX.Sent', '\\Sent'],
        ['INBOX.Drafts', '\\Drafts'],
        ['INBOX.Trash', '\\Trash'],
      ],
    );
    store.close();
  });

  test('sources come back byte for byte, with size and received date', () => {
    const odd = Buffer.from([0, 13, 10, 255, 0, 10]);
    const { store, inbox } = filled(['one']);
    const uid = store.add(inbox, odd, 12_345, ['\\Seen']);
    const entry = inbox.get(uid);
    expect(uid).toBe(2);
    expect(entry?.flags).toEqual(['\\Seen']);
    expect(store.sources.read(entry?.source ?? 0)).toEqual(odd);
    expect(store.sources.size(entry?.source ?? 0)).toBe(6);
    expect(store.sources.received(entry?.source ?? 0)).toBe(12_345);
    store.close();
  });

  test('an empty source is a source', () => {
    const { store, inbox } = filled([]);
    const uid = store.add(inbox, Buffer.alloc(0), 0, []);
    expect(store.sources.read(inbox.get(uid)?.source ?? 0)).toHaveLength(0);
    store.close();
  });

  test('a move gives a new uid and keeps flags and bytes', () => {
    const { store, mailbox, inbox } = filled(['one', 'two']);
    const trash = store.folderFor(mailbox, 'INBOX.Trash');
    store.changeFlags(inbox, 1, ['\\Flagged'], []);
    expect(store.move(inbox, 1, trash)).toBe(1);
    expect(store.move(inbox, 1, trash)).toBeNull();
    expect(inbox.get(1)).toBeNull();
    expect(trash.get(1)?.flags).toEqual(['\\Flagged']);
    expect(store.sources.read(trash.get(1)?.source ?? 0)).toEqual(source('one'));
    expect(store.move(inbox, 2, inbox)).toBe(3);
    store.close();
  });

  test('a source that several messages share goes with the last of them', () => {
    const { store, mailbox, inbox } = filled([]);
    const sent = store.folderFor(mailbox, 'INBOX.Sent');
    const [a = 0, b = 0] = store.addEverywhere(
      [
        { folder: inbox, flags: [] },
        { folder: sent, flags: ['\\Seen'] },
      ],
      source('shared'),
      RECEIVED,
    );
    const number = inbox.get(a)?.source ?? 0;
    expect(sent.get(b)?.source).toBe(number);
    store.remove(inbox, a);
    expect(store.sources.read(number)).toEqual(source('shared'));
    store.remove(sent, b);
    expect(() => store.sources.read(number)).toThrow(RangeError);
    store.close();
  });

  test('a copy keeps flags and bytes, which go with the last of the places', () => {
    const { store, mailbox, inbox } = filled(['one']);
    const trash = store.folderFor(mailbox, 'INBOX.Trash');
    store.changeFlags(inbox, 1, ['\\Flagged'], []);
    const number = inbox.get(1)?.source ?? 0;
    expect(store.copy(inbox, 1, trash)).toBe(1);
    expect(store.copy(trash, 1, inbox)).toBe(2);
    expect(store.copy(inbox, 9, trash)).toBeNull();
    expect([trash.get(1), inbox.get(2)]).toMatchObject([
      { source: number, flags: ['\\Flagged'] },
      { source: number, flags: ['\\Flagged'] },
    ]);
    store.remove(inbox, 1);
    store.remove(inbox, 2);
    expect(store.sources.read(number)).toEqual(source('one'));
    store.remove(trash, 1);
    expect(() => store.sources.read(number)).toThrow(RangeError);
    store.close();
  });

  test('flags are the same whatever their case, and adding wins over removing', () => {
    const { store, inbox } = filled(['one']);
    expect(store.changeFlags(inbox, 1, ['\\Seen', 'Work'], [])).toEqual(['Work', '\\Seen']);
    expect(store.changeFlags(inbox, 1, ['work'], ['\\SEEN'])).toEqual(['Work']);
    expect(store.changeFlags(inbox, 1, ['work'], ['WORK'])).toEqual(['work']);
    expect(store.changeFlags(inbox, 9, ['x'], [])).toBeNull();
    expect(inbox.unread).toBe(1);
    store.close();
  });

  test('renaming and deleting a folder takes what lies below it along', () => {
    const { store, mailbox } = filled([]);
    for (const path of ['INBOX.A', 'INBOX.A.B', 'INBOX.AB']) store.createFolder(mailbox, path);
    store.add(store.folderFor(mailbox, 'INBOX.A.B'), source('deep'), RECEIVED, []);
    store.renameFolder(mailbox, 'INBOX.A', 'INBOX.C');
    expect(mailbox.folders.get('INBOX.C.B')?.count).toBe(1);
    expect(mailbox.folders.has('INBOX.AB')).toBe(true);
    store.deleteFolder(mailbox, 'INBOX.C');
    expect([...mailbox.folders.keys()].sort()).toEqual([
      'INBOX',
      'INBOX.AB',
      'INBOX.Drafts',
      'INBOX.Sent',
      'INBOX.Trash',
    ]);
    store.close();
  });

  test('a folder that is renumbered has the same messages under other uids', () => {
    const { store, inbox } = filled(['one', 'two', 'three']);
    store.remove(inbox, 2);
    store.renumber(inbox, 10);
    expect([...inbox.entries()].map(({ uid }) => uid)).toEqual([10, 11]);
    expect(store.sources.read(inbox.get(11)?.source ?? 0)).toEqual(source('three'));
    expect(inbox.unread).toBe(2);
    store.close();
  });

  test('emptying a folder and counting what is left', () => {
    const { store, mailbox, inbox } = filled(['one', 'two', 'three']);
    expect(store.usage(mailbox)).toEqual({
      messages: 3,
      bytes: source('one').length + source('two').length + source('three').length,
    });
    store.removeAll(inbox);
    expect(store.usage(mailbox)).toEqual({ messages: 0, bytes: 0 });
    expect(inbox.nextUid).toBe(4);
    store.close();
  });

  test('documents are kept by kind and id', () => {
    const { store } = filled([]);
    store.putDocument('k', 'a', { n: 1 });
    store.putDocument('k', 'b', { n: 2 });
    store.putDocument('k', 'a', { n: 3 });
    store.putDocument('other', 'a', null);
    store.removeDocument('k', 'b');
    expect([...store.documents('k')]).toEqual([['a', { n: 3 }]]);
    store.close();
  });
}
