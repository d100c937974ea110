import path from 'node:path';
import { Readable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ZipFile } from 'yazl';
import { hasCode } from '../core/errors.ts';
import { FromLineQuoter } from '../mail/mail-files.ts';
import { exportError } from './errors.ts';
import {
  type ExportFiles,
  ExportFolder,
  filePieces,
  type NewFile,
  parentOf,
  sha256Of,
  temporaryOwner,
  writing,
} from './export-files.ts';
import {
  type ExportFormat,
  MANIFEST_NAME,
  ManifestDamaged,
  type ManifestEvent,
  manifestText,
  readManifest,
  type Sidecar,
  sidecarOf,
  sidecarsText,
  sidecarText,
  UNFINISHED_NAME,
} from './export-manifest.ts';
import type { NamedMessage } from './export-names.ts';
import type { InMbox, ManifestEntry, ManifestHead } from './manifest-shapes.ts';
import {
  type ExportArchive,
  type ExportOptions,
  type ExportPlan,
  type ExportTarget,
  type FormatWriter,
  openSource,
  type PlannedPlace,
  type Source,
  type WritingOptions,
} from './plan-export.ts';
import { ZipReader, ZipUnreadable } from './read-zip.ts';

const SYSTEMS_OWN = /^(?:\.|lost\+found$|desktop\.ini$|thumbs\.db$|\$recycle\.bin$|system volume)/i;

/**
 * Reports whether a target folder contains a finished export. Does not change the folder.
 *
 * @throws export-target-foreign if it contains anything other than an export; export-write-failed if it cannot be read
 */
async function hasExport(files: ExportFiles, folder: string): Promise<boolean> {
  return await writing(folder, async () => {
    const kind = files.kindOf(folder);
    if (kind === undefined) return false;
    if (kind !== 'folder')
      throw exportError('export-target-foreign', { target: folder, expected: 'folder' });
    const isFinished = files.kindOf(path.join(folder, MANIFEST_NAME)) === 'file';
    const isUnfinished = files.kindOf(path.join(folder, UNFINISHED_NAME)) === 'file';
    // The marker is an export's first file. Until it is renamed, only its temporary file exists.
    const isForeign = (name: string): boolean =>
      !SYSTEMS_OWN.test(name) && temporaryOwner(name) === undefined;
    if (!isFinished && !isUnfinished && files.list(folder).some(isForeign)) {
      throw exportError('export-target-foreign', { target: folder, expected: 'folder' });
    }
    return isFinished;
  });
}

/**
 * Yields a manifest's events. Trust none of them until all have been yielded.
 *
 * @throws export-manifest-damaged, export-format-differs
 */
export async function* manifestEvents(
  file: string,
  lines: AsyncIterable<string> | Iterable<string>,
  expected?: ExportFormat,
): AsyncGenerator<ManifestEvent, void, undefined> {
  try {
    for await (const event of readManifest(lines)) {
      if (event.what === 'head' && expected !== undefined && event.head.format !== expected) {
        throw exportError('export-format-differs', {
          target: path.dirname(file),
          found: event.head.format,
          wanted: expected,
        });
      }
      yield event;
    }
  } catch (error) {
    throw error instanceof ManifestDamaged
      ? exportError('export-manifest-damaged', { file })
      : error;
  }
}

const MAX_LINE_BYTES = 1024 * 1024;
const LF = 10;

/**
 * Splits UTF-8 into lines. Yields to the event loop after each piece, so that other work and aborts get a turn.
 *
 * @throws ManifestDamaged for a line that is too long
 */
export async function* linesOf(
  pieces: AsyncIterable<Buffer> | Iterable<Buffer>,
): AsyncGenerator<string, void, undefined> {
  let pending: Buffer[] = [];
  let bytes = 0;
  for await (const piece of pieces) {
    await nextTurn();
    let from = 0;
    for (;;) {
      const found = piece.indexOf(LF, from);
      const end = found === -1 ? piece.length : found;
      bytes += end - from;
      if (bytes > MAX_LINE_BYTES) throw new ManifestDamaged('a line that is too long');
      pending.push(Buffer.from(piece.subarray(from, end)));
      if (found === -1) break;
      yield Buffer.concat(pending).toString('utf8');
      pending = [];
      bytes = 0;
      from = found + 1;
    }
  }
  if (bytes > 0) yield Buffer.concat(pending).toString('utf8');
}

