import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { type ExportFormat, MANIFEST_NAME } from '../../src/transfer/export-manifest.ts';
import { runExport } from '../../src/transfer/run-export.ts';
import { exporting, StoredArchive } from '../export/stored-archive.ts';
import { importing } from '../import/importing.ts';

const work = mkdtempSync(path.join(tmpdir(), 'mailkeep-folders-'));
afterAll(() => rmSync(work, { recursive: true, force: true }));

let letters = 0;
const letter = (): string => {
  letters += 1;
  return `From: Ada <ada@example.org>\nTo: bob@example.org\nSubject: letter ${letters}\nDate: Tue, 3 Mar 2020 10:00:00 +0000\n\ntext ${letters}\n`;
};
const mbox = (): string => `From ada@example.org Tue Mar  3 10:00:00 2020\n${letter()}\n`;

/** Writes files into a new folder; a path that ends with a slash is a folder. */
function folderOf(files: Readonly<Record<string, string>>): string {
  const root = mkdtempSync(path.join(work, 'given-'));
  for (const [name, text] of Object.entries(files)) {
    const at = path.join(root, name);
    mkdirSync(name.endsWith('/') ? at : path.dirname(at), { recursive: true });
    if (!name.endsWith('/')) writeFileSync(at, text);
  }
  return root;
}

/** Imports paths; returns the result, and the folders of all messages with their flags. */
async function imported(...paths: readonly string[]) {
  const archive = await StoredArchive.create();
  try {
    const result = await importing(archive, paths);
    const places = [...archive.catalog.list({})]
      .map(({ folder, flags }) => [folder, ...flags].join(' '))
      .sort();
    return { result, places };
  } finally {
    archive.remove();
  }
}

const name = (part: string, info = ':2,S'): string =>
  `${part}/1583229600.M${letters}P1.host${info}`;

it.each([
  [
    'of mbsync with SubFolders Verbatim',
    {
      [`INBOX/${name('cur')}`]: letter(),
      [`Archive/${name('cur')}`]: letter(),
      [`Archive/2019/${name('new', '')}`]: letter(),
      [`Archive/2019/Q1/${name('cur')}`]: letter(),
    },
    ['Archive \\Seen', 'Archive/2019', 'Archive/2019/Q1 \\Seen', 'INBOX \\Seen'],
  ],
  [
    'of Dovecot with LAYOUT=fs, in modified UTF-7',
    {
      [name('cur')]: letter(),
      'dovecot-uidlist': '3 V1 N2\n',
      [`Entw&APw-rfe/${name('cur')}`]: letter(),
      [`Entw&APw-rfe/2020/${name('cur')}`]: letter(),
    },
    ['Entwürfe \\Seen', 'Entwürfe/2020 \\Seen', 'INBOX \\Seen'],
  ],
  [
    'of Maildir++',
    {
      [name('cur')]: letter(),
      [`.Sent.2020/${name('cur')}`]: letter(),
      [`box/.Sent/${name('cur')}`]: letter(),
      [`box/${name('cur')}`]: letter(),
    },
    ['INBOX \\Seen', 'INBOX.Sent.2020 \\Seen', 'box \\Seen', 'box/Sent \\Seen'],
  ],
  ['with cur/ alone', { [name('cur', ':2,FS')]: letter() }, ['INBOX \\Flagged \\Seen']],
  ['with new/ alone', { [`a/${name('new', '')}`]: letter() }, ['a']],
  [
    'of Thunderbird',
    { 'Inbox/tmp/': '', 'Inbox/cur/1.eml': `X-Mozilla-Status: 0005\n${letter()}` },
    ['INBOX \\Flagged \\Seen'],
  ],
])('imports Maildirs %s', async (_, files, places) => {
  const { result, places: found } = await imported(folderOf(files));
  expect(found).toEqual(places);
  expect(result).toMatchObject({ added: places.length, passedOver: 0, failures: [] });
});

