import { hash } from 'node:crypto';
import { closeSync, createReadStream, readSync, statSync } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import path from 'node:path';
import type { LogWriter } from '../archive/log-writer.ts';
import type { WritableCatalog } from '../catalog/catalog.ts';
import { openRegularFile } from '../disk/regular-file.ts';
import { errnoOf } from '../errors/errno.ts';
import { importNameTaken } from '../errors/import.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import { parseHeaderDate } from '../mail/header-date.ts';
import { importedMailbox, isImported } from '../mail/imported.ts';
import type { FolderKey, MailboxKey, MessageId } from '../mail/words.ts';
import { flagsFromName, receivedFromName } from '../mailfiles/maildir-names.ts';
import { LineQuotes, type MboxRange, mboxRanges } from '../mailfiles/mbox.ts';
import { catalogMirror } from '../sync/apply/catalog-mirror.ts';
import { Committer } from '../sync/apply/committer.ts';
import { factsOf } from '../sync/apply/fetched-facts.ts';
import type { FetchedSource } from '../sync/apply/ports.ts';
import { findMail, type MailFile } from './find-mail.ts';
import { flagsFromStatus, HEAD_BYTES, listingOf } from './listing.ts';

export interface ImportOptions {
  /** Files and folders; absolute. */
  readonly paths: readonly string[];
  /** What the mailbox is called: it is made when it is not there yet. */
  readonly name: string;
  readonly log: LogWriter;
  readonly catalog: WritableCatalog;
  /** For sources that are too large for memory. */
  readonly spoolDir: string;
  readonly now: () => number;
  /** Calls back once, after `ms`; the returned function takes it back. */
  readonly after: (ms: number, act: () => void) => () => void;
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: { readonly messages: number; readonly added: number }) => void;
}

export interface ImportResult {
  readonly mailbox: string;
  readonly resourceId: string;
  /** Files with mail in them. */
  readonly files: number;
  /** Messages met. */
  readonly messages: number;
  readonly added: number;
  /** Bytes of the sources that were added. */
  readonly bytes: number;
  /** Messages that their folder had already. */
  readonly known: number;
  /** Messages that were forgotten or pruned on purpose: they do not come back. */
  readonly forgotten: number;
  /** Files that are no mail, as far as their names and first bytes tell. */
  readonly passedOver: number;
  readonly failures: readonly { readonly path: string; readonly reason: FailureReason }[];
  readonly interrupted: boolean;
}

/**
 * Why a file, or a part of it, was not imported: the system's name of the reason (`EACCES`); an mbox without a
 * "From " line; bytes of an mbox that lie before the first one.
 */
export type FailureReason = string | 'no-from-line' | 'bytes-before-from-line';

/** Sources up to this size are handled in memory. */
const WHOLE_BYTES = 8 * 1024 * 1024;
const MOST_FAILURES = 10_000;

/** One message of a file, with what its place tells. */
interface Found {
  readonly source: FetchedSource;
  readonly head: Buffer;
  readonly received: number | null;
  readonly modified: number;
  readonly flags: (head: Buffer) => readonly string[];
}

/**
 * Brings mail from files into the archive, as a mailbox of its own. Bytes stay as they are. A message that its
 * folder has, or ever had, is not added again, so an import that was interrupted goes on when it is run again.
 * One that cannot be read is named, and the others are imported.
 *
 * @throws import-unreadable for a path that was named, import-name-taken; what the log's writer and the fold throw
 */
export async function runImport(options: ImportOptions): Promise<ImportResult> {
  const { catalog, name } = options;
  const taken = catalog.folders
    .mailboxes()
    .some(
      (box) =>
        !isImported(box) &&
        [box.address, box.mailbox].some((known) => known.toLowerCase() === name.toLowerCase()),
    );
  if (taken) throw importNameTaken(name);
  // Before anything is written: a path that was mistyped is an error, and not an empty import.
  for (const given of options.paths) findMail(given).next();
  return await new Import(options, importedMailbox(name)).run();
}

