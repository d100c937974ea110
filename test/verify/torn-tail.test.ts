import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import type { TornTail } from '../../src/archive/recovery.ts';
import { readCatalogHead } from '../../src/catalog/implied.ts';
import { rebuildCatalog } from '../../src/catalog/rebuild.ts';
import type { Extractor } from '../../src/mail/extraction.ts';
import { openExtractorPool } from '../../src/mail/mime-threads.ts';
import { mailWithAttachment, noise } from '../archive/generated-mail.ts';
import { sampleMail } from '../archive/sample-log.ts';
import { buildWorker } from '../mime/built-worker.ts';
import { GrownArchive, START, verified } from './grown-archive.ts';

const PAGE = 4096;
const BYTES = noise(60_000, 1);
const SOUND = {
  ...{ found: 0, findings: [], catalog: 'equal' },
  ...{ messages: 3, rebuilt: 3 },
};
const archive = new GrownArchive();
const earlier = `${archive.dir}-earlier`;
let extractor: Extractor;
beforeAll(async () => {
  extractor = openExtractorPool({ workers: 1, workerFile: await buildWorker() });
  await archive.grow(
    [3, 4, 5].map((n) => sampleMail(n)),
    false,
  );
  cpSync(archive.dir, earlier, { recursive: true });
  await archive.grow([mailWithAttachment(BYTES)], false);
});
afterAll(async () => {
  await extractor.close();
  archive.remove();
  rmSync(earlier, { recursive: true, force: true });
});

/** The log of the archive put into `dir`, a page of its last batch never written; `cut` bytes are not there at its end. */
function tear(dir: string, cut: number): void {
  const name = join('log', '0000000001.1.seg');
  const whole = readFileSync(join(archive.dir, name));
  const torn = whole.subarray(0, whole.length - cut);
  const at = torn.indexOf(BYTES.subarray(0, 100));
  expect(at).toBeGreaterThan(readFileSync(join(earlier, name)).length);
  const page = Math.ceil(at / PAGE) * PAGE;
  torn.fill(0, page, page + PAGE);
  writeFileSync(join(dir, name), torn);
}

async function inCopy(of: string, act: (dir: string) => Promise<void>): Promise<void> {
  const dir = `${of}-torn`;
  cpSync(of, dir, { recursive: true });
  try {
    await act(dir);
  } finally {
    rmSync(dir, { recursive: true });
  }
}

async function rebuilt(dir: string) {
  const { signal } = new AbortController();
  return await rebuildCatalog({ dir, extractor, signal, expected: readCatalogHead(dir) });
}

test('a message that was being written when the power went is neither counted nor missed', async () => {
  // Its commit was cut off.
  await inCopy(earlier, async (dir) => {
    tear(dir, 8);
    expect(await verified(dir)).toMatchObject(SOUND);
  });
});

test('nor is one whose commit came to the disk before its middle, for a catalog that has not seen it', async () => {
  await inCopy(earlier, async (dir) => {
    tear(dir, 0);
    for (const full of [true, false]) {
      const { rebuilt: messages, ...rest } = await verified(dir, { full });
      expect({ ...rest, rebuilt: full ? messages : 3 }).toMatchObject(SOUND);
      expect(rest.tail).toMatchObject({ segment: 1 });
    }
    expect(await rebuilt(dir)).toMatchObject({ commits: 1, damage: [] });
    expect(await verified(dir)).toMatchObject(SOUND);
    rmSync(join(dir, 'catalog.sqlite'));
    expect(await verified(dir)).toMatchObject({ ...SOUND, catalog: 'missing' });
    expect(await rebuilt(dir)).toMatchObject({ commits: 1, damage: [] });
    // A writer continues after it.
    const aside: TornTail[] = [];
    const writer = await openLogWriter({
      dir,
      now: () => START,
      onTail: (tail) => aside.push(tail),
    });
    await writer.close();
    expect(aside).toMatchObject([{ segment: 1 }]);
    expect(await verified(dir)).toMatchObject({ ...SOUND, tail: null });
  });
});

test('a log that lost commits which the catalog has is damaged to a rebuild, wherever it ends', async () => {
  await inCopy(archive.dir, async (dir) => {
    const name = join('log', '0000000001.1.seg');
    const whole = readFileSync(join(archive.dir, name));
    const { length } = readFileSync(join(earlier, name));
    for (const end of [whole.length - 8, length + 100, length]) {
      cpSync(join(archive.dir, 'catalog.sqlite'), join(dir, 'catalog.sqlite'));
      writeFileSync(join(dir, name), whole.subarray(0, end));
      expect(await rebuilt(dir)).toMatchObject({ commits: 1, damage: [{ reason: 'ends-early' }] });
    }
  });
});

test('one that the catalog has seen is damaged, to verification and rebuild', async () => {
  await inCopy(archive.dir, async (dir) => {
    tear(dir, 0);
    const { findings } = await verified(dir);
    expect(findings).toContainEqual(expect.objectContaining({ what: 'log', reason: 'payload' }));
    const { damage } = await rebuilt(dir);
    expect(damage).toHaveLength(1);
  });
});
