import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openLogReader } from '../../src/archive/log-reader.ts';
import { openComparedCatalog } from '../../src/catalog/implied.ts';
import {
  createWorkFolder,
  type ExportTestOptions,
  pickSample,
  readFieldsWithMailparser,
  readFieldsWithOwnParser,
  seededRandom,
  testExport,
} from '../../src/transfer/export-test.ts';
import { ran } from '../cli/surface.ts';
import { START, StoredArchive, sampleSources, sha256 } from '../export/stored-archive.ts';

let archive: StoredArchive;
let sources: Buffer[];
beforeAll(async () => {
  archive = await StoredArchive.create();
  sources = sampleSources(120);
  const half = Math.floor(sources.length / 2);
  for (const part of [sources.slice(0, half), sources.slice(half)]) {
    await archive.store(
      part.map((source, i) => ({ folder: i % 2 === 0 ? 'INBOX' : 'INBOX.Sent', source })),
    );
  }
  await archive.store([], { ended: [{ folder: 'INBOX', uid: 1 }] });
});
afterAll(() => archive.remove());

async function drilled(options: Partial<ExportTestOptions> = {}) {
  const dir = options.dir ?? archive.dir;
  const stored = openComparedCatalog(dir);
  try {
    return await testExport({
      dir,
      catalog: archive.catalog,
      stored,
      sources: archive.sources,
      wanted: 1_000_000,
      random: seededRandom(1),
      now: () => START,
      signal: new AbortController().signal,
      ...options,
    });
  } finally {
    stored.close();
  }
}

test('every message comes back, ended ones as well, and nothing stays', async () => {
  const distinct = new Set(sources.map(sha256)).size;
  const result = await drilled();
  expect(result).toMatchObject({ at: START, messages: distinct, of: distinct, findings: [] });
  expect(result.files).toBe(sources.length);
  expect(result.bytes).toBe(sources.reduce((sum, { length }) => sum + length, 0));
  expect(result.headers).toBeGreaterThan(distinct * 0.8);
  expect(readdirSync(join(archive.dir, 'tmp'))).toEqual([]);
});

test('the same seed draws the same messages, another one others, and each as often as any', () => {
  const segments = [
    { segment: 1, messages: 3, end: 9 },
    { segment: 4, messages: 5, end: 20 },
  ];
  const messagesIn = (segment: number) =>
    Array.from({ length: segment === 1 ? 3 : 5 }, (_, n) => ({
      id: `${segment}-${n}`,
      ordinal: n,
    }));
  const pick = (seed: number, wanted = 3) =>
    pickSample(segments, messagesIn, wanted, seededRandom(seed));
  expect(pick(7)).toEqual(pick(7));
  const drawn = new Map<string, number>();
  for (let seed = 0; seed < 2000; seed += 1) {
    const ids = pick(seed);
    expect(new Set(ids).size).toBe(3);
    for (const id of ids) drawn.set(id, (drawn.get(id) ?? 0) + 1);
  }
  expect(drawn.size).toBe(8);
  for (const times of drawn.values()) expect(Math.abs(times - 750)).toBeLessThan(120);
  expect(pick(1, 100)).toHaveLength(8);
});

test('damaged bytes are found, and named', async () => {
  const dir = `${archive.dir}-damaged`;
  cpSync(archive.dir, dir, { recursive: true });
  try {
    const file = join(dir, 'log', '0000000001.1.seg');
    const log = readFileSync(file);
    const source = sources.find((it) => it.length > 300) ?? Buffer.alloc(0);
    const at = log.indexOf(source.subarray(0, 80));
    log[at + 5] = (log[at + 5] ?? 0) ^ 4;
    writeFileSync(file, log);
    const reader = openLogReader({ dir, locator: archive.catalog.locator });
    const { findings } = await drilled({ dir, sources: reader });
    reader.close();
    expect(findings).toEqual([{ kind: 'lost', id: sha256(source), path: null }]);
    const report = await ran(['verify', '--drill', '1000', '--data', dir]);
    expect(report.code).toBe(3);
    expect(report.stdout).toContain(sha256(source).slice(0, 8));
  } finally {
    rmSync(dir, { recursive: true });
  }
});

