import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { isImported } from '../../src/mail/identity.ts';
import { type ExportFormat, MANIFEST_NAME } from '../../src/transfer/export-manifest.ts';
import { findMail } from '../../src/transfer/find-mail.ts';
import { runExport } from '../../src/transfer/run-export.ts';
import { jsonLines, mailkeep } from '../cli/child.ts';
import { exporting, StoredArchive, sampleSources, tree } from '../export/stored-archive.ts';
import { importing } from './importing.ts';

let from: StoredArchive;
let work: string;
const sources = sampleSources(30);

beforeAll(async () => {
  work = mkdtempSync(path.join(tmpdir(), 'mailkeep-import-'));
  from = await StoredArchive.create();
  await from.store(
    sources.map((source, i) => ({
      folder: ['INBOX', 'INBOX.Sent', 'INBOX.Büro & Co'][i % 3] ?? '',
      source,
      flags: [['\\Seen'], [], ['\\Flagged', '\\Answered']][i % 3] ?? [],
    })),
  );
});
afterAll(() => {
  from.remove();
  rmSync(work, { recursive: true, force: true });
});

/** Folder (its last part), flags, date and id of every place. */
function places(archive: StoredArchive) {
  return [...archive.catalog.list({})]
    .map(({ id, folder, flags, date }) => ({
      id,
      folder: folder.replace(/^.*\//, ''),
      flags,
      date,
    }))
    .sort((a, b) => `${a.folder} ${a.id}`.localeCompare(`${b.folder} ${b.id}`));
}

describe('what an export wrote, without its manifest', () => {
  const blank = createHash('sha256').update('\n').digest('hex');
  const exported = () => places(from).filter(({ id }) => id !== blank);
  const back = async (format: ExportFormat, options: { statusHeaders?: boolean } = {}) => {
    const out = path.join(work, format);
    await runExport({ ...exporting(from, out, format), ...options });
    // What such a folder is worth without its manifest.
    rmSync(path.join(out, MANIFEST_NAME));
    const archive = await StoredArchive.create();
    const result = await importing(archive, [path.join(out, 'anna@example.org')]);
    // One of the sources is an empty line: without the manifest, nothing says that it was a message.
    const failures = [{ reason: 'empty' }];
    expect(result).toMatchObject({ added: new Set(sources.map(String)).size - 1, failures });
    const again = await importing(archive, [path.join(out, 'anna@example.org')]);
    expect(again).toMatchObject({ added: 0, known: again.messages, messages: result.messages });
    return archive;
  };

  it('as Maildir comes back with bytes, folders, flags and dates', async () => {
    const archive = await back('maildir');
    expect(places(archive)).toEqual(exported());
    expect(archive.catalog.folders.mailboxes().every(isImported)).toBe(true);
    archive.remove();
  });

  it('as .eml files comes back with bytes and folders', async () => {
    const archive = await back('eml');
    const bare = (it: ReturnType<typeof places>) => it.map(({ id, folder }) => ({ id, folder }));
    expect(bare(places(archive))).toEqual(bare(exported()));
    archive.remove();
  });

  it('as mbox comes back with folders and dates, and bytes but for a last line without end', async () => {
    const archive = await back('mbox');
    const whole = new Set(
      [...from.catalog.list({})]
        .map(({ id }) => id ?? '')
        .filter((id) => from.sources.readMessage(id).at(-1) === 10),
    );
    const ending = (it: ReturnType<typeof places>) =>
      it
        .filter(({ id }) => whole.has(id ?? ''))
        .map(({ id, folder, date }) => ({ id, folder, date: date?.slice(0, 19) }));
    expect(ending(places(archive))).toEqual(ending(exported()));
    archive.remove();
  });
});

describe('an import', () => {
  it('reads flags that mbox programs keep in the messages', async () => {
    const file = path.join(work, 'Old mail');
    writeFileSync(
      file,
      'From a@b Sun Mar  1 09:41:07 2015\nStatus: RO\nX-Status: AF\nX-Keywords: Work\nSubject: x\n\n>From y\n\n',
    );
    const archive = await StoredArchive.create();
    await importing(archive, [file]);
    const [place] = archive.catalog.list({});
    expect(place).toMatchObject({
      mailbox: 'Backup',
      folder: 'Old mail',
      flags: ['Work', '\\Answered', '\\Flagged', '\\Seen'],
      date: '2015-03-01T09:41:07.000Z',
      subject: 'x',
    });
    archive.remove();
  });

  it('that is interrupted resumes, and leaves the files alone', async () => {
    const folder = path.join(work, 'many');
    mkdirSync(folder);
    for (let i = 0; i < 300; i += 1)
      writeFileSync(path.join(folder, `${i}.eml`), `Subject: ${i}\n\n`);
    writeFileSync(path.join(folder, 'notes.txt'), 'no mail');
    const before = tree(folder);
    const archive = await StoredArchive.create();
    const stopped = await importing(archive, [folder], 'Backup', AbortSignal.abort());
    expect(stopped).toMatchObject({ interrupted: true, added: 0 });
    expect(await importing(archive, [folder])).toMatchObject({ added: 300, passedOver: 1 });
    expect(await importing(archive, [folder], 'backup')).toMatchObject({ added: 0, known: 300 });
    expect(await importing(archive, [folder], 'Another')).toMatchObject({ added: 300 });
    expect(tree(folder)).toEqual(before);
    archive.remove();
  });

  it('names what cannot be read, and imports the rest', async () => {
    const folder = path.join(work, 'vanishing');
    const message = 'From a@b Sun Mar  1 09:41:07 2015\nSubject: x\n\n\n';
    const files = ['a.eml', 'gone/in it.eml', 'maildir/cur/1', 'maildir/new/2', 'mbox', 'z.eml'];
    for (const file of [...files, 'maildir/.Sent/cur/3', 'maildir/.Sent/new/4']) {
      mkdirSync(path.join(folder, path.dirname(file)), { recursive: true });
      writeFileSync(path.join(folder, file), file === 'mbox' ? message : `Subject: ${file}\n\n`);
    }
    const archive = await StoredArchive.create();
    let messages = 0;
    const result = await importing(archive, [folder], 'Backup', undefined, () => {
      messages += 1;
      // A file that existed when its folder was listed is gone when it is read.
      if (messages === 1) rmSync(path.join(folder, 'gone'), { recursive: true });
      if (messages === 2) rmSync(path.join(folder, 'maildir/new'), { recursive: true });
      if (messages === 3) rmSync(path.join(folder, 'mbox'));
    });
    const failures = ['gone', 'maildir/new', 'mbox'].map((name) => ({
      path: path.join(folder, name),
      reason: 'ENOENT',
    }));
    expect(result).toMatchObject({ added: 5, failures });
    expect([...archive.catalog.list({})].map(({ subject }) => subject).sort()).toEqual([
      'a.eml',
      'maildir/.Sent/cur/3',
      'maildir/.Sent/new/4',
      'maildir/cur/1',
      'z.eml',
    ]);
    archive.remove();
  });

  it('names an mbox that is none, and what lies before its first message', async () => {
    const folder = path.join(work, 'mboxes');
    mkdirSync(folder);
    const message = 'From a@b Sun Mar  1 09:41:07 2015\nSubject: x\n\nText.\n';
    const mboxes = {
      'cut.mbox': `the rest of a line\n\n${message}`,
      'empty.mbox': '',
      'lines.mbox': `\n\r\n${message}`,
      'none.mbox': 'Subject: one\n\nHere.\nFrom here on.\n',
    };
    for (const [name, text] of Object.entries(mboxes)) {
      writeFileSync(path.join(folder, name), text);
    }
    const archive = await StoredArchive.create();
    expect(await importing(archive, [folder])).toMatchObject({
      messages: 2,
      failures: [
        { path: path.join(folder, 'cut.mbox'), reason: 'bytes-before-from-line' },
        { path: path.join(folder, 'none.mbox'), reason: 'no-from-line' },
      ],
    });
    archive.remove();
  });

  it('leaves nothing in the spool folder when it fails', async () => {
    const file = path.join(work, 'large.mbox');
    const line = `${'x'.repeat(99)}\n`;
    writeFileSync(file, `From a@b Sun Mar  1 09:41:07 2015\n\n${line.repeat(90_000)}`);
    const archive = await StoredArchive.create();
    const spooled: string[][] = [];
    const failing = importing(archive, [file], 'Backup', undefined, () => {
      spooled.push(readdirSync(path.join(archive.dir, 'tmp')));
      throw new Error('nobody listens');
    });
    await expect(failing).rejects.toThrow('nobody listens');
    expect(spooled).toEqual([['import-1']]);
    expect(readdirSync(path.join(archive.dir, 'tmp'))).toEqual([]);
    archive.remove();
  });

  it('takes no name of a mirrored mailbox, and no path that is not there', async () => {
    await expect(importing(from, [work], 'ANNA@example.org')).rejects.toMatchObject({
      code: 'import-name-taken',
    });
    await expect(importing(from, [path.join(work, 'nowhere')])).rejects.toMatchObject({
      code: 'import-unreadable',
    });
  });

  it('takes nothing for a message that does not begin like one, unless its name says so', async () => {
    const named = (name: string, content: string | Buffer) => {
      const file = path.join(work, name);
      writeFileSync(file, content);
      return file;
    };
    const zip = named('mail.zip', Buffer.from('PK\x03\x04 whatever: it is', 'latin1'));
    for (const other of [zip, named('config.json', '{"dataDir": "x"}'), named('empty', '')]) {
      await expect(
        importing(from, [named('a.txt', 'Subject: a\n\na\n'), other]),
      ).rejects.toMatchObject({
        code: 'import-no-mail',
        facts: { path: other },
      });
    }
    const taken = [
      'Subject: b\r\n\r\nb',
      '\r\nReceived: c\r\n\r\n',
      '\u00ef\u00bb\u00bfX-Own_Field : d\n',
    ];
    const files = taken.map((text, i) => named(`taken${i}`, Buffer.from(text, 'latin1')));
    const odd = named('odd.eml', 'no header at all');
    expect(await importing(from, [...files, odd], 'odd ones')).toMatchObject({ added: 4 });
  });
});

it('lists the files that it passes over', async () => {
  const folder = path.join(work, 'not all mail');
  mkdirSync(folder);
  const write = (file: string): string => {
    const at = path.join(folder, file);
    writeFileSync(at, 'no mail');
    return at;
  };
  writeFileSync(path.join(folder, 'a.eml'), 'a message by its name');
  const others = [write('note.txt'), write('picture.png')];
  const archive = await StoredArchive.create();
  const result = await importing(archive, [folder]);
  expect(result).toMatchObject({ files: 1, added: 1, passedOver: 2, failures: [] });
  expect(result.passedOverPaths).toEqual(others);
  for (let i = 0; i < 20; i += 1) write(`${i}.txt`);
  const again = await importing(archive, [folder]);
  expect(again).toMatchObject({ known: 1, passedOver: 22 });
  expect(again.passedOverPaths).toHaveLength(22);
  archive.remove();
});

it('follows no link to a folder of mail, those of a Maildir included', () => {
  const outside = path.join(work, 'outside');
  const given = path.join(work, 'linked');
  for (const part of ['cur', 'new']) {
    mkdirSync(path.join(outside, part), { recursive: true });
    writeFileSync(path.join(outside, part, '1700000000.1.host'), 'Subject: secret\n\n');
    mkdirSync(path.join(given, 'box'), { recursive: true });
    symlinkSync(path.join(outside, part), path.join(given, 'box', part));
  }
  expect([...findMail(given)]).toEqual(
    ['cur', 'new'].map((part) => ({
      path: path.join(given, 'box', part),
      kind: 'other',
      inExport: null,
    })),
  );
});

describe('the command', () => {
  const work = mkdtempSync(path.join(tmpdir(), 'mailkeep-dry-run-'));
  const data = path.join(work, 'data');
  const mail = path.join(work, 'mail');

  beforeAll(() => {
    mkdirSync(path.join(mail, 'Work'), { recursive: true });
    for (const name of ['a.eml', 'Work/b.eml', 'Work/c.eml'])
      writeFileSync(path.join(mail, name), `Subject: ${name}\n\ntext\n`);
    writeFileSync(path.join(mail, 'notes.txt'), 'no mail');
  });
  afterAll(() => rmSync(work, { recursive: true, force: true }));

  it('shows what an import would do, by folder, and writes nothing', async () => {
    const line = ['import', mail, '--data', data, '--dry-run'];
    const { code, stdout } = await mailkeep([...line, '--json']);
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({
      ...{ dryRun: true, messages: 3, added: 3, undated: 3, passedOver: 1 },
      folders: [
        { folder: 'Work', added: 2, known: 0 },
        { folder: 'INBOX', added: 1, known: 0 },
      ],
    });
    expect(existsSync(data)).toBe(false);
    rmSync(path.join(mail, 'notes.txt'));
    expect((await mailkeep(['import', path.join(mail, 'Work'), '--data', data])).code).toBe(0);
    const stored = () => new Map([...tree(data)].filter(([name]) => !/-(?:shm|wal)$/.test(name)));
    const before = stored();
    const again = await mailkeep(line);
    expect(again).toMatchObject({ code: 0, stdout: expect.stringMatching(/^would import 3 /) });
    expect(again.stdout).toMatch(/ {2}INBOX: 1 message\n/);
    expect(stored()).toEqual(before);
  });

  /** Runs a command on a terminal of its own, and ends with its exit code. */
  const ON_TERMINAL = [
    'python3',
    '-c',
    'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))',
  ];

  it.runIf(spawnSync('python3', ['--version']).status === 0)(
    'asks on a terminal above a hundred messages, unless --yes says so',
    async () => {
      const many = path.join(work, 'many.mbox');
      const one = (n: number) => `From a@b Sun Mar  1 09:41:07 2015\nSubject: ${n}\n\ntext\n\n`;
      writeFileSync(many, Array.from({ length: 101 }, (_, n) => one(n)).join(''));
      const line = ['import', many, '--data', path.join(work, 'asked')];
      const refused = await mailkeep(line, { under: ON_TERMINAL, input: 'n\n' });
      expect(refused.stdout).toContain('Import 101 messages into the mailbox imported?');
      expect(refused.code).toBe(130);
      expect(existsSync(path.join(work, 'asked'))).toBe(false);
      const sure = await mailkeep([...line, '--yes'], { under: ON_TERMINAL });
      expect(sure.stdout).not.toContain('Import 101');
      expect(sure.code).toBe(0);
      expect((await mailkeep(line)).stdout).toMatch(/101 messages were there already/);
    },
  );
});

describe('names that are not UTF-8', () => {
  /** Names as old disks hold them: "Büro" and "é" in Latin-1. */
  const BUREAU = Buffer.from('B\xfcro', 'latin1');
  const ACUTE = Buffer.from('\xe9', 'latin1');

  let work: string;
  const bytes = (...parts: (string | Buffer)[]) =>
    Buffer.concat(parts.map((it) => Buffer.from(it)));

  beforeAll(() => {
    work = mkdtempSync(path.join(tmpdir(), 'mailkeep-bytes-'));
  });
  afterAll(() => rmSync(work, { recursive: true, force: true }));

  // macOS and Windows refuse such names.
  test.runIf(process.platform === 'linux')(
    'files and folders whose names are not UTF-8 are imported, and shown escaped',
    async () => {
      const from = path.join(work, 'old');
      const bureau = bytes(from, '/', BUREAU);
      mkdirSync(bureau, { recursive: true });
      writeFileSync(bytes(bureau, '/', ACUTE, '.eml'), 'Subject: letter\n\n');
      writeFileSync(
        bytes(bureau, '/', ACUTE, '.mbox'),
        'From a@b Sun Mar  1 09:41:07 2015\nSubject: in mbox\n\n',
      );
      writeFileSync(bytes(bureau, '/none-', ACUTE, '.mbox'), 'no mail\n');
      const maildir = bytes(from, '/m', ACUTE);
      for (const part of ['cur', 'new']) mkdirSync(bytes(maildir, '/', part), { recursive: true });
      writeFileSync(bytes(maildir, '/cur/1600000000.', ACUTE, ':2,S'), 'Subject: in maildir\n\n');
      writeFileSync(
        bytes(bureau, '/large-', ACUTE, '.eml'),
        `Subject: large\n\n${'x'.repeat(9 * 1024 * 1024)}`,
      );
      const data = path.join(work, 'data');
      const { code, stdout } = await mailkeep(['import', from, '--data', data, '--json']);
      expect(code).toBe(1);
      expect(JSON.parse(stdout)).toMatchObject({
        added: 4,
        failures: [{ path: path.join(from, 'B\\xFCro/none-\\xE9.mbox'), reason: 'no-from-line' }],
      });
      const list = await mailkeep(['list', '--data', data, '--json']);
      const places = jsonLines(list.stdout);
      expect(places).toEqual(
        expect.arrayContaining([
          expect.objectContaining({ subject: 'letter', folder: 'B\\xFCro' }),
          expect.objectContaining({ subject: 'large', folder: 'B\\xFCro' }),
          expect.objectContaining({ subject: 'in mbox', folder: 'B\\xFCro/\\xE9' }),
          expect.objectContaining({ subject: 'in maildir', folder: 'm\\xE9', flags: ['\\Seen'] }),
        ]),
      );
    },
  );

  test.runIf(process.platform === 'linux')(
    'a name on the command line that is not UTF-8 is found, though Node.js reads it as another',
    async () => {
      const from = path.join(work, 'named');
      mkdirSync(from);
      writeFileSync(bytes(from, '/', ACUTE, '.eml'), 'Subject: named\n\n');
      writeFileSync(bytes(from, '/\u00e8.eml'), 'Subject: another\n\n');
      const data = path.join(work, 'data-named');
      const given = ['import', '--data', data, '--json'];
      // The shell makes the byte, which a text cannot hold.
      const shell = ['/bin/sh', '-c', 'exec "$@" "$(printf "%s/\\351.eml" "$FROM")"', 'sh'];
      const { code, stdout } = await mailkeep(given, { env: { FROM: from }, under: shell });
      expect([code, JSON.parse(stdout)]).toMatchObject([0, { added: 1, failures: [] }]);
      const gone = ['/bin/sh', '-c', 'exec "$@" "$(printf "%s/\\352\\352.eml" "$FROM")"', 'sh'];
      expect((await mailkeep(given, { env: { FROM: from }, under: gone })).code).toBe(2);
    },
  );
});
