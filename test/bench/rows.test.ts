import { expect, test } from 'vitest';
import type { ArchiveSpeed, MailkeepFigures, Measurements, SearchSpeed } from './measurements.ts';
import { formatTable } from './report.ts';
import { requestFloor, rowsOf } from './rows.ts';

const same = (value: number) => ({ common: value, rare: value, phrase: value });

const ours: MailkeepFigures = {
  wallMs: [9_500, 3_500, 4_500],
  searchableMs: [9_000, 3_000, 4_000],
  fetchMs: [2_000, 1_000, 1_500],
  indexMs: [2_000, 2_000, 2_500],
  cpuMs: [1_500],
  threadMs: [{ main: 900, 'mailkeep-mime': 590, V8Worker: 10 }],
  onCores: [],
  peakBytes: 200e6,
  shellPeakBytes: 390e6,
  stored: 1000,
  firstRequests: 1020,
  againMs: [400, 300, 1_900],
  againRequests: 4,
  logBytes: 300_000,
  catalogBytes: 100_000,
  sealMs: 10,
  rebuildMs: [2_000],
  rebuildAttachmentsMs: [500],
  hits: same(5),
  inProcessMs: same(0.2),
};

function speed(messages: number, ms = 0.9): SearchSpeed {
  return {
    messages,
    kinds: [{ name: 'common word', ms }],
    relevance: { hits: 25_100, ms: 20 * ms },
    slowest: { ms: 150 * ms, query: 'a OR b (count)', queries: 314, seed: 1, refused: 7 },
  };
}

const run: Measurements = {
  messages: 1000,
  rawBytes: 1_000_000,
  maildirBytes: 1_100_000,
  folderCounts: [901, 99],
  durableFiles: [3_000],
  mbsync: { value: { firstMs: [3_000], againMs: [20], peakBytes: 7e6, stored: 1000 } },
  mu: {
    value: {
      name: 'mu index',
      wallMs: [6_000],
      peakBytes: 80e6,
      diskBytes: 400_000,
      hits: same(5),
    },
  },
  notmuch: { missing: 'not measured (notmuch is not installed)' },
  mailkeep: { value: ours },
  cold: { node: 50, mailkeep: same(80), mu: same(9) },
  search: [speed(50_000), speed(1_000_000)],
};

test('ratios are of medians, and a target is met by its own line alone', () => {
  const line = new Map(rowsOf(run).map((row) => [row.work.split(',')[0], row]));
  expect(line.get('First sync')).toMatchObject({ ratio: 2, met: true });
  expect(line.get('Empty disk to searchable')?.ratio).toBeCloseTo(4 / 9);
  expect(line.get('Peak memory of that')).toMatchObject({ met: true });
  expect(line.get('Disk')?.ratio).toBeCloseTo(0.4);
  expect(line.get('No-change pass')?.ratio).toBeCloseTo(0.4);
  expect(line.get('Requests of the first sync')?.ratio).toBeCloseTo(1020 / 1013);
  expect(line.get('Requests of a quiet pass')).toMatchObject({ ratio: 1, met: true });
});

test('what misses its target says so', () => {
  const slow = { ...ours, fetchMs: [1_501], peakBytes: 301e6 };
  const cold = { ...run.cold, mailkeep: same(101) };
  const missed = rowsOf({ ...run, cold, mailkeep: { value: slow } }).filter(
    (row) => row.met === false,
  );
  expect(missed.map((row) => row.work)).toEqual([
    'First sync, durable, before indexing',
    'Peak memory of that, as the units start it',
    'Newest 20, common, cold command line',
    'Newest 20, rare, cold command line',
    'Newest 20, phrase, cold command line',
  ]);
});

test('a message is archived within two seconds of its webhook, 95 times of 100', () => {
  const quick = Array.from({ length: 19 }, (_, n) => 10 + n);
  const last = (webhookMs: number[]) => rowsOf({ ...run, webhookMs }).at(-1);
  expect(last([...quick, 3_000])).toMatchObject({
    mailkeep: 'p50 19.0 ms, p95 28.0 ms (20 messages)',
    met: true,
  });
  expect(last([...quick.slice(1), 2_000, 3_000])?.met).toBe(false);
});

