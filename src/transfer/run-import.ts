import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { LogWriter } from '../archive/log-writer.ts';
import type { Catalog, WritableCatalog } from '../catalog/catalog.ts';
import { createIndexer, type IndexingProgress } from '../catalog/indexer.ts';
import { type EngineContext, openReaderAt, type Reader } from '../catalog/open-reader.ts';
import { openWriter, tidyArchive, type Writer } from '../catalog/open-writer.ts';
import { systemClock } from '../core/concurrency.ts';
import { errnoOf, hasCode, MailkeepError } from '../core/errors.ts';
import { type FilePath, possiblePaths, shownPath } from '../core/files.ts';
import { EMPTY_COUNTS } from '../core/state-runs.ts';
import type { FolderKey, MailboxKey, MessageId } from '../core/types.ts';
import { importedMailbox, isImported } from '../mail/identity.ts';
import type { AmbiguousLine } from '../mail/mail-files.ts';
import { openExtractorPool } from '../mail/mime-threads.ts';
import { Committer } from '../sync/committer.ts';
import { catalogMirror } from '../sync/mirror.ts';
import type { FetchedSource } from '../sync/ports.ts';
import { importError } from './errors.ts';
import {
  createZipBudget,
  type FoundFile,
  findMail,
  type MailFile,
  type OtherFile,
  unpackZip,
  type ZipBudget,
  type ZipFile,
} from './find-mail.ts';
import { type ExportIndex, Manifests, type TargetFolder } from './import-manifests.ts';
import { type FailureReason, type FoundMail, listingOf, MailReader } from './read-mail.ts';

/** A null log means a dry run; a null catalog means that the archive does not exist yet. */
type Target =
  | { readonly log: LogWriter; readonly catalog: WritableCatalog }
  | { readonly log: null; readonly catalog: Catalog | null };

type ImportOptions = Target & ImportOrder;

interface ImportOrder {
  readonly paths: readonly string[];
  readonly name: string;
  readonly spoolDir: string;
  readonly now: () => number;
  /** Calls `act` once, after `ms` milliseconds. Returns a function that cancels the call. */
  readonly after: (ms: number, act: () => void) => () => void;
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: { readonly messages: number; readonly added: number }) => void;
}

export type ImportResult = Awaited<ReturnType<Import['run']>>;

const MAX_FAILURES = 10_000;
const MAX_DOUBTS = 1000;
const MAX_PASSED_OVER = 10_000;

/**
 * Imports mail from files, bit for bit, into a separate mailbox. Skips messages that are or ever were in their folder,
 * so repeating an interrupted import continues it. Reports unreadable messages and imports the others. Uses an export's
 * manifest for metadata if the bytes match.
 *
 * @throws import-unreadable, import-no-mail, import-manifest-damaged (for a zip) for a given path, import-name-taken;
 * errors from the log's writer and the fold
 */
export async function runImport(options: ImportOptions): Promise<ImportResult> {
  const { catalog, name } = options;
  const boxes = catalog?.folders.mailboxes() ?? [];
  const isTaken = boxes.some(
    (box) =>
      !isImported(box) &&
      [box.address, box.mailbox].some((value) => value.toLowerCase() === name.toLowerCase()),
  );
  if (isTaken) throw importError('import-name-taken', { name });
  const manifests = new Manifests();
  try {
    const paths = options.paths.flatMap(possiblePaths);
    // Check all paths before writing, so that a mistyped path is an error rather than an empty import.
    for (const given of paths) {
      const first = findMail(given).next();
      if (first.done !== true && first.value.kind === 'zip') await manifests.zip(given);
    }
    return await new Import(options, importedMailbox(name), manifests).run(paths);
  } finally {
    manifests.close();
  }
}

interface OpenFolder {
  uid: number;
  added: number;
  known: number;
  readonly underWay: Set<MessageId>;
  has(id: MessageId, docid: number | undefined): boolean;
}

const MAX_BLANK = 64 * 1024;

function isBlank(source: FetchedSource): boolean {
  if (source.kind !== 'buffer' || source.bytes.length > MAX_BLANK) return false;
  return source.bytes.every(
    (byte) => byte === 0x20 || (byte >= 0x09 && byte <= 0x0d) || byte === 0,
  );
}