class Import {
  readonly #options: ImportOptions;
  readonly #key: MailboxKey;
  readonly #committer: Committer;
  /** By folder: the highest uid given, and ids on their way into the catalog. */
  readonly #folders = new Map<string, { uid: number; readonly underWay: Set<MessageId> }>();
  #files = 0;
  #messages = 0;
  #added = 0;
  #bytes = 0;
  #known = 0;
  #forgotten = 0;
  #passedOver = 0;
  #spooled = 0;
  readonly #failures: { path: string; reason: string }[] = [];

  constructor(options: ImportOptions, key: MailboxKey) {
    this.#options = options;
    this.#key = key;
    const { log, catalog, now, after } = options;
    const mirror = catalogMirror(catalog);
    this.#committer = new Committer({ log, mirror, now, after, onCommitted: () => {} });
  }

  async run(): Promise<ImportResult> {
    const { paths, signal, name } = this.#options;
    for (const given of paths) {
      for (const file of findMail(given)) {
        if (signal.aborted) break;
        if (file.kind === 'other') this.#passedOver += 1;
        else if (file.kind === 'unreadable') this.#failed(file.path, file.reason);
        else await this.#file(file);
      }
    }
    await this.#committer.flush();
    return {
      mailbox: name,
      resourceId: this.#key.mailbox,
      files: this.#files,
      messages: this.#messages,
      added: this.#added,
      bytes: this.#bytes,
      known: this.#known,
      forgotten: this.#forgotten,
      passedOver: this.#passedOver,
      failures: this.#failures,
      interrupted: signal.aborted,
    };
  }

  async #file(file: MailFile): Promise<void> {
    this.#files += 1;
    try {
      for await (const found of file.kind === 'mbox' ? this.#inMbox(file) : [oneFile(file)]) {
        await this.#message(file, found);
        if (this.#options.signal.aborted) return;
      }
    } catch (error) {
      const reason = errnoOf(error);
      // What the archive says about itself ends the import; what a file says about itself ends the file.
      if (reason === undefined || error instanceof MailkeepError) throw error;
      this.#failed(file.path, reason);
    }
  }

  #failed(at: string, reason: FailureReason): void {
    if (this.#failures.length < MOST_FAILURES) this.#failures.push({ path: at, reason });
  }

  async #message(file: MailFile, found: Found): Promise<void> {
    const { catalog, onProgress } = this.#options;
    const { source, head } = found;
    this.#messages += 1;
    const [id, size] = [idOf(source), source.kind === 'buffer' ? source.bytes.length : source.size];
    const at = this.#folder(file);
    const docid = catalog.messages.docidOf(id);
    const folder = catalog.folders.find({ ...this.#key, folder: file.folder });
    const there =
      at.underWay.has(id) ||
      (docid !== undefined && folder !== undefined && catalog.places.wasIn(folder.id, docid));
    if (there) this.#known += 1;
    else if (catalog.messages.isForgotten(id)) this.#forgotten += 1;
    else {
      at.uid += 1;
      at.underWay.add(id);
      const { received, modified } = found;
      const flags = found.flags(head);
      const listing = listingOf(head, { uid: at.uid, size, received, modified, flags });
      const place = { ...this.#key, folder: file.folder, generation: 1, uid: at.uid };
      await this.#committer.storeSource(place, listing, source, {}, () => {
        at.underWay.delete(id);
        this.#added += 1;
        this.#bytes += size;
      });
    }
    onProgress?.({ messages: this.#messages, added: this.#added });
  }

  #folder({ folder, delimiter }: MailFile) {
    const known = this.#folders.get(folder);
    if (known !== undefined) return known;
    const { catalog, name } = this.#options;
    const key: FolderKey = { ...this.#key, folder };
    const seen = catalog.folders.find(key);
    if (this.#folders.size === 0) {
      const met = catalog.folders
        .mailboxes()
        .some((box) => box.host === key.host && box.mailbox === key.mailbox);
      if (!met) this.#committer.addFact({ fact: 'mailbox', ...this.#key, address: name });
    }
    if (seen === undefined) {
      this.#committer.addFact({
        fact: 'folder',
        ...key,
        name: folder.split(delimiter).at(-1) ?? folder,
        delimiter,
        specialUse: null,
        generation: 1,
      });
    }
    const made = {
      uid: seen === undefined ? 0 : catalog.folders.highestUid(seen.id, 1),
      underWay: new Set<MessageId>(),
    };
    this.#folders.set(folder, made);
    return made;
  }

