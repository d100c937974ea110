import {
  closeSync,
  type Dirent,
  fstatSync,
  openSync,
  readdirSync,
  readSync,
  type Stats,
  statSync,
} from 'node:fs';
import { join } from 'node:path';
import { parseHeaderDate } from '../mail/header-date.ts';
import {
  decodeModifiedUtf7,
  flagsFromName,
  type MboxRange,
  mboxRanges,
  receivedFromName,
  unquoteFromLines,
} from '../mail/mail-files.ts';
import { receivedFromSource } from '../service/message-view.ts';
import type { FileRange } from '../service/surface.ts';
import { serviceError } from './errors.ts';
import { type MailSeed, planMessage, receivedAt, writeMessage } from './generated-mail.ts';
import type { Mailbox, SourceBlock, Store } from './store.ts';

/** Generates mail on each read, so that a million messages need memory only for their sizes. */
export class GeneratedBlock implements SourceBlock {
  /** 0 until the message has been generated once. */
  readonly #sizes: Uint32Array;

  constructor(private readonly mail: MailSeed) {
    this.#sizes = new Uint32Array(mail.count);
  }

  get count(): number {
    return this.mail.count;
  }

  size(number: number): number {
    const cached = this.#sizes[number] ?? 0;
    return cached > 0 ? cached : this.read(number).length;
  }

  read(number: number): Buffer {
    const source = writeMessage(this.mail, number);
    this.#sizes[number] = source.length;
    return source;
  }

  received(number: number): number {
    return receivedAt(this.mail, number);
  }

  file(): null {
    return null;
  }

  place(number: number): { readonly folder: string; readonly flags: readonly string[] } {
    return planMessage(this.mail, number);
  }
}

export interface GeneratedMail {
  readonly messages?: number;
  /** When the newest message was received. Default: a fixed day, so that runs are repeatable. */
  readonly newest?: number;
}

const DEFAULT_MESSAGES = 1000;
const DEFAULT_NEWEST = Date.UTC(2026, 0, 5, 9, 30);

/** Fills mailboxes with generated mail. The first one gets twice as much as each of the others. */
export function loadGenerated(
  store: Store,
  mailboxes: readonly Mailbox[],
  seed: number,
  { messages = DEFAULT_MESSAGES, newest = DEFAULT_NEWEST }: GeneratedMail,
): void {
  let remaining = messages;
  mailboxes.forEach((mailbox, ordinal) => {
    const isLast = ordinal === mailboxes.length - 1;
    const share = Math.ceil((messages * (ordinal === 0 ? 2 : 1)) / (mailboxes.length + 1));
    const count = isLast ? remaining : Math.min(remaining, share);
    remaining -= count;
    const block = new GeneratedBlock({
      seed: seed * 1009 + ordinal,
      documentSeed: seed,
      count,
      owner: mailbox.address,
      newest,
    });
    store.place(block, placements(store, mailbox, block));
  });
}

function* placements(store: Store, mailbox: Mailbox, block: GeneratedBlock) {
  for (let number = 0; number < block.count; number += 1) {
    const { folder, flags } = block.place(number);
    yield { folder: store.folderWithParents(mailbox, folder), number, flags };
  }
}

const HEAD_BYTES = 65_536;

interface StoredMessage extends Pick<MboxRange, 'quotedLines' | 'lineEnds'> {
  readonly range: FileRange;
  /** Milliseconds since the epoch; null until the header has been read. */
  received: number | null;
}

/** Messages in files. Keeps only paths and positions. A path that is not UTF-8 is a Buffer. */
class FileBlock implements SourceBlock {
  /** @param areWhole true if each file is one message, and must not have grown */
  constructor(
    private readonly messages: readonly StoredMessage[],
    private readonly areWhole: boolean,
  ) {}

  get count(): number {
    return this.messages.length;
  }

  size(number: number): number {
    const { range, quotedLines } = itemAt(this.messages, number);
    return range.length - quotedLines;
  }