export function fileLines(files: ExportFiles, file: string): AsyncIterable<string> {
  return linesOf(filePieces(files, file));
}

/** Maximum number of files written concurrently. A disk syncs several as quickly as one. */
const WIDTH = 8;

interface FolderDeps {
  readonly folder: ExportFolder;
  readonly plan: ExportPlan;
  /** Writes the manifest, once all messages have their final names. */
  readonly complete: (head: ManifestHead) => Promise<void>;
}

/** Writes one file per message (.eml, Maildir). Its modification time is the received date. */
class FileWriter implements FormatWriter {
  readonly width = WIDTH;
  readonly provenFirst = false;

  constructor(
    private readonly deps: FolderDeps & {
      readonly isMaildir: boolean;
      readonly sidecar: (entry: ManifestEntry) => string | null;
    },
  ) {}

  async put(rank: number, place: PlannedPlace, open: () => Promise<Source>) {
    const { folder, plan, isMaildir } = this.deps;
    const { path, date } = place.entry;
    const parent = parentOf(path);
    const temporaryIn = isMaildir ? maildirPart(parent, 'tmp') : undefined;
    await folder.prepare(parent);
    if (temporaryIn !== undefined) {
      await folder.prepare(maildirPart(parent, 'new'));
      await folder.prepare(temporaryIn);
    }
    const isPresent = await this.#isThere(place);
    if (!isPresent) {
      const source = await open();
      await folder.put(
        path,
        async (file) => {
          for await (const piece of source.pieces()) await file.write(piece);
        },
        {
          ...(date === null ? {} : { modified: Math.max(0, Date.parse(date)) }),
          ...(temporaryIn === undefined ? {} : { temporaryIn }),
        },
      );
    }
    plan.done(rank, place);
    await this.#putSidecar(place.entry);
    return isPresent ? 'there' : 'written';
  }

  keep(): Promise<boolean> {
    return Promise.resolve(true);
  }

  async finish(head: ManifestHead): Promise<void> {
    await this.deps.folder.sync();
    await this.deps.complete(head);
  }

  async discard(): Promise<void> {
    await this.deps.folder.sync();
  }

  /** Reports whether the file exists and is intact. Renames it if an earlier export used another name. */
  async #isThere({ entry: { path, sha256 }, before }: PlannedPlace): Promise<boolean> {
    const { folder, plan } = this.deps;
    if ((await folder.hash(path)) === sha256) return true;
    if (before === null || (await folder.hash(before)) !== sha256) return false;
    await folder.rename(before, path);
    const sidecar = sidecarPath(before);
    if (plan.file(sidecar) !== undefined) {
      plan.dropFile(sidecar);
      if ((await folder.hash(sidecar)) !== undefined) await folder.remove(sidecar);
    }
    return true;
  }

  async #putSidecar(entry: ManifestEntry): Promise<void> {
    const { folder, plan, sidecar } = this.deps;
    const text = sidecar(entry);
    if (text === null) return;
    const path = sidecarPath(entry.path);
    const bytes = Buffer.from(text);
    const sha256 = await sha256Of([bytes]);
    if ((await folder.hash(path)) !== sha256) await folder.put(path, (file) => file.write(bytes));
    plan.addFile({ path, sha256, size: bytes.length });
  }
}

function maildirPart(cur: string, part: 'new' | 'tmp'): string {
  return cur.replace(/cur$/, part);
}

function sidecarPath(path: string): string {
  return path.replace(/\.eml$/, '.json');
}

const DAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];
const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');