it('imports MH folders with their sequences', async () => {
  const root = folderOf({
    'inbox/1': letter(),
    'inbox/2': letter(),
    'inbox/10': letter(),
    'inbox/,11': letter(),
    'inbox/.mh_sequences': 'cur: 2\nunseen: 2 5-12\nflagged: 1-2\nreplied: 10\n',
    'inbox/lists/7': letter(),
    'inbox/99': 'no mail at all',
  });
  const { result, places } = await imported(root);
  expect(places).toEqual([
    'INBOX \\Answered',
    'INBOX \\Deleted',
    'INBOX \\Flagged',
    'INBOX \\Flagged \\Seen',
    'inbox/lists',
  ]);
  expect(result).toMatchObject({ added: 5, passedOverPaths: [path.join(root, 'inbox/99')] });
});

it('imports folders of Apple Mail and Thunderbird under their names', async () => {
  const plist = (flags: number): string =>
    `<?xml version="1.0"?><plist><dict><key>date-received</key><integer>1583229600</integer><key>flags</key><integer>${flags}</integer></dict></plist>\n`;
  const emlx = (flags: number): string => {
    const text = letter();
    return `${Buffer.byteLength(text)}       \n${text}${plist(flags)}`;
  };
  const uuid = '0A1B2C3D-0000-4000-8000-0A1B2C3D4E5F';
  const root = folderOf({
    'apple/Holiday.mbox/mbox': mbox(),
    'apple/Holiday.mbox/table_of_contents': 'x',
    'apple/Work/Plans.mbox/mbox': mbox(),
    [`apple/INBOX.mbox/${uuid}/Data/Messages/1.emlx`]: emlx(1),
    [`apple/INBOX.mbox/${uuid}/Data/4/2/Messages/2.emlx`]: emlx(1 + 16 + 4),
    [`apple/INBOX.mbox/Sub.mbox/${uuid}/Data/Messages/3.partial.emlx`]: emlx(0),
    [`apple/INBOX.mbox/${uuid}/Data/Messages/4.emlx`]: '999\nFrom: a\n\ncut',
    [`apple/INBOX.mbox/${uuid}/Data/Messages/5.emlx`]: 'no length\n',
    'bird/Inbox': mbox(),
    'bird/Inbox.msf': '// <!-- <mdb:mork:z v="1.4"/> -->',
    'bird/Trash': '',
    'bird/Archives.sbd/2019': mbox(),
    'bird/Archives.sbd/2019.sbd/Q1': mbox(),
    'kmail/.work.directory/plans/cur/1583229600.1.host:2,': letter(),
  });
  const { result, places } = await imported(
    path.join(root, 'apple'),
    path.join(root, 'bird'),
    path.join(root, 'kmail'),
  );
  expect(places).toEqual([
    'Archives/2019',
    'Archives/2019/Q1',
    'Holiday',
    'INBOX',
    'INBOX',
    'INBOX \\Answered \\Flagged \\Seen',
    'INBOX \\Seen',
    'INBOX/Sub',
    'Work/Plans',
    'work/plans',
  ]);
  expect(result.failures.map(({ path: at, reason }) => [path.basename(at), reason])).toEqual([
    ['4.emlx', 'emlx-damaged'],
    ['5.emlx', 'emlx-damaged'],
    ['3.partial.emlx', 'emlx-partial'],
  ]);
  expect(result.passedOver).toBe(0);
});

it('imports messages of any name, and lists what it passes over', async () => {
  const root = folderOf({
    'saved/letter.txt': letter(),
    'saved/settings.yaml': 'from: here\nlevel: 3\n',
    'saved/notes.txt': 'From here we walked to the lake.\n',
    'saved/picture.png': '\x89PNG',
    'saved/blank.eml': ' \r\n\t\n',
    'saved/empty.eml': '',
    'saved/.hidden.eml': letter(),
    'saved/._letter.eml': 'Finder',
    'cur/1.eml': letter(),
    'new/2.eml': letter(),
  });
  symlinkSync(path.join(root, 'cur/1.eml'), path.join(root, 'saved/z-link.eml'));
  const { result, places } = await imported(root);
  expect(places).toEqual(['cur', 'new', 'saved']);
  const inSaved = (file: string): string => path.join(root, 'saved', file);
  expect(result.passedOverPaths).toEqual(
    ['.hidden.eml', 'notes.txt', 'picture.png', 'settings.yaml', 'z-link.eml'].map(inSaved),
  );
  expect(result.failures).toEqual(
    ['blank.eml', 'empty.eml'].map((file) => ({ path: inSaved(file), reason: 'empty' })),
  );
});

