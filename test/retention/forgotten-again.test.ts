import { hash } from 'node:crypto';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { zstdDecompressSync } from 'node:zlib';
import Database from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { realFiles } from '../../src/archive/file-system.ts';
import { scanLog } from '../../src/archive/log-reader.ts';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { endPurge } from '../../src/archive/purge-journal.ts';
import { sealerInProcess } from '../../src/archive/seal.ts';
import { listSegments, openSegment } from '../../src/archive/segment-files.ts';
import { segmentRecords } from '../../src/archive/segment-reader.ts';
import { openCatalog } from '../../src/catalog/catalog.ts';
import { catalogFile } from '../../src/catalog/database.ts';
import type { SyncResult } from '../../src/sync/result.ts';
import { findPurgedRecords } from '../../src/verify/find-purged.ts';
import {
  compactPurged,
  journalPurge,
  pendingPurge,
  purgedFact,
  removeSetAsideFiles,
} from '../../src/verify/prune.ts';
import { mail } from '../sync/model-origin.ts';
import {
  archive,
  box,
  eachWithItsOwn,
  expectTrue,
  folders,
  move,
  origin,
  policy,
  rename,
  renumber,
} from '../sync/one-mailbox.ts';

eachWithItsOwn();

const WORD = 'quvexomar';
const SECRET = mail(`${WORD} subject`, `${WORD}body, told to nobody. `.repeat(40));
const ID = hash('sha256', SECRET);
const signal = new AbortController().signal;

/** In a new file, from the log as it is now. */
async function rebuildCatalog(): Promise<void> {
  const { dir } = archive;
  for (const suffix of ['', '-wal', '-shm'])
    rmSync(`${catalogFile(dir)}${suffix}`, { force: true });
  await archive.reading(async (catalog) => {
    for await (const event of scanLog({ dir, files: realFiles })) {
      if (event.what === 'batch') catalog.foldBatch(event.batch);
    }
  });
}

/** What `forget` does to the log and to the catalog. */
async function forget(id: string): Promise<void> {
  const { dir, clock } = archive;
  const catalog = await openCatalog(dir);
  const log = await openLogWriter({ dir, now: clock.now, expected: catalog.reached() });
  try {
    const wanted = { messages: new Set([id]), quarantined: new Map() };
    const purgeSearch = await findPurgedRecords(realFiles, dir, wanted, signal);
    const docid = catalog.messages.docidOf(id);
    const stood = docid === undefined ? [] : catalog.ended.placesOf(docid);
    const fact = purgedFact(id, 'forgotten', stood);
    await journalPurge(realFiles, dir, log, [fact], purgeSearch);
    const work = await pendingPurge(realFiles, dir);
    if (work === undefined) throw new Error('nothing was decided');
    await compactPurged(
      realFiles,
      dir,
      { log, catalog, codec: 'zstd', sealer: sealerInProcess(realFiles) },
      work,
      signal,
    );
    await removeSetAsideFiles(realFiles, dir);
    await endPurge(realFiles, dir);
  } finally {
    await log.close();
    catalog.close();
  }
  await rebuildCatalog();
}

/** Every file as it lies there, every payload of the log and every packed text of the catalog. */
function everything(): string {
  const { dir } = archive;
  const pieces = readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name)));
  for (const [segment, generations] of listSegments(realFiles, dir)) {
    for (const generation of generations) {
      const opened = openSegment(realFiles, dir, { segment, generation });
      if (opened === undefined) throw new Error(`segment ${segment}`);
      for (const record of segmentRecords(opened, { digest: false })) {
        if (record.what === 'record' && record.payload !== undefined) {
          pieces.push(Buffer.from(record.payload));
        }
      }
      opened.file.close();
    }
  }
  const db = new Database(catalogFile(dir), { readonly: true });
  const rows = db.prepare<[], Buffer>('SELECT text FROM texts WHERE text IS NOT NULL').pluck();
  for (const text of rows.all()) pieces.push(zstdDecompressSync(text));
  db.close();
  return Buffer.concat(pieces).toString('latin1').toLowerCase();
}

const fetched = (): number => origin.count('source');
const forgotten = (result: SyncResult): number =>
  result.certificates.reduce((sum, one) => sum + one.forgotten, 0);

/** The archive has five messages and has forgotten another one, at INBOX/6, that the origin still shows. */
async function withForgotten(): Promise<void> {
  folders({ INBOX: 5, 'INBOX.Other': 1 });
  box('INBOX').deliver(SECRET, { flags: ['\\Seen'] });
  await archive.sync(origin);
  expect(everything().includes(WORD)).toBe(true);
  await forget(ID);
  await archive.sync(origin);
  expect(everything().includes(WORD)).toBe(false);
}