class Import {
  readonly #committer: Committer | null;
  readonly #reader: MailReader;
  readonly #folders = new Map<string, OpenFolder>();
  readonly #counts = {
    files: 0,
    /** Messages found: added to a folder, already known in all their folders, or deliberately forgotten. */
    ...{ messages: 0, added: 0 },
    /** Places of added messages (one per Gmail label), and the total size of their sources. */
    ...{ places: 0, bytes: 0 },
    ...{ known: 0, forgotten: 0 },
    undated: 0,
    passedOver: 0,
    doubtful: 0,
  };
  readonly #passedOverPaths: string[] = [];
  readonly #doubtfulLines: (AmbiguousLine & { path: string })[] = [];
  /** Display names of unpacked zip files, by folder. */
  readonly #unpacked = new Map<string, string>();
  readonly #failures: { path: string; reason: string }[] = [];

  constructor(
    private readonly options: ImportOptions,
    private readonly key: MailboxKey,
    private readonly manifests: Manifests,
  ) {
    this.#reader = new MailReader(
      options.spoolDir,
      (at, reason) => this.#failed(at, reason),
      (at, line) => this.#recordDoubt(at, line),
    );
    const { now, after } = options;
    this.#committer =
      options.log === null
        ? null
        : new Committer({ log: options.log, mirror: catalogMirror(options.catalog), now, after });
  }

  async run(paths: readonly FilePath[]) {
    const { signal, name } = this.options;
    for (const given of paths) {
      await this.manifests.around(given);
      await this.#found(findMail(given));
    }
    if (!signal.aborted) {
      for (const at of this.manifests.unmet()) {
        if (this.#failures.length >= MAX_FAILURES) break;
        this.#failed(at, 'listed-but-missing');
      }
    }
    await this.#committer?.flush();
    return {
      /** In a dry run, the other values describe what an import would do. */
      dryRun: this.#committer === null,
      mailbox: name,
      resourceId: this.key.mailbox,
      ...this.#counts,
      passedOverPaths: this.#passedOverPaths,
      doubtfulLines: this.#doubtfulLines,
      folders: [...this.#folders].map(([folder, { added, known }]) => ({ folder, added, known })),
      /** Damaged manifests are listed but not used. */
      manifests: this.manifests.list(),
      failures: this.#failures,
      interrupted: signal.aborted,
    };
  }

  async #file(file: MailFile | OtherFile, index: ExportIndex | null): Promise<void> {
    if (file.kind === 'other') {
      const isOurs = file.inExport !== null && index?.isOther(file.inExport.path) === true;
      if (!isOurs) this.#passOver(shownPath(file.path));
      return;
    }
    const { folder, delimiter } = file;
    const name = folder.split(delimiter).at(-1) ?? folder;
    const target = { folder, name, delimiter, specialUse: null };
    await this.#messagesOf(shownPath(file.path), this.#reader.messages(file, index), (found) => {
      if (found.listed !== null) return [index?.folderOf(found.listed) ?? target];
      const { labels } = found.marks(found.head);
      return (
        labels?.map((label) => ({
          ...label,
          name: label.folder.split('/').at(-1) || label.folder,
          delimiter: '/',
        })) ?? [target]
      );
    });
  }

  async #found(files: Iterable<FoundFile>, budget?: ZipBudget): Promise<void> {
    for (const file of files) {
      if (this.options.signal.aborted) return;
      if (file.kind === 'zip') await this.#zip(file, budget);
      else if (file.kind === 'unreadable') this.#failed(file.path, file.reason);
      else await this.#file(file, await this.manifests.of(file.inExport));
    }
  }

  async #zip({ path: at, below }: ZipFile, budget?: ZipBudget): Promise<void> {
    const label = shownPath(at);
    let opened: Awaited<ReturnType<Manifests['zip']>>;
    try {
      opened = await this.manifests.zip(at);
    } catch (error) {
      if (!(error instanceof MailkeepError) || error.family !== 'usage') throw error;
      this.#failed(label, 'zip-damaged');
      return;
    }
    if (opened === null) {
      await this.#unpack(label, below, budget ?? createZipBudget(label));
      return;
    }
    const { zip, index } = opened;
    await this.#messagesOf(label, this.#reader.inZip(zip, index, label), ({ listed }) => [
      index.folderOf(listed),
    ]);
  }

  async #unpack(zip: string, below: string, budget: ZipBudget): Promise<void> {
    const { spoolDir, signal } = this.options;
    const into = mkdtempSync(path.join(spoolDir, 'import-zip-'));
    this.#unpacked.set(into, zip);
    try {
      await unpackZip(zip, into, budget, signal, (name, problem) =>
        this.#failed(name === '' ? zip : `${zip}/${name}`, problem),
      );
      await this.#found(findMail(into, below), budget);
    } finally {
      rmSync(into, { recursive: true, force: true });
    }
  }

  async #messagesOf<F extends FoundMail>(
    at: string,
    messages: AsyncIterable<F>,
    foldersOf: (found: F) => readonly TargetFolder[],
  ): Promise<void> {
    this.#counts.files += 1;
    try {
      for await (const found of messages) {
        await this.#message(at, foldersOf(found), found);
        if (this.options.signal.aborted) return;
      }
    } catch (error) {
      const reason = errnoOf(error);
      // Archive errors abort the import. File errors affect only that file.
      if (reason === undefined || error instanceof MailkeepError) throw error;
      this.#failed(at, reason);
    }
  }

  #passOver(at: string): void {
    this.#counts.passedOver += 1;
    if (this.#passedOverPaths.length < MAX_PASSED_OVER) this.#passedOverPaths.push(this.#label(at));
  }

  #recordDoubt(at: string, line: AmbiguousLine): void {
    this.#counts.doubtful += 1;
    if (this.#doubtfulLines.length < MAX_DOUBTS)
      this.#doubtfulLines.push({ path: this.#label(at), ...line });
  }

  #failed(at: string, reason: FailureReason): void {
    if (this.#failures.length < MAX_FAILURES)
      this.#failures.push({ path: this.#label(at), reason });
  }

  /** Replaces the folder of an unpacked zip with the zip's own path. */
  #label(at: string): string {
    for (const [into, zip] of this.#unpacked) {
      if (at.startsWith(into)) return this.#label(`${zip}${at.slice(into.length)}`);
    }
    return at;
  }

  async #message(at: string, targets: readonly TargetFolder[], found: FoundMail): Promise<void> {
    const { catalog, onProgress, now } = this.options;
    const { id, source, head, listed } = found;
    const size = source.kind === 'buffer' ? source.bytes.length : source.size;
    if (listed === null && isBlank(source)) {
      this.#failed(at, 'empty');
      return;
    }
    this.#counts.messages += 1;
    if (catalog?.messages.forgottenAs(id, this.key) !== undefined) this.#counts.forgotten += 1;
    else {
      const { flags } = found.marks(head);
      const docid = catalog?.messages.docidOf(id);
      let isAdded = false;
      for (const target of targets) {
        const folder = this.#folder(target);
        if (folder.has(id, docid)) {
          folder.known += 1;
          continue;
        }
        folder.uid += 1;
        folder.added += 1;
        folder.underWay.add(id);
        const listing = listingOf(head, { ...found, uid: folder.uid, size, flags }, now());
        const place = { ...this.key, folder: target.folder, generation: 1, uid: folder.uid };
        if (!isAdded && listing.date === '') this.#counts.undated += 1;
        if (!isAdded) this.#counts.bytes += size;
        isAdded = true;
        this.#counts.places += 1;
        await this.#committer?.storeSource(place, listing, source, {}, () => {
          folder.underWay.delete(id);
        });
      }
      this.#counts[isAdded ? 'added' : 'known'] += 1;
    }
    onProgress?.({ messages: this.#counts.messages, added: this.#counts.added });
  }

  #folder({ folder, name: ownName, delimiter, specialUse }: TargetFolder) {
    const entry = this.#folders.get(folder);
    if (entry !== undefined) return entry;
    const { catalog, name } = this.options;
    const key: FolderKey = { ...this.key, folder };
    const seen = catalog?.folders.find(key);
    if (this.#folders.size === 0) {
      const boxes = catalog?.folders.mailboxes() ?? [];
      const isKnown = boxes.some((box) => box.host === key.host && box.mailbox === key.mailbox);
      if (!isKnown) this.#committer?.addFact({ fact: 'mailbox', ...this.key, address: name });
    }
    // An earlier import without the manifest did not know the special use.
    if (seen === undefined || (specialUse !== null && seen.specialUse !== specialUse)) {
      this.#committer?.addFact({
        fact: 'folder',
        ...key,
        name: ownName,
        delimiter,
        specialUse,
        generation: 1,
      });
    }
    const pending = new Set<MessageId>();
    const made: OpenFolder = {
      uid: seen === undefined ? 0 : (catalog?.folders.highestUid(seen.id, 1) ?? 0),
      added: 0,
      known: 0,
      underWay: pending,
      has: (id, docid) => {
        if (pending.has(id)) return true;
        if (docid === undefined) return false;
        const record = catalog?.folders.find(key);
        return record !== undefined && catalog?.places.wasIn(record.id, docid) === true;
      },
    };
    this.#folders.set(folder, made);
    return made;
  }
}

