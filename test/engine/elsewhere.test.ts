import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { realFiles } from '../../src/archive/file-system.ts';
import { logFolder, parseSegmentName, type SegmentFile } from '../../src/archive/format.ts';
import { openLogReader } from '../../src/archive/log-reader.ts';
import type { SegmentStore } from '../../src/archive/segment-files.ts';
import { localSegments } from '../../src/archive/segment-files.ts';
import { openCatalog } from '../../src/catalog/catalog.ts';
import { createIndexer } from '../../src/catalog/indexer.ts';
import { openReaderAt } from '../../src/catalog/open-reader.ts';
import {
  attachmentReading,
  openWriter,
  tidyArchive,
  type Writer,
} from '../../src/catalog/open-writer.ts';
import { openExtractorPool } from '../../src/mail/mime-threads.ts';
import { compactArchive } from '../../src/verify/compact.ts';
import { findPurgedRecords } from '../../src/verify/find-purged.ts';
import { journalPurge, type PurgedFact } from '../../src/verify/prune.ts';
import { finishPurge } from '../../src/verify/purge.ts';
import { Positions } from '../archive/positions.ts';
import { place, writeBatches } from '../archive/sample-log.ts';
import { verified } from '../verify/grown-archive.ts';

const { signal } = new AbortController();
const SEALED = 4;
let room: string;
let dir: string;
let known: Positions;

/** Keeps sealed files in another folder until they are asked for, and nothing once it is closed. */
class OtherFolder implements SegmentStore {
  readonly fetched: number[] = [];
  readonly published: SegmentFile[] = [];
  isClosed = false;

  constructor(private readonly folder: string) {
    mkdirSync(folder);
  }

  /** Moves the files of a segment out of the archive. */
  evict(segment: number): void {
    for (const name of namesOf(logFolder(dir), segment)) {
      renameSync(join(logFolder(dir), name), join(this.folder, name));
    }
  }

  present(segment: number): boolean {
    return namesOf(this.folder, segment).length === 0;
  }

  async fetch(segments: readonly number[]): Promise<void> {
    if (this.isClosed) throw new Error('the store is closed');
    for (const segment of segments) {
      this.fetched.push(segment);
      for (const name of namesOf(this.folder, segment)) {
        renameSync(join(this.folder, name), join(logFolder(dir), name));
      }
    }
  }

  async publish(sealed: SegmentFile): Promise<void> {
    if (this.isClosed) throw new Error('the store is closed');
    this.published.push(sealed);
  }
}

function namesOf(folder: string, segment: number): string[] {
  return readdirSync(folder).filter((name) => parseSegmentName(name)?.segment === segment);
}

const globals = { config: undefined, data: undefined };
const words = { finding: () => '', error: () => '' };

function context() {
  const environment = { cwd: dir, env: { MAILKEEP_NETWORK_FILE_SYSTEM: 'allow' } };
  return { globals, environment, report: () => {}, signal, now: Date.now, words };
}

/** Four sealed segments, and one that is written to. */
beforeEach(async () => {
  room = mkdtempSync(join(tmpdir(), 'mailkeep-elsewhere-'));
  dir = join(room, 'archive');
  mkdirSync(dir);
  known = new Positions();
  const writer = await openWriter(context(), dir, 'zlib');
  for (let segment = 1; segment <= SEALED; segment += 1) {
    await writeBatches(writer.log, known, 2, segment * 30);
    await writer.log.rollIfLarger(1);
  }
  await writeBatches(writer.log, known, 1, 900);
  expect(await tidyArchive(writer, 1, () => Number.POSITIVE_INFINITY, signal)).toEqual([]);
  await writer.close();
});
afterEach(() => rmSync(room, { recursive: true, force: true }));

/** The store, and a writer that closes it. */
async function opened(): Promise<{ store: OtherFolder; writer: Writer }> {
  const writer = await openWriter(context(), dir, 'zlib');
  const store = new OtherFolder(join(room, 'far'));
  const close = async () => {
    store.isClosed = true;
    await writer.close();
  };
  return { store, writer: { ...writer, segments: store, close } };
}

