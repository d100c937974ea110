import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { EXPORT_FORMATS, type ExportFormat } from '../../src/transfer/export-manifest.ts';
import { runExport } from '../../src/transfer/run-export.ts';
import { serveImap } from '../peers/dovecot.ts';
import { everyMessage } from '../peers/imap-client.ts';
import { absent, extendPath } from '../peers/programs.ts';
import { exporting, type Letter, StoredArchive, sampleSources, sha256 } from './stored-archive.ts';

extendPath();

/** Reads what was exported with Python's own modules, and prints the SHA-256 of every message. */
const READER = `
import hashlib, mailbox, re, sys, zipfile, pathlib
kind, at = sys.argv[1:]
def tell(data): print(hashlib.sha256(data).hexdigest())
if kind == 'zip':
    with zipfile.ZipFile(at) as z:
        assert z.testzip() is None
        for name in z.namelist():
            if name.endswith('.eml'): tell(z.read(name))
elif kind == 'eml':
    for file in pathlib.Path(at).rglob('*.eml'): tell(file.read_bytes())
elif kind == 'mbox':
    for file in pathlib.Path(at).rglob('*.mbox'):
        box = mailbox.mbox(file, create=False)
        for key in box.keys():
            tell(re.sub(rb'(?m)^>(>*From )', rb'\\1', box.get_bytes(key)))
else:
    def walk(box):
        for key in box.keys(): tell(box.get_bytes(key))
        for name in box.list_folders(): walk(box.get_folder(name))
    for root in pathlib.Path(at).iterdir():
        if root.is_dir(): walk(mailbox.Maildir(root, create=False))
`;

const FOLDERS = ['INBOX.Büro', 'INBOX', 'INBOX.Sent & paid'];
const MAX_BYTES = 1 << 30;

let archive: StoredArchive;
let work: string;
/** Every message as it was stored, once for each place. */
let letters: (Letter & { readonly id: string })[];
beforeAll(async () => {
  archive = await StoredArchive.create();
  work = mkdtempSync(path.join(tmpdir(), 'mailkeep-readers-'));
  // Dovecot reads the messages as another user.
  chmodSync(work, 0o755);
  letters = sampleSources(Number.POSITIVE_INFINITY).map((source, i) => ({
    folder: FOLDERS[i % FOLDERS.length] ?? 'INBOX',
    source,
    flags: i % 2 === 0 ? ['\\Seen'] : [],
    date: new Date(Date.UTC(2020, 0, 1) + i * 61_000).toISOString(),
    id: sha256(source),
  }));
  for (let at = 0; at < letters.length; at += 500) await archive.store(letters.slice(at, at + 500));
  console.info(`${letters.length} messages`);
  // At once, because each waits for the disk most of the time.
  await Promise.all(EXPORT_FORMATS.map(exportAll));
}, 600_000);
afterAll(() => {
  archive.remove();
  rmSync(work, { recursive: true, force: true });
});

const exportOf = (format: ExportFormat) => path.join(work, format === 'zip' ? 'mail.zip' : format);

/** Exports everything in one form. */
async function exportAll(format: ExportFormat): Promise<void> {
  const result = await runExport(exporting(archive, exportOf(format), format));
  expect(result).toMatchObject({ exported: letters.length, failures: [] });
}

/** What of two lists, each thing as often as it is there, only one has. */
function compared(found: readonly string[], wanted: readonly string[]) {
  const counts = new Map<string, number>();
  for (const one of wanted) counts.set(one, (counts.get(one) ?? 0) + 1);
  for (const one of found) counts.set(one, (counts.get(one) ?? 0) - 1);
  const only = (sign: number) =>
    [...counts].filter(([, count]) => Math.sign(count) === sign).map(([one]) => one);
  return { count: found.length, lost: only(1), foreign: only(-1) };
}
const same = () => ({ count: letters.length, lost: [], foreign: [] });

const idsOf = (change: (source: Buffer) => Buffer = (source) => source): string[] =>
  letters.map(({ source }) => sha256(change(source)));

/** An mbox has every last line end: a source without one comes back with it. */
function ended(source: Buffer): Buffer {
  return source.at(-1) === 0x0a ? source : Buffer.concat([source, Buffer.from('\n')]);
}

/** The SHA-256 of every message that Python finds there. */
function readByPython(format: ExportFormat, at: string): string[] {
  const script = path.join(work, 'reader.py');
  writeFileSync(script, READER);
  const read = spawnSync('python3', [script, format, at], {
    encoding: 'utf8',
    maxBuffer: MAX_BYTES,
  });
  expect(read.stderr).toBe('');
  return lines(read.stdout);
}

test.skipIf(absent('python3')).each(['eml', 'zip', 'mbox', 'maildir'] as const)(
  'Python reads %s: equal counts, equal bytes',
  async (format) => {
    const wanted = idsOf(format === 'mbox' ? ended : undefined);
    expect(compared(readByPython(format, exportOf(format)), wanted)).toEqual(same());
  },
  600_000,
);

