import { createHash } from 'node:crypto';
import { lstatSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { hasCode } from '../core/errors.ts';
import { FromLineQuoter, uniquePart } from '../mail/mail-files.ts';
import { exportError } from './errors.ts';
import {
  type ExportFiles,
  ExportFolder,
  filePieces,
  realExportFiles,
  sha256Of,
  temporaryOwner,
} from './export-files.ts';
import { MANIFEST_NAME, UNFINISHED_NAME } from './export-manifest.ts';
import { fileLines, linesOf, manifestEvents } from './export-target.ts';
import type { InMbox, ManifestEntry, ManifestFile, ManifestHead } from './manifest-shapes.ts';
import { ZipReader, ZipUnreadable } from './read-zip.ts';

/**
 * A difference between an export and its manifest. `missing`, `changed`: a message or file is missing or has different
 * bytes. `unlisted`: a file is not in the manifest, because it was added manually or left by an interrupted export.
 * `unfinished`: run the interrupted export again to finish it. `manifest`: the manifest is missing or was modified.
 * `unreadable`: the file is not a zip.
 */
export interface ExportFinding {
  readonly kind: 'missing' | 'changed' | 'unlisted' | 'unfinished' | 'manifest' | 'unreadable';
  readonly path: string;
  readonly id?: string;
  readonly mailbox?: string;
  readonly folder?: string;
  readonly uid?: number;
}

const EXPORT_DAMAGE: ReadonlySet<ExportFinding['kind']> = new Set([
  'missing',
  'changed',
  'manifest',
  'unreadable',
]);

export type ExportCheck = Awaited<ReturnType<typeof checkExport>>;

interface CheckOptions {
  /** Absolute path of a folder or zip file. */
  readonly at: string;
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: { readonly messages: number; readonly bytes: number }) => void;
  readonly files?: ExportFiles;
}

/**
 * Compares an export with its manifest by hashing every byte again. Needs no archive.
 *
 * @throws export-missing; an `AbortError`
 */
export async function checkExport(options: CheckOptions) {
  const stats = statSync(options.at, { throwIfNoEntry: false });
  if (!(stats?.isDirectory() || stats?.isFile()))
    throw exportError('export-missing', { target: options.at });
  const check = new Check(options);
  await (stats.isDirectory() ? check.folder() : check.zip());
  return check.result();
}

const MAX_FINDINGS = 10_000;

class Check {
  readonly #files: ExportFiles;
  readonly #folder: ExportFolder;
  readonly #findings: ExportFinding[] = [];
  #found = 0;
  #damage = 0;
  #head: ManifestHead | null = null;
  /** `bytes` is the total size of the sources; `lacking` counts messages that the manifest lists as missing. */
  readonly #counts = { messages: 0, bytes: 0, lacking: 0 };
  /** Prefixes of path hashes in hex. Whole paths would take several times as much memory. */
  readonly #marks = new Set<string>();

  constructor(private readonly options: CheckOptions) {
    this.#files = options.files ?? realExportFiles;
    this.#folder = new ExportFolder(this.#files, options.at);
  }

