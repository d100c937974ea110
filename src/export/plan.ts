import { scratchDatabase } from '../disk/scratch-database.ts';
import type { PlaceLine } from '../mail/lines.ts';
import type { InMbox, ManifestEntry, ManifestFile, MissingPlace } from './manifest.ts';

/** A place that an export is to have. */
export interface PlannedPlace {
  readonly line: PlaceLine & { readonly id: string };
  readonly host: string;
  readonly resourceId: string;
  readonly delimiter: string;
  readonly specialUse: string | null;
  /** How many folders that were met before have the path of this one as well. */
  readonly namesake: number;
  readonly generation: number;
  readonly docid: number;
  /** The message's file, or the mbox it goes into. */
  readonly path: string;
  /** Where an earlier export put it, if that has another path. */
  readonly before: string | null;
}

/** What became of a place: `earlier` is in the export since before, and not part of this run. */
export type Outcome = 'due' | 'done' | 'earlier' | 'failed';

const PAGE = 500;

interface Row {
  readonly rank: number;
  readonly outcome: Outcome;
  readonly path: string;
  readonly before: string | null;
  readonly place: string;
  readonly entry: string;
  readonly docid: number;
}

/**
 * What an export consists of, in a temporary database that SQLite keeps private and removes with the process: so
 * neither a mailbox nor an earlier manifest of any size has to fit into memory.
 */
