import { hash } from 'node:crypto';
import { copyFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Batch } from '../../src/archive/batch.ts';
import { realFiles } from '../../src/archive/file-system.ts';
import type { Fact } from '../../src/archive/format.ts';
import type { SegmentChecker, SegmentReport } from '../../src/verify/check-segment.ts';
import { appeared, place, sampleMail } from '../archive/sample-log.ts';
import { changes, TABLES } from './catalog-changes.ts';
import { checkerInProcess } from './checker-in-process.ts';
import { GrownArchive, verified } from './grown-archive.ts';

const archive = new GrownArchive();
const file = join(archive.dir, 'catalog.sqlite');
const sound = `${file}.sound`;

const copied = { ...place(1), folder: 'Copies' };
const listed = {
  uid: 40,
  reason: 'short',
  detail: 'half of it',
  kept: hash('sha256', 'kept'),
} as const;

beforeAll(async () => {
  const mail = Array.from({ length: 12 }, (_, i) => sampleMail(i + 1));
  await archive.grow(mail.slice(0, 9), true);
  await archive.grow(mail.slice(9), false);
  // What arrived and stayed as it was is settled by its rows; these are folded.
  await facts({ fact: 'flags', ...place(2), flags: ['\\Flagged'] });
  await facts({ fact: 'ended', ...place(3), reason: 'gone' });
  await facts({ fact: 'ended', ...place(4), reason: 'gone' });
  await facts({ fact: 'reopened', ...place(4), flags: [], reason: 'answers' });
  await facts({ fact: 'held', ...place(5), held: true });
  await facts(
    folder('Copies'),
    { ...arrival(1), ...copied },
    { fact: 'generation', ...place(1), folder: 'Copies', generation: 2, reason: 'renumbered' },
  );
  await facts(folder('Old'), { fact: 'folder-renamed', ...inbox, folder: 'Old', to: 'New' });
  await facts({ ...quarantined, kept: listed.kept });
  await facts({
    fact: 'certificate',
    ...{ ...inbox, generation: 1, originTotal: 12, stored: 11, assumed: 0 },
    ...{ quarantined: 1, held: 1, forgotten: 0, complete: true, since: '2026-02-03T00:00:00Z' },
  });
  checkpointed(sound);
});
afterAll(() => archive.remove());

const { uid: _, generation: __, ...inbox } = place(1);
const quarantined = {
  fact: 'quarantined',
  ...place(listed.uid),
  reason: listed.reason,
  detail: listed.detail,
  listing: { ...arrival(12).listing, uid: listed.uid },
} as const;

function arrival(n: number) {
  const fact = appeared(n, sampleMail(n));
  if (fact.fact !== 'appeared') throw new Error('another fact');
  return fact;
}

function folder(name: string): Fact {
  return {
    ...{ fact: 'folder', ...inbox, folder: name, name, delimiter: '.' },
    ...{ specialUse: null, generation: 1 },
  };
}

function facts(...all: readonly Fact[]): Promise<void> {
  return archive.commit((batch) => {
    for (const fact of all) batch.addFact(fact);
  });
}

/** Puts all of the catalog into its file, and copies that. */
function checkpointed(to: string): void {
  const db = new Database(file);
  db.pragma('wal_checkpoint(TRUNCATE)');
  db.close();
  copyFileSync(file, to);
}

function restored(from = sound): void {
  for (const end of ['-wal', '-shm']) rmSync(`${file}${end}`, { force: true });
  copyFileSync(from, file);
}

/** Counts what is settled, or lets nothing be. */
class Watched implements SegmentChecker {
  messages = 0;
  blobs = 0;
  /** Files that are read once more, because settling did not prove the catalog. */
  again = 0;
  readonly #checker = checkerInProcess(realFiles);
  readonly width = this.#checker.width;
  readonly rebuild = this.#checker.rebuild;
  readonly structure = this.#checker.structure;
  readonly contradictions = this.#checker.contradictions;
  readonly close = this.#checker.close;

  constructor(private readonly settles: boolean) {}

