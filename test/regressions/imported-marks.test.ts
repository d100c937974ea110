import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { importedMailbox } from '../../src/mail/identity.ts';
import { StoredArchive } from '../export/stored-archive.ts';
import { importing } from '../import/importing.ts';

const work = mkdtempSync(path.join(tmpdir(), 'mailkeep-marks-'));
afterAll(() => rmSync(work, { recursive: true, force: true }));

/** Imports an mbox of one message for each header; returns folders, flags and dates by subject. */
async function imported(
  headers: readonly string[],
  delimiter = 'From a@b Tue Mar  3 10:00:00 2020',
) {
  const file = path.join(work, 'some.mbox');
  const date = 'Date: Mon, 2 Mar 2020 09:00:00 +0000';
  writeFileSync(
    file,
    headers
      .map((header, i) => `${delimiter}\nSubject: ${i}\n${date}\n${header}\n\ntext\n\n`)
      .join(''),
  );
  const archive = await StoredArchive.create();
  try {
    const result = await importing(archive, [file]);
    const lines = [...archive.catalog.list({})];
    const bySubject = headers.map((_, i) => lines.filter(({ subject }) => subject === String(i)));
    const { folders } = archive.catalog;
    const useOf = (folder: string) =>
      folders.find({ ...importedMailbox('Backup'), folder })?.specialUse;
    const uses = ['Sent', 'Wichtig', 'Café'].map(useOf);
    return { result, bySubject, uses };
  } finally {
    archive.remove();
  }
}

it.each([
  ['X-Mozilla-Status: 0001', ['\\Seen']],
  ['X-Mozilla-Status: 0009\nX-Mozilla-Status2: 00000000', ['\\Deleted', '\\Seen']],
  ['X-Mozilla-Status: 1007', ['$Forwarded', '\\Answered', '\\Flagged', '\\Seen']],
  ['X-Mozilla-Status: 0000\nX-Mozilla-Status2: 00200000', ['\\Deleted']],
  [
    'X-Mozilla-Status: 0000\nX-Mozilla-Keys: $label1 travel                       ',
    ['$label1', 'travel'],
  ],
  ['X-Mozilla-Status: none\nX-Mozilla-Keys:', []],
  ['Status: RO\nX-Status: A\nX-Keywords: work, home', ['\\Answered', '\\Seen', 'home', 'work']],
])('reads the flags of %j', async (header, flags) => {
  const { bySubject } = await imported([header]);
  expect(bySubject[0]?.map((line) => line.flags)).toEqual([flags]);
});

it('takes the time at which Thunderbird put a message there for no date of receipt', async () => {
  const { bySubject } = await imported(['X: y'], 'From - Wed Nov 25 10:00:00 2026');
  expect(bySubject[0]?.[0]?.date).toBe('2020-03-02T09:00:00.000Z');
});

it('makes folders and flags of the labels of Gmail', async () => {
  const { result, bySubject, uses } = await imported([
    'X-Gmail-Labels: Inbox,Opened,=?UTF-8?Q?Caf=C3=A9?=',
    'X-Gmail-Labels: Sent,Starred,Unread',
    'X-Gmail-Labels: Trash',
    'X-Gmail-Labels: Archived,Opened',
    'X-Gmail-Labels: Archived,"Plans, old and new",Work/2020',
    'X-Gmail-Labels: =?UTF-8?Q?Posteingang,Wichtig,Ge=C3=B6ffnet?=\n =?UTF-8?Q?,Markiert?=',
    'X-Gmail-Labels: =?UTF-8?Q?Bo=C3=AEte_de_r=C3=A9ception,Non_lus?=',
    'X-Gmail-Labels:',
    'X-Gmail-Labels: Inbox,Inbox,INBOX',
    'X-Gmail-Labels: Drafts',
  ]);
  const places = bySubject.map((lines) =>
    lines.map(({ folder, flags }) => [folder, ...flags].join(' ')).sort(),
  );
  expect(places).toEqual([
    ['Café \\Seen', 'INBOX \\Seen'],
    ['Sent \\Flagged'],
    ['Trash \\Seen'],
    ['Archived \\Seen'],
    ['Plans, old and new \\Seen', 'Work/2020 \\Seen'],
    ['INBOX \\Flagged \\Seen', 'Wichtig \\Flagged \\Seen'],
    ['INBOX'],
    ['Archived \\Seen'],
    ['INBOX \\Seen'],
    ['Drafts \\Draft \\Seen'],
  ]);
  expect(result).toMatchObject({ messages: 10, added: 10, places: 13, known: 0, failures: [] });
  expect(uses).toEqual(['\\Sent', '\\Important', null]);
});

it('reads the keywords that Dovecot keeps in a Maildir, one table for each folder', async () => {
  const root = path.join(work, 'Maildir');
  const message = (subject: string) => `Subject: ${subject}\r\n\r\ntext\r\n`;
  const put = (folder: string, letters: string, table: string | null) => {
    const dir = path.join(root, folder);
    for (const part of ['cur', 'new', 'tmp']) mkdirSync(path.join(dir, part), { recursive: true });
    writeFileSync(path.join(dir, 'cur', `1300000000.M1.host:2,${letters}`), message(folder));
    if (table !== null) writeFileSync(path.join(dir, 'dovecot-keywords'), table);
  };
  put('', 'FSabz', '0 $Forwarded\r\n1 travel\n25 last\n26 none\n');
  put('.Other', 'Sa', '0 other\n');
  // Lines that are damaged or hostile count for nothing, and a folder without a table has no keywords.
  put('.Odd', 'abcd', `x y\n0\n1 two words\n2 \\Seen\n-1 a\n3 ${'k'.repeat(200)}\n`);
  put('.None', 'Sab', null);
  const archive = await StoredArchive.create();
  try {
    expect(await importing(archive, [root])).toMatchObject({ passedOver: 0, failures: [] });
    const flags = [...archive.catalog.list({})].map((line) => [line.folder, line.flags]);
    expect(Object.fromEntries(flags)).toEqual({
      INBOX: ['$Forwarded', '\\Flagged', '\\Seen', 'last', 'travel'],
      'INBOX.Other': ['\\Seen', 'other'],
      'INBOX.Odd': [],
      'INBOX.None': ['\\Seen'],
    });
  } finally {
    archive.remove();
  }
});
