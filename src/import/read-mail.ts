import { hash } from 'node:crypto';
import { closeSync, createReadStream, readSync, statSync } from 'node:fs';
import { open as openFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { type FilePath, shownPath } from '../disk/byte-path.ts';
import { openRegularFile } from '../disk/regular-file.ts';
import type { InMbox, ManifestEntry } from '../export/manifest.ts';
import { type ZipReader, ZipUnreadable } from '../export/read-zip.ts';
import { parseHeaderDate } from '../mail/header-date.ts';
import type { MessageId } from '../mail/words.ts';
import { flagsFromName, receivedFromName } from '../mailfiles/maildir-names.ts';
import { LineQuotes, type MboxRange, mboxRanges } from '../mailfiles/mbox.ts';
import type { FetchedSource } from '../sync/apply/ports.ts';
import { factsOf } from '../sync/apply/walk/fetch-judged.ts';
import { type ExportIndex, flagsOf } from './export-index.ts';
import type { MailFile } from './find-mail.ts';
import { flagsFromStatus, HEAD_BYTES } from './listing.ts';

/**
 * Why a file, or a part of it, was not imported, or not as its export has it: the system's name of the reason
 * (`EACCES`); an mbox without a "From " line; bytes of an mbox that lie before the first one; bytes other than those
 * that the manifest lists; a message of the manifest that is not there.
 */
export type FailureReason =
  | string
  | 'no-from-line'
  | 'bytes-before-from-line'
  | 'differs-from-manifest'
  | 'listed-but-missing';

/** Sources up to this size are handled in memory. */
const WHOLE_BYTES = 8 * 1024 * 1024;

/** The bytes of a message, and their beginning. */
interface Read {
  readonly id: MessageId;
  readonly source: FetchedSource;
  readonly head: Buffer;
}

/** One message of a file, with what its place says. */
export interface FoundMail extends Read {
  /** What the manifest of its export says of these very bytes; null for none. */
  readonly listed: ManifestEntry | null;
  readonly received: number | null;
  readonly modified: number;
  readonly flags: (head: Buffer) => readonly string[];
}

/** One that a manifest lists. */
export type ListedMail = FoundMail & { readonly listed: ManifestEntry };

/** Reads messages out of files. Sources that are too large for memory lie in the spool folder while they are used. */
export class MailReader {
  #spooled = 0;

  constructor(
    private readonly spoolDir: string,
    private readonly onFailure: (at: string, reason: FailureReason) => void,
  ) {}

  /**
   * The messages of a file, one after the other.
   *
   * @param index the manifest of the export that the file lies in, or null
   * @throws system errors
   */
  messages(file: MailFile, index: ExportIndex | null): AsyncGenerator<FoundMail, void, undefined> {
    return file.kind === 'mbox' ? this.#inMbox(file, index) : this.#inFile(file, index);
  }

  /** A message that is a file of its own. */
  async *#inFile(file: MailFile, index: ExportIndex | null) {
    const { size, mtimeMs } = statSync(file.path);
    const name = path.basename(shownPath(file.path));
    const named = receivedFromName(name);
    const maildir = file.kind === 'maildir';
    const own = {
      // A Maildir's own dates: in the name as it was delivered, else that of the file.
      received: maildir ? (Number.isNaN(named) ? mtimeMs : named) : null,
      modified: mtimeMs,
      flags: () => (maildir ? flagsFromName(name) : []),
    };
    const entry = file.inExport === null ? undefined : index?.find(file.inExport.path);
    if (entry !== undefined) index?.meet(entry);
    for await (const read of this.#pieces(size, () => filePieces(file.path), file.path)) {
      yield this.#judged(read, own, entry, file, name);
    }
  }

  async *#inMbox(file: MailFile, index: ExportIndex | null) {
    const modified = statSync(file.path).mtimeMs;
    let stray = false;
    const onStray = (): void => {
      stray = true;
    };
    let met = false;
    const read = (range: Pick<MboxRange, 'start' | 'end'>) =>
      this.#pieces(range.end - range.start, () => unquotedPieces(file.path, range));
    for (const range of mboxRanges(file.path, onStray)) {
      met = true;
      const received = parseHeaderDate(range.fromLine);
      const own = { received, modified, flags: flagsFromStatus };
      const entry =
        file.inExport === null ? undefined : index?.find(file.inExport.path, range.start);
      const exact = entry?.inMbox === undefined ? undefined : withoutAdded(range, entry.inMbox);
      let same = false;
      if (entry !== undefined) index?.meet(entry);
      if (entry !== undefined && exact !== undefined) {
        for await (const found of read(exact)) {
          same = found.id === entry.sha256;
          if (same) yield this.#judged(found, own, entry, file);
        }
      }
      if (same) continue;
      for await (const found of read(range)) yield this.#judged(found, own, entry, file);
    }
    if (stray)
      this.onFailure(shownPath(file.path), met ? 'bytes-before-from-line' : 'no-from-line');
  }

  /** The messages that the manifest of a zip lists; other bytes than it lists are no message of it. */
  async *inZip(
    zip: ZipReader,
    index: ExportIndex,
    at: string,
  ): AsyncGenerator<ListedMail, void, undefined> {
    for (const name of zip.names()) {
      const entry = index.find(name);
      if (entry === undefined) continue;
      index.meet(entry);
      const own = { received: null, modified: 0, flags: () => [] };
      let same = false;
      try {
        const pieces = zip.sizeOf(name) === entry.size ? await zip.pieces(name) : undefined;
        if (pieces === undefined) continue;
        for await (const read of this.#pieces(entry.size, () => pieces)) {
          const found = withEntry(read, own, entry);
          same = found !== undefined;
          if (found !== undefined) yield found;
        }
      } catch (error) {
        if (!(error instanceof ZipUnreadable)) throw error;
      } finally {
        if (!same) this.onFailure(`${at}/${name}`, 'differs-from-manifest');
      }
    }
  }

  #judged(
    read: Read,
    own: Pick<FoundMail, 'received' | 'modified' | 'flags'>,
    entry: ManifestEntry | undefined,
    file: MailFile,
    name?: string,
  ): FoundMail {
    if (entry === undefined) return { ...read, ...own, listed: null };
    const found = withEntry(read, own, entry, name);
    if (found !== undefined) return found;
    this.onFailure(shownPath(file.path), 'differs-from-manifest');
    return { ...read, ...own, listed: null };
  }

  /** One message from its pieces, in memory or in a spool file that is removed when it has been used. */
  async *#pieces(
    size: number,
    open: () => AsyncIterable<Buffer> | Iterable<Buffer>,
    inPlace?: FilePath,
  ): AsyncGenerator<Read, void, undefined> {
    if (size <= WHOLE_BYTES) {
      const pieces: Buffer[] = [];
      for await (const piece of open()) pieces.push(piece);
      const bytes = Buffer.concat(pieces);
      const source: FetchedSource = { kind: 'buffer', bytes };
      yield { id: hash('sha256', bytes), source, head: bytes.subarray(0, HEAD_BYTES) };
      return;
    }
    if (typeof inPlace === 'string') {
      yield await largeFile(inPlace);
      return;
    }
    this.#spooled += 1;
    const spooled = path.join(this.spoolDir, `import-${this.#spooled}`);
    try {
      const target = await openFile(spooled, 'wx', 0o600);
      try {
        for await (const piece of gathered(open())) await target.writeFile(piece);
      } finally {
        await target.close();
      }
      yield await largeFile(spooled);
    } finally {
      await rm(spooled, { force: true });
    }
  }
}