  async *check(job: Parameters<SegmentChecker['check']>[0]): AsyncIterable<SegmentReport> {
    const { settleUpTo, ...all } = job;
    if (settleUpTo === undefined) this.again += 1;
    for await (const report of this.#checker.check(this.settles ? job : all)) {
      if (report.what === 'end') {
        this.messages += report.settled.messages;
        this.blobs += report.settled.blobs;
      }
      yield report;
    }
  }
}

/** The verdict with and without settled messages, which must be the same. */
async function verdict(what: string) {
  const fastComparison = await verified(archive.dir, { checker: new Watched(true) });
  const folding = await verified(archive.dir, { checker: new Watched(false) });
  expect(fastComparison, what).toEqual(folding);
  return fastComparison;
}

test('messages that arrived and stayed as they were are settled, with their blobs', async () => {
  const checker = new Watched(true);
  expect(await verified(archive.dir, { checker })).toMatchObject({
    ...{ catalog: 'equal', found: 0, messages: 12, rebuilt: 12 },
  });
  // Not the first five, one of which is in two folders, and not the sixth, which is the twelfth as well.
  expect(checker.messages).toBe(5);
  expect(checker.blobs).toBe(3);
  expect(checker.again).toBe(0);
  expect((await verdict('nothing changed')).found).toBe(0);
});

test('a place to which the index of uids does not lead is not settled', async () => {
  const db = new Database(file);
  db.unsafeMode();
  const entry = "type = 'index' AND name = 'places_by_uid'";
  const { sql, rootpage } = db
    .prepare<[], { sql: string; rootpage: number }>(
      `SELECT sql, rootpage FROM sqlite_schema WHERE ${entry}`,
    )
    .get() ?? { sql: '', rootpage: 0 };
  // One of those that are settled.
  const uid = 8;
  const move = db.prepare('UPDATE places SET uid = ? WHERE uid = ?');
  move.run(uid + 1_000, uid);
  // Without the index, what follows is written to the table alone.
  db.pragma('writable_schema = ON');
  db.exec(`DELETE FROM sqlite_schema WHERE ${entry}`);
  db.pragma('writable_schema = RESET');
  db.prepare('UPDATE places SET uid = ? WHERE uid = ?').run(uid, uid + 1_000);
  db.pragma('writable_schema = ON');
  db.prepare("INSERT INTO sqlite_schema VALUES ('index', 'places_by_uid', 'places', ?, ?)").run(
    rootpage,
    sql,
  );
  db.close();
  const { found } = await verdict('a wrong entry of an index');
  restored();
  expect(found).toBeGreaterThan(0);
});

/** Numbers of rows, which a purge may leave with gaps, and what no fact gives. */
const NOT_COMPARED = [
  ...['events.id', 'flag_sets.marks', 'meta.attachment_version', 'meta.extractor', 'places.id'],
  ...['quarantine.id', 'spans.id'],
];

test('every changed value is found as if all messages were folded', async () => {
  const missed = new Set<string>();
  let changed = 0;
  for (const { table, column, change } of changes(sound)) {
    const db = new Database(file);
    db.pragma('ignore_check_constraints = ON');
    db.pragma('foreign_keys = OFF');
    const done = attempted(() => change(db));
    db.close();
    if (done) {
      changed += 1;
      const { found } = await verdict(`${table}.${column}`);
      if (found === 0) missed.add(`${table}.${column}`);
    }
    restored();
  }
  expect(changed).toBeGreaterThan(200);
  expect([...missed].sort()).toEqual(NOT_COMPARED);
}, 240_000);

/** False where the table's own rules refuse a change. */
function attempted(act: () => unknown): boolean {
  try {
    act();
    return true;
  } catch (error) {
    if (error instanceof Database.SqliteError && error.code.startsWith('SQLITE_CONSTRAINT'))
      return false;
    throw error;
  }
}

const id = (n: number) => hash('sha256', sampleMail(n));

