import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { logFolder, type SegmentFile, segmentName } from '../../src/archive/format.ts';
import { localSegments } from '../../src/archive/segment-files.ts';
import { openWriter, tidyArchive, type Writer } from '../../src/catalog/open-writer.ts';
import { Compaction } from '../../src/verify/compact.ts';
import { Positions } from '../archive/positions.ts';
import { writeBatches } from '../archive/sample-log.ts';

const { signal } = new AbortController();
let dir: string;
let published: SegmentFile[];

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'mailkeep-published-'));
  published = [];
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function segments(): string[] {
  return readdirSync(logFolder(dir))
    .filter((name) => name.endsWith('.seg'))
    .sort();
}

/** A writer whose sealed files are taken while those that they replace are there. */
async function opened(codec: 'zlib' | 'zstd'): Promise<Writer> {
  const globals = { config: undefined, data: undefined };
  const environment = { cwd: dir, env: { MAILKEEP_NETWORK_FILE_SYSTEM: 'allow' } };
  const context = { globals, environment, report: () => {}, signal, now: Date.now };
  const writer = await openWriter(context, dir, codec);
  const publish = async (sealed: SegmentFile): Promise<void> => {
    const { segment, generation } = sealed;
    expect(segments()).toContain(segmentName(sealed));
    expect(segments()).toContain(segmentName({ segment, generation: generation - 1 }));
    published.push(sealed);
  };
  return { ...writer, segments: { ...localSegments, publish } };
}

test('whatever rewrites a segment in the daemon publishes it', async () => {
  const known = new Positions();
  let writer = await opened('zlib');
  for (let segment = 1; segment <= 2; segment += 1) {
    await writeBatches(writer.log, known, 2, segment * 30);
    await writer.log.rollIfLarger(1);
  }
  expect(await tidyArchive(writer, 1, () => Number.POSITIVE_INFINITY, signal)).toEqual([]);
  expect(published.splice(0)).toEqual([
    { segment: 1, generation: 2 },
    { segment: 2, generation: 2 },
  ]);
  await writer.close();

  writer = await opened('zstd');
  const compaction = new Compaction(writer);
  while ((await compaction.step(0, signal)).more);
  expect(published).toEqual([
    { segment: 1, generation: 3 },
    { segment: 2, generation: 3 },
  ]);
  expect(segments()).toEqual(['0000000001.3.seg', '0000000002.3.seg', '0000000003.1.seg']);
  for (const id of known.messages.keys()) {
    expect(writer.sources.readMessage(id)).toBeDefined();
  }
  await writer.close();
});
