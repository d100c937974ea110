import { createHash } from 'node:crypto';
import {
  appendFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { ZipFile } from 'yazl';
import {
  type ExportFormat,
  MANIFEST_NAME,
  MANIFEST_VERSION,
} from '../../src/transfer/export-manifest.ts';
import { ExportIndex } from '../../src/transfer/import-manifests.ts';
import { runExport } from '../../src/transfer/run-export.ts';
import { exporting, StoredArchive, sampleSources } from '../export/stored-archive.ts';
import { importing } from './importing.ts';

const FOLDERS = ['INBOX', 'INBOX.Sent', 'INBOX.Büro & Co'];
const USE = { 'INBOX.Sent': '\\Sent', 'INBOX.Büro & Co': '\\Archive' };
/** The source that is an empty line: without a manifest, nothing says that it was a message. */
const BLANK = createHash('sha256').update('\n').digest('hex');
const FLAGS = [['\\Seen', 'Rechnung'], [], ['\\Flagged', '\\Answered', '$Forwarded', 'a b']];
const LARGE = Buffer.from(
  `Subject: large\r\n\r\n${'From here\r\n'.repeat(500)}${'x'.repeat(9_000_000)}\r\nno end`,
);

let from: StoredArchive;
let work: string;
const made: StoredArchive[] = [];

beforeAll(async () => {
  work = mkdtempSync(path.join(tmpdir(), 'mailkeep-again-'));
  from = await StoredArchive.create();
  const letters = [...sampleSources(20), LARGE].map((source, i) => ({
    folder: FOLDERS[i % 3] ?? '',
    source,
    flags: FLAGS[i % 3] ?? [],
    // What neither the name in a Maildir nor a "From " line can hold.
    date: new Date(Date.UTC(2019, 0, 1 + i, 7, 30, 5, 100 + i)).toISOString(),
  }));
  await from.store(letters, { specialUse: USE });
});
afterEach(() => {
  for (const archive of made.splice(0)) archive.remove();
});
afterAll(() => {
  from.remove();
  rmSync(work, { recursive: true, force: true });
});

async function empty(): Promise<StoredArchive> {
  const archive = await StoredArchive.create();
  made.push(archive);
  return archive;
}

let exports = 0;
/** Exports everything; returns the folder or the file. */
async function exported(
  format: ExportFormat,
  options: { readonly statusHeaders?: boolean; readonly of?: StoredArchive } = {},
): Promise<string> {
  exports += 1;
  const { of = from, statusHeaders = false } = options;
  const out = path.join(work, `${exports}-${format}${format === 'zip' ? '.zip' : ''}`);
  await runExport({
    ...exporting(of, out, format),
    statusHeaders,
    sidecar: true,
  });
  return out;
}

/** All that is known of each place, but for its uid. */
function places({ catalog }: StoredArchive) {
  return [...catalog.list({})]
    .map(({ id, folder, flags, date }) => ({ id, folder, flags, date }))
    .sort((a, b) => `${a.folder} ${a.id}`.localeCompare(`${b.folder} ${b.id}`));
}

function folders({ catalog }: StoredArchive) {
  return catalog.folders
    .all({ gone: true })
    .map(({ folder, name, delimiter, specialUse }) => ({ folder, name, delimiter, specialUse }))
    .sort((a, b) => a.folder.localeCompare(b.folder));
}

/** A manifest that somebody changed, with the hash that belongs to it. */
function forged(out: string, change: (text: string) => string): void {
  const file = path.join(out, MANIFEST_NAME);
  const changed = change(readFileSync(file, 'utf8')).replace(/"sha256":"[0-9a-f]{64}"\}\n$/, '');
  const sha256 = createHash('sha256').update(changed).digest('hex');
  writeFileSync(file, `${changed}"sha256":"${sha256}"}\n`);
}