export interface MailToImport extends Pick<ImportOrder, 'paths' | 'name'> {
  readonly dataDir: string;
  readonly onRead: (progress: { readonly messages: number; readonly added: number }) => void;
  readonly onIndex: (progress: IndexingProgress) => void;
}

/**
 * Imports mail as a separate mailbox and indexes it for search. Keeps mail imported before an abort.
 *
 * @throws errors from `openWriter` and `runImport`
 */
export async function importMail(
  context: EngineContext,
  mail: MailToImport,
): Promise<ImportResult & { readonly run: number | null }> {
  const { now, signal } = context;
  const writer = await openWriter(context, mail.dataDir);
  try {
    const { catalog, log, sources, spoolDir } = writer;
    const startedAtCommit = catalog.reached().number;
    const record = beginRun(writer, mail.name, now());
    const result = await runImport({ ...toOrder(context, mail), spoolDir, log, catalog });
    const run = record(result, now());
    await log.endThread();
    const extractor = openExtractorPool();
    try {
      const { onIndex: progress } = mail;
      await createIndexer({ store: catalog.index, sources, extractor, progress }).all(signal);
    } finally {
      await extractor.close();
    }
    await tidyArchive(writer, startedAtCommit, now, signal);
    return { ...result, run };
  } finally {
    await writer.close();
  }
}