export class ExportPlan {
  readonly #db = scratchDatabase(`
    CREATE TABLE places (
      key TEXT PRIMARY KEY, folder TEXT NOT NULL, docid INTEGER NOT NULL, generation INTEGER NOT NULL,
      uid INTEGER NOT NULL, path TEXT NOT NULL, before TEXT, outcome TEXT NOT NULL,
      place TEXT, entry TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE files (path TEXT PRIMARY KEY, sha256 TEXT NOT NULL, size INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE missing (key TEXT PRIMARY KEY, item TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE queue (rank INTEGER PRIMARY KEY, key TEXT NOT NULL);
    BEGIN`);
  readonly #add = this.#db.prepare<unknown[]>(
    `INSERT INTO places (key, folder, docid, generation, uid, path, before, outcome, place, entry)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (key) DO UPDATE SET docid = excluded.docid, path = excluded.path,
       before = CASE WHEN excluded.path = path THEN NULL ELSE path END,
       outcome = excluded.outcome, place = excluded.place, entry = excluded.entry`,
  );
  readonly #addFile = this.#db.prepare<unknown[]>(
    'INSERT OR REPLACE INTO files (path, sha256, size) VALUES (?, ?, ?)',
  );
  readonly #addMissing = this.#db.prepare<unknown[]>(
    'INSERT OR REPLACE INTO missing (key, item) VALUES (?, ?)',
  );
  readonly #settle = this.#db.prepare<unknown[]>(
    'UPDATE places SET outcome = ?, entry = ? WHERE key = (SELECT key FROM queue WHERE rank = ?)',
  );
  readonly #isKnown = this.#asking('SELECT 1 FROM places WHERE key = ?');
  readonly #hasDue = this.#asking(
    "SELECT 1 FROM places WHERE folder = ? AND outcome = 'due' LIMIT 1",
  );

  /** Something an earlier export has. */
  addEarlier(entry: ManifestEntry): void {
    this.#add.run(
      keyOf(entry, entry.sha256),
      groupOf(entry.path),
      // Before everything that comes now; in the order in which it was.
      -1,
      entry.generation,
      entry.inMbox?.offset ?? entry.uid,
      entry.path,
      null,
      'earlier',
      null,
      JSON.stringify(entry),
    );
  }

  addFile({ path, sha256, size }: ManifestFile): void {
    this.#addFile.run(path, sha256, size);
  }

  file(path: string): ManifestFile | undefined {
    return this.#db
      .prepare<[string], ManifestFile>('SELECT path, sha256, size FROM files WHERE path = ?')
      .get(path);
  }

  dropFile(path: string): void {
    this.#db.prepare('DELETE FROM files WHERE path = ?').run(path);
  }

  addMissing(place: MissingPlace): void {
    this.#addMissing.run(keyOfMissing(place), JSON.stringify(place));
  }

  /** True when an earlier export has this place. */
  has(place: Omit<PlannedPlace, 'before' | 'path'>): boolean {
    return this.#isKnown(keyOfPlanned(place));
  }

  add(place: Omit<PlannedPlace, 'before'>): void {
    this.#db
      .prepare('DELETE FROM missing WHERE key = ?')
      .run(keyOfMissing({ ...place, ...place.line }));
    this.#add.run(
      keyOfPlanned(place),
      groupOf(place.path),
      place.docid,
      place.generation,
      place.line.uid,
      place.path,
      null,
      'due',
      JSON.stringify(place),
      JSON.stringify(entryOf(place)),
    );
  }

  /** Puts all that was added into the order of the export: by folder, oldest first. */
  order(): void {
    this.#db.exec(`
      CREATE INDEX groups ON places (folder, outcome);
      INSERT INTO queue (key) SELECT key FROM places ORDER BY folder, docid, generation, uid, key`);
  }

  /** How many places are due, and the bytes of their sources. */
  due(): { readonly places: number; readonly bytes: number } {
    const row = this.#db
      .prepare<[], { places: number; bytes: number | null }>(
        `SELECT count(*) AS places, sum(entry ->> 'size') AS bytes FROM places WHERE outcome = 'due'`,
      )
      .get();
    return { places: row?.places ?? 0, bytes: row?.bytes ?? 0 };
  }

  /** All places in order; between any two of them others may be settled. */
  *places(): Generator<{
    readonly rank: number;
    readonly outcome: Outcome;
    readonly entry: ManifestEntry;
    /** Null for what only an earlier manifest knows. */
    readonly place: PlannedPlace | null;
  }> {
    for (const row of this.#rows()) {
      const place: Omit<PlannedPlace, 'before'> | null = JSON.parse(row.place ?? 'null');
      yield {
        rank: row.rank,
        outcome: row.outcome,
        entry: JSON.parse(row.entry),
        place: place === null ? null : { ...place, before: row.before },
      };
    }
  }

  done(rank: number, place: PlannedPlace, inMbox?: InMbox): void {
    this.#settle.run('done', JSON.stringify(entryOf(place, inMbox)), rank);
  }

  /** A place that the export has not, or not any more. */
  failed(rank: number): void {
    this.#db
      .prepare(
        "UPDATE places SET outcome = 'failed' WHERE key = (SELECT key FROM queue WHERE rank = ?)",
      )
      .run(rank);
  }

  /** How many places have each outcome. */
  tally(): Readonly<Record<Outcome, number>> {
    const tally = { due: 0, done: 0, earlier: 0, failed: 0 };
    const rows = this.#db
      .prepare<[], { outcome: Outcome; n: number }>(
        'SELECT outcome, count(*) AS n FROM places GROUP BY outcome',
      )
      .iterate();
    for (const { outcome, n } of rows) tally[outcome] = n;
    return tally;
  }

  /** Places added so far. */
  count(): number {
    return this.#db.prepare<[], { n: number }>('SELECT count(*) AS n FROM places').get()?.n ?? 0;
  }

  /** What the manifest is to list. */
  *entries(): Generator<ManifestEntry> {
    for (const row of this.#rows()) {
      if (row.outcome === 'done' || row.outcome === 'earlier') yield JSON.parse(row.entry);
    }
  }

  *files(): Generator<ManifestFile> {
    yield* this.#db
      .prepare<[], ManifestFile>('SELECT path, sha256, size FROM files ORDER BY path')
      .iterate();
  }

  /** True when something is to be written into this group: see `groupOf`. */
  hasDue(group: string): boolean {
    return this.#hasDue(group);
  }

  *missing(): Generator<MissingPlace> {
    const rows = this.#db
      .prepare<[], { item: string }>('SELECT item FROM missing ORDER BY key')
      .iterate();
    for (const { item } of rows) yield JSON.parse(item);
  }

  close(): void {
    this.#db.close();
  }

  /** Returns whether a query has any row, as a function of the query's parameter. */
  #asking(query: string): (parameter: string) => boolean {
    const statement = this.#db.prepare<[string], unknown>(query);
    return (parameter) => statement.get(parameter) !== undefined;
  }

  *#rows(): Generator<Row> {
    const page = this.#db.prepare<[number, number], Row>(
      `SELECT q.rank, p.outcome, p.path, p.before, p.place, p.entry, p.docid FROM queue q JOIN places p USING (key)
       WHERE q.rank > ? ORDER BY q.rank LIMIT ?`,
    );
    let after = 0;
    for (;;) {
      const rows = page.all(after, PAGE);
      for (const row of rows) yield row;
      after = rows.at(-1)?.rank ?? after;
      if (rows.length < PAGE) return;
    }
  }
}

function keyOf(
  place: {
    readonly host: string;
    readonly resourceId: string;
    readonly folder: string;
    readonly namesake?: number;
    readonly generation: number;
    readonly uid: number;
  },
  id: string,
): string {
  const { host, resourceId, folder, namesake = 0, generation, uid } = place;
  return JSON.stringify([host, resourceId, folder, namesake, generation, uid, id]);
}

function keyOfMissing(place: Omit<MissingPlace, 'reason' | 'id'>): string {
  const { mailbox, folder, namesake = 0, generation, uid } = place;
  return JSON.stringify([mailbox, folder, namesake, generation, uid]);
}

/** The field of a manifest that names one of several folders with one path. */
export function namesakeOf({ namesake }: { readonly namesake: number }) {
  return namesake === 0 ? {} : { namesake };
}

function keyOfPlanned(place: Omit<PlannedPlace, 'before' | 'path'>): string {
  const { folder, uid, id } = place.line;
  return keyOf({ ...place, folder, uid }, id);
}

/** The group of a path: what is written together. An mbox is a folder of its own. */
function groupOf(path: string): string {
  return path.endsWith('.mbox') ? path : path.split('/').slice(0, -1).join('/');
}

/** A place as the manifest lists it. */
export function entryOf(place: Omit<PlannedPlace, 'before'>, inMbox?: InMbox): ManifestEntry {
  const { id, size, mailbox, folder, uid, flags, date, firstSeen, endedAt } = place.line;
  return {
    path: place.path,
    sha256: id,
    size,
    mailbox,
    host: place.host,
    resourceId: place.resourceId,
    folder,
    delimiter: place.delimiter,
    ...(place.specialUse === null ? {} : { specialUse: place.specialUse }),
    ...namesakeOf(place),
    generation: place.generation,
    uid,
    flags,
    date,
    firstSeen,
    endedAt,
    ...(inMbox === undefined ? {} : { inMbox }),
  };
}
