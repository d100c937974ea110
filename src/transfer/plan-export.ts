import type { LogReader } from '../archive/log-reader.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { CountRequest } from '../catalog/search.ts';
import { MailkeepError } from '../core/errors.ts';
import { Statements, scratchDatabase } from '../core/sqlite.ts';
import type { MessageId } from '../core/types.ts';
import type { PlaceLine } from '../mail/identity.ts';
import { type ExportFiles, parentOf } from './export-files.ts';
import { type ExportFormat, type SelectedPlace, selectPlaces } from './export-manifest.ts';
import { FolderPaths, maildirFileName, messageName, type NamedMessage } from './export-names.ts';
import type {
  InMbox,
  ManifestEntry,
  ManifestFile,
  ManifestHead,
  MissingPlace,
} from './manifest-shapes.ts';

export interface PlannedPlace {
  readonly entry: ManifestEntry;
  /** The sender, for an mbox's "From " line. Null for places from an earlier export. */
  readonly from: PlaceLine['from'];
  /** Path in an earlier export, if different. */
  readonly before: string | null;
}

/** `earlier`: written by an earlier export and left alone by this run. */
type Outcome = 'due' | 'done' | 'earlier' | 'failed';

const PAGE = 500;

interface Row {
  readonly rank: number;
  readonly outcome: Outcome;
  readonly before: string | null;
  readonly sender: string;
  readonly entry: string;
}

const AT_RANK = 'key = (SELECT key FROM queue WHERE rank = ?)';

