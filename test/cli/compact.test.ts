import { mkdtempSync, readdirSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { scanLog } from '../../src/archive/log-reader.ts';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { dropOldGenerations, sealClosedSegments } from '../../src/archive/seal.ts';
import { openWriter } from '../../src/catalog/open-writer.ts';
import { Compaction } from '../../src/verify/compact.ts';
import { Positions } from '../archive/positions.ts';
import { writeBatches } from '../archive/sample-log.ts';
import { mailkeep } from './child.ts';

let dir: string;
let known: Positions;

/** An archive with two segments sealed with zlib, and one that is written to. */
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'mailkeep-compact-'));
  known = new Positions();
  const writer = await openLogWriter({ dir, now: Date.now });
  for (let segment = 0; segment < 2; segment += 1) {
    await writeBatches(writer, known, 10, 1 + segment * 100);
    await writer.rollIfLarger(0);
  }
  await writeBatches(writer, known, 2, 500);
  await sealClosedSegments({ dir, before: writer.segment, codec: 'zlib' });
  await dropOldGenerations({ dir, now: Number.POSITIVE_INFINITY, keepMs: 0 });
  await writer.close();
});
afterEach(() => rmSync(dir, { recursive: true }));

const segments = () => readdirSync(join(dir, 'log')).sort();
const BEFORE = ['0000000001.2.seg', '0000000002.2.seg', '0000000003.1.seg'];
const AFTER = ['0000000001.3.seg', '0000000002.3.seg', '0000000003.1.seg'];

async function batches(): Promise<unknown[]> {
  const all: unknown[] = [];
  for await (const event of scanLog({ dir })) {
    if (event.what !== 'batch') throw new Error(JSON.stringify(event));
    all.push(event.batch);
  }
  return all;
}

describe('mailkeep compact', () => {
  const compact = (...args: string[]) => mailkeep(['compact', '--data', dir, ...args]);

  test('shows what it would rewrite, rewrites it, and then has nothing to do', async () => {
    const planned = await compact('--dry-run', '--json');
    expect(JSON.parse(planned.stdout)).toMatchObject({
      ...{ codec: 'zstd', dryRun: true, segments: 2, bytesAfter: null, remaining: 2 },
      ...{ interrupted: false, damaged: [] },
    });
    expect(segments()).toEqual(BEFORE);
    const done = await compact();
    expect(done).toMatchObject({ code: 0, stderr: '' });
    expect(done.stdout).toMatch(/^Rewrote 2 segments \(.+\) with zstd, which take .+ now, in /);
    expect(segments()).toEqual(AFTER);
    expect(await batches()).toEqual(known.batches);
    const again = await compact('--json');
    expect(JSON.parse(again.stdout)).toMatchObject({ segments: 0, remaining: 0, bytesBefore: 0 });
    expect((await compact()).stdout).toBe('Every sealed segment has zstd already.\n');
    expect(segments()).toEqual(AFTER);
  });

  test('does what the configuration says', async () => {
    const config = join(dir, 'config.json');
    writeFileSync(config, JSON.stringify({ dataDir: '.', archive: { codec: 'zlib' } }));
    const { code, stdout } = await mailkeep(['compact', '--config', config]);
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: 'Every sealed segment has zlib already.\n',
    });
    writeFileSync(config, JSON.stringify({ dataDir: '.', archive: { codec: 'brotli' } }));
    const wrong = await mailkeep(['compact', '--config', config]);
    expect(wrong.code).toBe(2);
    expect(wrong.stderr).toContain('archive.codec');
  });

  test('works with --data in the folder of another program, whose config.json it cannot read', async () => {
    const cwd = mkdtempSync(join(dir, 'elsewhere-'));
    writeFileSync(join(cwd, 'config.json'), '// not for mailkeep\n{}');
    const { code, stderr } = await mailkeep(['compact', '--data', dir], { cwd });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(segments()).toEqual(AFTER);
  });

  test('removes what a killed run left, also where nothing has to be rewritten', async () => {
    // Killed after the new file got its name, and before the one that it replaces was removed.
    const replaced = join(dir, 'log', BEFORE[0] ?? '');
    const before = readFileSync(replaced);
    expect((await compact()).code).toBe(0);
    writeFileSync(replaced, before);
    writeFileSync(join(dir, 'log', '0000000002.4.seg.tmp'), 'half a segment');
    expect((await compact('--dry-run')).code).toBe(0);
    expect(segments()).toContain(BEFORE[0]);
    const again = await compact();
    expect(again).toMatchObject({ code: 0, stdout: 'Every sealed segment has zstd already.\n' });
    expect(segments()).toEqual(AFTER);
  });

  test('does not call a damaged segment rewritten', async () => {
    expect((await compact()).code).toBe(0);
    rmSync(join(dir, 'log', AFTER[0] ?? ''));
    writeFileSync(join(dir, 'log', AFTER[0] ?? ''), 'no segment');
    const { code, stdout } = await compact();
    expect(code).toBe(3);
    expect(stdout).toMatch(/^DAMAGED .*\n$/);
  });

  test('ends with code 5 while somebody writes, and with 2 where there is no archive', async () => {
    const writer = await openTestWriter();
    try {
      expect((await compact('--json')).code).toBe(5);
      expect((await compact('--dry-run')).code).toBe(0);
    } finally {
      await writer.close();
    }
    const nowhere = await mailkeep(['compact', '--data', join(dir, 'nowhere')]);
    expect(nowhere.code).toBe(2);
    expect(segments().slice(0, 2)).toEqual(BEFORE.slice(0, 2));
  });

  test('leaves a damaged segment as it is, names it, and rewrites the others', async () => {
    const path = join(dir, 'log', BEFORE[0] ?? '');
    const bytes = readFileSync(path);
    bytes[200] = (bytes[200] ?? 0) ^ 1;
    writeFileSync(path, bytes);
    const { code, stdout } = await compact('--json');
    expect(code).toBe(3);
    expect(JSON.parse(stdout)).toMatchObject({
      segments: 1,
      damaged: [{ code: 'log-damaged', segment: 1 }],
    });
    expect(segments()).toEqual([BEFORE[0], AFTER[1], AFTER[2]]);
    expect(readFileSync(path)).toEqual(bytes);
  });
});

