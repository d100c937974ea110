import type { LogWriter } from '../archive/write/log-writer.ts';
import type { WritableCatalog } from '../catalog/catalog.ts';
import { type FilePath, pathsMeant, shownPath } from '../disk/byte-path.ts';
import { importNameTaken } from '../errors/import.ts';
import { errnoOf, MailkeepError } from '../errors/mailkeep-error.ts';
import { isImported } from '../mail/import-host.ts';
import { importedMailbox } from '../mail/imported.ts';
import type { FolderKey, MailboxKey, MessageId } from '../mail/words.ts';
import { catalogMirror } from '../sync/apply/catalog-mirror.ts';
import { Committer } from '../sync/apply/committer.ts';
import type { ExportIndex, TargetFolder } from './export-index.ts';
import { findMail, type MailFile, type OtherFile } from './find-mail.ts';
import { listingOf } from './listing.ts';
import { Manifests } from './manifests.ts';
import { type FailureReason, type FoundMail, MailReader } from './read-mail.ts';

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
  /** Files that are not mail, judging by their names and first bytes. */
  readonly passedOver: number;
  /** The first of them. */
  readonly passedOverPaths: readonly string[];
  /** Manifests of exports that the files lie in; those that are damaged were not used. */
  readonly manifests: readonly { readonly path: string; readonly used: boolean }[];
  readonly failures: readonly { readonly path: string; readonly reason: FailureReason }[];
  readonly interrupted: boolean;
}

const MOST_FAILURES = 10_000;
/** Files that are not mail are named up to here: a folder of pictures is no backup of mail. */
const MOST_PASSED_OVER = 10;