  read(number: number, most = Number.POSITIVE_INFINITY): Buffer {
    const { range, quotedLines, lineEnds } = itemAt(this.messages, number);
    const bytes = readRange(range, most, this.areWhole);
    return quotedLines > 0 ? unquoteFromLines(bytes, lineEnds) : bytes;
  }

  received(number: number): number {
    const message = itemAt(this.messages, number);
    message.received ??= receivedFromSource(this.read(number, HEAD_BYTES));
    return message.received;
  }

  file(number: number): FileRange | null {
    const { range, quotedLines } = itemAt(this.messages, number);
    return quotedLines > 0 ? null : range;
  }
}

/** @param received dates known from Maildir names, otherwise NaN */
function filesBlock(
  paths: readonly (string | Buffer)[],
  received: readonly number[] = [],
): FileBlock {
  const messages = paths.map((path, number): StoredMessage => {
    const range = { path, start: 0, length: statSync(path).size };
    return { range, quotedLines: 0, lineEnds: 'lf', received: received[number] || null };
  });
  return new FileBlock(messages, true);
}

/** @throws system errors */
function mboxBlock(path: string): FileBlock {
  const messages = [...mboxRanges(path)].map(
    ({ start, end, date, ...rest }): StoredMessage => ({
      ...rest,
      range: { path, start, length: end - start },
      received: parseHeaderDate(date),
    }),
  );
  return new FileBlock(messages, false);
}

function itemAt<T>(items: readonly T[], number: number): T {
  const item = items[number];
  if (item === undefined) throw new RangeError(`no source ${number} in this block`);
  return item;
}

/** @throws MailkeepError `sandbox-source-changed` if the file no longer contains the whole range */
export function assertComplete(range: FileRange): void {
  const size = statSync(range.path, { throwIfNoEntry: false })?.size ?? -1;
  if (size < range.start + range.length) {
    throw serviceError('sandbox-source-changed', { path: range.path.toString() });
  }
}

/**
 * @param whole true if the range covers the whole file, which must not have grown either
 * @throws MailkeepError `sandbox-source-changed`
 */
export function readRange(range: FileRange, ceiling: number, whole: boolean): Buffer {
  const length = Math.min(range.length, ceiling);
  const bytes = Buffer.allocUnsafe(length);
  const sourceChanged = (cause?: unknown) =>
    serviceError('sandbox-source-changed', { path: range.path.toString() }, cause);
  let fd: number;
  try {
    fd = openSync(range.path, 'r');
  } catch (error) {
    throw sourceChanged(error);
  }
  try {
    let filled = 0;
    while (filled < length) {
      const count = readSync(fd, bytes, filled, length - filled, range.start + filled);
      if (count === 0) throw sourceChanged();
      filled += count;
    }
    if (whole && fstatSync(fd).size !== range.length) throw sourceChanged();
  } finally {
    closeSync(fd);
  }
  return bytes;
}

function isMaildir(path: string): boolean {
  return ['cur', 'new'].every(
    (name) => statSync(join(path, name), { throwIfNoEntry: false })?.isDirectory() ?? false,
  );
}

/** Reads a Maildir and its Maildir++ subfolders (`.Sent`, `.Lists.foo`) in name order. */
function readMaildir(root: string) {
  const subfolders = readdirSync(root, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && /^\.[^.]/.test(entry.name))
    .map((entry) => entry.name)
    .filter((name) => isMaildir(join(root, name)))
    .sort();
  return [
    readFolder(root, 'INBOX'),
    ...subfolders.map((name) => readFolder(join(root, name), `INBOX${decodeModifiedUtf7(name)}`)),
  ];
}

/**
 * Reads a Maildir folder. Messages are sorted by file name, which is the order of delivery.
 *
 * @param path path in the mailbox, such as `INBOX.Lists.foo`
 */
