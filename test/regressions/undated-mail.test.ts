import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openLogReader } from '../../src/archive/log-reader.ts';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { runExport } from '../../src/transfer/run-export.ts';
import { exporting, START, StoredArchive } from '../export/stored-archive.ts';
import { importing } from '../import/importing.ts';

const work = mkdtempSync(path.join(tmpdir(), 'mailkeep-undated-'));
let archive: StoredArchive;
let result: Awaited<ReturnType<typeof importing>>;

const letters: Readonly<Record<string, string>> = {
  dated: 'Date: Mon, 2 Mar 2020 09:00:00 +0000\n',
  encoded: 'Date: =?UTF-8?Q?Tue,_3_Mar_2020_10:00:00_+0000?=\n',
  received: `Received: by a; today\nReceived: by b; Wed, 4 Mar 2020 10:00:00 +0000\nDate: Thu, 1 Jan 2020\n`,
  none: '',
  unreadable: 'Date: yesterday evening\n',
  old: 'Date: Sun, 20 Jul 1969 20:17:40 +0000\n',
  future: `Date: ${new Date(START + 400 * 86_400_000).toUTCString()}\n`,
};

beforeAll(async () => {
  archive = await StoredArchive.create();
  const files = Object.entries(letters).map(([subject, header]) => {
    const file = path.join(work, `${subject}.eml`);
    writeFileSync(file, `Subject: ${subject}\n${header}\ntext\n`);
    return file;
  });
  // What is copied today has a time of today, and a Maildir's name may be of any make.
  result = await importing(archive, files);
});
afterAll(() => {
  archive.remove();
  rmSync(work, { recursive: true, force: true });
});

const nodeOf = (query: string) => parseQuery(query, { now: START, timeZone: 'UTC' }).node;
const subjects = (lines: Iterable<{ readonly subject: string | null }>) =>
  [...lines].map(({ subject }) => subject);

it('lists messages without a date last, without one, and counts them', () => {
  const lines = [...archive.catalog.list({})];
  expect(lines.map(({ subject, date }) => [subject, date]).slice(0, 3)).toEqual([
    ['received', '2020-03-04T10:00:00.000Z'],
    ['encoded', '2020-03-03T10:00:00.000Z'],
    ['dated', '2020-03-02T09:00:00.000Z'],
  ]);
  const undated = lines.slice(3);
  expect(subjects(undated).sort()).toEqual(['future', 'none', 'old', 'unreadable']);
  expect(undated.every(({ date }) => date === null)).toBe(true);
  expect(result).toMatchObject({ added: 7, undated: 4 });
});

it('matches no date with them, and lists them in no range of dates', () => {
  const { catalog } = archive;
  const found = (query: string) => {
    return catalog.prepare({ node: nodeOf(query) }).count();
  };
  for (const query of [
    'newer_than:100y',
    'older_than:1d',
    'before:2030-01-01',
    'date:1970',
    'date:1970-01-01',
  ]) {
    expect([query, found(query)]).toEqual([query, query.startsWith('date') ? 0 : 3]);
  }
  expect(found('-after:1971-01-01')).toBe(4);
  const to = Date.UTC(2020, 2, 3);
  expect(subjects(catalog.list({ to }))).toEqual(['dated']);
  expect(subjects(catalog.list({ from: 0 }))).toHaveLength(3);
});

it('counts them in no year and no bar, but in every sum', () => {
  const { catalog } = archive;
  const { bars, messages } = catalog.timeline({ node: nodeOf('in:anywhere') }, () => true);
  expect([bars.length > 0, messages]).toEqual([true, 3]);
  expect(bars[0]?.key.startsWith('2020')).toBe(true);
});

it('exports them in every format, and brings them back without a date', async () => {
  for (const format of ['eml', 'mbox', 'maildir', 'zip'] as const) {
    const out = path.join(work, `out-${format}${format === 'zip' ? '.zip' : ''}`);
    const sources = openLogReader({ dir: archive.dir, locator: archive.catalog.locator });
    await runExport({ ...exporting(archive, out, format), sources });
    const back = await StoredArchive.create();
    const again = await importing(back, [out]);
    expect(again).toMatchObject({ added: 7, undated: 4, failures: [] });
    back.remove();
  }
});