describe('an export comes back with folders, special use, flags, dates and bytes', () => {
  test.each([
    ['eml', {}],
    ['zip', {}],
    ['mbox', {}],
    ['mbox', { statusHeaders: true }],
    ['maildir', {}],
  ] as const)('%s %j', async (format, options) => {
    const out = await exported(format, options);
    const archive = await empty();
    const result = await importing(archive, [out]);
    expect(result).toMatchObject({ failures: [], passedOver: 0, added: result.messages });
    expect(result.manifests).toEqual([{ path: expect.any(String), used: true }]);
    expect(places(archive)).toEqual(places(from));
    expect(folders(archive)).toEqual(folders(from));
    expect(await importing(archive, [out])).toMatchObject({ added: 0, failures: [] });
  });

  test('also in part: the manifest may be above the path that is named', async () => {
    const out = await exported('eml');
    const archive = await empty();
    const result = await importing(archive, [path.join(out, 'anna@example.org', 'INBOX.Sent')]);
    expect(result.failures).toEqual([]);
    const sent = ({ folder }: { folder: string }) => folder === 'INBOX.Sent';
    expect(places(archive)).toEqual(places(from).filter(sent));
  });

  test('each of several mailboxes goes below a folder of its address', async () => {
    const two = await StoredArchive.create();
    made.push(two);
    const letter = (text: string) => ({ folder: 'INBOX.Sent', source: Buffer.from(text) });
    const options = { specialUse: USE };
    await two.store([letter('Subject: a\n\n')], options);
    await two.store([letter('Subject: b\n\n')], { ...options, mailbox: 'bea@example.org' });
    const archive = await empty();
    await importing(archive, [await exported('maildir', { of: two })]);
    expect(folders(archive)).toEqual(
      ['anna@example.org', 'bea@example.org'].map((address) => ({
        folder: `${address}/INBOX.Sent`,
        name: 'Sent',
        delimiter: '/',
        specialUse: '\\Sent',
      })),
    );
  });

  test('a message of a Maildir that was marked since keeps the new marks, and its keywords', async () => {
    const out = await exported('maildir');
    const cur = path.join(out, 'anna@example.org', 'cur');
    const name = readdirSync(cur).find((it) => it.endsWith(':2,S')) ?? '';
    renameSync(path.join(cur, name), path.join(cur, name.replace(/S$/, 'FT')));
    const archive = await empty();
    const result = await importing(archive, [out]);
    expect(result.failures).toEqual([]);
    expect(places(archive).filter(({ flags }) => flags.includes('\\Deleted'))).toMatchObject([
      { folder: 'INBOX', flags: ['Rechnung', '\\Deleted', '\\Flagged'] },
    ]);
  });
});