test('verification and exports are reported by how much of an archive they process in a second', () => {
  const archive = (verifyMs: readonly number[]): ArchiveSpeed => ({
    rawBytes: 600e6,
    verifyMs,
    verifyPeakBytes: 310e6,
    exports: [{ format: 'zip', ms: [4_000, 9_000, 5_000], messages: 1_000, bytes: 500e6 }],
    compaction: { logBytes: 180e6, ms: [6_000, 3_000, 4_000] },
    rebuildMs: [3_000],
    rebuildAttachmentsMs: [800],
  });
  const line = (ms: readonly number[]) =>
    new Map(rowsOf({ ...run, archive: archive(ms) }).map((row) => [row.work.split(',')[0], row]));
  expect(line([1_900, 9_000, 2_000]).get('Full verification')).toMatchObject({
    mailkeep: '2.00 s, 300 MB of raw mail a second, 310 MB peak',
    ratio: 1,
    met: true,
  });
  expect(line([2_001]).get('Full verification')?.met).toBe(false);
  const heavy = { rawBytes: 600e6, verifyMs: [1_500], verifyPeakBytes: undefined };
  const rows = rowsOf({ ...run, archive: { ...archive([2_001]), heavy } });
  expect(rows.find(({ work }) => work.endsWith('large attachments'))).toMatchObject({
    mailkeep: '1.50 s, 400 MB of raw mail a second',
    met: true,
  });
  expect(line([1]).get('Sealing of the whole log')?.mailkeep).toBe(
    '4.00 s, 150 MB/s; log 0.30 of the raw bytes',
  );
  const exported = line([1]).get('Export');
  expect(exported?.mailkeep).toBe('5.00 s, 200 msg/s, 100 MB/s');
  expect(exported?.met).toBeUndefined();
});

test('a program that is not installed is said to be not measured, and nothing is compared with it', () => {
  const missing = { missing: 'not measured (mbsync is not installed)' };
  const rows = rowsOf({ ...run, mbsync: missing });
  const [first, searchable] = rows;
  expect(first?.peers).toContain('not measured (mbsync is not installed)');
  expect(first?.met).toBeUndefined();
  expect(searchable?.met).toBeUndefined();
  expect(formatTable(rows)).not.toMatch(/NaN|undefined|Infinity/);
});

test('the floor of requests counts messages, pages, the account and the folders', () => {
  expect(requestFloor([100, 101, 1])).toBe(202 + 4 + 2);
});

test('twenty times as many messages may take twice as long, and no longer', () => {
  const missed = (search: readonly SearchSpeed[]) =>
    rowsOf({ ...run, search })
      .filter((row) => row.met === false && row.work.includes(' of '))
      .map((row) => row.work);
  expect(missed([speed(50_000, 1), speed(1_000_000, 2)])).toEqual([]);
  expect(missed([speed(50_000, 2), speed(1_000_000, 2.1)])).toEqual([
    'Newest 20 of 50,000: common word',
    'Best 20 by relevance of 50,000',
    'Slowest of 314 odd queries in 50,000',
    'Newest 20 of 1,000,000: common word',
  ]);
});

test('processor time is told by thread, and first syncs by core where there were more', () => {
  const onCores = [{ cores: 4, fetchMs: 900, searchableMs: 1_800, wallMs: 2_500, peakBytes: 3e8 }];
  const rows = rowsOf({ ...run, mailkeep: { value: { ...ours, onCores } } });
  const cellOf = (work: string) => rows.find((row) => row.work === work)?.mailkeep;
  expect(cellOf('Processor time of that, a message')).toBe(
    '1.50 ms: main 0.90, mailkeep-mime 0.59',
  );
  expect(cellOf('First sync on 4 cores')).toMatch(/^durable .*, searchable .*, sealed /);
});