test('the catalog that is rebuilt after a forget has the messages of segments that were elsewhere', async () => {
  const { store, writer } = await opened();
  // The first has an attachment that later segments have as well.
  const [, gone = ''] = known.messages.keys();
  const facts: PurgedFact[] = [
    { fact: 'purged', message: gone, reason: 'forgotten', ended: [place(31)] },
  ];
  const wanted = { messages: new Set([gone]), quarantined: new Map() };
  const purgeSearch = await findPurgedRecords(realFiles, dir, wanted, signal, writer.segments);
  const { log, catalog } = writer;
  catalog.foldBatch(await journalPurge(realFiles, dir, log, facts, purgeSearch, writer));
  for (const segment of [2, 3, 4]) store.evict(segment);
  expect(await finishPurge(context(), writer)).toMatchObject({ segments: 1, closed: true });
  expect(store.fetched).toEqual([2, 3, 4]);

  const rebuilt = await openCatalog(dir);
  const missing = [...known.messages.keys()].filter(
    (id) => rebuilt.locator.message(id) === undefined,
  );
  rebuilt.close();
  expect(missing).toEqual([gone]);
  expect(await verified(dir)).toMatchObject({ found: 0, findings: [] });
});

test('messages and attachments are made searchable though their segments are elsewhere', async () => {
  const { store, writer } = await opened();
  const { catalog } = writer;
  for (const segment of [2, 3]) store.evict(segment);
  const sources = openLogReader({ dir, locator: catalog.locator, segments: store });
  const extractor = openExtractorPool();
  const indexer = createIndexer({ store: catalog.index, sources, segments: store, extractor });
  const attachments = attachmentReading({ catalog, sources, segments: store }, indexer, extractor);
  try {
    await indexer.all(signal);
    expect(catalog.index.pendingCount()).toBe(0);
    expect(indexer.totals()).toMatchObject({ indexed: known.messages.size, damaged: [] });
    expect(store.fetched.toSorted()).toEqual([2, 3]);
    for (const segment of [2, 3]) store.evict(segment);
    sources.refresh();
    expect(await attachments.read({ signal, forMs: 60_000, now: () => 0 })).toBe(0);
  } finally {
    await Promise.all([extractor.close(), attachments.close()]);
    sources.close();
    await writer.close();
  }
});

test('a reader waits for segments that are elsewhere, and gives every byte once', async () => {
  const { store, writer } = await opened();
  const whole = [...known.messages.keys()].map(
    (id) => [id, writer.sources.readMessage(id)] as const,
  );
  for (const segment of [1, 2, 3]) store.evict(segment);
  const reader = openReaderAt(dir, {}, store);
  const sources = reader.sources();
  for (const [id, source] of whole) {
    const pieces: Buffer[] = [];
    for await (const piece of sources.streamMessage(id)) pieces.push(piece);
    expect(Buffer.concat(pieces).equals(source)).toBe(true);
  }
  expect(store.fetched.toSorted()).toEqual([1, 2, 3]);
  reader.close();
  await writer.close();
});

test('compacting fetches what is elsewhere, and publishes what it rewrites and what an earlier run left', async () => {
  const { store, writer } = await opened();
  await writer.close();
  store.isClosed = false;
  for (const segment of [1, 3]) store.evict(segment);
  const result = await compactArchive(context(), dir, 'zstd', () => {}, store);
  expect(result).toMatchObject({ segments: SEALED, remaining: 0, damaged: [] });
  expect(store.fetched).toEqual([1, 3]);
  expect(store.published).toEqual([1, 2, 3, 4].map((segment) => ({ segment, generation: 3 })));
  expect(await verified(dir)).toMatchObject({ found: 0, findings: [] });
});

test('compacting publishes what an earlier run sealed before it removes what that replaced', async () => {
  const { store, writer } = await opened();
  await writer.sealer.seal({ dir, segment: 2, codec: 'zstd' });
  await writer.sealer.close();
  await writer.close();
  store.isClosed = false;
  const refusing: SegmentStore = {
    ...localSegments,
    publish: async () => {
      throw new Error('no room there');
    },
  };
  await expect(compactArchive(context(), dir, 'zstd', () => {}, refusing)).rejects.toThrow();
  expect(namesOf(logFolder(dir), 2)).toHaveLength(2);
  await compactArchive(context(), dir, 'zstd', () => {}, store);
  expect(store.published[0]).toEqual({ segment: 2, generation: 3 });
  expect(namesOf(logFolder(dir), 2)).toHaveLength(1);
});