  /** `found` counts all findings; `findings` contains the first 10,000. */
  result() {
    const { format = null, commit = null, asOf = null } = this.#head ?? {};
    const isIntact = this.#damage === 0;
    const [found, findings] = [this.#found, this.#findings];
    return { format, commit, asOf, ...this.#counts, sound: isIntact, found, findings };
  }

  async folder(): Promise<void> {
    const { at } = this.options;
    const manifest = path.join(at, MANIFEST_NAME);
    const isUnfinished = this.#files.kindOf(path.join(at, UNFINISHED_NAME)) === 'file';
    if (isUnfinished) this.#report({ kind: 'unfinished', path: UNFINISHED_NAME });
    if (this.#files.kindOf(manifest) !== 'file') {
      if (!isUnfinished) throw exportError('export-missing', { target: at });
      return;
    }
    await this.#compare(manifest, fileLines(this.#files, manifest), {
      entry: (entry) => this.#folderEntry(entry),
      file: async ({ path: at }) => (await this.#folder.hash(at)) ?? null,
    });
    this.#reportUnlisted('');
  }

  async zip(): Promise<void> {
    const { at } = this.options;
    let zip: ZipReader | undefined;
    try {
      zip = await ZipReader.open(at);
      const reader = zip;
      const manifest = await reader.pieces(MANIFEST_NAME);
      if (manifest === undefined) throw exportError('export-missing', { target: at });
      const hash = async (file: ManifestFile) => (await reader.hash(file.path)) ?? null;
      await this.#compare(at, linesOf(manifest), { entry: hash, file: hash });
      for (const name of zip.names()) {
        const sidecar = this.#marks.has(mark(name.replace(/\.json$/, '.eml')));
        if (name !== MANIFEST_NAME && !sidecar && !this.#marks.has(mark(name))) {
          this.#report({ kind: 'unlisted', path: name });
        }
      }
    } catch (error) {
      if (!(error instanceof ZipUnreadable)) throw error;
      this.#report({ kind: 'unreadable', path: path.basename(at) });
    } finally {
      zip?.close();
    }
  }

  /** @param hash returns null for a missing item */
  async #compare(
    file: string,
    lines: AsyncIterable<string>,
    hash: {
      readonly entry: (entry: ManifestEntry) => Promise<string | null>;
      readonly file: (file: ManifestFile) => Promise<string | null>;
    },
  ): Promise<void> {
    const { signal, onProgress } = this.options;
    try {
      for await (const event of manifestEvents(file, lines)) {
        signal.throwIfAborted();
        if (event.what === 'head') this.#head = event.head;
        else if (event.what === 'missing') this.#counts.lacking += 1;
        else if (event.what === 'file') {
          this.#marks.add(mark(event.file.path));
          const found = await readable(() => hash.file(event.file));
          this.#check(found, event.file.sha256, { path: event.file.path });
        } else {
          const { entry } = event;
          this.#marks.add(mark(entry.path));
          const { sha256: id, mailbox, folder, uid } = entry;
          const found = await readable(() => hash.entry(entry));
          this.#check(found, id, { path: entry.path, id, mailbox, folder, uid });
          this.#counts.messages += 1;
          this.#counts.bytes += entry.size;
          onProgress?.({ messages: this.#counts.messages, bytes: this.#counts.bytes });
        }
      }
    } catch (error) {
      if (!hasCode(error, 'export-manifest-damaged')) throw error;
      this.#report({ kind: 'manifest', path: MANIFEST_NAME });
    }
  }

  #check(found: string | null, expected: string, details: Omit<ExportFinding, 'kind'>): void {
    if (found === null) this.#report({ kind: 'missing', ...details });
    else if (found !== expected) this.#report({ kind: 'changed', ...details });
  }

  async #folderEntry(entry: ManifestEntry): Promise<string | null> {
    const absolute = this.#folder.absolute(entry.path);
    const isThere = this.#files.kindOf(absolute) === 'file';
    if (entry.inMbox !== undefined)
      return isThere ? sha256Of(sourceInMbox(this.#files, absolute, entry.inMbox)) : null;
    const target = isThere ? absolute : this.#findRenamed(absolute);
    return target === undefined ? null : sha256Of(filePieces(this.#files, target));
  }

  /** Finds a Maildir message that a mail program renamed because its flags changed. */
  #findRenamed(absolute: string): string | undefined {
    if (this.#head?.format !== 'maildir') return undefined;
    const folder = path.dirname(absolute);
    this.#cur ??= new Map();
    let names = this.#cur.get(folder);
    if (names === undefined) {
      const list = this.#files.kindOf(folder) === 'folder' ? this.#files.list(folder) : [];
      names = new Map(list.map((name) => [uniquePart(name), name]));
      this.#cur = new Map([[folder, names]]);
    }
    const name = names.get(uniquePart(path.basename(absolute)));
    if (name === undefined) return undefined;
    const file = path.join(folder, name);
    return this.#files.kindOf(file) === 'file' ? file : undefined;
  }
  #cur: Map<string, Map<string, string>> | undefined;

  /** Reports files missing from the manifest. Ignores the flags in Maildir file names. */
  #reportUnlisted(relative: string): void {
    const folder = this.#folder.absolute(relative);
    for (const name of readdirSync(folder)) {
      const at = relative === '' ? name : `${relative}/${name}`;
      if (lstatSync(path.join(folder, name)).isDirectory()) this.#reportUnlisted(at);
      else if (at !== MANIFEST_NAME && at !== UNFINISHED_NAME && !this.#marks.has(mark(at))) {
        // Hidden files belong to the system or a mail program. The next export removes unfinished files.
        if (name.startsWith('.') && temporaryOwner(name) === undefined) continue;
        this.#report({ kind: 'unlisted', path: at });
      }
    }
  }

  #report(finding: ExportFinding): void {
    this.#found += 1;
    if (EXPORT_DAMAGE.has(finding.kind)) this.#damage += 1;
    if (this.#findings.length < MAX_FINDINGS) this.#findings.push(finding);
  }
}

function mark(relative: string): string {
  return createHash('sha256').update(uniquePart(relative)).digest('hex').slice(0, 16);
}

/** Returns an empty hash if a file is unreadable, so that it is reported as changed. */
async function readable(act: () => Promise<string | null>): Promise<string | null> {
  try {
    return await act();
  } catch (error) {
    const known =
      error instanceof ZipUnreadable ||
      (error instanceof Error && 'code' in error && error.code === 'EIO');
    if (known) return '';
    throw error;
  }
}

/** Yields the source of a message in an mbox. */
function* sourceInMbox(
  files: ExportFiles,
  absolute: string,
  { offset, length, added, lineEndAdded }: InMbox,
): Generator<Buffer> {
  const quotes = new FromLineQuoter(-1);
  const range = { start: offset + added, end: offset + length - (lineEndAdded ? 1 : 0) };
  for (const piece of filePieces(files, absolute, range)) yield* quotes.take(piece);
  yield* quotes.end();
}