test.each([
  ...[10, 1].flatMap((uid) => [
    `INSERT INTO places SELECT id + 900, folder_id, generation, uid, docid, from_commit, to_commit, first_commit, flag_set,
       marks, fingerprint, stable_id, date, assumed, held, reason FROM places WHERE uid = ${uid}`,
    `INSERT INTO places SELECT id + 900, folder_id, generation, uid + 900, docid, from_commit, to_commit, first_commit,
       flag_set, marks, fingerprint, stable_id, date, assumed, held, reason FROM places WHERE uid = ${uid}`,
    `INSERT INTO places SELECT id + 900, folder_id + 1, generation, uid, docid, from_commit, to_commit, first_commit,
       flag_set, marks, fingerprint, stable_id, date, assumed, held, reason FROM places WHERE uid = ${uid}`,
    `INSERT INTO messages SELECT docid + 1, id, size, date, subject, sender_name, sender_address, message_id, first_commit,
       open_places, extractor, place_set FROM messages WHERE docid = ${uid * 64}`,
    `INSERT INTO spans SELECT NULL, id, folder_id, docid, from_commit, from_commit, flag_set, NULL, NULL, NULL FROM places
       WHERE uid = ${uid}`,
    `INSERT INTO events SELECT NULL, from_commit, folder_id, generation, uid, 'held', '{}' FROM places WHERE uid = ${uid}`,
    `INSERT INTO forgotten SELECT folder_id, generation, uid, x'00' FROM places WHERE uid = ${uid} LIMIT 1`,
    `INSERT INTO tombstones SELECT id, 'pruned', 1 FROM messages WHERE docid = ${uid * 64}`,
    // As if it had never arrived; and instead of that, a row that nothing explains, so that the numbers are right.
    `DELETE FROM places WHERE uid = ${uid};
     INSERT INTO places SELECT id + 900, folder_id, generation, uid + 900, docid, from_commit, to_commit, first_commit,
       flag_set, marks, fingerprint, stable_id, date, assumed, held, reason FROM places WHERE uid = 11`,
  ]),
  `UPDATE records SET segment = segment + 1 WHERE kind = 1`,
  `INSERT INTO records SELECT kind, x'00', size, segment, ordinal, offset, docid FROM records LIMIT 1`,
  `UPDATE places SET folder_id = (SELECT max(id) FROM folders) WHERE uid >= 10`,
  `UPDATE folders SET path = 'INBOX2', name = 'INBOX2' WHERE path = 'INBOX'`,
])('rows of a catalog that nothing in the log explains are found: %s', async (sql) => {
  const db = new Database(file);
  db.pragma('foreign_keys = OFF');
  db.exec(sql);
  db.close();
  expect(await verdict(sql)).toMatchObject({ catalog: 'different' });
  restored();
});

/** What may happen to a message that was settled until then. */
const LATER: Record<string, (batch: Batch) => void> = {
  flags: (batch) => batch.addFact({ fact: 'flags', ...place(10), flags: [] }),
  ended: (batch) => batch.addFact({ fact: 'ended', ...place(10), reason: 'gone' }),
  reopened: (batch) => batch.addFact({ fact: 'reopened', ...place(10), flags: [], reason: 'x' }),
  held: (batch) => batch.addFact({ fact: 'held', ...place(10), held: true }),
  'held twice': (batch) => {
    batch.addFact({ fact: 'held', ...place(10), held: true });
    batch.addFact({ fact: 'held', ...place(10), held: false });
  },
  'verified as it is': (batch) =>
    batch.addFact({
      ...{ fact: 'verified', ...place(10), message: id(10), docid: 640, corrected: false },
      size: sampleMail(10).length,
    }),
  'verified as another': (batch) =>
    batch.addFact({
      ...{ fact: 'verified', ...place(10), message: id(11), docid: 704, corrected: true },
      size: sampleMail(11).length,
    }),
  'another folder': (batch) => batch.addFact({ ...arrival(10), folder: 'Copies' }),
  'another message at its place': (batch) => {
    batch.addSource(sampleMail(13), id(13), () => false);
    batch.addFact({ ...appeared(13, sampleMail(13)), ...place(10) });
  },
  'another message with its number': (batch) => {
    batch.addSource(sampleMail(13), id(13), () => false);
    batch.addFact({ ...arrival(13), docid: 640 });
  },
  'its bytes once more': (batch) => {
    batch.addSource(sampleMail(10), id(10), () => false);
  },
  'its blob once more': (batch) => {
    batch.addSource(sampleMail(9), id(9), () => false);
  },
  missing: (batch) =>
    batch.addFact({ fact: 'missing', kind: 'message', hash: id(10), size: sampleMail(10).length }),
  purged: (batch) =>
    batch.addFact({ fact: 'purged', message: id(10), reason: 'forgotten', places: [place(10)] }),
  'purged with its blob': (batch) =>
    batch.addFact({
      ...{ fact: 'purged', message: id(9), reason: 'pruned' },
      blobs: [...archive.known.blobs.keys()],
    }),
  quarantined: (batch) => batch.addFact({ ...quarantined, ...place(10) }),
  renumbered: (batch) =>
    batch.addFact({ fact: 'generation', ...inbox, generation: 2, reason: 'renumbered' }),
  renamed: (batch) => batch.addFact({ fact: 'folder-renamed', ...inbox, to: 'Inbox' }),
  'folder gone': (batch) => batch.addFact({ fact: 'folder-gone', ...inbox }),
};