it('brings back exports with folders named cur, new and tmp, with and without the manifest', async () => {
  const from = await StoredArchive.create();
  await from.store(
    ['cur', 'new', 'tmp', 'Plans', 'INBOX'].map((folder) => ({
      folder,
      source: Buffer.from(letter()),
    })),
  );
  const folders = ['INBOX', 'Plans', 'cur', 'new', 'tmp'];
  for (const format of ['eml', 'mbox', 'maildir', 'zip'] satisfies ExportFormat[]) {
    const out = path.join(work, `export-${format}${format === 'zip' ? '.zip' : ''}`);
    await runExport(exporting(from, out, format));
    const { result, places } = await imported(out);
    expect(places.map((place) => place.split(' ')[0])).toEqual(folders);
    expect(result).toMatchObject({ added: 5, passedOver: 0, failures: [] });
    if (format !== 'eml' && format !== 'mbox') continue;
    rmSync(path.join(out, MANIFEST_NAME));
    expect((await imported(path.join(out, 'anna@example.org'))).result).toMatchObject({
      added: 5,
      failures: [],
    });
  }
  from.remove();
});

/** Writes a zip with Python: entries of a name, a text, and attributes. */
function zipOf(
  to: string,
  entries: readonly (readonly [name: string, text: string, link?: boolean])[],
): string {
  const code = `
import json, sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED) as z:
    for name, text, *link in json.load(sys.stdin):
        info = zipfile.ZipInfo(name)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = (0o120777 if link and link[0] else 0o100644) << 16
        z.writestr(info, text)
`;
  const { status, stderr } = spawnSync('python3', ['-c', code, to], {
    input: JSON.stringify(entries),
    encoding: 'utf8',
  });
  expect(status, stderr).toBe(0);
  return to;
}

it.runIf(spawnSync('python3', ['--version']).status === 0)(
  'imports zip files of mail within bounds, and nothing outside of them',
  async () => {
    const inner = zipOf(path.join(work, 'inner.zip'), [['deep.eml', letter()]]);
    const root = folderOf({ 'a.eml': letter() });
    const zip = zipOf(path.join(root, 'old.zip'), [
      ['saved/one.eml', letter()],
      ['Büro.mbox', mbox()],
      ['../../escaped.eml', letter()],
      ['/etc/absolute.eml', letter()],
      ['link.eml', '/etc/passwd', true],
      ['Maildir/cur/1583229600.1.host:2,S', letter()],
      ['Maildir/new/', ''],
      ['readme.txt', 'not mail'],
      ['bomb.eml', 'x'.repeat(90_000_000)],
      ['__MACOSX/saved/._one.eml', 'x'],
    ]);
    const { result, places } = await imported(root);
    expect(places).toEqual(['INBOX', 'old/Büro', 'old/Maildir \\Seen', 'old/saved']);
    expect([...result.failures].sort((a, b) => (a.path < b.path ? -1 : 1))).toEqual([
      { path: `${zip}/../../escaped.eml`, reason: 'zip-name' },
      { path: `${zip}//etc/absolute.eml`, reason: 'zip-name' },
      { path: `${zip}/bomb.eml`, reason: 'zip-bomb' },
      { path: `${zip}/link.eml`, reason: 'zip-link' },
    ]);
    expect(result.passedOverPaths).toEqual([`${zip}/readme.txt`]);
    expect((await imported(inner)).places).toEqual(['INBOX']);
    const broken = folderOf({ 'broken.zip': 'PK\x03\x04 and nothing else', 'a.eml': letter() });
    expect((await imported(broken)).result).toMatchObject({
      added: 1,
      failures: [{ path: path.join(broken, 'broken.zip'), reason: 'zip-damaged' }],
    });
  },
);
