import {
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { checkExport } from '../../src/transfer/check-export.ts';
import { linesOf } from '../../src/transfer/export-target.ts';
import { runExport } from '../../src/transfer/run-export.ts';
import {
  EVERYTHING,
  exporting,
  type Letter,
  StoredArchive,
  sampleSources,
  sha256,
  tree,
} from './stored-archive.ts';

const signal = new AbortController().signal;
let archive: StoredArchive;
let first: number;
let work: string;
let number = 0;
const fresh = (name = 'out'): string => {
  number += 1;
  return path.join(work, `${number}-${name}`);
};
const check = (at: string) => checkExport({ at, signal });

const sources = sampleSources(40);
const letters: Letter[] = sources.map((source, i) => ({
  folder: ['INBOX', 'INBOX.Sent', 'INBOX.Büro & Co', 'Archive'][i % 4] ?? 'INBOX',
  source,
  flags: [['\\Seen'], [], ['\\Flagged', '\\Answered', 'Work'], ['\\Seen', '\\Draft']][i % 4] ?? [],
}));

beforeAll(async () => {
  archive = await StoredArchive.create();
  work = path.join(archive.dir, 'work');
  mkdirSync(work);
  first = await archive.store(letters);
  await archive.store([{ folder: 'INBOX', source: Buffer.from('Subject: late\n\nlater\n') }], {
    ended: [{ folder: 'INBOX', uid: 1 }],
  });
  await archive.store([{ folder: 'Lists/a.b', source: sources[0] ?? Buffer.alloc(0) }], {
    mailbox: 'office@example.org',
    delimiter: '/',
  });
});
afterAll(() => archive.remove());

const messages = (folder: string, ending: RegExp) =>
  [...tree(folder)].filter(([name]) => ending.test(name));

describe('an export as .eml files', () => {
  it('has every current place once, bit for bit, and checks clean', async () => {
    const to = fresh();
    const result = await runExport(exporting(archive, to, 'eml'));
    const places = [...archive.catalog.list({})];
    expect(result).toMatchObject({ exported: places.length, skipped: 0, failures: [] });
    const files = messages(to, /\.eml$/);
    expect(files.map(([, bytes]) => sha256(bytes)).sort()).toEqual(
      places.map(({ id }) => id).sort(),
    );
    for (const { mailbox, folder } of places) {
      expect(files.some(([name]) => name.startsWith(`${mailbox}/${folder.split('/')[0]}`))).toBe(
        true,
      );
    }
    expect(await check(to)).toMatchObject({ sound: true, found: 0, messages: places.length });
  });

  it('gives the same names and bytes every time, and does nothing where all is there', async () => {
    const [one, two] = [fresh(), fresh()];
    await runExport(exporting(archive, one, 'eml'));
    await runExport(exporting(archive, two, 'eml'));
    expect(tree(two)).toEqual(tree(one));
    const again = await runExport(exporting(archive, one, 'eml'));
    expect(again).toMatchObject({ exported: 0, skipped: again.places });
    expect(tree(one)).toEqual(tree(two));
  });

  it('exports moments: as of the first commit, and what has ended since', async () => {
    const [then, ended] = [fresh(), fresh()];
    const of = (selection: Partial<typeof EVERYTHING>, to: string) =>
      runExport({ ...exporting(archive, to, 'eml'), selection: { ...EVERYTHING, ...selection } });
    expect(await of({ asOf: first }, then)).toMatchObject({
      exported: letters.length,
      asOf: { number: 1, time: new Date(first).toISOString() },
    });
    expect(await of({ deleted: true }, ended)).toMatchObject({ exported: 1 });
    expect(messages(ended, /\.eml$/).map(([, bytes]) => bytes)).toEqual([sources[0]]);
  });

  it('takes a query, a folder or a mailbox', async () => {
    const of = async (selection: Partial<typeof EVERYTHING>) =>
      (
        await runExport({
          ...exporting(archive, fresh(), 'eml'),
          selection: { ...EVERYTHING, ...selection },
        })
      ).exported;
    const query = (text: string) => ({ text, node: parseQuery(text, { now: first }).node });
    expect(await of({ folders: ['INBOX.Sent'] })).toBe(
      letters.filter(({ folder }) => folder === 'INBOX.Sent').length,
    );
    expect(await of({ mailboxes: ['OFFICE@example.org'] })).toBe(1);
    expect(await of({ query: query('is:starred') })).toBe(
      letters.filter(({ flags }) => flags?.includes('\\Flagged')).length,
    );
    expect(await of({ query: query('folder:nowhere') })).toBe(0);
  });

  it('adds what is new, and keeps what was renamed or ended', async () => {
    const to = fresh();
    const then = { ...exporting(archive, to, 'eml'), selection: { ...EVERYTHING, asOf: first } };
    await runExport(then);
    const result = await runExport({ ...exporting(archive, to, 'eml'), incremental: true });
    expect(result).toMatchObject({ exported: 2, skipped: letters.length - 1, kept: 1 });
    expect(messages(to, /\.eml$/)).toHaveLength(letters.length + 2);
    expect(await check(to)).toMatchObject({ sound: true, found: 0, messages: letters.length + 2 });
  });

  it('writes places, flags and history next to each message', async () => {
    const to = fresh();
    await runExport({ ...exporting(archive, to, 'eml'), sidecar: true });
    const [name, bytes] = messages(to, /late.*\.json$|Letter.*\.json$/)[0] ?? ['', Buffer.alloc(0)];
    const sidecar = JSON.parse(bytes.toString());
    expect(sha256(readFileSync(path.join(to, name.replace(/json$/, 'eml'))))).toBe(sidecar.id);
    expect(sidecar.history[0]).toMatchObject({ event: 'appeared', commit: expect.any(Number) });
    expect(sidecar.places).not.toEqual([]);
    expect(await check(to)).toMatchObject({ sound: true, found: 0 });
  });

  it('rewrites what was changed, and touches no folder of somebody else', async () => {
    const to = fresh();
    await runExport(exporting(archive, to, 'eml'));
    const [name = ''] = messages(to, /\.eml$/)[0] ?? [];
    writeFileSync(path.join(to, name), 'changed');
    expect(await check(to)).toMatchObject({
      sound: false,
      findings: [{ kind: 'changed', path: name }],
    });
    expect(await runExport(exporting(archive, to, 'eml'))).toMatchObject({ exported: 1 });
    expect(await check(to)).toMatchObject({ sound: true, found: 0 });
    await expect(runExport(exporting(archive, to, 'mbox'))).rejects.toMatchObject({
      code: 'export-format-differs',
    });
    await expect(runExport(exporting(archive, archive.dir, 'eml'))).rejects.toMatchObject({
      code: 'export-target-foreign',
    });
  });
});

describe('what an export says about itself', () => {
  it('names what is missing, changed or put there', async () => {
    for (const format of ['eml', 'mbox', 'maildir'] as const) {
      const to = fresh();
      await runExport(exporting(archive, to, format));
      const files = messages(to, /\.(eml|mbox)$|cur\//);
      const [gone = '', changed = ''] = [files[0]?.[0], files[1]?.[0]];
      rmSync(path.join(to, gone));
      const bytes = readFileSync(path.join(to, changed));
      bytes[bytes.length - 2] = (bytes[bytes.length - 2] ?? 0) ^ 1;
      writeFileSync(path.join(to, changed), bytes);
      writeFileSync(path.join(to, 'stranger.txt'), '');
      const { sound, findings } = await check(to);
      expect(sound).toBe(false);
      const pathsOf = (kind: string) =>
        findings.filter((it) => it.kind === kind).map((it) => it.path);
      expect(new Set(pathsOf('missing'))).toEqual(new Set([gone]));
      expect(new Set(pathsOf('changed'))).toEqual(new Set([changed]));
      expect(pathsOf('unlisted')).toEqual(['stranger.txt']);
    }
  });

  it('notices a manifest of which any byte is another', async () => {
    const to = fresh();
    await runExport(exporting(archive, to, 'mbox'));
    const manifest = path.join(to, 'mailkeep-export.json');
    const whole = readFileSync(manifest);
    for (let at = 0; at < whole.length; at += 97) {
      const bytes = Buffer.from(whole);
      bytes[at] = (bytes[at] ?? 0) ^ 1;
      writeFileSync(manifest, bytes);
      expect(
        (await check(to)).findings.some(({ kind }) => kind === 'manifest'),
        `${at}`,
      ).toBe(true);
    }
    writeFileSync(manifest, whole.subarray(0, whole.length - 80));
    expect(await check(to)).toMatchObject({ sound: false });
  });

  it('counts and names what has no bytes', async () => {
    const other = await StoredArchive.create();
    await other.store([{ folder: 'INBOX', source: Buffer.from('Subject: a\n\n') }], {
      quarantined: [{ folder: 'INBOX', uid: 77 }],
    });
    for (const format of ['eml', 'zip', 'mbox', 'maildir'] as const) {
      const to = path.join(other.dir, `out-${format}`);
      const result = await runExport(exporting(other, to, format));
      expect(result).toMatchObject({
        places: 2,
        exported: 1,
        quarantined: 1,
        failures: [{ id: null, folder: 'INBOX', uid: 77, reason: 'quarantined' }],
      });
      expect(await check(to)).toMatchObject({ sound: true, lacking: 1 });
    }
    other.remove();
  });
});

describe('a Maildir', () => {
  it('has flags in its names, received dates as times, and Maildir++ folders', async () => {
    const to = fresh();
    await runExport({ ...exporting(archive, to, 'maildir'), sidecar: true });
    for (const place of archive.catalog.list({ mailbox: 'anna@example.org' })) {
      const folder = {
        INBOX: '',
        'INBOX.Sent': '.Sent',
        'INBOX.Büro & Co': '.B&APw-ro &- Co',
        Archive: '.Archive',
      };
      const dir = path.join(to, place.mailbox, Reflect.get(folder, place.folder), 'cur');
      const [name = ''] = [...tree(dir).keys()].filter((it) =>
        it.includes(`${place.id?.slice(0, 16)}U${place.uid}G`),
      );
      const letters = place.flags.flatMap(
        (flag) =>
          ({ '\\Seen': 'S', '\\Flagged': 'F', '\\Answered': 'R', '\\Draft': 'D' })[flag] ?? [],
      );
      expect(name.split(':2,')[1]).toBe(letters.sort().join(''));
      expect(statSync(path.join(dir, name)).mtime.toISOString()).toBe(place.date);
    }
    expect([...tree(to).keys()].filter((name) => !/cur\/|\.json$/.test(name))).toEqual([]);
    expect(await check(to)).toMatchObject({ sound: true, found: 0 });
  });

  it('that a mail program has marked since is whole all the same', async () => {
    const to = fresh();
    await runExport(exporting(archive, to, 'maildir'));
    const [name = '', bytes] = messages(to, /cur\//)[0] ?? [];
    rmSync(path.join(to, name));
    writeFileSync(path.join(to, name.replace(/:2,.*$/, ':2,FS')), bytes ?? '');
    expect(await check(to)).toMatchObject({ sound: true, found: 0 });
  });
});

describe('an mbox', () => {
  it('grows by what is new, and starts again where a run was cut off', async () => {
    const to = fresh();
    await runExport({
      ...exporting(archive, to, 'mbox'),
      selection: { ...EVERYTHING, asOf: first },
    });
    const inbox = path.join(to, 'anna@example.org/INBOX.mbox');
    const before = readFileSync(inbox);
    const more = { ...exporting(archive, to, 'mbox'), incremental: true };
    await runExport(more);
    const grown = readFileSync(inbox);
    expect(grown.subarray(0, before.length)).toEqual(before);
    expect(grown.length).toBeGreaterThan(before.length);
    expect(await check(to)).toMatchObject({ sound: true, found: 0 });
    expect(await runExport(more)).toMatchObject({ exported: 0 });
    expect(readFileSync(inbox)).toEqual(grown);
    writeFileSync(inbox, Buffer.concat([Buffer.from('x'), grown]));
    await archive.store([{ folder: 'INBOX', source: Buffer.from('Subject: latest\n\nnow\n') }]);
    await expect(
      runExport({ ...more, catalog: archive.catalog, sources: archive.sources }),
    ).rejects.toMatchObject({ code: 'export-changed' });
  });

  it('is replaced where another selection has messages for it, and kept where it has none', async () => {
    const to = fresh();
    const of = (selection: Partial<typeof EVERYTHING>) =>
      runExport({ ...exporting(archive, to, 'mbox'), selection: { ...EVERYTHING, ...selection } });
    await of({ asOf: first });
    const before = tree(to);
    const inInbox = letters.filter(({ folder }) => folder === 'INBOX').length;
    const ended = await of({ deleted: true });
    expect(ended).toMatchObject({ places: 1, exported: 1, kept: letters.length - inInbox });
    expect(await check(to)).toMatchObject({ sound: true, found: 0, messages: ended.kept + 1 });
    const changed = [...tree(to)].filter(
      ([name, bytes]) => before.get(name)?.equals(bytes) !== true,
    );
    expect(changed.map(([name]) => name).filter((name) => name.endsWith('.mbox'))).toEqual([
      'anna@example.org/INBOX.mbox',
    ]);
  });
});

describe('a zip', () => {
  it('is the same bytes for the same state, whatever the zone and the clock', async () => {
    const [one, two] = [fresh('a.zip'), fresh('b.zip')];
    await runExport({ ...exporting(archive, one, 'zip'), sidecar: true });
    const zone = process.env.TZ;
    process.env.TZ = 'Pacific/Apia';
    try {
      await runExport({ ...exporting(archive, two, 'zip'), sidecar: true });
    } finally {
      if (zone === undefined) delete process.env.TZ;
      else process.env.TZ = zone;
    }
    expect(sha256(readFileSync(two))).toBe(sha256(readFileSync(one)));
    expect(await check(one)).toMatchObject({ sound: true, found: 0, format: 'zip' });
  });

  it('takes over what the one before has, and replaces no stranger', async () => {
    const to = fresh('c.zip');
    await runExport({
      ...exporting(archive, to, 'zip'),
      selection: { ...EVERYTHING, asOf: first },
    });
    const result = await runExport({ ...exporting(archive, to, 'zip'), incremental: true });
    expect(result).toMatchObject({ kept: 1, skipped: letters.length - 1 });
    expect(await check(to)).toMatchObject({
      sound: true,
      messages: letters.length + result.exported,
    });
    const stranger = fresh('d.zip');
    writeFileSync(stranger, 'a text');
    utimesSync(stranger, 1, 1);
    await expect(runExport(exporting(archive, stranger, 'zip'))).rejects.toMatchObject({
      code: 'export-target-foreign',
    });
    expect(readFileSync(stranger, 'utf8')).toBe('a text');
  });
});

describe('a target that somebody prepared', () => {
  it.each(['eml', 'mbox', 'maildir'] as const)(
    'is not left through a linked folder (%s)',
    async (format) => {
      const plain = fresh();
      await runExport(exporting(archive, plain, format));
      const elsewhere = fresh('elsewhere');
      mkdirSync(elsewhere);
      const to = fresh();
      await runExport(exporting(archive, to, format));
      const linked = path.join(to, 'anna@example.org');
      rmSync(linked, { recursive: true });
      symlinkSync(elsewhere, linked);
      await expect(runExport(exporting(archive, to, format))).rejects.toMatchObject({
        code: 'export-target-linked',
      });
      expect([...tree(elsewhere).keys()]).toEqual([]);
    },
  );

  it('with a manifest that is one endless line is reported as damaged', async () => {
    const to = fresh();
    mkdirSync(to);
    const manifest = path.join(to, 'mailkeep-export.json');
    writeFileSync(manifest, Buffer.alloc(3 * 1024 * 1024, 0x61));
    expect(await check(to)).toMatchObject({ sound: false, findings: [{ kind: 'manifest' }] });
  });

  it('lets others have their turn while lines are read', async () => {
    let turns = 0;
    const piece = Buffer.from('{}\n');
    setImmediate(() => {
      turns += 1;
    });
    for await (const line of linesOf([piece, piece, piece])) expect(line).toBe('{}');
    expect(turns).toBe(1);
  });
});

it('lines are told apart wherever pieces end', async () => {
  const text = Buffer.from('ä\n\nbö\nc');
  for (let size = 1; size <= text.length; size += 1) {
    const pieces = Array.from({ length: Math.ceil(text.length / size) }, (_, i) =>
      text.subarray(i * size, (i + 1) * size),
    );
    const lines: string[] = [];
    for await (const line of linesOf(pieces)) lines.push(line);
    expect(lines, `pieces of ${size}`).toEqual(['ä', '', 'bö', 'c']);
  }
});