/** The places in an export. Stored in a temporary database, because a mailbox or manifest may not fit in memory. */
export class ExportPlan {
  readonly #db = new Statements(
    scratchDatabase(`
      CREATE TABLE places (
        key TEXT PRIMARY KEY, folder TEXT NOT NULL, docid INTEGER NOT NULL, generation INTEGER NOT NULL,
        uid INTEGER NOT NULL, path TEXT NOT NULL, before TEXT, outcome TEXT NOT NULL,
        sender TEXT NOT NULL, entry TEXT NOT NULL
      ) WITHOUT ROWID;
      CREATE TABLE files (path TEXT PRIMARY KEY, sha256 TEXT NOT NULL, size INTEGER NOT NULL) WITHOUT ROWID;
      CREATE TABLE missing (key TEXT PRIMARY KEY, item TEXT NOT NULL) WITHOUT ROWID;
      CREATE TABLE queue (rank INTEGER PRIMARY KEY, key TEXT NOT NULL);
      BEGIN`),
  );

  addEarlier(entry: ManifestEntry): void {
    // Before all new places, in the original order.
    this.#add(entry, 'earlier', -1, entry.inMbox?.offset ?? entry.uid, null);
  }

  addFile({ path, sha256, size }: ManifestFile): void {
    this.#db.run('INSERT OR REPLACE INTO files VALUES (?, ?, ?)', path, sha256, size);
  }

  file(path: string): ManifestFile | undefined {
    return this.#db.get('SELECT path, sha256, size FROM files WHERE path = ?', path);
  }

  dropFile(path: string): void {
    this.#db.run('DELETE FROM files WHERE path = ?', path);
  }

  addMissing(place: MissingPlace): void {
    const item = JSON.stringify(place);
    this.#db.run('INSERT OR REPLACE INTO missing VALUES (?, ?)', keyOfMissing(place), item);
  }

  has(entry: ManifestEntry): boolean {
    return this.#db.has('SELECT 1 FROM places WHERE key = ?', keyOf(entry));
  }

  add(entry: ManifestEntry, docid: number, from: PlannedPlace['from']): void {
    this.#db.run('DELETE FROM missing WHERE key = ?', keyOfMissing(entry));
    this.#add(entry, 'due', docid, entry.uid, from);
  }

  #add(
    entry: ManifestEntry,
    outcome: Outcome,
    docid: number,
    uid: number,
    from: PlannedPlace['from'],
  ): void {
    const { path, generation } = entry;
    this.#db.run(
      `INSERT INTO places (key, folder, docid, generation, uid, path, outcome, sender, entry)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (key) DO UPDATE SET docid = excluded.docid, path = excluded.path,
         before = CASE WHEN excluded.path = path THEN NULL ELSE path END,
         outcome = excluded.outcome, sender = excluded.sender, entry = excluded.entry`,
      ...[keyOf(entry), findGroup(path), docid, generation, uid, path, outcome],
      ...[JSON.stringify(from), JSON.stringify(entry)],
    );
  }

  /** Orders all places by folder, oldest first. */
  order(): void {
    this.#db.db.exec(`
      CREATE INDEX groups ON places (folder, outcome);
      INSERT INTO queue (key) SELECT key FROM places ORDER BY folder, docid, generation, uid, key`);
  }

  due(): { readonly places: number; readonly bytes: number } {
    const row = this.#db.get<{ places: number; bytes: number | null }>(
      `SELECT count(*) AS places, sum(entry ->> 'size') AS bytes FROM places WHERE outcome = 'due'`,
    );
    return { places: row?.places ?? 0, bytes: row?.bytes ?? 0 };
  }

  /** Yields all places in order. The caller can settle places while iterating. */
  *places(): Generator<{ rank: number; outcome: Outcome; place: PlannedPlace }> {
    for (const { rank, outcome, before, sender, entry } of this.#rows()) {
      yield {
        rank,
        outcome,
        place: { entry: JSON.parse(entry), from: JSON.parse(sender), before },
      };
    }
  }

  done(rank: number, { entry }: PlannedPlace, inMbox?: InMbox): void {
    const written = JSON.stringify(inMbox === undefined ? entry : { ...entry, inMbox });
    this.#db.run(`UPDATE places SET outcome = 'done', entry = ? WHERE ${AT_RANK}`, written, rank);
  }

  failed(rank: number): void {
    this.#db.run(`UPDATE places SET outcome = 'failed' WHERE ${AT_RANK}`, rank);
  }

  drop(rank: number): void {
    this.#db.run(`DELETE FROM places WHERE ${AT_RANK}`, rank);
  }

  tally(): Readonly<Record<Outcome, number>> {
    const tally = { due: 0, done: 0, earlier: 0, failed: 0 };
    const rows = this.#db.all<{ outcome: Outcome; n: number }>(
      'SELECT outcome, count(*) AS n FROM places GROUP BY outcome',
    );
    for (const { outcome, n } of rows) tally[outcome] = n;
    return tally;
  }

  count(): number {
    return this.#db.get<{ n: number }>('SELECT count(*) AS n FROM places')?.n ?? 0;
  }

  *entries(): Generator<ManifestEntry> {
    for (const row of this.#rows()) {
      if (row.outcome === 'done' || row.outcome === 'earlier') yield JSON.parse(row.entry);
    }
  }

  *files(): Generator<ManifestFile> {
    yield* this.#db.iterate<ManifestFile>('SELECT path, sha256, size FROM files ORDER BY path');
  }

  hasDue(group: string): boolean {
    const sql = "SELECT 1 FROM places WHERE folder = ? AND outcome = 'due' LIMIT 1";
    return this.#db.has(sql, group);
  }

  *missing(): Generator<MissingPlace> {
    const rows = this.#db.iterate<{ item: string }>('SELECT item FROM missing ORDER BY key');
    for (const { item } of rows) yield JSON.parse(item);
  }

  close(): void {
    this.#db.db.close();
  }

  *#rows(): Generator<Row> {
    let after = 0;
    for (;;) {
      const rows = this.#db.all<Row>(
        `SELECT q.rank, p.outcome, p.before, p.sender, p.entry FROM queue q JOIN places p USING (key)
         WHERE q.rank > ? ORDER BY q.rank LIMIT ?`,
        after,
        PAGE,
      );
      yield* rows;
      after = rows.at(-1)?.rank ?? after;
      if (rows.length < PAGE) return;
    }
  }
}

function keyOf(entry: ManifestEntry): string {
  const { host, resourceId, folder, namesake = 0, generation, uid, sha256 } = entry;
  return JSON.stringify([host, resourceId, folder, namesake, generation, uid, sha256]);
}

function keyOfMissing(place: Omit<MissingPlace, 'reason' | 'id'>): string {
  const { mailbox, folder, namesake = 0, generation, uid } = place;
  return JSON.stringify([mailbox, folder, namesake, generation, uid]);
}

export function missingPlace(
  { mailbox, folder, namesake, generation, uid }: Omit<MissingPlace, 'id' | 'reason'>,
  id: MessageId | null,
  reason: MissingPlace['reason'],
): MissingPlace {
  return { id, mailbox, folder, ...namesakeField(namesake), generation, uid, reason };
}

/** The manifest contains `namesake` only if several folders have had the same path. */
function namesakeField(namesake = 0) {
  return namesake === 0 ? {} : { namesake };
}

/** Returns the folder or mbox to which a path belongs. Each is written as a unit. */
function findGroup(path: string): string {
  return path.endsWith('.mbox') ? path : parentOf(path);
}

const MAX_NAMED = 10_000;

export type PlannedExport = Awaited<ReturnType<typeof planPlaces>>;

export async function planPlaces(
  archive: ExportArchive,
  options: WritingOptions,
  target: ExportTarget,
) {
  const { format, incremental } = options;
  const plan = new ExportPlan();
  const paths = new FolderPaths(format === 'maildir' ? 'maildir' : 'nested');
  const counts = { places: 0, skipped: 0, quarantined: 0 };
  const failures: MissingPlace[] = [];
  /** Places also in an earlier export, whether rewritten or not. */
  let count = 0;
  const take = ({ line, folder, generation, docid }: SelectedPlace): void => {
    counts.places += 1;
    const { id, size, mailbox, uid, flags, date, firstSeen, endedAt } = line;
    const { host, mailbox: resourceId, delimiter, specialUse, namesake } = folder;
    if (id === null) {
      counts.quarantined += 1;
      const entry = missingPlace({ ...line, namesake, generation }, id, 'quarantined');
      plan.addMissing(entry);
      if (failures.length < MAX_NAMED) failures.push(entry);
      return;
    }
    const path = pathIn(paths.of(folder), { ...line, id, generation }, options);
    const entry: ManifestEntry = {
      ...{ path, sha256: id, size, mailbox, host, resourceId, folder: line.folder, delimiter },
      ...(specialUse === null ? {} : { specialUse }),
      ...namesakeField(namesake),
      ...{ generation, uid, flags, date, firstSeen, endedAt },
    };
    const isKnown = plan.has(entry);
    if (isKnown) count += 1;
    if (isKnown && incremental) counts.skipped += 1;
    else plan.add(entry, docid, line.from);
  };
  try {
    await target.recall(plan);
    const earlier = plan.count();
    const selected = selectPlaces(archive, {
      // Folders come in order of discovery, so that a later folder never changes an earlier one's path.
      folders: (met) => {
        for (const folder of met) paths.of(folder);
      },
      place: take,
    });
    plan.order();
    return {
      ...{ ...selected, plan, ...counts, failures },
      /** Places found only in an earlier export. */
      kept: earlier - count,
    };
  } catch (error) {
    plan.close();
    throw error;
  }
}

function pathIn(
  folder: string,
  message: NamedMessage & Pick<PlaceLine, 'size' | 'flags'>,
  { format }: WritingOptions,
): string {
  if (format === 'mbox') return `${folder}.mbox`;
  return format === 'maildir'
    ? `${folder}/cur/${maildirFileName(message, process.platform === 'win32' ? ';' : ':')}`
    : `${folder}/${messageName(message)}.eml`;
}

/** Writes one format. Receives the places in plan order. */
export interface FormatWriter {
  /** Maximum number of places to write concurrently. */
  readonly width: number;
  /** True if a source must be verified before its first byte is written. */
  readonly provenFirst: boolean;
  /**
   * Writes a place and settles it in the plan.
   *
   * @param open throws if the archive cannot read the source; nothing is written in that case
   */
  put(rank: number, place: PlannedPlace, open: () => Promise<Source>): Promise<'written' | 'there'>;
  /** Keeps a place from an earlier export. If its file is being replaced, drops the place and returns false. */
  keep(rank: number, entry: ManifestEntry): Promise<boolean>;
  /** Gives the files their final names, the manifest last. */
  finish(head: ManifestHead): Promise<void>;
  /** Stops without a manifest. Finished files are kept. */
  discard(): Promise<void>;
}

export interface ExportSelection {
  /** Text and syntax tree, with the accounts that the query can refer to; null for all messages. */
  readonly query: ({ readonly text: string } & Pick<CountRequest, 'node' | 'accounts'>) | null;
  readonly docids?: readonly number[] | null;
  /** Filters like `FolderFilter`. Absent or empty means all. */
  readonly mailboxes?: readonly string[];
  readonly folders?: readonly string[];
  readonly deleted: boolean;
  readonly withDeleted?: boolean;
  /** Milliseconds since the epoch; null for the present. */
  readonly asOf: number | null;
}

export interface ExportArchive {
  readonly selection: ExportSelection;
  readonly catalog: Pick<
    Catalog,
    'snapshot' | 'reached' | 'commitAt' | 'listPlaces' | 'prepare' | 'folders' | 'history'
  >;
  readonly sources: SourceReader;
}

export interface WritingOptions {
  /** Absolute path of a zip file or, for other formats, a folder. */
  readonly to: string;
  readonly format: ExportFormat;
  /** Keeps the messages from the last export to this target. */
  readonly incremental: boolean;
  readonly sidecar: boolean;
  /** Only for mbox: writes Status, X-Status and X-Keywords before each source, which is then not bit-exact. */
  readonly statusHeaders: boolean;
  /** Stops the export between messages. Finished files are kept. */
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: ExportProgress) => void;
  readonly files?: ExportFiles;
}

export interface ExportOptions extends ExportArchive, WritingOptions {}

interface ExportProgress {
  readonly done: number;
  readonly of: number;
  readonly bytes: number;
  readonly ofBytes: number;
}

export type ExportFailure = MissingPlace;

export interface ExportTarget {
  recall(plan: ExportPlan): Promise<void>;
  /**
   * Starts writing. If the process is killed after this, unfinished files may remain.
   *
   * @param commit number of the exported commit
   */
  begin(plan: ExportPlan, commit: number): Promise<FormatWriter>;
  readonly manifest: string;
}

const WHOLE_BYTES = 4 * 1024 * 1024;

export interface Source {
  /** Yields the bytes from the start on every call. */
  pieces(): AsyncIterable<Buffer> | Iterable<Buffer>;
}

/** Reads sources. Methods throw the same errors as `LogReader`. */
export type SourceReader = Pick<LogReader, 'readMessage' | 'streamMessage'>;

/**
 * Opens a message's source. `provenFirst` is for targets where nothing can be undone: all bytes are hashed before the
 * first one is returned. Otherwise the end of a large source can still throw.
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
    const bytes = reader.readMessage(id);
    return { pieces: () => [bytes] };
  }
  if (provenFirst) {
    // The reader checks the hash at the end.
    for await (const _ of reader.streamMessage(id));
  }
  return { pieces: () => reader.streamMessage(id) };
}

/** Returns why an archive lacks a message's bytes, or undefined for any other error. */
export function unreadableReason(error: unknown): 'damaged' | 'purged' | undefined {
  if (!(error instanceof MailkeepError)) return undefined;
  if (error.code === 'bytes-purged') return 'purged';
  return error.code === 'bytes-unknown' || error.family === 'damage' ? 'damaged' : undefined;
}
