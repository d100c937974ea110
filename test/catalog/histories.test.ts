import Database from 'better-sqlite3';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { CommittedBatch } from '../../src/archive/format.ts';
import { openCatalog, type WritableCatalog } from '../../src/catalog/catalog.ts';
import { catalogFile } from '../../src/catalog/database.ts';
import type { Place } from '../../src/core/types.ts';
import {
  attachmentTypes,
  commitChanges,
  correspondents,
  placeSets,
  receivedDays,
} from './counted.ts';
import { attachment, entry, sha256, temporaryDir } from './history.ts';
import { ACTS, addressOf, FOLDERS, lines, Model, steps } from './model.ts';

/** Every row that the fold makes; what indexing makes is left out. */
function dump(dir: string): Record<string, unknown[]> {
  const db = new Database(catalogFile(dir), { readonly: true });
  const tables = db
    .prepare<[], string>(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'msg_fts%' AND name NOT LIKE 'text%' AND name NOT LIKE 'thread%' AND name NOT LIKE 'attachment%' AND name NOT IN ('addresses', 'message_people', 'correspondents')",
    )
    .pluck()
    .all();
  const rows = Object.fromEntries(
    tables.map((table) => [
      table,
      db
        .prepare<[], Record<string, unknown>>(`SELECT * FROM "${table}" ORDER BY 1, 2`)
        .all()
        .map(({ extractor: _extractor, ...row }) => row),
    ]),
  );
  db.close();
  return rows;
}

/** The batches as purging leaves them: neither the bytes nor the facts of what was purged. */
function withoutPurged(batches: readonly CommittedBatch[]): CommittedBatch[] {
  const facts = batches.flatMap(({ records }) =>
    records.flatMap((record) => (record.kind === 'fact' ? [record.fact] : [])),
  );
  const purged = new Set(facts.flatMap((fact) => (fact.fact === 'purged' ? [fact.message] : [])));
  const keyOfPlace = (at: Place) => JSON.stringify([at.mailbox, at.folder, at.uid]);
  const places = new Set(
    facts.flatMap((fact) =>
      fact.fact === 'appeared' && purged.has(fact.message) ? [keyOfPlace(fact)] : [],
    ),
  );
  return batches.map((batch) => ({
    ...batch,
    records: batch.records.filter((record) => {
      if (record.kind === 'message') return !purged.has(record.id);
      if (record.kind !== 'fact' || !('uid' in record.fact)) return true;
      return !places.has(keyOfPlace(record.fact));
    }),
  }));
}

const TYPES = ['application/pdf', 'image/png', 'text/plain'];
const PEOPLE = ['ada@example.org', 'bo@example.org', 'cy@example.net'];
/** One of a list by a number. */
const some = (list: readonly string[], n: number): string => list[n % list.length] ?? '';

/** Indexes what is pending, each time with other attachments and people, as another version might. */
function indexOthers(catalog: WritableCatalog, seed: number): void {
  catalog.index.index(
    catalog.index.pending({ limit: 7 }).map(({ docid, size }) => {
      const n = (docid / 64 + size) * 7 + seed;
      return {
        docid,
        entry: entry({
          from: 'x',
          senders: [some(PEOPLE, n)],
          recipients: PEOPLE.slice(n % 3),
          attachments: Array.from({ length: n % 4 }, (_, i) =>
            // The same bytes now and then, also as another type.
            attachment(i + 1, {
              contentType: some(TYPES, n + i),
              size: 10 * ((n + i) % 5),
              hash: sha256(`content ${(n + i) % 5}`),
            }),
          ),
        }),
      };
    }),
  );
}

/** Indexes what is pending, as a daemon does in between. */
function indexSome(catalog: WritableCatalog): void {
  const documents = catalog.index
    .pending({ limit: 7 })
    .map(({ docid }) => ({ docid, entry: entry({ body: `text of ${docid}` }) }));
  catalog.index.index(documents);
}

async function withCatalog(
  act: (catalog: WritableCatalog, dir: string) => void | Promise<void>,
): Promise<void> {
  const room = temporaryDir();
  const catalog = await openCatalog(room.dir);
  try {
    await act(catalog, room.dir);
  } finally {
    catalog.close();
    room.remove();
  }
}