/** A message with what its manifest says, if these are the bytes that it lists. */
function withEntry(
  read: Read,
  own: Pick<FoundMail, 'received' | 'modified' | 'flags'>,
  entry: ManifestEntry,
  name = entry.path,
): ListedMail | undefined {
  if (read.id !== entry.sha256) return undefined;
  const received = entry.date === null ? own.received : Date.parse(entry.date);
  return { ...read, ...own, received, flags: () => flagsOf(entry, name), listed: entry };
}

/** The part of a message in an mbox that is its source; undefined where it is not as long as the manifest says. */
function withoutAdded({ start, end }: MboxRange, { length, added, lineEndAdded }: InMbox) {
  const exact = { start: start + added, end: end - (lineEndAdded ? 1 : 0) };
  return end - start === length && exact.start <= exact.end ? exact : undefined;
}

async function largeFile(file: string): Promise<Read> {
  const { size } = statSync(file);
  const { sha256 } = await factsOf({ kind: 'file', path: file, size, sha256: '' });
  const head = Buffer.alloc(HEAD_BYTES);
  const fd = openRegularFile(file);
  try {
    const got = readSync(fd, head, 0, HEAD_BYTES, 0);
    const source: FetchedSource = { kind: 'file', path: file, size, sha256 };
    return { id: sha256, source, head: head.subarray(0, got) };
  } finally {
    closeSync(fd);
  }
}

const GATHERED_BYTES = 1024 * 1024;

/** Larger pieces: one with a quote taken off each of its lines comes in as many as it has lines. */
async function* gathered(pieces: AsyncIterable<Buffer> | Iterable<Buffer>) {
  let held: Buffer[] = [];
  let bytes = 0;
  for await (const piece of pieces) {
    held.push(piece);
    bytes += piece.length;
    if (bytes < GATHERED_BYTES) continue;
    yield Buffer.concat(held);
    held = [];
    bytes = 0;
  }
  if (bytes > 0) yield Buffer.concat(held);
}

function filePieces(file: FilePath): AsyncIterable<Buffer> {
  return createReadStream(file, { fd: openRegularFile(file) });
}

async function* unquotedPieces(file: FilePath, { start, end }: Pick<MboxRange, 'start' | 'end'>) {
  if (end <= start) return;
  const quotes = new LineQuotes(-1);
  for await (const piece of createReadStream(file, {
    fd: openRegularFile(file),
    start,
    end: end - 1,
  })) {
    yield* quotes.take(piece);
  }
  yield* quotes.end();
}