/** What cannot be proven by settling, or not without what is folded. */
const READ_AGAIN = ['another message with its number', 'missing', 'purged', 'purged with its blob'];

test.each(Object.entries(LATER))(
  'a catalog that missed what happened later is found: %s',
  async (name, put) => {
    const own = new GrownArchive();
    try {
      await own.grow(
        Array.from({ length: 12 }, (_, i) => sampleMail(i + 1)),
        true,
      );
      await own.commit((batch) => batch.addFact(folder('Copies')));
      const catalog = join(own.dir, 'catalog.sqlite');
      const seen = `${own.dir}/seen`;
      const db = new Database(catalog);
      db.pragma('wal_checkpoint(TRUNCATE)');
      db.close();
      copyFileSync(catalog, seen);
      await own.commit(put);
      let again = 0;
      const both = async () => {
        const checker = new Watched(true);
        const fastComparison = await verified(own.dir, { checker });
        again = checker.again;
        const folding = await verified(own.dir, { checker: new Watched(false) });
        expect(fastComparison).toEqual(folding);
        return fastComparison;
      };
      expect(await both(), name).toMatchObject({ catalog: 'equal' });
      expect(again > 0, name).toBe(READ_AGAIN.includes(name));
      // The catalog as it was, but for the commit that it claims to have reached.
      const later = new Database(catalog);
      later.prepare('ATTACH ? AS seen').run(seen);
      later.pragma('foreign_keys = OFF');
      const tables = later
        .prepare(
          "SELECT name FROM seen.sqlite_schema WHERE type = 'table' AND name IN (SELECT value FROM json_each(?))",
        )
        .pluck()
        .all(
          JSON.stringify([...TABLES, 'tombstones', 'forgotten'].filter((it) => it !== 'commits')),
        );
      for (const table of tables) {
        const meta = later.prepare('SELECT * FROM main.meta').get() as Record<string, unknown>;
        later.exec(
          `DELETE FROM main.${table}; INSERT INTO main.${table} SELECT * FROM seen.${table}`,
        );
        if (table === 'meta') {
          later
            .prepare('UPDATE main.meta SET commit_number = ?, commit_hash = ?, commit_time = ?')
            .run(meta.commit_number, meta.commit_hash, meta.commit_time);
        }
      }
      later.close();
      expect(await both(), name).toMatchObject({ catalog: 'different' });
    } finally {
      own.remove();
    }
  },
);

test('a catalog that changes while the log is read is compared in its last state', async () => {
  const { messages } = await verified(archive.dir);
  let changed = false;
  const checker = new Watched(true);
  const changing: SegmentChecker = {
    width: checker.width,
    rebuild: checker.rebuild,
    structure: checker.structure,
    contradictions: checker.contradictions,
    close: checker.close,
    async *check(job) {
      yield* checker.check(job);
      if (changed || job.segment === 1) return;
      changed = true;
      const db = new Database(file);
      db.exec("UPDATE messages SET subject = 'another' WHERE docid = 640");
      db.close();
    },
  };
  const { catalog, findings } = await verified(archive.dir, { checker: changing });
  expect({ changed, catalog, messages }).toEqual({
    changed: true,
    catalog: 'different',
    messages: 12,
  });
  expect(findings).toMatchObject([{ what: 'catalog', table: 'messages', columns: ['subject'] }]);
  restored();
});
