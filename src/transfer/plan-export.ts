import type { LogReader } from '../archive/log-reader.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { SearchRequest } from '../catalog/search.ts';
import { hasCode, MailkeepError } from '../core/errors.ts';
import { scratchDatabase } from '../core/sqlite.ts';
import type { MessageId } from '../core/types.ts';
import type { PlaceLine } from '../mail/identity.ts';
import type { ExportFiles } from './export-files.ts';
import type {
  ExportFormat,
  ExportOrigin,
  InMbox,
  ManifestEntry,
  ManifestFile,
  ManifestHead,
  MissingPlace,
  Selected,
  SelectedPlace,
} from './export-manifest.ts';
import { FolderPaths, maildirFileName, messageName, type NamedFolder } from './export-names.ts';

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
type Outcome = 'due' | 'done' | 'earlier' | 'failed';

const PAGE = 500;

interface Row {
  readonly rank: number;
  readonly outcome: Outcome;
  readonly before: string | null;
  readonly place: string | null;
  readonly entry: string;
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
  readonly #isKnown = this.#db.prepare<unknown[]>('SELECT 1 FROM places WHERE key = ?');
  readonly #hasDue = this.#db.prepare<unknown[]>(
    "SELECT 1 FROM places WHERE folder = ? AND outcome = 'due' LIMIT 1",
  );

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
    return this.#isKnown.get(keyOfPlanned(place)) !== undefined;
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
    for (const { rank, outcome, before, ...row } of this.#rows()) {
      const place: Omit<PlannedPlace, 'before'> | null = JSON.parse(row.place ?? 'null');
      const entry: ManifestEntry = JSON.parse(row.entry);
      yield { rank, outcome, entry, place: place === null ? null : { ...place, before } };
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

  /** Drops a place that only an earlier export had. */
  drop(rank: number): void {
    this.#db
      .prepare('DELETE FROM places WHERE key = (SELECT key FROM queue WHERE rank = ?)')
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
    return this.#hasDue.get(group) !== undefined;
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

  *#rows(): Generator<Row> {
    const page = this.#db.prepare<[number, number], Row>(
      `SELECT q.rank, p.outcome, p.before, p.place, p.entry FROM queue q JOIN places p USING (key)
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

export function entryOf(place: Omit<PlannedPlace, 'before'>, inMbox?: InMbox): ManifestEntry {
  const { id, size, mailbox, folder, uid, flags, date, firstSeen, endedAt } = place.line;
  return {
    ...{ path: place.path, sha256: id, size, mailbox },
    ...{ host: place.host, resourceId: place.resourceId, folder, delimiter: place.delimiter },
    ...(place.specialUse === null ? {} : { specialUse: place.specialUse }),
    ...namesakeOf(place),
    ...{ generation: place.generation, uid, flags, date, firstSeen, endedAt },
    ...(inMbox === undefined ? {} : { inMbox }),
  };
}

/** Failures beyond these are counted, and named in the manifest only. */
const MOST_NAMED = 10_000;

export interface Planned extends Selected {
  readonly plan: ExportPlan;
  readonly places: number;
  /** Of them, those that an earlier export has. */
  readonly skipped: number;
  /** Places that only an earlier export has. */
  readonly kept: number;
  readonly quarantined: number;
  readonly failures: readonly MissingPlace[];
}

export async function planPlaces(
  origin: ExportOrigin,
  options: WritingOptions,
  target: ExportTarget,
): Promise<Planned> {
  const plan = new ExportPlan();
  try {
    await target.recall(plan);
    const earlier = plan.count();
    const planning = new Planning(plan, options);
    const selected = await origin.select({
      folders: (met) => planning.folders(met),
      place: (place) => planning.place(place),
    });
    plan.order();
    const { places, skipped, quarantined, failures, known } = planning;
    return {
      ...{ ...selected, plan, places, skipped, quarantined, failures },
      kept: earlier - known,
    };
  } catch (error) {
    plan.close();
    throw error;
  }
}

class Planning {
  places = 0;
  skipped = 0;
  quarantined = 0;
  /** Places that an earlier export has, whether they are written again or not. */
  known = 0;
  readonly failures: MissingPlace[] = [];
  readonly #paths: FolderPaths;

  constructor(
    private readonly plan: ExportPlan,
    private readonly options: WritingOptions,
  ) {
    this.#paths = new FolderPaths(options.format === 'maildir' ? 'maildir' : 'nested');
  }

  /** In the order in which the archive met them, so that a later folder never changes an earlier one's path. */
  folders(met: readonly NamedFolder[]): void {
    for (const folder of met) this.#paths.of(folder);
  }

  place({ line, folder: named, generation, docid }: SelectedPlace): void {
    this.places += 1;
    const { id } = line;
    if (id === null) {
      this.#missing({ line, folder: named, generation });
      return;
    }
    const place = {
      line: { ...line, id },
      host: named.host,
      resourceId: named.mailbox,
      delimiter: named.delimiter,
      specialUse: named.specialUse,
      namesake: named.namesake,
      generation,
      docid,
    };
    if (this.plan.has(place)) {
      this.known += 1;
      if (this.options.incremental) {
        this.skipped += 1;
        return;
      }
    }
    this.plan.add({ ...place, path: this.#pathOf(named, place) });
  }

  #missing({ line, folder, generation }: Omit<SelectedPlace, 'docid'>): void {
    this.quarantined += 1;
    const { mailbox: address, folder: path, uid } = line;
    const at = { mailbox: address, folder: path, ...namesakeOf(folder), generation, uid };
    const missing = { id: null, ...at, reason: 'quarantined' } as const;
    this.plan.addMissing(missing);
    if (this.failures.length < MOST_NAMED) this.failures.push(missing);
  }

  #pathOf(
    folder: NamedFolder,
    { line, generation }: Omit<PlannedPlace, 'path' | 'before'>,
  ): string {
    const { format, platform = process.platform } = this.options;
    const base = this.#paths.of(folder);
    if (format === 'mbox') return `${base}.mbox`;
    if (format === 'maildir') {
      const infoMark = platform === 'win32' ? ';' : ':';
      return `${base}/cur/${maildirFileName({ ...line, generation }, infoMark)}`;
    }
    return `${base}/${messageName({ ...line, generation })}.eml`;
  }
}

/** One format: takes the places in the order of the plan. */
export interface FormatWriter {
  /** How many places may be under way at a time. */
  readonly width: number;
  /** True when a source must be proven before its first byte is written. */
  readonly provenFirst: boolean;
  /**
   * Writes one place, and settles it in the plan.
   *
   * @param open throws when the archive cannot give the source: then nothing of the place is written
   */
  put(rank: number, place: PlannedPlace, open: () => Promise<Source>): Promise<'written' | 'there'>;
  /** Keeps a place of an earlier export. False if the file that has it is replaced: then it is dropped from the plan. */
  keep(rank: number, entry: ManifestEntry): Promise<boolean>;
  /** Everything was put; the manifest follows. Gives what is unfinished its final name. */
  finish(): Promise<void>;
  /** Gives up: nothing unfinished stays. */
  discard(): Promise<void>;
}

export interface ExportSelection {
  /** Text and syntax tree of a query, with the hosts of accounts that it may name; null for all messages. */
  readonly query: ({ readonly text: string } & Pick<SearchRequest, 'node' | 'accounts'>) | null;
  /** Only these messages, where they were named by their ids. */
  readonly docids?: readonly number[] | null;
  /** As `FolderFilter` takes them; all if absent or empty. */
  readonly mailboxes?: readonly string[];
  readonly folders?: readonly string[];
  /** Exports ended places instead of current ones. */
  readonly deleted: boolean;
  /** Also exports messages without a current place, each from the place or places that ended last. */
  readonly withDeleted?: boolean;
  /** Milliseconds since the epoch; null for the present. */
  readonly asOf: number | null;
}

export interface ExportArchive {
  readonly selection: ExportSelection;
  readonly catalog: Pick<
    Catalog,
    'snapshot' | 'reached' | 'commitAt' | 'listPlaces' | 'foundDocids' | 'folders' | 'history'
  >;
  readonly sources: SourceReader;
}

export interface WritingOptions {
  /** A file for zip, else a folder; absolute. */
  readonly to: string;
  readonly format: ExportFormat;
  /** Leave alone what the last export to this place has. */
  readonly incremental: boolean;
  readonly sidecar: boolean;
  /** mbox only: Status, X-Status and X-Keywords before each source, which is not bit-exact then. */
  readonly statusHeaders: boolean;
  /** Between two messages it stops there; what has its final name stays. */
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: ExportProgress) => void;
  readonly files?: ExportFiles;
  /** In the names of unfinished files. */
  readonly pid?: number;
  readonly platform?: NodeJS.Platform;
}

export interface ExportOptions extends ExportArchive, WritingOptions {}

interface ExportProgress {
  readonly done: number;
  readonly of: number;
  readonly bytes: number;
  readonly ofBytes: number;
}

/** A place without its bytes in the export, and why. */
export type ExportFailure = MissingPlace;

/** Where an export goes: a folder or a zip file. */
export interface ExportTarget {
  /** Adds what an earlier export has to the plan. */
  recall(plan: ExportPlan): Promise<void>;
  /**
   * Begins to write: from here on unfinished files may be left by a kill.
   *
   * @param commit the number of the commit that the export is of
   */
  begin(plan: ExportPlan, commit: number): Promise<FormatWriter>;
  /** Writes manifest and sidecars, and gives everything its final name. */
  finish(writer: FormatWriter, plan: ExportPlan, head: ManifestHead): Promise<void>;
  /** Gives up: nothing unfinished stays. */
  discard(writer: FormatWriter): Promise<void>;
  readonly manifest: string;
}

/** A larger source is never held in memory. */
const WHOLE_BYTES = 4 * 1024 * 1024;

/** The exact bytes of a message. */
export interface Source {
  /** The pieces, from the front; may be asked for again. */
  pieces(): AsyncIterable<Buffer> | Iterable<Buffer>;
}

/** Reads sources: a log here, or another machine that has one. Both methods throw what those of `LogReader` throw. */
export interface SourceReader {
  /** @param size bytes of the source */
  readMessage(id: MessageId, size: number): Buffer | Promise<Buffer>;
  streamMessage(id: MessageId, size: number): ReturnType<LogReader['streamMessage']>;
  /** Brings a large source here and proves it, where reading it a second time would bring it a second time. */
  readonly bring?: (id: MessageId, size: number) => Promise<Source>;
  /** Is told which sources will be read, a group at a time and one group ahead. */
  readonly expect?: (sources: readonly Expected[]) => void;
}

/** A source that will be read. */
export interface Expected {
  readonly id: MessageId;
  readonly size: number;
}

/**
 * Opens the source of a message. With `provenFirst` every byte has been hashed before the first one is given, for
 * places from which nothing can be taken back; otherwise the end of a large source may still throw.
 *
 * @throws bytes-unknown, bytes-purged, message-damaged, blob-damaged
 */
export async function openSource(
  reader: SourceReader,
  id: MessageId,
  size: number,
  provenFirst: boolean,
): Promise<Source> {
  if (size <= WHOLE_BYTES) {
    const bytes = await wholeOf(reader, id, size);
    return { pieces: () => [bytes] };
  }
  if (provenFirst && reader.bring !== undefined) return reader.bring(id, size);
  if (provenFirst) {
    // Read for its hash, which the reader compares at the end.
    for await (const _ of reader.streamMessage(id, size));
  }
  return { pieces: () => reader.streamMessage(id, size) };
}

/** Returns why an archive does not have the bytes of a message; undefined for any other error. */
export function whyUnreadable(error: unknown): 'damaged' | 'purged' | undefined {
  if (!(error instanceof MailkeepError)) return undefined;
  if (error.code === 'bytes-purged') return 'purged';
  return error.code === 'bytes-unknown' || error.family === 'damage' ? 'damaged' : undefined;
}

/** A stream waits for what is on another disk, where its reader can. */
async function wholeOf(reader: SourceReader, id: MessageId, size: number): Promise<Buffer> {
  try {
    return await reader.readMessage(id, size);
  } catch (error) {
    if (!hasCode(error, 'segment-elsewhere')) throw error;
    const pieces: Buffer[] = [];
    for await (const piece of reader.streamMessage(id, size)) pieces.push(piece);
    return Buffer.concat(pieces);
  }
}
