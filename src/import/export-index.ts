import { scratchDatabase } from '../disk/scratch-database.ts';
import { MANIFEST_NAME, type ManifestEntry, readManifest } from '../export/manifest.ts';
import { cutMarks } from '../mail/marks.ts';
import { flagsFromName, uniquePart } from '../mailfiles/maildir-names.ts';

/** A folder of the archive that mail goes to. */
export interface TargetFolder {
  /** The full path. */
  readonly folder: string;
  /** Its last part. */
  readonly name: string;
  readonly delimiter: string;
  readonly specialUse: string | null;
}

/** A manifest is anybody's text: longer names and flags, and more of these, are not taken from it. */
const MOST_NAME = 4096;
const MOST_FLAG = 255;
const MOST_FLAGS = 255;
/** Behind every path: SQLite sorts blobs behind all text. */
const LAST = Buffer.alloc(0);

/**
 * What the manifest of an export lists, by path: in a temporary database of SQLite's own, so that a manifest of any
 * size need not fit into memory.
 */
export class ExportIndex {
  readonly #db = scratchDatabase(`
    CREATE TABLE entries (
      key TEXT NOT NULL, at INTEGER NOT NULL, entry TEXT NOT NULL, met INTEGER NOT NULL DEFAULT 0,
      PRIMARY KEY (key, at)
    ) WITHOUT ROWID;
    CREATE TABLE files (key TEXT PRIMARY KEY) WITHOUT ROWID`);
  /** Labels of the exported mailboxes, by host and resource id. */
  readonly #mailboxes = new Map<string, string>();
  readonly #find = this.#db.prepare<[string, number], { entry: string }>(
    'SELECT entry FROM entries WHERE key = ? AND at = ?',
  );
  readonly #meet = this.#db.prepare<[string, number]>(
    'UPDATE entries SET met = 1 WHERE key = ? AND at = ?',
  );
  readonly #unmetAt = this.#db.prepare<[string], { entry: string }>(
    'SELECT entry FROM entries WHERE key = ? AND met = 0',
  );
  readonly #unmetBetween = this.#db.prepare<[string, string | Buffer], { entry: string }>(
    'SELECT entry FROM entries WHERE key >= ? AND key < ? AND met = 0',
  );

  private constructor() {}

  /** Reads a manifest to its end, where its hash is. @throws ManifestDamaged */
  static async read(lines: AsyncIterable<string>): Promise<ExportIndex> {
    const index = new ExportIndex();
    try {
      await index.#fill(lines);
      return index;
    } catch (error) {
      index.close();
      throw error;
    }
  }

  async #fill(lines: AsyncIterable<string>): Promise<void> {
    const add = this.#db.prepare<[string, number, string]>(
      'INSERT OR REPLACE INTO entries (key, at, entry) VALUES (?, ?, ?)',
    );
    const addFile = this.#db.prepare<[string]>('INSERT OR IGNORE INTO files (key) VALUES (?)');
    const labels = new Map<string, number>();
    this.#db.exec('BEGIN');
    for await (const event of readManifest(lines)) {
      if (event.what === 'file') addFile.run(keyOf(event.file.path));
      if (event.what !== 'entry') continue;
      const { entry } = event;
      add.run(keyOf(entry.path), entry.inMbox?.offset ?? 0, JSON.stringify(entry));
      const mailbox = mailboxOf(entry);
      if (this.#mailboxes.has(mailbox)) continue;
      // Another mailbox may have had the same address before.
      const times = (labels.get(entry.mailbox) ?? 0) + 1;
      labels.set(entry.mailbox, times);
      this.#mailboxes.set(mailbox, numbered(entry.mailbox, times));
    }
    this.#db.exec('COMMIT');
  }

  /**
   * Returns what the manifest lists for a file, or for the message that begins at an offset of an mbox.
   *
   * @param path relative to the export, parted by `/`
   */
  find(path: string, offset = 0): ManifestEntry | undefined {
    const row = this.#find.get(keyOf(path), offset);
    if (row === undefined) return undefined;
    const entry: ManifestEntry = JSON.parse(row.entry);
    const { folder, mailbox } = entry;
    const usable = folder !== '' && folder.length <= MOST_NAME && mailbox.length <= MOST_NAME;
    return usable ? entry : undefined;
  }

  /** Notes that the message of an entry was found, whatever its bytes. */
  meet({ path, inMbox }: ManifestEntry): void {
    this.#meet.run(keyOf(path), inMbox?.offset ?? 0);
  }

  /** True for a file of the export that holds no mail: its manifest, a sidecar. */
  isOther(path: string): boolean {
    if (path === MANIFEST_NAME) return true;
    const listed = this.#db.prepare<[string], unknown>('SELECT 1 FROM files WHERE key = ?');
    if (listed.get(keyOf(path)) !== undefined) return true;
    return path.endsWith('.json') && this.find(path.replace(/\.json$/, '.eml')) !== undefined;
  }

  /** Paths of messages that were not met, at or below a path of the export; all of them for an empty one. */
  *unmet(below: string): Generator<string> {
    const key = keyOf(below);
    // Ranges of the key, so that the cost is that of the part: a thousand files may be named one by one.
    const all = key === '';
    if (!all) yield* pathsOf(this.#unmetAt.iterate(key));
    yield* pathsOf(this.#unmetBetween.iterate(all ? '' : `${key}/`, all ? LAST : `${key}0`));
  }

  /**
   * Returns the folder that a message goes to. Where the export is of several mailboxes, the folders of each are below
   * one of its address.
   */
  folderOf(entry: ManifestEntry): TargetFolder {
    const own = numbered(entry.folder, (entry.namesake ?? 0) + 1);
    const delimiter = delimiterOf(entry) ?? (own.includes('/') ? '/' : '.');
    const name = (delimiter === '' ? own : own.split(delimiter).at(-1)) || own;
    const specialUse = specialUseOf(entry);
    if (this.#mailboxes.size <= 1) return { folder: own, name, delimiter, specialUse };
    const label = this.#mailboxes.get(mailboxOf(entry)) ?? entry.mailbox;
    return { folder: `${label}/${own}`, name, delimiter: '/', specialUse };
  }

  close(): void {
    this.#db.close();
  }
}

/**
 * Returns the flags of an exported message: those of the manifest; for a message of a Maildir whose name was given other
 * letters since, the flags of the letters are those of its name.
 *
 * @param name the file's name now
 */
export function flagsOf(entry: ManifestEntry, name: string): string[] {
  const flags = entry.flags.filter((flag) => flag !== '' && flag.length <= MOST_FLAG);
  const exported = new Set(flagsFromName(entry.path).map((flag) => flag.toLowerCase()));
  const now = flagsFromName(name);
  const unmarked = flags.filter((flag) => !exported.has(flag.toLowerCase()));
  const kept = flags.filter((flag) => now.some((it) => it.toLowerCase() === flag.toLowerCase()));
  const added = now.filter((flag) => !exported.has(flag.toLowerCase()));
  return [...new Set([...unmarked, ...kept, ...added])].slice(0, MOST_FLAGS);
}

/** As RFC 6154 has them; anything else is not one. */
function specialUseOf({ specialUse }: ManifestEntry): string | null {
  return specialUse !== undefined && /^\\[A-Za-z]{1,40}$/.test(specialUse) ? specialUse : null;
}

/** One character, or none where folders are flat; anything else is not one. */
function delimiterOf({ delimiter }: ManifestEntry): string | undefined {
  return delimiter !== undefined && delimiter.length <= 1 ? delimiter : undefined;
}

function* pathsOf(rows: Iterable<{ entry: string }>): Generator<string> {
  for (const { entry } of rows) {
    const { path }: ManifestEntry = JSON.parse(entry);
    yield path;
  }
}

function mailboxOf({ host, resourceId }: ManifestEntry): string {
  return JSON.stringify([host, resourceId]);
}

function numbered(name: string, number: number): string {
  return number === 1 ? name : `${name} (${number})`;
}

/** A path as it is found again: without the flags of a Maildir's name, and in one form of its accents. */
function keyOf(path: string): string {
  return uniquePart(cutMarks(path).normalize('NFC'));
}