/**
 * Previews an import without writing to the archive. Unpacks zip files in the system's temporary folder.
 *
 * @param isCompared if false, treats all mail as new, whatever the archive contains
 * @throws errors from `openReaderAt` if the archive exists, and from `runImport`
 */
export async function previewImport(
  context: EngineContext,
  mail: MailToImport,
  isCompared: boolean,
): Promise<ImportResult> {
  const reader = isCompared ? readerOf(mail.dataDir) : null;
  const spoolDir = mkdtempSync(path.join(tmpdir(), 'mailkeep-import-'));
  try {
    const catalog = reader?.catalog ?? null;
    return await runImport({ ...toOrder(context, mail), spoolDir, log: null, catalog });
  } finally {
    rmSync(spoolDir, { recursive: true, force: true });
    reader?.close();
  }
}

/**
 * Records an import before it writes anything, so that even a killed import can be undone.
 *
 * @returns a function that completes the record and returns the number needed to undo it; null if nothing was added
 */
function beginRun({ catalog, state }: Writer, mailbox: string, startedAt: number) {
  const first = catalog.reached().number + 1;
  const frame = {
    kind: 'import',
    account: null,
    startedAt,
    ...EMPTY_COUNTS,
    mailboxes: 1,
    mailbox,
  };
  const commits = { first, last: null };
  const id = state.runs.keep({ ...frame, endedAt: startedAt, outcome: 'interrupted', commits });
  return ({ added, bytes, failures, interrupted }: ImportResult, endedAt: number) => {
    const last = catalog.reached().number;
    const counts = { added, bytes, failures: failures.length, commits: { first, last } };
    const outcome = interrupted ? ('interrupted' as const) : ('done' as const);
    state.runs.keep({ ...frame, ...counts, endedAt, outcome }, id);
    return added === 0 ? null : first;
  };
}

function readerOf(dataDir: string): Reader | null {
  try {
    return openReaderAt(dataDir);
  } catch (error) {
    if (hasCode(error, 'usage-no-archive')) return null;
    throw error;
  }
}

function toOrder(
  { now, signal }: EngineContext,
  { paths, name, onRead: onProgress }: MailToImport,
): Omit<ImportOrder, 'spoolDir'> {
  const after = (ms: number, act: () => void) => systemClock.after(ms, act);
  return { paths, name, now, after, signal, onProgress };
}