test('what the log gives while comparing has to be what was exported', async () => {
  const id = sha256(sources[0] ?? Buffer.alloc(0));
  const { sources: log } = archive;
  const turning: ExportTestOptions['sources'] = {
    readMessage: (asked) => log.readMessage(asked),
    readSource: (asked, most) => log.readSource(asked, most),
    readBlob: (hash) => log.readBlob(hash),
    sizeOf: (asked) => log.sizeOf(asked),
    factsOf: (commit) => log.factsOf(commit),
    refresh: () => log.refresh(),
    close: () => {},
    async *streamMessage(asked) {
      yield* log.streamMessage(asked);
      if (asked === id) yield Buffer.from('!');
    },
  };
  const { findings } = await drilled({ sources: turning });
  expect(findings).toContainEqual(expect.objectContaining({ kind: 'bytes', id }));
});

describe('headers', () => {
  test('two parsers agree on every header that is one', async () => {
    let compared = 0;
    for (const source of sources) {
      const ours = readFieldsWithOwnParser(source);
      if (ours === undefined) continue;
      expect(await readFieldsWithMailparser(source)).toEqual(ours);
      compared += 1;
    }
    expect(compared).toBeGreaterThan(sources.length * 0.8);
  });

  test('lines that are no fields leave a header out', () => {
    expect(readFieldsWithOwnParser(Buffer.from('Subject: a\nno field\n\nbody'))).toBeUndefined();
    expect(readFieldsWithOwnParser(Buffer.from('Subject: a\n b\n\nbody'))).toEqual([
      'subject: a b',
    ]);
    expect(readFieldsWithOwnParser(Buffer.from('body only'))).toBeUndefined();
  });
});

test('what a killed drill left is taken away, that of one under way is not', async () => {
  const folder = (pid: number) => join(archive.dir, 'tmp', `drill-${pid}-abc`);
  // No process has a number as large.
  for (const pid of [2 ** 30, 1]) mkdirSync(folder(pid), { recursive: true });
  await drilled({ wanted: 1 });
  expect(existsSync(folder(2 ** 30))).toBe(false);
  expect(existsSync(folder(1))).toBe(true);
  rmSync(folder(1), { recursive: true });
});

test('what a killed drill left in the temporary folder is taken away, and nothing else there', () => {
  const temporary = mkdtempSync(join(tmpdir(), 'drill-temporary-'));
  try {
    const mine = createWorkFolder(archive.dir, temporary);
    // The name that it would have there: of this process, which runs.
    const running = `mailkeep-${basename(mine)}`;
    const mark = /^drill-\d+-([0-9a-f]{8})-/.exec(basename(mine))?.[1] ?? '';
    expect(mark).toHaveLength(8);
    const otherMark = mark.replaceAll(/./g, (digit) => (digit === '0' ? '1' : '0'));
    const kept = [running, 'mailkeep-drill-notes', 'drill-1073741824-00000000-abcdef', 'other'];
    const left = [
      `mailkeep-drill-${2 ** 30}-${mark}-abcdef`,
      // A process that has the pid of a killed one, as every run in a container has.
      `mailkeep-drill-${process.pid}-${otherMark}-abcdef`,
    ];
    for (const name of [...kept, ...left]) {
      mkdirSync(join(temporary, name));
      writeFileSync(join(temporary, name, 'mail.eml'), 'Subject: private');
    }
    const link = `mailkeep-drill-${2 ** 30}-${mark}-linked`;
    symlinkSync(join(temporary, 'other'), join(temporary, link));
    rmSync(createWorkFolder(archive.dir, temporary), { recursive: true });
    expect(readdirSync(temporary).toSorted()).toEqual([...kept, link].toSorted());
    expect(existsSync(join(temporary, 'other', 'mail.eml'))).toBe(true);
    expect(existsSync(mine)).toBe(true);
    rmSync(mine, { recursive: true });
  } finally {
    rmSync(temporary, { recursive: true });
  }
});

test('the command prints the seed, and takes it again', async () => {
  const first = await ran(['verify', '--drill', '5', '--data', archive.dir, '--json']);
  expect(first).toMatchObject({ code: 0, stderr: '' });
  const report = JSON.parse(first.stdout);
  expect(report).toMatchObject({ mode: 'drill', ok: true, messages: 5, findings: [] });
  const again = await ran([
    'verify',
    '--drill',
    '5',
    '--seed',
    `${report.seed}`,
    '--data',
    archive.dir,
    '--json',
  ]);
  expect(JSON.parse(again.stdout)).toMatchObject({ bytes: report.bytes, seed: report.seed });
  const wrong = await ran(['verify', '--drill', '--quick', '--data', archive.dir]);
  expect(wrong.code).toBe(2);
});