describe('a manifest that cannot be trusted', () => {
  test('a damaged one is not used, and reported', async () => {
    const out = await exported('eml');
    const [plain, damaged] = [await empty(), await empty()];
    const file = path.join(out, MANIFEST_NAME);
    writeFileSync(file, readFileSync(file, 'utf8').replace('Rechnung', 'rechnung'));
    expect(await importing(damaged, [out])).toMatchObject({
      manifests: [{ path: file, used: false }],
      failures: [{ reason: 'empty' }],
    });
    rmSync(file);
    expect(await importing(plain, [out])).toMatchObject({
      manifests: [],
      failures: [{ reason: 'empty' }],
    });
    expect(places(damaged)).toEqual(places(plain));
    expect(folders(damaged)).toEqual(folders(plain));
  });

  test('one whose paths lead out of its folder is a damaged one', async () => {
    const out = await exported('eml');
    forged(out, (text) => text.replaceAll('"path":"anna@example.org/', '"path":"../'));
    expect((await importing(await empty(), [out])).manifests).toMatchObject([{ used: false }]);
  });

  test.each(['eml', 'mbox', 'maildir'] as const)(
    '%s: what it says of other bytes is not used, and the message is named',
    async (format) => {
      const out = await exported(format);
      const inbox = places(from).filter(({ folder }) => folder === 'INBOX');
      const victim = inbox.find(({ id }) => id !== BLANK)?.id ?? '';
      forged(out, (text) => text.replaceAll(victim, 'f'.repeat(64)));
      const archive = await empty();
      const result = await importing(archive, [out]);
      expect(result.failures).toEqual([
        { path: expect.stringContaining(out), reason: 'differs-from-manifest' },
      ]);
      expect(result.added).toBe(places(from).length);
      const other = ({ id }: { id: string | null }) => id !== victim;
      expect(
        places(archive)
          .filter(({ folder }) => FOLDERS.includes(folder))
          .filter(other),
      ).toEqual(places(from).filter(other));
    },
  );

  test('names and flags without measure are cut, and no special use but a plain one is taken', async () => {
    const out = await exported('eml');
    forged(out, (text) =>
      text
        .replaceAll('"Rechnung"', `"${'x'.repeat(5_000)}","\\\\Draft"`)
        .replaceAll('"specialUse":"\\\\Sent"', `"specialUse":"\\\\Sent\\u001b[2J"`),
    );
    const archive = await empty();
    expect((await importing(archive, [out])).failures).toEqual([]);
    expect(places(archive).filter(({ folder }) => folder === 'INBOX')[0]?.flags).toEqual([
      '\\Draft',
      '\\Seen',
    ]);
    expect(folders(archive).map(({ specialUse }) => specialUse)).toEqual([null, '\\Archive', null]);
  });

  test('a zip with a damaged one is refused before anything is imported', async () => {
    const zip = await exported('zip');
    const archive = await empty();
    const bytes = readFileSync(zip);
    // The names of entries stand in a zip as they are: this one is no manifest any more.
    const renamed = Buffer.from(
      bytes.toString('latin1').replaceAll(MANIFEST_NAME, 'mailkeep-export.jsom'),
      'latin1',
    );
    const none = path.join(work, 'none.zip');
    writeFileSync(none, renamed);
    // Without a manifest, it is a zip of mail, and its sidecars are not mail.
    const plain = await importing(await empty(), [none]);
    expect(plain).toMatchObject({ failures: [{ reason: 'empty' }], manifests: [] });
    expect(plain.added).toBe(new Set(places(from).map(({ id }) => id)).size - 1);
    const cut = path.join(work, 'cut.zip');
    writeFileSync(cut, bytes.subarray(0, bytes.length - 100));
    await expect(importing(archive, [cut])).rejects.toMatchObject({ code: 'import-no-mail' });
    const forgery = new ZipFile();
    forgery.addBuffer(Buffer.from('{}\n'), MANIFEST_NAME);
    forgery.end();
    const other = path.join(work, 'forged.zip');
    writeFileSync(other, await buffer(forgery.outputStream));
    await expect(importing(archive, [other])).rejects.toMatchObject({
      code: 'import-manifest-damaged',
    });
    expect(places(archive)).toEqual([]);
  });
});

test('what the manifest lists and the folder lacks is named; what was put there is imported', async () => {
  const out = await exported('eml');
  const inbox = path.join(out, 'anna@example.org', 'INBOX');
  const [gone = ''] = readdirSync(inbox).filter((name) => name.endsWith('.eml'));
  rmSync(path.join(inbox, gone));
  writeFileSync(path.join(inbox, 'new.eml'), 'Subject: new\n\n');
  appendFileSync(path.join(out, 'notes.txt'), 'no mail');
  const archive = await empty();
  expect(await importing(archive, [out])).toMatchObject({
    added: places(from).length,
    passedOver: 1,
    failures: [{ path: path.join(inbox, gone), reason: 'listed-but-missing' }],
  });
});

