import { createReadStream } from 'node:fs';
import { errnoOf } from '../core/errors.ts';
import { type FilePath, joinPath, openRegularFile, shownPath } from '../core/files.ts';
import { Statements, scratchDatabase } from '../core/sqlite.ts';
import { cutMarks } from '../core/types.ts';
import { flagsFromName, uniquePart } from '../mail/mail-files.ts';
import { importError } from './errors.ts';
import { MANIFEST_NAME, ManifestDamaged, readManifest } from './export-manifest.ts';
import { linesOf } from './export-target.ts';
import { type ExportLocation, enclosingExport, isZip } from './find-mail.ts';
import type { ManifestEntry } from './manifest-shapes.ts';
import { ZipReader, ZipUnreadable } from './read-zip.ts';

export interface TargetFolder {
  readonly folder: string;
  readonly name: string;
  readonly delimiter: string;
  readonly specialUse: string | null;
}

/** Manifests can come from anyone. Names and flags beyond these limits are ignored. */
const MAX_NAME = 4096;
const MAX_FLAG = 255;
const MAX_FLAGS = 255;
/** Sorts last, because SQLite orders blobs after all text. */
const LAST = Buffer.alloc(0);

/** A manifest's entries by path. Stored in a temporary database, because a manifest may not fit in memory. */
export class ExportIndex {
  readonly #db = new Statements(
    scratchDatabase(`
      CREATE TABLE entries (
        key TEXT NOT NULL, at INTEGER NOT NULL, entry TEXT NOT NULL, met INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (key, at)
      ) WITHOUT ROWID;
      CREATE TABLE files (key TEXT PRIMARY KEY) WITHOUT ROWID`),
  );
  readonly #mailboxes = new Map<string, string>();

  private constructor() {}

  /** @throws ManifestDamaged, also if the final hash differs */
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
    const labels = new Map<string, number>();
    this.#db.db.exec('BEGIN');
    for await (const event of readManifest(lines)) {
      if (event.what === 'file')
        this.#db.run('INSERT OR IGNORE INTO files VALUES (?)', toKey(event.file.path));
      if (event.what !== 'entry') continue;
      const { entry } = event;
      this.#db.run(
        'INSERT OR REPLACE INTO entries (key, at, entry) VALUES (?, ?, ?)',
        ...[toKey(entry.path), entry.inMbox?.offset ?? 0, JSON.stringify(entry)],
      );
      const mailbox = mailboxOf(entry);
      if (this.#mailboxes.has(mailbox)) continue;
      // Another mailbox may previously have had the same address.
      const times = (labels.get(entry.mailbox) ?? 0) + 1;
      labels.set(entry.mailbox, times);
      this.#mailboxes.set(mailbox, addNumber(entry.mailbox, times));
    }
    this.#db.db.exec('COMMIT');
  }

  /**
   * Finds the entry for a file, or for the message at an offset in an mbox.
   *
   * @param path relative to the export, separated by `/`
   */
  find(path: string, offset = 0): ManifestEntry | undefined {
    const sql = 'SELECT entry FROM entries WHERE key = ? AND at = ?';
    const row = this.#db.get<{ entry: string }>(sql, toKey(path), offset);
    if (row === undefined) return undefined;
    const entry: ManifestEntry = JSON.parse(row.entry);
    const { folder, mailbox } = entry;
    const isUsable = folder !== '' && folder.length <= MAX_NAME && mailbox.length <= MAX_NAME;
    return isUsable ? entry : undefined;
  }

  meet({ path, inMbox }: ManifestEntry): void {
    const sql = 'UPDATE entries SET met = 1 WHERE key = ? AND at = ?';
    this.#db.run(sql, toKey(path), inMbox?.offset ?? 0);
  }

  /** Reports whether a file in the export is not a message. */
  isOther(path: string): boolean {
    if (path === MANIFEST_NAME) return true;
    if (this.#db.has('SELECT 1 FROM files WHERE key = ?', toKey(path))) return true;
    return path.endsWith('.json') && this.find(path.replace(/\.json$/, '.eml')) !== undefined;
  }

  /** Yields the paths at or under `below` whose messages were not found; an empty path means all. */
  *unmet(below: string): Generator<string> {
    const key = toKey(below);
    // Look up ranges of keys, so that the cost depends only on this part. A user may list a thousand files.
    const all = key === '';
    if (!all) yield* this.#findUnmet('key = ?', key);
    yield* this.#findUnmet('key >= ? AND key < ?', all ? '' : `${key}/`, all ? LAST : `${key}0`);
  }

  *#findUnmet(condition: string, ...keys: readonly (string | Buffer)[]): Generator<string> {
    const sql = `SELECT entry ->> 'path' AS path FROM entries WHERE ${condition} AND met = 0`;
    for (const { path } of this.#db.iterate<{ path: string }>(sql, ...keys)) yield path;
  }

  /** If the export contains several mailboxes, each gets a parent folder named after its address. */
  folderOf(entry: ManifestEntry): TargetFolder {
    const own = addNumber(entry.folder, (entry.namesake ?? 0) + 1);
    const delimiter = delimiterOf(entry) ?? (own.includes('/') ? '/' : '.');
    const name = (delimiter === '' ? own : own.split(delimiter).at(-1)) || own;
    const specialUse = specialUseOf(entry);
    if (this.#mailboxes.size <= 1) return { folder: own, name, delimiter, specialUse };
    const label = this.#mailboxes.get(mailboxOf(entry)) ?? entry.mailbox;
    return { folder: `${label}/${own}`, name, delimiter: '/', specialUse };
  }

  close(): void {
    this.#db.db.close();
  }
}

/**
 * Returns a message's flags from the manifest. If a Maildir file has since been renamed, the letters in its new name
 * replace the exported flags.
 *
 * @param name the file's current name
 */
export function flagsOf(entry: ManifestEntry, name: string): string[] {
  const flags = entry.flags.filter((flag) => flag !== '' && flag.length <= MAX_FLAG);
  const exported = new Set(flagsFromName(entry.path).map((flag) => flag.toLowerCase()));
  const now = flagsFromName(name);
  const others = flags.filter((flag) => !exported.has(flag.toLowerCase()));
  const kept = flags.filter((flag) => now.some((it) => it.toLowerCase() === flag.toLowerCase()));
  const added = now.filter((flag) => !exported.has(flag.toLowerCase()));
  return [...new Set([...others, ...kept, ...added])].slice(0, MAX_FLAGS);
}

function specialUseOf({ specialUse }: ManifestEntry): string | null {
  return specialUse !== undefined && /^\\[A-Za-z]{1,40}$/.test(specialUse) ? specialUse : null;
}

/** Accepts one character, or none for a mailbox without hierarchy. */
function delimiterOf({ delimiter }: ManifestEntry): string | undefined {
  return delimiter !== undefined && delimiter.length <= 1 ? delimiter : undefined;
}

function mailboxOf({ host, resourceId }: ManifestEntry): string {
  return JSON.stringify([host, resourceId]);
}

function addNumber(name: string, number: number): string {
  return number === 1 ? name : `${name} (${number})`;
}

/** Removes Maildir flags and normalises to NFC. */
function toKey(path: string): string {
  return uniquePart(cutMarks(path).normalize('NFC'));
}

interface Manifest {
  readonly path: string;
  readonly index: ExportIndex | null;
  readonly parts: Set<string>;
}

interface OpenZip {
  readonly zip: ZipReader;
  readonly index: ExportIndex;
}

/** Reads the manifest of each export in an import once. Must be closed, because the indexes are databases. */
export class Manifests {
  readonly #folders = new Map<string, Manifest>();
  readonly #zips = new Map<string, OpenZip>();
  #around: string | undefined;

  async around(given: FilePath): Promise<void> {
    const at = enclosingExport(given);
    this.#around = at === null ? undefined : shownPath(at.root);
    if (at !== null) (await this.#manifest(at.root)).parts.add(at.path);
  }

  /** Returns the index for a file's export, or null if its manifest is damaged. */
  async of(at: ExportLocation | null): Promise<ExportIndex | null> {
    if (at === null) return null;
    const manifest = await this.#manifest(at.root);
    // The manifest is under the given path, so the whole export is imported.
    if (shownPath(at.root) !== this.#around) manifest.parts.add('');
    return manifest.index;
  }

  /**
   * Opens a zip that contains an export. Returns null for any other zip.
   *
   * @throws import-no-mail for a file that is not a zip; import-manifest-damaged
   */
  async zip(file: FilePath): Promise<OpenZip | null> {
    const label = shownPath(file);
    const entry = this.#zips.get(label);
    if (entry !== undefined) return entry;
    if (typeof file !== 'string') throw importError('import-no-mail', { path: label });
    let zip: ZipReader | undefined;
    let isKept = false;
    try {
      zip = await ZipReader.open(file);
      const pieces = await zip.pieces(MANIFEST_NAME);
      if (pieces === undefined) return null;
      const opened = { zip, index: await ExportIndex.read(linesOf(pieces)) };
      this.#zips.set(label, opened);
      isKept = true;
      return opened;
    } catch (error) {
      if (error instanceof ManifestDamaged)
        throw importError('import-manifest-damaged', { path: label });
      // The manifest's bytes can also contradict the zip's directory.
      if (!(error instanceof ZipUnreadable)) throw error;
      // Our reader rejects names that our writer never produces.
      if (zip === undefined && (await isZip(file))) return null;
      throw importError('import-no-mail', { path: label });
    } finally {
      if (!isKept) zip?.close();
    }
  }

  *unmet(): Generator<string> {
    for (const { path, index, parts } of this.#folders.values()) {
      const root = path.slice(0, -MANIFEST_NAME.length);
      const roots = [...parts].filter((part) => !isWithin(part, parts));
      for (const part of roots) for (const at of index?.unmet(part) ?? []) yield `${root}${at}`;
    }
    for (const [file, { index }] of this.#zips) {
      for (const at of index.unmet('')) yield `${file}/${at}`;
    }
  }

  list(): { readonly path: string; readonly used: boolean }[] {
    return [
      ...[...this.#folders.values()].map(({ path, index }) => ({ path, used: index !== null })),
      ...[...this.#zips.keys()].map((path) => ({ path, used: true })),
    ];
  }

  close(): void {
    for (const { index } of this.#folders.values()) index?.close();
    for (const { zip, index } of this.#zips.values()) {
      index.close();
      zip.close();
    }
  }

  async #manifest(root: FilePath): Promise<Manifest> {
    const label = shownPath(root);
    const entry = this.#folders.get(label);
    if (entry !== undefined) return entry;
    const file = joinPath(root, MANIFEST_NAME);
    const index = await indexOf(file);
    const manifest = { path: shownPath(file), index, parts: new Set<string>() };
    this.#folders.set(label, manifest);
    return manifest;
  }
}

function isWithin(path: string, parts: ReadonlySet<string>): boolean {
  if (path === '') return false;
  if (parts.has('')) return true;
  for (let at = path.indexOf('/'); at !== -1; at = path.indexOf('/', at + 1))
    if (parts.has(path.slice(0, at))) return true;
  return false;
}

/** Returns null if a manifest is damaged or unreadable, so that the import continues without it. */
async function indexOf(file: FilePath): Promise<ExportIndex | null> {
  try {
    return await ExportIndex.read(linesOf(createReadStream(file, { fd: openRegularFile(file) })));
  } catch (error) {
    if (error instanceof ManifestDamaged || errnoOf(error) !== undefined) return null;
    throw error;
  }
}