function readFolder(root: string, path: string) {
  const files = ['cur', 'new']
    .flatMap((place) =>
      readdirSync(join(root, place), { withFileTypes: true })
        .filter((entry) => entry.isFile() && !entry.name.startsWith('.'))
        .map((entry) => ({ name: entry.name, place })),
    )
    .sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.place < b.place ? -1 : 1));
  return {
    path,
    block: filesBlock(
      files.map((file) => join(root, file.place, file.name)),
      files.map((file) => receivedFromName(file.name)),
    ),
    flags: files.map((file) => (file.place === 'new' ? [] : flagsFromName(file.name))),
  };
}

/**
 * Fills a mailbox from a path. A directory with `cur/` and `new/` is a Maildir. In any other directory, each regular
 * file that is not hidden is a message, sorted by path. A file ending in `.mbox` is an mbox; any other file is a
 * message.
 *
 * @throws MailkeepError `sandbox-seed-unreadable`
 */
export function loadPath(store: Store, mailbox: Mailbox, path: string): void {
  try {
    loadReadable(store, mailbox, path, statSync(path));
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error)) throw error;
    throw serviceError('sandbox-seed-unreadable', { path, reason: error.message }, error);
  }
}

/** A colon is not enough: /etc/passwd contains colons too. */
const FIELD =
  /^(?:bcc|cc|content-type|date|delivered-to|from|message-id|mime-version|received|return-path|subject|to)[ \t]*:/im;

function startsWithHeader(path: string, size: number): boolean {
  const begin = readRange(
    { path, start: 0, length: Math.min(size, 65_536) },
    Number.POSITIVE_INFINITY,
    false,
  );
  return FIELD.test(begin.toString('latin1').split(/\r?\n\r?\n/, 1)[0] ?? '');
}

function loadReadable(store: Store, mailbox: Mailbox, path: string, stats: Stats): void {
  if (!stats.isDirectory()) {
    if (path.endsWith('.mbox')) intoInbox(store, mailbox, mboxBlock(path));
    else {
      if (!path.endsWith('.eml') && !startsWithHeader(path, stats.size))
        throw serviceError('sandbox-seed-unreadable', { path, reason: 'it is not a message' });
      intoInbox(store, mailbox, filesBlock([path]));
    }
    return;
  }
  if (!isMaildir(path)) {
    intoInbox(store, mailbox, filesBlock(listFiles(path)));
    return;
  }
  for (const { path: folderPath, block, flags } of readMaildir(path)) {
    const folder = store.folderFor(mailbox, folderPath);
    store.place(
      block,
      flags.map((set, number) => ({ folder, number, flags: set })),
    );
  }
}

function intoInbox(store: Store, mailbox: Mailbox, block: SourceBlock): void {
  const folder = store.folderFor(mailbox, 'INBOX');
  store.place(
    block,
    Array.from({ length: block.count }, (_, number) => ({ folder, number, flags: [] })),
  );
}

const SLASH = Buffer.from('/');
const DOT = 46;

/**
 * Returns the regular files under a directory, sorted by path bytes. Skips links and hidden files and directories.
 */
function listFiles(root: string): (string | Buffer)[] {
  const found: Buffer[] = [];
  const pending: Buffer[] = [Buffer.from(root)];
  for (let folder = pending.pop(); folder !== undefined; folder = pending.pop()) {
    const entries: Dirent<Buffer>[] = readdirSync(folder, {
      withFileTypes: true,
      // A name that is not UTF-8 cannot be opened as a string.
      encoding: 'buffer',
    });
    for (const entry of entries) {
      if (entry.name[0] === DOT) continue;
      const path = Buffer.concat([folder, SLASH, entry.name]);
      if (entry.isDirectory()) pending.push(path);
      else if (entry.isFile()) found.push(path);
    }
  }
  return found.sort(Buffer.compare).map(toTextIfUtf8);
}

function toTextIfUtf8(path: Buffer): string | Buffer {
  const text = path.toString('utf8');
  return Buffer.from(text).equals(path) ? text : path;
}