function openTestWriter() {
  return openWriter(
    {
      globals: { config: undefined, data: undefined },
      environment: { cwd: dir, env: { MAILKEEP_NETWORK_FILE_SYSTEM: 'allow' } },
      report: () => {},
      signal: new AbortController().signal,
      now: Date.now,
    },
    dir,
  );
}

describe('the daemon', () => {
  const { signal } = new AbortController();

  test('rewrites one segment a step, while the archive is written to and read', async () => {
    const writer = await openTestWriter();
    try {
      const compaction = new Compaction(writer);
      // What comes later is in the log only.
      const stored = [...known.messages.keys()];
      expect(await compaction.step(0, signal)).toEqual({ damaged: [], more: true });
      expect(segments()).toEqual([AFTER[0], BEFORE[1], AFTER[2]]);
      await writeBatches(writer.log, known, 1, 700);
      for (const id of stored) writer.sources.readMessage(id);
      expect(await compaction.step(0, signal)).toEqual({ damaged: [], more: true });
      expect(await compaction.step(0, signal)).toEqual({ damaged: [], more: false });
      expect(segments()).toEqual(AFTER);
      for (const id of stored) writer.sources.readMessage(id);
      expect(await batches()).toEqual(known.batches);
    } finally {
      await writer.close();
    }
  });

  test('does nothing without room to spare, or when it is about to stop', async () => {
    const writer = await openTestWriter();
    try {
      const compaction = new Compaction(writer);
      const { blocks, bsize } = statfsSync(dir);
      const idle = { damaged: [], more: false };
      expect(await compaction.step(blocks * bsize, signal)).toEqual(idle);
      expect(await compaction.step(0, AbortSignal.abort())).toEqual(idle);
      expect(segments()).toEqual(BEFORE);
    } finally {
      await writer.close();
    }
  });

  test('passes over a damaged segment, and keeps reporting it', async () => {
    const path = join(dir, 'log', BEFORE[0] ?? '');
    const writer = await openTestWriter();
    try {
      const bytes = readFileSync(path);
      bytes[200] = (bytes[200] ?? 0) ^ 1;
      writeFileSync(path, bytes);
      const compaction = new Compaction(writer);
      for (const more of [true, true, false]) {
        expect(await compaction.step(0, signal)).toMatchObject({
          damaged: [{ code: 'log-damaged', facts: { segment: 1 } }],
          more,
        });
      }
      expect(segments()).toEqual([BEFORE[0], AFTER[1], AFTER[2]]);
    } finally {
      await writer.close();
    }
  });
});
