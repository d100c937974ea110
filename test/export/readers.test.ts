import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ExportFormat } from '../../src/export/format.ts';
import { runExport } from '../../src/export/run-export.ts';
import { exporting, StoredArchive, sampleSources, sha256 } from './stored-archive.ts';

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

const has = (program: string) =>
  spawnSync('sh', ['-c', `command -v ${program}`], {
    env: { PATH: `${process.env.PATH}:/usr/sbin` },
  }).status === 0;

let archive: StoredArchive;
let work: string;
let ids: string[];
beforeAll(async () => {
  archive = await StoredArchive.create();
  work = path.join(archive.dir, 'work');
  mkdirSync(work);
  const most = process.env.MAILKEEP_CORPUS === undefined ? 200 : 2000;
  const sources = sampleSources(most);
  for (let at = 0; at < sources.length; at += 500) {
    await archive.store(
      sources.slice(at, at + 500).map((source, i) => ({
        folder: i % 3 === 0 ? 'INBOX.Büro' : 'INBOX',
        source,
        flags: i % 2 === 0 ? ['\\Seen'] : [],
      })),
    );
  }
  ids = [...archive.catalog.list({})].map(({ id }) => id ?? '').sort();
});
afterAll(() => archive.remove());

async function exported(format: ExportFormat): Promise<string> {
  const to = path.join(work, format === 'zip' ? 'mail.zip' : format);
  await runExport({ ...exporting(archive, to, format), platform: 'linux' });
  return to;
}

/** An mbox has every last line end: a source without one comes back with it. */
function endedIds(): string[] {
  return ids
    .map((id) => {
      const source = archive.sources.readMessage(id);
      return source.at(-1) === 10 ? id : sha256(Buffer.concat([source, Buffer.from('\n')]));
    })
    .sort();
}

// Programs that are absent are said to be: the project's own checks install them.
test.skipIf(!has('python3')).each(['zip', 'mbox', 'maildir'] as const)(
  'Python reads %s: equal counts, equal bytes',
  async (format) => {
    const script = path.join(work, 'reader.py');
    writeFileSync(script, READER);
    const read = spawnSync('python3', [script, format, await exported(format)], {
      encoding: 'utf8',
      maxBuffer: 1 << 28,
    });
    expect(read.stderr).toBe('');
    const found = read.stdout.trim().split('\n').sort();
    expect(found).toEqual(format === 'mbox' ? endedIds() : ids);
  },
);

test.skipIf(!has('notmuch'))('notmuch takes every message of the Maildirs', async () => {
  const to = await exported('maildir');
  const config = path.join(work, 'notmuch-config');
  writeFileSync(
    config,
    `[database]\npath=${to}\n[user]\nname=a\nprimary_email=a@example.org\n[new]\nignore=/\\.json$/\n`,
  );
  const notmuch = (...args: string[]) =>
    spawnSync('notmuch', [`--config=${config}`, ...args], { encoding: 'utf8', maxBuffer: 1 << 28 });
  const taken = notmuch('new');
  expect(taken.status).toBe(0);
  // It takes nothing without a header for mail, as some of the samples are, and names what it leaves out.
  const left = `${taken.stdout}${taken.stderr}`
    .split('\n')
    .flatMap((line) => /Ignoring non-mail file: (.+)$/.exec(line)?.[1] ?? []);
  const found = notmuch('search', '--output=files', '--exclude=false', '*')
    .stdout.trim()
    .split('\n');
  expect(left.length).toBeLessThan(ids.length / 20);
  const hashes = [...found, ...left].map((file) => sha256(readFileSync(file)));
  expect(hashes.sort()).toEqual(ids);
  // And what it hands on is what was exported: copies of a message it has under one name, of which it shows one.
  const names = notmuch('search', '--output=messages', '--exclude=false', '*')
    .stdout.trim()
    .split('\n');
  const step = Math.ceil(names.length / 40);
  for (const name of names.filter((_, n) => n % step === 0)) {
    const shown = spawnSync(
      'notmuch',
      [`--config=${config}`, 'show', '--format=raw', '--exclude=false', name],
      {
        maxBuffer: 1 << 28,
      },
    );
    expect(ids, name).toContain(sha256(shown.stdout));
  }
});