/** The lines of a manifest with one list, and the hash that seals them. */
async function* manifestOf(list: 'files' | 'entries', items: readonly object[]) {
  const head = {
    mailkeep: MANIFEST_VERSION,
    format: 'eml',
    commit: { number: 0, hash: '' },
    asOf: null,
    selection: {},
  };
  const last = items.length - 1;
  const lines = [
    `${JSON.stringify(head).slice(0, -1)},`,
    `"${list}":[`,
    ...items.map((item, at) => `${JSON.stringify(item)}${at === last ? '' : ','}`),
    '],',
  ];
  const digest = createHash('sha256').update(lines.map((line) => `${line}\n`).join(''));
  yield* lines;
  yield `"sha256":"${digest.digest('hex')}"}`;
}

function fileAt(path: string): object {
  return { path, sha256: '0'.repeat(64), size: 0 };
}

function entryAt(path: string, more: object = {}): object {
  return {
    ...fileAt(path),
    mailbox: 'anna@example.org',
    host: 'mail.example.org',
    resourceId: 'r1',
    folder: 'INBOX',
    delimiter: '/',
    generation: 1,
    uid: 1,
    flags: [],
    date: null,
    firstSeen: null,
    endedAt: null,
    ...more,
  };
}

test('a file is found under either form of its accents', async () => {
  const index = await ExportIndex.read(manifestOf('files', [fileAt('a/é.json')]));
  expect(index.isOther('a/e\u0301.json')).toBe(true);
  expect(index.isOther('a/e.json')).toBe(false);
  index.close();
});

test('a path of many marks takes no longer than its length', async () => {
  const cost = async (length: number): Promise<number> => {
    const before = process.cpuUsage();
    (
      await ExportIndex.read(manifestOf('files', [fileAt(`a${'\u0301\u0323'.repeat(length / 2)}`)]))
    ).close();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1000;
  };
  await cost(100);
  const short = await cost(40_000);
  // Milliseconds; normalizing such a path in one piece takes seconds.
  expect(await cost(80_000)).toBeLessThan(3 * short + 200);
});

test('what was not met is listed for a folder, a file, or the whole export', async () => {
  const paths = ['a', 'a b/1', 'a.b', 'a/1', 'a/b/2', 'a0', '\u{10ffff}\u{10ffff}'];
  const index = await ExportIndex.read(
    manifestOf(
      'entries',
      paths.map((path) => entryAt(path)),
    ),
  );
  expect([...index.unmet('')].sort()).toEqual([...paths].sort());
  expect([...index.unmet('a')].sort()).toEqual(['a', 'a/1', 'a/b/2']);
  expect([...index.unmet('a/1')]).toEqual(['a/1']);
  const found = index.find('a/1');
  if (found !== undefined) index.meet(found);
  expect([...index.unmet('a')].sort()).toEqual(['a', 'a/b/2']);
  index.close();
});

test('a thousand files named one by one cost no more than their number', async () => {
  const cost = async (count: number): Promise<number> => {
    const paths = Array.from({ length: count }, (_, at) => `folder/${at}.eml`);
    const index = await ExportIndex.read(
      manifestOf(
        'entries',
        paths.map((path) => entryAt(path)),
      ),
    );
    const before = process.cpuUsage();
    for (const path of paths) expect([...index.unmet(path)]).toEqual([path]);
    const { user, system } = process.cpuUsage(before);
    index.close();
    return (user + system) / 1000;
  };
  await cost(100);
  const short = await cost(4_000);
  // Milliseconds; a scan of all entries for each file takes seconds.
  expect(await cost(8_000)).toBeLessThan(3 * short + 200);
});

test('names and delimiters that no service has are not taken from a manifest', async () => {
  const long = 'x'.repeat(5000);
  const index = await ExportIndex.read(
    manifestOf('entries', [
      entryAt('1.eml', { mailbox: long }),
      entryAt('2.eml', { folder: 'a/b', delimiter: long }),
    ]),
  );
  expect(index.find('1.eml')).toBeUndefined();
  const found = index.find('2.eml');
  expect(found && index.folderOf(found)).toMatchObject({
    folder: 'a/b',
    name: 'b',
    delimiter: '/',
  });
  index.close();
});