describe('random histories', () => {
  test('the list shows what the model holds, and as of a commit what it held then', async () => {
    await fc.assert(
      fc.asyncProperty(steps([...ACTS, 'rename']), (played) =>
        withCatalog((catalog) => {
          const model = new Model();
          const then: { time: number; listed: string[]; deleted: string[] }[] = [];
          for (const step of [...played, { act: 'commit', a: 0, b: 0 } as const]) {
            if (!model.play(step)) continue;
            const batch = model.history.batches.at(-1);
            if (batch === undefined) continue;
            catalog.foldBatch(batch);
            const listed = lines(catalog.list({}));
            const deleted = lines(catalog.list({ deleted: true }));
            expect(listed.toSorted()).toEqual(model.current());
            expect(deleted.toSorted()).toEqual(model.ended());
            const unread = [...catalog.list({})].filter(
              ({ id, flags }) => id !== null && !flags.includes('\\Seen'),
            );
            for (const { id, address, folder } of catalog.folders.all())
              expect(catalog.folders.unread(id)).toBe(
                unread.filter((line) => line.mailbox === address && line.folder === folder).length,
              );
            then.push({ time: batch.commit.time, listed, deleted });
          }
          for (const { time, listed, deleted } of then) {
            // Anywhere between this commit and the next one.
            expect(lines(catalog.list({ asOf: time }))).toEqual(listed);
            expect(lines(catalog.list({ asOf: time + 59_999 }))).toEqual(listed);
            expect(lines(catalog.list({ asOf: time, deleted: true }))).toEqual(deleted);
          }
          const { listed = [] } = then.at(-1) ?? {};
          const byFolder = FOLDERS.flatMap((key, i) =>
            lines(catalog.list({ mailbox: addressOf(key.mailbox), folder: model.paths[i] ?? '' })),
          );
          expect(byFolder.toSorted()).toEqual(listed.toSorted());
          expect(lines(catalog.list({ mailbox: 'ac1' }))).toEqual(
            listed.filter((line) => line.includes('one@example.net')),
          );
          for (const { time } of then) {
            for (const filter of [{}, { deleted: true }, { asOf: time }, { mailbox: 'ac1' }]) {
              const newest = [...catalog.list(filter)];
              const oldest = [...catalog.list({ ...filter, sort: 'oldest' })];
              expect(oldest).toEqual(newest.toReversed());
            }
          }
          expect(catalog.reached().orphans).toBe(0);
        }),
      ),
      { numRuns: 60 },
    );
  });

  test('folding again from scratch gives the same rows, however it was grouped and indexed', async () => {
    await fc.assert(
      fc.asyncProperty(steps([...ACTS, 'rename', 'purge']), (played) =>
        withCatalog((live, liveDir) => {
          const model = new Model();
          for (const [i, step] of [...played, { act: 'commit', a: 0, b: 0 } as const].entries()) {
            const batch = model.play(step) ? model.history.batches.at(-1) : undefined;
            if (batch !== undefined) live.foldBatch(batch);
            if (i % 5 === 0) indexSome(live);
          }
          return withCatalog((again, againDir) => {
            again.foldBatches(model.history.batches);
            expect(dump(againDir)).toEqual(dump(liveDir));
            const totals = live.totals();
            expect(again.totals()).toEqual({ ...totals, pending: again.index.pendingCount() });
          });
        }),
      ),
      { numRuns: 60 },
    );
  });

  test('a log from which purged facts are gone gives the same lists and counts', async () => {
    await fc.assert(
      fc.asyncProperty(steps([...ACTS, 'purge']), (played) =>
        withCatalog(async (live) => {
          const model = new Model();
          for (const step of [...played, { act: 'commit', a: 0, b: 0 } as const]) {
            const batch = model.play(step) ? model.history.batches.at(-1) : undefined;
            if (batch !== undefined) live.foldBatch(batch);
          }
          await withCatalog((again) => {
            again.foldBatches(withoutPurged(model.history.batches));
            for (const filter of [{}, { deleted: true }])
              expect(lines(again.list(filter))).toEqual(lines(live.list(filter)));
            for (const { id, ...key } of live.folders.all())
              expect(again.folders.counts(again.folders.find(key)?.id ?? -1)).toEqual(
                live.folders.counts(id),
              );
            expect(again.totals()).toEqual(live.totals());
            expect(again.reached().orphans).toBe(0);
          });
        }),
      ),
      { numRuns: 40 },
    );
  });

  test('sums are those of the rows after every commit', async () => {
    await fc.assert(
      fc.asyncProperty(steps([...ACTS, 'rename', 'purge']), (played) =>
        withCatalog((catalog, dir) => {
          const db = new Database(catalogFile(dir), { readonly: true });
          const model = new Model();
          for (const step of [...played, { act: 'commit', a: 0, b: 0 } as const]) {
            const batch = model.play(step) ? model.history.batches.at(-1) : undefined;
            if (batch === undefined) continue;
            catalog.foldBatch(batch);
            if (step.a % 2 === 0) indexOthers(catalog, step.a);
            for (const sums of [
              placeSets,
              receivedDays,
              attachmentTypes,
              correspondents,
              commitChanges,
            ]) {
              const { kept, counted } = sums(db);
              expect(kept, sums.name).toEqual(counted);
            }
          }
          db.close();
        }),
      ),
      { numRuns: 60 },
    );
  });

  test('a message ends and comes back with as many current places as it has', async () => {
    await fc.assert(
      fc.asyncProperty(steps(ACTS), (played) =>
        withCatalog((catalog, dir) => {
          const model = new Model();
          for (const step of [...played, { act: 'commit', a: 0, b: 0 } as const]) {
            const batch = model.play(step) ? model.history.batches.at(-1) : undefined;
            if (batch !== undefined) catalog.foldBatch(batch);
          }
          const db = new Database(catalogFile(dir), { readonly: true });
          const wrong = db
            .prepare(
              'SELECT docid FROM messages m WHERE open_places <> (SELECT count(*) FROM places p WHERE p.docid = m.docid AND to_commit IS NULL)',
            )
            .all();
          const overlaps = db
            .prepare(
              'SELECT s.id FROM spans s JOIN places p ON p.id = s.place_id WHERE s.from_commit > s.to_commit OR s.to_commit > p.from_commit',
            )
            .all();
          db.close();
          expect(wrong).toEqual([]);
          expect(overlaps).toEqual([]);
        }),
      ),
      { numRuns: 40 },
    );
  });
});