/** Two passes: the first may fetch `first` sources; the second asks for none; nothing of the mail is anywhere. */
async function expectKeptAway(first: number, shown: number): Promise<void> {
  const before = fetched();
  const one = await archive.sync(origin);
  expect(fetched() - before).toBe(first);
  const two = await archive.sync(origin);
  const full = await archive.sync(origin, { policy: { ...policy, full: true } });
  expect(fetched() - before).toBe(first);
  for (const result of [one, two, full]) {
    expect(result.failures).toEqual([]);
    expect(result.certificates.every(({ complete }) => complete)).toBe(true);
    expect(forgotten(result)).toBe(shown);
  }
  expect(everything().includes(WORD)).toBe(false);
  expect(await archive.reading((catalog) => catalog.messages.purgedFor(ID))).toBe('forgotten');
  // The catalog grew with the log; one that is made from it says the same.
  const grown = await archive.reading((catalog) =>
    catalog.folders.all().map(({ id }) => catalog.folders.counts(id)),
  );
  await rebuildCatalog();
  expect(
    await archive.reading((catalog) =>
      catalog.folders.all().map(({ id }) => catalog.folders.counts(id)),
    ),
  ).toEqual(grown);
  expect(fetched() - before).toBe(first);
}

describe('forgotten mail is not stored again', () => {
  test('where it was', async () => {
    await withForgotten();
    await expectKeptAway(0, 1);
  });

  test('moved to another folder', async () => {
    await withForgotten();
    move('INBOX', 'INBOX.Other', [6]);
    await expectKeptAway(1, 1);
  });

  test('moved within its folder, and again while both passes look', async () => {
    await withForgotten();
    move('INBOX', 'INBOX', [6]);
    await expectKeptAway(1, 1);
    move('INBOX', 'INBOX', [7]);
    await expectKeptAway(1, 1);
  });

  test('delivered again next to where it was', async () => {
    await withForgotten();
    box('INBOX').deliver(SECRET);
    box('INBOX.Other').deliver(SECRET);
    await expectKeptAway(2, 3);
  });

  test('renumbered with its folder', async () => {
    await withForgotten();
    // Another order, so that the uids contradict what is known.
    box('INBOX').messages.delete(1);
    renumber('INBOX', 1);
    const before = fetched();
    await archive.sync(origin);
    await archive.sync(origin);
    const after = fetched();
    await expectKeptAway(0, 1);
    expect(after - before).toBeLessThanOrEqual(5);
    await expectTrueWithout();
  });

  test('in a folder that was renamed', async () => {
    await withForgotten();
    rename('INBOX.Other', 'INBOX.Renamed');
    move('INBOX', 'INBOX.Renamed', [6]);
    await expectKeptAway(1, 1);
  });

  test('deleted at the origin: it is counted no more', async () => {
    await withForgotten();
    box('INBOX').messages.delete(6);
    await expectKeptAway(0, 0);
    await expectTrue();
  });

  test('deleted as the only message of its folder', async () => {
    folders({ INBOX: 5, 'INBOX.Other': 0 });
    box('INBOX.Other').deliver(SECRET);
    await archive.sync(origin);
    await forget(ID);
    expect(everything().includes(WORD)).toBe(false);
    box('INBOX.Other').messages.clear();
    await expectKeptAway(0, 0);
    await expectTrue();
  });
});

/** As `expectTrue`, with the forgotten message left out. */
async function expectTrueWithout(): Promise<void> {
  const mirrored = await archive.places();
  const there = [...(origin.boxes.get('AC1')?.folders.values() ?? [])].flatMap((folder) =>
    [...folder.messages.values()]
      .filter(({ raw }) => !raw.equals(SECRET))
      .map(({ uid }) => `${folder.path}/${uid}`),
  );
  expect([...mirrored.keys()].sort()).toEqual(there.sort());
}

test('taken for another message with the same listing, it is found out and not stored', async () => {
  folders({ INBOX: 3, 'INBOX.Other': 1 });
  // The same listing, other bytes of the same length.
  const twin = Buffer.from(SECRET.toString('latin1').replaceAll(`${WORD}body`, 'ordinary_body'));
  expect(twin.length).toBe(SECRET.length);
  const date = '2026-02-03T04:05:06.000Z';
  box('INBOX').deliver(SECRET, { date });
  box('INBOX').deliver(twin, { date });
  await archive.sync(origin);
  await forget(ID);
  await archive.sync(origin);
  // The twin goes for good, and the forgotten one moves: the listing cannot distinguish them.
  box('INBOX').messages.delete(5);
  move('INBOX', 'INBOX.Other', [4]);
  const before = fetched();
  await archive.sync(origin);
  expect(fetched()).toBe(before);
  const found = await archive.sync(origin, { policy: { ...policy, verifyPerHour: 20 } });
  expect(fetched()).toBe(before + 1);
  expect(found.mailboxes[0]?.corrected).toBe(1);
  expect(everything().includes(`${WORD}body`)).toBe(false);
  const after = await archive.sync(origin, { policy: { ...policy, full: true } });
  expect(fetched()).toBe(before + 1);
  expect([after.failures, forgotten(after)]).toEqual([[], 1]);
  expect(after.certificates.every(({ complete }) => complete)).toBe(true);
});

test('in quarantine before it could be recognised: it is reported, and forgetting it again removes that', async () => {
  await withForgotten();
  move('INBOX', 'INBOX.Other', [6]);
  origin.source$ = ({ raw }) => (raw.equals(SECRET) ? raw.subarray(0, 300) : raw);
  await archive.sync(origin);
  expect(everything().includes(WORD)).toBe(true);
  origin.source$ = ({ raw }) => raw;
  const result = await archive.sync(origin);
  expect(result.failures.map(({ code, facts }) => [code, facts])).toEqual([
    ['sync.forgotten-in-quarantine', { id: ID }],
  ]);
  await forget(ID);
  await expectKeptAway(0, 1);
});