/** Returns a message's "From " line, with the sender if it is a single word, and the received time (asctime, UTC). */
export function fromLine({ from, date }: Pick<NamedMessage, 'from' | 'date'>): string {
  const address = from?.address ?? '';
  const plain = address.includes('@', 1) && !address.endsWith('@') && /^[!-~]+$/.test(address);
  const sender = plain ? address : 'MAILER-DAEMON';
  const at = new Date(date ?? 0);
  const two = (value: number, fill = '0'): string => String(value).padStart(2, fill);
  const day = `${DAYS[at.getUTCDay()]} ${MONTHS[at.getUTCMonth()]} ${two(at.getUTCDate(), ' ')}`;
  const time = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}`;
  return `From ${sender} ${day} ${time} ${String(at.getUTCFullYear()).padStart(4, '0')}\n`;
}

/** Letters in Status and X-Status that mutt, Dovecot and Thunderbird's importers read. */
const STATUS = [['\\seen', 'R']] as const;
const X_STATUS = [
  ['\\answered', 'A'],
  ['\\flagged', 'F'],
  ['\\draft', 'T'],
  ['\\deleted', 'D'],
] as const;

function statusHeaders(flags: readonly string[], lineEnd: string): string {
  const set = new Set(flags.map((flag) => flag.toLowerCase()));
  const letters = (table: readonly (readonly [string, string])[]): string =>
    table.map(([flag, letter]) => (set.has(flag) ? letter : '')).join('');
  const keywords = flags.filter((flag) => /^[!-[\]-~]+$/.test(flag));
  const lines = [`Status: ${letters(STATUS)}O`];
  if (letters(X_STATUS) !== '') lines.push(`X-Status: ${letters(X_STATUS)}`);
  if (keywords.length > 0) lines.push(`X-Keywords: ${keywords.join(' ')}`);
  return lines.map((line) => line + lineEnd).join('');
}

/** Yields a source with its "From " lines quoted and a final line ending. */
export async function* quotedPieces(
  pieces: AsyncIterable<Buffer> | Iterable<Buffer>,
): AsyncGenerator<Buffer, { readonly lineEndAdded: boolean }, undefined> {
  const quotes = new FromLineQuoter(1);
  let last: number | undefined;
  const record = (piece: Buffer): Buffer => {
    if (piece.length > 0) last = piece[piece.length - 1];
    return piece;
  };
  for await (const piece of pieces) for (const part of quotes.take(piece)) yield record(part);
  for (const part of quotes.end()) yield record(part);
  const lineEndAdded = last !== undefined && last !== 0x0a;
  if (lineEndAdded) yield Buffer.from('\n');
  return { lineEndAdded };
}

interface OpenMbox {
  readonly relative: string;
  readonly file: NewFile;
}

/** Writes one mbox (mboxrd) per folder, which gets its final name on completion. */
class MboxWriter implements FormatWriter {
  readonly width = 1;
  readonly provenFirst = true;
  #open: OpenMbox | undefined;

  constructor(
    private readonly deps: FolderDeps & Pick<WritingOptions, 'statusHeaders' | 'incremental'>,
  ) {}

  async put(rank: number, place: PlannedPlace, open: () => Promise<Source>) {
    const source = await open();
    const { path } = place.entry;
    const mbox = await this.#mbox(path);
    const { plan, folder } = this.deps;
    const inMbox = await writing(folder.absolute(path), () => this.#append(mbox, place, source));
    plan.done(rank, place, inMbox);
    return 'written' as const;
  }

  /** Keeps earlier messages in an mbox that is being extended, and drops them from one that is rewritten. */
  async keep(rank: number, { path }: ManifestEntry): Promise<boolean> {
    const { plan, incremental } = this.deps;
    if (incremental || !(plan.hasDue(path) || this.#open?.relative === path)) return true;
    plan.drop(rank);
    return false;
  }

  async finish(head: ManifestHead): Promise<void> {
    await this.#close();
    await this.deps.folder.sync();
    await this.deps.complete(head);
  }

  async discard(): Promise<void> {
    const mbox = this.#open;
    this.#open = undefined;
    await mbox?.file.discard();
    await this.deps.folder.sync();
  }

  async #mbox(relative: string): Promise<OpenMbox> {
    if (this.#open?.relative === relative) return this.#open;
    await this.#close();
    const { folder } = this.deps;
    return await writing(folder.absolute(relative), async () => {
      await folder.prepare(parentOf(relative));
      const mbox = { relative, file: await folder.begin(relative) };
      this.#open = mbox;
      await this.#copyEarlier(mbox);
      return mbox;
    });
  }

  /** Copies an earlier mbox up to its length in the manifest. Any bytes beyond that come from a killed run. */
  async #copyEarlier(mbox: OpenMbox): Promise<void> {
    const { folder, plan, incremental } = this.deps;
    const earlier = incremental ? plan.file(mbox.relative) : undefined;
    if (earlier === undefined) return;
    const file = folder.absolute(mbox.relative);
    const range = { end: earlier.size };
    for (const piece of filePieces(folder.files, file, range)) {
      await mbox.file.write(Buffer.from(piece));
    }
    if (mbox.file.sha256 !== earlier.sha256) throw exportError('export-changed', { file });
  }

  async #append(mbox: OpenMbox, { entry, from }: PlannedPlace, source: Source): Promise<InMbox> {
    await mbox.file.write(Buffer.from(fromLine({ from, date: entry.date })));
    const offset = mbox.file.size;
    const pieces = source.pieces();
    let added = 0;
    if (this.deps.statusHeaders) {
      const lineEnd = await lineEndOf(source);
      const headers = Buffer.from(statusHeaders(entry.flags, lineEnd));
      added = headers.length;
      await mbox.file.write(headers);
    }
    const quoted = quotedPieces(pieces);
    let next = await quoted.next();
    for (; next.done !== true; next = await quoted.next()) await mbox.file.write(next.value);
    const length = mbox.file.size - offset;
    await mbox.file.write(Buffer.from('\n'));
    return { offset, length, added, lineEndAdded: next.value.lineEndAdded };
  }

  async #close(): Promise<void> {
    const mbox = this.#open;
    if (mbox === undefined) return;
    const { folder, plan } = this.deps;
    const { relative, file } = mbox;
    const final = folder.absolute(relative);
    await writing(final, () => file.finish(path.normalize(final)));
    this.#open = undefined;
    plan.addFile({ path: relative, sha256: file.sha256, size: file.size });
  }
}

async function lineEndOf(source: Source): Promise<string> {
  for await (const piece of source.pieces()) {
    const lf = piece.indexOf(0x0a);
    return lf > 0 && piece[lf - 1] === 0x0d ? '\r\n' : '\n';
  }
  return '\n';
}

/** A folder's sidecars are next to its mbox, or next to `cur/` and `new/`. */
function folderSidecarPath(messagePath: string): string {
  return messagePath.endsWith('.mbox')
    ? messagePath.replace(/\.mbox$/, '.json')
    : messagePath.replace(/cur\/[^/]*$/, 'mailkeep-sidecar.json');
}

function sidecarFor(
  archive: Pick<ExportArchive, 'catalog'>,
  entry: ManifestEntry,
  commit: number,
): Sidecar {
  return sidecarOf(entry, archive.catalog.history(entry.sha256), commit);
}

async function writeFolderSidecars(
  folder: ExportFolder,
  plan: ExportPlan,
  sidecar: (entry: ManifestEntry) => Sidecar,
): Promise<void> {
  const entries = plan.entries();
  let next = entries.next();
  while (next.done !== true) {
    const path = folderSidecarPath(next.value.path);
    const listSidecars = function* (): Generator<Sidecar> {
      while (next.done !== true && folderSidecarPath(next.value.path) === path) {
        yield sidecar(next.value);
        next = entries.next();
      }
    };
    await folder.prepare(parentOf(path));
    const written = await folder.put(path, async (file) => {
      for (const text of sidecarsText(listSidecars())) await file.write(Buffer.from(text));
    });
    plan.addFile(written);
  }
}

export function openFolderTarget(options: ExportOptions, files: ExportFiles): ExportTarget {
  const { to, format, incremental, statusHeaders } = options;
  const folder = new ExportFolder(files, to);
  const manifest = path.join(to, MANIFEST_NAME);
  return {
    manifest,
    async recall(plan) {
      if (!(await hasExport(files, to))) return;
      for await (const event of manifestEvents(manifest, fileLines(files, manifest), format)) {
        if (event.what === 'entry') plan.addEarlier(event.entry);
        else if (event.what === 'file') plan.addFile(event.file);
        else if (event.what === 'missing' && incremental) plan.addMissing(event.place);
      }
    },
    async begin(plan, commit) {
      await folder.prepare('');
      // Make the marker durable before the first message, so that the next run recognises an interrupted export.
      const marker = Buffer.from(`${JSON.stringify({ mailkeep: 'unfinished export', format })}\n`);
      await folder.put(UNFINISHED_NAME, (file) => file.write(marker));
      await folder.sync();
      const complete = async (head: ManifestHead) => {
        if (options.sidecar && format !== 'eml') {
          await writeFolderSidecars(folder, plan, (entry) => sidecarFor(options, entry, commit));
        }
        const [entries, listed, missing] = [plan.entries(), plan.files(), plan.missing()];
        await folder.put(MANIFEST_NAME, async (file) => {
          const parts = { head, entries, files: listed, missing };
          for (const piece of manifestText(parts)) await file.write(Buffer.from(piece));
        });
        await folder.sync();
        await folder.remove(UNFINISHED_NAME);
        await folder.sync();
      };
      const deps = { folder, plan, complete };
      if (format === 'mbox') return new MboxWriter({ ...deps, statusHeaders, incremental });
      const isMaildir = format === 'maildir';
      const hasSidecars = options.sidecar && !isMaildir;
      const sidecar = (entry: ManifestEntry) =>
        hasSidecars ? sidecarText(sidecarFor(options, entry, commit)) : null;
      return new FileWriter({ ...deps, isMaildir, sidecar });
    },
  };
}

interface Entry {
  readonly state: number;
  getCentralDirectoryRecord(): Buffer;
}

const WRITTEN = 3;

/**
 * A zip writer with constant time and memory per entry. yazl walks all its entries whenever one is added or finished,
 * and retains every source. This class gives yazl only the pending entries, and keeps just the directory records of
 * finished ones.
 */
export class LongZip extends ZipFile {
  declare private entries: Entry[];
  readonly #written: Entry[] = [];

  get walked(): number {
    return this.entries.length;
  }

  /** Removes finished entries from yazl's list. Call this when an entry's turn comes. */
  settle(): void {
    const waiting: Entry[] = [];
    for (const entry of this.entries) {
      if (entry.state < WRITTEN) waiting.push(entry);
      else {
        const { state } = entry;
        // Small buffers would keep 8 KiB pages of Node's pool alive.
        const record = entry.getCentralDirectoryRecord().toString('latin1');
        const getCentralDirectoryRecord = () => Buffer.from(record, 'latin1');
        this.#written.push({ state, getCentralDirectoryRecord });
      }
    }
    this.entries = waiting;
  }

  finish(): void {
    this.entries = [...this.#written, ...this.entries];
    this.end();
  }
}

/** The range of DOS times, minus a day at each end for time zones. */
const EARLIEST = Date.UTC(1980, 0, 2);
const LATEST = Date.UTC(2107, 11, 30);

/** A date whose getters return UTC. Zips contain local times, but their bytes must not depend on the time zone. */
class UtcDate extends Date {
  override getFullYear = (): number => this.getUTCFullYear();
  override getMonth = (): number => this.getUTCMonth();
  override getDate = (): number => this.getUTCDate();
  override getHours = (): number => this.getUTCHours();
  override getMinutes = (): number => this.getUTCMinutes();
  override getSeconds = (): number => this.getUTCSeconds();
}

function zipTime(date: number | null): Date {
  return new UtcDate(Math.min(LATEST, Math.max(EARLIEST, date ?? EARLIEST)));
}

export interface ZippedFile {
  readonly name: string;
  readonly date: number | null;
  readonly bytes: Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
}

class ZipStream {
  readonly #zip = new LongZip();
  readonly output: Readable;
  #current: Readable | undefined;
  #failure: { readonly error: unknown } | undefined;
  /** Reject functions for all files being added, since several can be waiting. */
  readonly #rejects = new Set<(error: unknown) => void>();

  constructor() {
    const { outputStream } = this.#zip;
    if (!(outputStream instanceof Readable)) throw new TypeError('a zip without a stream');
    this.output = outputStream;
    for (const emitter of [this.#zip, this.output])
      emitter.on('error', (error) => this.fail(error));
  }

  /** Adds a file. Resolves once its bytes have been read. @param size in bytes, if known */
  async add({ name, date, bytes }: ZippedFile, size?: number): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure.error;
    const options = { mtime: zipTime(date), mode: 0o100600, ...(size !== undefined && { size }) };
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#rejects.add(reject);
    this.#zip.addReadStreamLazy(name, options, (take) => {
      this.#zip.settle();
      this.#current = Readable.from(bytes, { objectMode: false });
      this.#current.on('error', (error) => this.fail(error));
      this.#current.on('end', resolve);
      take(null, this.#current);
    });
    await promise.finally(() => this.#rejects.delete(reject));
  }

  finish(): void {
    this.#zip.finish();
  }

  /** Stops at the first error. The output and all callers of `add` receive it. */
  fail(error: unknown): void {
    this.#failure ??= { error };
    for (const reject of this.#rejects) reject(error);
    this.#current?.destroy();
    this.output.destroy(error instanceof Error ? error : new Error(String(error)));
  }
}

/** Writes a zip whose bytes do not depend on the clock, the machine or disk timing. */
export class ZipWriter implements FormatWriter {
  readonly width = 1;
  readonly provenFirst = true;
  readonly #zip = new ZipStream();
  readonly #written: Promise<void>;

  constructor(
    private readonly deps: {
      readonly file: Pick<NewFile, 'write' | 'discard'> & { finish(): Promise<void> };
      readonly final: string;
      readonly plan: ExportPlan;
      readonly earlier: (entry: ManifestEntry) => Promise<Source>;
      readonly sidecar: (entry: ManifestEntry) => string | null;
    },
  ) {
    this.#written = this.#drain();
    this.#written.catch((error: unknown) => this.#zip.fail(error));
  }

  async put(rank: number, place: PlannedPlace, open: () => Promise<Source>) {
    const source = await open();
    const { entry } = place;
    await this.#add(entry.path, entry.date, entry.size, source.pieces());
    this.deps.plan.done(rank, place);
    await this.#addSidecar(entry);
    return 'written' as const;
  }

  async keep(_rank: number, entry: ManifestEntry): Promise<boolean> {
    const source = await this.deps.earlier(entry);
    await this.#add(entry.path, entry.date, entry.size, source.pieces());
    await this.#addSidecar(entry);
    return true;
  }

  async finish(head: ManifestHead): Promise<void> {
    const { plan } = this.deps;
    const parts = { head, entries: plan.entries(), files: [], missing: plan.missing() };
    const bytes = function* (): Generator<Buffer> {
      for (const piece of manifestText(parts)) yield Buffer.from(piece);
    };
    await this.#add(MANIFEST_NAME, null, undefined, bytes());
    this.#zip.finish();
    await this.#written;
    await writing(this.deps.final, () => this.deps.file.finish());
  }

  async discard(): Promise<void> {
    this.#zip.fail(new Error('the export is discarded'));
    await this.#written.catch(() => {});
    await this.deps.file.discard();
  }

  async #addSidecar(entry: ManifestEntry): Promise<void> {
    const text = this.deps.sidecar(entry);
    if (text === null) return;
    const bytes = Buffer.from(text);
    await this.#add(sidecarPath(entry.path), entry.date, bytes.length, [bytes]);
  }

  #add(
    name: string,
    date: string | null,
    size: number | undefined,
    bytes: ZippedFile['bytes'],
  ): Promise<void> {
    return this.#zip.add({ name, date: date === null ? null : Date.parse(date), bytes }, size);
  }

  async #drain(): Promise<void> {
    const { file, final } = this.deps;
    for await (const chunk of this.#zip.output) {
      await writing(final, () => file.write(Buffer.from(chunk)));
    }
  }
}

/** Opens a zip export, which replaces an earlier one on completion. `incremental` copies the earlier messages first. */
export function openZipTarget(options: ExportOptions, files: ExportFiles): ExportTarget {
  const { to, incremental, sidecar } = options;
  const folder = new ExportFolder(files, path.dirname(to), `.${path.basename(to)}`);
  let previous: ZipReader | undefined;
  /** Reads from the archive, or from the earlier zip if the archive has since purged the message. */
  const earlier = async (entry: ManifestEntry): Promise<Source> => {
    try {
      return await openSource(options.sources, entry.sha256, entry.size, true);
    } catch (error) {
      const isGone = hasCode(error, 'bytes-purged') || hasCode(error, 'bytes-unknown');
      const pieces = isGone ? await provenPieces(previous, entry) : undefined;
      if (pieces !== undefined) return { pieces: () => pieces };
      throw isGone ? exportError('export-changed', { file: to }) : error;
    }
  };
  return {
    manifest: MANIFEST_NAME,
    async recall(plan) {
      previous = await lookAtZip(files, to);
      if (previous === undefined || !incremental) return;
      const pieces = await previous.pieces(MANIFEST_NAME);
      if (pieces === undefined) return;
      for await (const event of manifestEvents(to, linesOf(pieces), 'zip')) {
        if (event.what === 'entry') plan.addEarlier(event.entry);
        else if (event.what === 'missing') plan.addMissing(event.place);
      }
    },
    async begin(plan, commit) {
      const file = await writing(to, async () => {
        await folder.prepare('');
        return await folder.begin(path.basename(to));
      });
      return new ZipWriter({
        file: {
          write: (bytes) => file.write(bytes),
          async finish() {
            await file.finish(to);
            await folder.sync();
            previous?.close();
          },
          async discard() {
            previous?.close();
            await file.discard();
          },
        },
        final: to,
        plan,
        earlier,
        sidecar: (entry) => (sidecar ? sidecarText(sidecarFor(options, entry, commit)) : null),
      });
    },
  };
}

/** Opens the zip of an earlier export. Returns undefined if the file does not exist. @throws export-target-foreign */
async function lookAtZip(files: ExportFiles, to: string): Promise<ZipReader | undefined> {
  const kind = await writing(to, async () => files.kindOf(to));
  if (kind === undefined) return undefined;
  if (kind !== 'file') throw exportError('export-target-foreign', { target: to, expected: 'file' });
  try {
    const zip = await writing(to, () => ZipReader.open(to));
    if (zip.hasManifest) return zip;
    zip.close();
  } catch (error) {
    if (!(error instanceof ZipUnreadable)) throw error;
  }
  throw exportError('export-target-foreign', { target: to, expected: 'file' });
}

async function provenPieces(previous: ZipReader | undefined, entry: ManifestEntry) {
  const isSame = (await previous?.hash(entry.path)) === entry.sha256;
  return isSame ? await previous?.pieces(entry.path) : undefined;
}

/**
 * Yields a zip of files as it is written. Requests each file only once the previous one has been read, and closes
 * `files` if the client stops reading.
 *
 * @throws errors from `files` or from reading their bytes, which leave the zip incomplete
 */
export async function* zipOfFiles(
  files: AsyncIterable<ZippedFile>,
): AsyncGenerator<Uint8Array, void, undefined> {
  const zip = new ZipStream();
  const adding = (async () => {
    for await (const file of files) await zip.add(file);
    zip.finish();
  })();
  adding.catch((error: unknown) => zip.fail(error));
  try {
    for await (const piece of zip.output) yield piece;
  } finally {
    zip.fail(new Error('the client stopped reading the zip'));
    await adding.catch(() => {});
  }
}