/** A program's standard output; it has to end well. */
function said(program: string, args: readonly string[]): Buffer {
  return execFileSync(program, args, { maxBuffer: MAX_BYTES, stdio: ['ignore', 'pipe', 'pipe'] });
}

const lines = (text: string): string[] => text.split('\n').filter((line) => line !== '');
const hashesOf = (files: readonly string[]): string[] =>
  files.map((file) => sha256(readFileSync(file)));

/** notmuch writes an mbox line by line as strings of C: a line with a NUL ends there, and so does its line end. */
function withoutNuls(source: Buffer): Buffer {
  return Buffer.from(source.toString('latin1').replace(/\0[^\n]*(?:\n|$)/g, ''), 'latin1');
}

test.skipIf(absent('notmuch', 'python3'))(
  'notmuch takes every message of the Maildirs, and hands it on as it was exported',
  async () => {
    const to = exportOf('maildir');
    const config = path.join(work, 'notmuch-config');
    const database = path.join(work, 'notmuch');
    mkdirSync(database);
    writeFileSync(
      config,
      `[database]\npath=${database}\nmail_root=${to}\n[user]\nname=a\nprimary_email=a@example.org\n[new]\nignore=/\\.json$/\n`,
    );
    const notmuch = (...args: string[]) => said('notmuch', [`--config=${config}`, ...args]);
    const taken = spawnSync('notmuch', [`--config=${config}`, 'new'], { encoding: 'utf8' });
    expect(taken.status).toBe(0);
    // It takes nothing without a header for mail, as some of the samples are, and names what it leaves out.
    const left = lines(`${taken.stdout}${taken.stderr}`).flatMap(
      (line) => /Ignoring non-mail file: (.+)$/.exec(line)?.[1] ?? [],
    );
    expect(left.length).toBeLessThan(letters.length / 20);
    const found = lines(notmuch('search', '--output=files', '--exclude=false', '*').toString());
    expect(compared(hashesOf([...found, ...left]), idsOf())).toEqual(same());

    // Of messages under one Message-ID it shows one.
    const names = lines(notmuch('search', '--output=messages', '--exclude=false', '*').toString());
    const shownIn = path.join(work, 'notmuch-shows');
    mkdirSync(shownIn);
    writeFileSync(
      path.join(shownIn, 'all.mbox'),
      notmuch('show', '--format=mbox', '--exclude=false', '*'),
    );
    const shown = readByPython('mbox', shownIn);
    console.info(
      `notmuch: ${found.length} files, ${names.length} messages, ${left.length} no mail`,
    );
    expect(shown).toHaveLength(names.length);
    const known = new Set(idsOf((source) => ended(withoutNuls(source))));
    expect(shown.filter((id) => !known.has(id))).toEqual([]);
  },
  600_000,
);

test.skipIf(absent('mu'))(
  'mu takes every message of the Maildirs',
  async () => {
    const to = exportOf('maildir');
    const home = `--muhome=${path.join(work, 'mu')}`;
    said('mu', ['init', home, `--maildir=${to}`]);
    said('mu', ['index', home, '--quiet']);
    const found = lines(said('mu', ['find', home, '--fields=l', '']).toString());
    // What does not begin with a header is no mail to it, and named in its log.
    const log = readFileSync(path.join(work, 'mu', 'log', 'mu.log'), 'utf8');
    const left = [...log.matchAll(/failed to create message from (.+): message seems invalid$/gm)];
    console.info(`mu: ${found.length} files, ${left.length} no mail`);
    expect(left.length).toBeLessThan(letters.length / 20);
    const all = [...found, ...left.map(([, file = '']) => file)];
    expect(compared(hashesOf(all), idsOf())).toEqual(same());
  },
  600_000,
);

/** IMAP has no line end but CRLF, and no NUL in a literal (RFC 9051, section 4.3); Dovecot has 0x80 in its place. */
function overImap(source: Buffer): Buffer {
  const text = source.toString('latin1');
  return Buffer.from(text.replace(/(?<!\r)\n/g, '\r\n').replaceAll('\0', '\x80'), 'latin1');
}

test.skipIf(absent('dovecot'))(
  'a mail client has every message of the Maildirs from Dovecot, in its folder, with its date and flags',
  async () => {
    const to = exportOf('maildir');
    const base = path.join(work, 'dovecot');
    mkdirSync(base);
    const server = await serveImap(base, path.join(to, 'anna@example.org'), (child) =>
      process.once('exit', () => child.kill()),
    );
    const found: string[] = [];
    try {
      for await (const { folder, flags, date, source } of everyMessage(server))
        found.push(`${sha256(source)} ${folder} ${date} ${flags.has('\\Seen')}`);
    } finally {
      await server.stop();
    }
    const stored = letters.map(({ folder, source, flags, date }) => {
      const at = folder === 'INBOX' ? folder : folder.slice('INBOX.'.length);
      const second = `${(date ?? '').slice(0, 19)}.000Z`;
      return `${sha256(overImap(source))} ${at} ${second} ${flags?.includes('\\Seen') ?? false}`;
    });
    expect(compared(found, stored)).toEqual(same());
  },
  600_000,
);