  async *#inMbox(file: MailFile): AsyncGenerator<Found, void, undefined> {
    const modified = statSync(file.path).mtimeMs;
    let stray = false;
    const onStray = (): void => {
      stray = true;
    };
    let met = false;
    for (const range of mboxRanges(file.path, onStray)) {
      met = true;
      const received = parseHeaderDate(range.fromLine);
      const common = { received, modified, flags: flagsFromStatus };
      if (range.end - range.start <= WHOLE_BYTES) {
        const bytes = await unquotedBytes(file.path, range);
        yield { ...common, source: { kind: 'buffer', bytes }, head: bytes.subarray(0, HEAD_BYTES) };
        continue;
      }
      this.#spooled += 1;
      const spooled = path.join(this.#options.spoolDir, `import-${this.#spooled}`);
      try {
        const target = await open(spooled, 'wx', 0o600);
        try {
          for await (const piece of unquotedPieces(file.path, range)) await target.writeFile(piece);
        } finally {
          await target.close();
        }
        yield { ...common, ...(await largeFile(spooled)) };
      } finally {
        await rm(spooled, { force: true });
      }
    }
    if (stray) this.#failed(file.path, met ? 'bytes-before-from-line' : 'no-from-line');
  }
}

/** A message that is a file of its own. */
async function oneFile(file: MailFile): Promise<Found> {
  const { size, mtimeMs } = statSync(file.path);
  const name = path.basename(file.path);
  const named = receivedFromName(name);
  const maildir = file.kind === 'maildir';
  const common = {
    // A Maildir's own dates: in the name as it was delivered, else that of the file.
    received: maildir ? (Number.isNaN(named) ? mtimeMs : named) : null,
    modified: mtimeMs,
    flags: () => (maildir ? flagsFromName(name) : []),
  };
  if (size > WHOLE_BYTES) return { ...common, ...(await largeFile(file.path)) };
  const pieces: Buffer[] = [];
  for await (const piece of createReadStream(file.path, { fd: openRegularFile(file.path) }))
    pieces.push(piece);
  const bytes = Buffer.concat(pieces);
  return { ...common, source: { kind: 'buffer', bytes }, head: bytes.subarray(0, HEAD_BYTES) };
}

async function largeFile(file: string): Promise<Pick<Found, 'source' | 'head'>> {
  const { size } = statSync(file);
  const { sha256 } = await factsOf({ kind: 'file', path: file, size, sha256: '' });
  const head = Buffer.alloc(HEAD_BYTES);
  const fd = openRegularFile(file);
  try {
    const got = readSync(fd, head, 0, HEAD_BYTES, 0);
    return { source: { kind: 'file', path: file, size, sha256 }, head: head.subarray(0, got) };
  } finally {
    closeSync(fd);
  }
}

async function unquotedBytes(file: string, range: MboxRange): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of unquotedPieces(file, range)) pieces.push(piece);
  return Buffer.concat(pieces);
}

async function* unquotedPieces(file: string, { start, end }: MboxRange) {
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

function idOf(source: FetchedSource): MessageId {
  return source.kind === 'buffer' ? hash('sha256', source.bytes) : source.sha256;
}