/**
 * Imports mail from files into the archive, as a mailbox of its own. Bytes stay unchanged. A message that its
 * folder has, or ever had, is not added again, so running an interrupted import again continues it.
 * A message that cannot be read is named, and the others are imported. What an export's manifest records about a
 * message is used if the bytes match its entry.
 *
 * @throws import-unreadable, import-no-mail, import-manifest-damaged (for a zip) for a path that was named, import-name-taken; what the log's writer and the fold throw
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
  const manifests = new Manifests();
  try {
    const paths = options.paths.flatMap(pathsMeant);
    // Before anything is written: a path that was mistyped is an error, and not an empty import.
    for (const given of paths) {
      const first = findMail(given).next();
      if (first.done !== true && first.value.kind === 'zip') await manifests.zip(given);
    }
    return await new Import(options, importedMailbox(name), manifests).run(paths);
  } finally {
    manifests.close();
  }
}

class Import {
  readonly #committer: Committer;
  readonly #reader: MailReader;
  /** By folder: the highest uid given, and ids on their way into the catalog. */
  readonly #folders = new Map<string, { uid: number; readonly underWay: Set<MessageId> }>();
  readonly #counts = {
    files: 0,
    messages: 0,
    added: 0,
    bytes: 0,
    known: 0,
    forgotten: 0,
    passedOver: 0,
  };
  readonly #passedOverPaths: string[] = [];
  readonly #failures: { path: string; reason: string }[] = [];

  constructor(
    private readonly options: ImportOptions,
    private readonly key: MailboxKey,
    private readonly manifests: Manifests,
  ) {
    this.#reader = new MailReader(options.spoolDir, (at, reason) => this.#failed(at, reason));
    const { log, catalog, now, after } = options;
    const mirror = catalogMirror(catalog);
    this.#committer = new Committer({ log, mirror, now, after, onCommitted: () => {} });
  }

  async run(paths: readonly FilePath[]): Promise<ImportResult> {
    const { signal, name } = this.options;
    for (const given of paths) {
      await this.manifests.around(given);
      for (const file of findMail(given)) {
        if (signal.aborted) break;
        if (file.kind === 'zip') await this.#zip(file.path);
        else if (file.kind === 'unreadable') this.#failed(file.path, file.reason);
        else await this.#file(file, await this.manifests.of(file.inExport));
      }
    }
    if (!signal.aborted) {
      for (const at of this.manifests.unmet()) {
        if (this.#failures.length >= MOST_FAILURES) break;
        this.#failed(at, 'listed-but-missing');
      }
    }
    await this.#committer.flush();
    return {
      mailbox: name,
      resourceId: this.key.mailbox,
      ...this.#counts,
      passedOverPaths: this.#passedOverPaths,
      manifests: this.manifests.list(),
      failures: this.#failures,
      interrupted: signal.aborted,
    };
  }

  async #file(file: MailFile | OtherFile, index: ExportIndex | null): Promise<void> {
    if (file.kind === 'other') {
      const ours = file.inExport !== null && index?.isOther(file.inExport.path) === true;
      if (!ours) this.#passOver(shownPath(file.path));
      return;
    }
    const { folder, delimiter } = file;
    const name = folder.split(delimiter).at(-1) ?? folder;
    const own = { folder, name, delimiter, specialUse: null };
    await this.#messagesOf(shownPath(file.path), this.#reader.messages(file, index), (found) =>
      found.listed === null ? own : (index?.folderOf(found.listed) ?? own),
    );
  }

  async #zip(at: FilePath): Promise<void> {
    const shown = shownPath(at);
    const { zip, index } = await this.manifests.zip(at);
    await this.#messagesOf(shown, this.#reader.inZip(zip, index, shown), ({ listed }) =>
      index.folderOf(listed),
    );
  }

  async #messagesOf<F extends FoundMail>(
    at: string,
    messages: AsyncIterable<F>,
    folderOf: (found: F) => TargetFolder,
  ): Promise<void> {
    this.#counts.files += 1;
    try {
      for await (const found of messages) {
        await this.#message(folderOf(found), found);
        if (this.options.signal.aborted) return;
      }
    } catch (error) {
      const reason = errnoOf(error);
      // What the archive says about itself ends the import; what a file says about itself ends the file.
      if (reason === undefined || error instanceof MailkeepError) throw error;
      this.#failed(at, reason);
    }
  }

  #passOver(at: string): void {
    this.#counts.passedOver += 1;
    if (this.#passedOverPaths.length < MOST_PASSED_OVER) this.#passedOverPaths.push(at);
  }

  #failed(at: string, reason: FailureReason): void {
    if (this.#failures.length < MOST_FAILURES) this.#failures.push({ path: at, reason });
  }

  async #message(target: TargetFolder, found: FoundMail): Promise<void> {
    const { catalog, onProgress } = this.options;
    const { id, source, head } = found;
    this.#counts.messages += 1;
    const size = source.kind === 'buffer' ? source.bytes.length : source.size;
    const at = this.#folder(target);
    const docid = catalog.messages.docidOf(id);
    const folder = catalog.folders.find({ ...this.key, folder: target.folder });
    const there =
      at.underWay.has(id) ||
      (docid !== undefined && folder !== undefined && catalog.places.wasIn(folder.id, docid));
    if (there) this.#counts.known += 1;
    else if (catalog.messages.isForgotten(id)) this.#counts.forgotten += 1;
    else {
      at.uid += 1;
      at.underWay.add(id);
      const { received, modified } = found;
      const flags = found.flags(head);
      const listing = listingOf(head, { uid: at.uid, size, received, modified, flags });
      const place = { ...this.key, folder: target.folder, generation: 1, uid: at.uid };
      await this.#committer.storeSource(place, listing, source, {}, () => {
        at.underWay.delete(id);
        this.#counts.added += 1;
        this.#counts.bytes += size;
      });
    }
    onProgress?.({ messages: this.#counts.messages, added: this.#counts.added });
  }

  #folder({ folder, name: ownName, delimiter, specialUse }: TargetFolder) {
    const known = this.#folders.get(folder);
    if (known !== undefined) return known;
    const { catalog, name } = this.options;
    const key: FolderKey = { ...this.key, folder };
    const seen = catalog.folders.find(key);
    if (this.#folders.size === 0) {
      const met = catalog.folders
        .mailboxes()
        .some((box) => box.host === key.host && box.mailbox === key.mailbox);
      if (!met) this.#committer.addFact({ fact: 'mailbox', ...this.key, address: name });
    }
    // An earlier import without the manifest did not know the special use.
    if (seen === undefined || (specialUse !== null && seen.specialUse !== specialUse)) {
      this.#committer.addFact({
        fact: 'folder',
        ...key,
        name: ownName,
        delimiter,
        specialUse,
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
}
