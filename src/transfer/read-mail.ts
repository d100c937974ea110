import { hash } from 'node:crypto';
import { closeSync, createReadStream, fstatSync, readSync, statSync } from 'node:fs';
import { open as openFile, rm } from 'node:fs/promises';
import path from 'node:path';
import addressparser from 'nodemailer/lib/addressparser';
import { type FilePath, openRegularFile, shownPath } from '../core/files.ts';
import { type Address, flagSet, type Listing, type MessageId } from '../core/types.ts';
import { parseHeaderDate } from '../mail/header-date.ts';
import {
  fieldText,
  headerCharset,
  type RawField,
  rawText,
  readHeaderBlock,
} from '../mail/headers.ts';
import {
  type AmbiguousLine,
  FromLineQuoter,
  flagsFromName,
  type MboxRange,
  mboxRanges,
  receivedFromName,
  uniquePart,
} from '../mail/mail-files.ts';
import { computeFetchFacts } from '../sync/fetch-source.ts';
import type { FetchedSource } from '../sync/ports.ts';
import type { MailFile } from './find-mail.ts';
import { type ExportIndex, flagsOf } from './import-manifests.ts';
import type { InMbox, ManifestEntry } from './manifest-shapes.ts';
import { type ZipReader, ZipUnreadable } from './read-zip.ts';

const HEAD_BYTES = 256 * 1024;
const FIELD_CHARS = 64 * 1024;
const MAX_ADDRESSES = 1000;
const MAX_HOPS = 20;
/** Header dates more than a day ahead come from a wrong clock. */
const CLOCK_SLACK_MS = 86_400_000;

/** Milliseconds since the epoch; null if unknown. */
interface PlaceDates {
  /** Received date as recorded in the mailbox. */
  readonly received: number | null;
  readonly copied?: number | null;
}

/**
 * Returns the listing that a service would show for a source, as far as its header allows. Never throws on malformed
 * mail. The date is empty if neither the mailbox nor the header has a usable date.
 *
 * @param head the source, or its start
 * @param now milliseconds since the epoch
 */
export function listingOf(
  head: Buffer,
  known: PlaceDates & {
    readonly uid: number;
    readonly size: number;
    readonly flags: readonly string[];
  },
  now: number,
): Listing {
  const { fields } = readHeaderBlock(head, HEAD_BYTES);
  const hint = headerCharset(fields);
  const text = (name: string): string => toText(findField(fields, name), hint);
  const addresses = (name: string): Address[] =>
    fields
      .filter((field) => field.name === name)
      .flatMap(({ value }) =>
        addressparser(rawText(value.slice(0, FIELD_CHARS), hint), { flatten: true }),
      )
      .slice(0, MAX_ADDRESSES)
      .map(({ name: shown, address }) => ({
        name: fieldText(shown ?? '', FIELD_CHARS, hint),
        address: address ?? '',
      }))
      .filter(({ name: shown, address }) => shown !== '' || address !== '');
  const date = known.received ?? headerDate(fields, now) ?? known.copied ?? null;
  return {
    uid: known.uid,
    date: date === null ? '' : new Date(date).toISOString(),
    flags: flagSet(known.flags),
    size: known.size,
    subject: fields.some((field) => field.name === 'subject') ? text('subject') : null,
    from: addresses('from')[0] ?? null,
    to: addresses('to'),
    cc: addresses('cc'),
    bcc: addresses('bcc'),
    messageId: text('message-id') || null,
    inReplyTo: text('in-reply-to') || null,
    attachments: [],
    extra: {},
  };
}

/** Returns the date of the topmost Received field, falling back to the Date field. Ignores future dates. */
function headerDate(fields: readonly RawField[], now: number): number | null {
  const hops = fields.filter(({ name }) => name === 'received').slice(0, MAX_HOPS);
  const texts = [
    ...hops.map(({ value }) => value.slice(value.lastIndexOf(';') + 1)),
    toText(findField(fields, 'date'), null),
  ];
  for (const text of texts) {
    const date = parseHeaderDate(text);
    if (date !== null && date <= now + CLOCK_SLACK_MS) return date;
  }
  return null;
}

interface HeaderMarks {
  readonly flags: readonly string[];
  /** Undefined if the header has no label field. */
  readonly labels?: readonly LabelFolder[];
}

interface LabelFolder {
  readonly folder: string;
  readonly specialUse: string | null;
}

const MAX_KEYWORDS = 100;
const KEYWORD = /^[!-[\]-~]{1,100}$/;
const STATUS_FLAGS: Readonly<Record<string, string>> = {
  ...{ R: '\\Seen', A: '\\Answered', F: '\\Flagged', T: '\\Draft', D: '\\Deleted' },
};
/** Bits in X-Mozilla-Status and X-Mozilla-Status2 (nsMsgMessageFlags.h). */
const MOZILLA_FLAGS: readonly (readonly [bit: number, flag: string])[] = [
  [0x1, '\\Seen'],
  [0x2, '\\Answered'],
  [0x4, '\\Flagged'],
  [0x8, '\\Deleted'],
  [0x1000, '$Forwarded'],
];
/** Deleted in an IMAP folder but not expunged. */
const MOZILLA_IMAP_DELETED = 0x200000;

function marksInHeader(head: Buffer): HeaderMarks {
  const { fields } = readHeaderBlock(head, HEAD_BYTES);
  const value = (name: string): string => findField(fields, name);
  const letters = [...`${value('status')}${value('x-status')}`.slice(0, 32)];
  const bits = hexadecimal(value('x-mozilla-status'));
  const bits2 = hexadecimal(value('x-mozilla-status2'));
  const keywords = `${value('x-keywords').replaceAll(',', ' ')} ${value('x-mozilla-keys')}`
    .split(/\s+/)
    .filter((word) => KEYWORD.test(word))
    .slice(0, MAX_KEYWORDS);
  const flags = [
    ...letters.flatMap((letter) => STATUS_FLAGS[letter] ?? []),
    ...MOZILLA_FLAGS.filter(([bit]) => (bits & bit) !== 0).map(([, flag]) => flag),
    ...((bits2 & MOZILLA_IMAP_DELETED) === 0 ? [] : ['\\Deleted']),
    ...keywords,
  ];
  const labels = fields.find(({ name }) => name === 'x-gmail-labels');
  if (labels === undefined) return { flags };
  const gmail = foldersOfLabels(labelsIn(toText(labels.value, null)));
  return { flags: [...flags, ...gmail.flags], labels: gmail.folders };
}

function findField(fields: readonly RawField[], wanted: string): string {
  return fields.find(({ name }) => name === wanted)?.value ?? '';
}

function toText(value: string, hint: string | null): string {
  return fieldText(value, FIELD_CHARS, hint).replace(/\s+/g, ' ').trim();
}

function hexadecimal(text: string): number {
  return /^[0-9a-f]{1,8}$/i.test(text) ? Number.parseInt(text, 16) : 0;
}

const MAX_LABELS = 100;
const LABEL_CHARS = 1000;

/** Splits labels at commas. Labels that contain a comma are quoted. */
function labelsIn(text: string): string[] {
  return [...text.matchAll(/"((?:[^"\\]|\\.)*)"|[^,]+/g)]
    .map(([whole, inQuotes]) => (inQuotes?.replace(/\\(.)/g, '$1') ?? whole).trim())
    .filter((label) => label !== '' && label.length <= LABEL_CHARS)
    .slice(0, MAX_LABELS);
}

/**
 * Gmail's labels for flags and special-use folders, as written by Takeout in English, German, French, Spanish, Italian,
 * Dutch and Portuguese.
 */
const SYSTEM_LABELS: readonly (readonly [label: string, names: string])[] = [
  ['read', 'opened|geöffnet|ouvert|abierto|abiertos|aperto|geopend|aberto|aberta|abertas'],
  [
    'unread',
    'unread|ungelesen|non lus|non lu|no leídos|no leído|da leggere|ongelezen|não lidas|não lida|não lidos',
  ],
  [
    'starred',
    'starred|markiert|gekennzeichnet|messages suivis|suivis|destacados|con estrella|speciali|met ster|com estrela',
  ],
  [
    'archived',
    'archived|archiviert|archivés|archivé|archivado|archivados|archiviata|archiviati|gearchiveerd|arquivado|arquivadas|arquivada',
  ],
  [
    'INBOX',
    'inbox|posteingang|boîte de réception|recibidos|bandeja de entrada|posta in arrivo|postvak in|caixa de entrada',
  ],
  [
    '\\Sent',
    'sent|gesendet|messages envoyés|envoyés|enviados|posta inviata|inviati|verzonden|e-mails enviados',
  ],
  ['\\Trash', 'trash|papierkorb|corbeille|papelera|cestino|prullenbak|lixeira|bin'],
  ['\\Junk', 'spam'],
  ['\\Drafts', 'drafts|draft|entwürfe|brouillons|borradores|bozze|concepten|rascunhos'],
  ['\\Important', 'important|wichtig|importants|importantes|importanti|belangrijk'],
];
const SYSTEM = new Map(
  SYSTEM_LABELS.flatMap(([label, names]) => names.split('|').map((name) => [name, label] as const)),
);

/** Turns each label into a folder or flag. A message without folders was archived. */
function foldersOfLabels(labels: readonly string[]) {
  const system = (label: string): string | undefined =>
    SYSTEM.get(label.normalize('NFC').toLowerCase());
  const found = new Set(labels.map(system));
  // Takeout labels unread mail, but in earlier years it did not label opened mail.
  const flags = [
    ...(found.has('unread') ? [] : ['\\Seen']),
    ...(found.has('starred') ? ['\\Flagged'] : []),
    ...(found.has('\\Drafts') ? ['\\Draft'] : []),
  ];
  const folders = new Map<string, LabelFolder>();
  for (const label of labels) {
    const known = system(label);
    if (['read', 'unread', 'starred', 'archived'].includes(known ?? '')) continue;
    const folder = known === 'INBOX' ? known : label;
    folders.set(folder, { folder, specialUse: known?.startsWith('\\') === true ? known : null });
  }
  const archived = {
    folder: labels.find((label) => system(label) === 'archived') ?? 'Archived',
    specialUse: '\\Archive',
  };
  return { flags, folders: folders.size === 0 ? [archived] : [...folders.values()] };
}

/**
 * Why a file, or part of it, was changed or not imported: a system error name such as `EACCES`, or one of the
 * following. `no-from-line`, `bytes-before-from-line`: an mbox has no delimiter, or has bytes before the first one.
 * `differs-from-manifest`, `listed-but-missing`: the bytes differ from an export's manifest, or are missing. `empty`:
 * no message, or only white space. `emlx-damaged`: the length is wrong. `emlx-partial`: attachments are in separate
 * files. `zip-…`: see `unpackZip`.
 */
export type FailureReason = string;

const WHOLE_BYTES = 8 * 1024 * 1024;

interface Read {
  readonly id: MessageId;
  readonly source: FetchedSource;
  readonly head: Buffer;
}

export interface FoundMail extends Read, PlaceDates {
  /** Manifest entry for exactly these bytes. */
  readonly listed: ManifestEntry | null;
  readonly marks: (head: Buffer) => HeaderMarks;
}

type OwnFacts = Omit<FoundMail, 'listed' | keyof Read>;

type ListedMail = FoundMail & { readonly listed: ManifestEntry };

/** Reads messages from files. Large sources are spooled to disk while in use. */
export class MailReader {
  #spooled = 0;

  constructor(
    private readonly spoolDir: string,
    private readonly onFailure: (at: string, reason: FailureReason) => void,
    private readonly onDoubt: (at: string, line: AmbiguousLine) => void,
  ) {}

  /**
   * Yields a file's messages in order.
   *
   * @param index manifest of the export that contains the file
   * @throws system errors
   */
  messages(file: MailFile, index: ExportIndex | null): AsyncGenerator<FoundMail, void, undefined> {
    if (file.kind === 'mbox') return this.#readMbox(file, index);
    return file.kind === 'emlx' ? this.#inEmlx(file) : this.#readFile(file, index);
  }

  async *#readFile(file: MailFile, index: ExportIndex | null) {
    const { size } = statSync(file.path);
    const name = path.basename(shownPath(file.path));
    const isMaildir = file.kind === 'maildir';
    const fromName = isMaildir ? receivedFromName(name) : Number.NaN;
    const flags = isMaildir ? flagsFromName(name, file.keywords) : (file.flags ?? []);
    const facts: OwnFacts = {
      received: Number.isNaN(fromName) ? null : fromName,
      // Thunderbird stores a Maildir's flags in the messages.
      marks: (head) =>
        isMaildir && uniquePart(name) === name ? { flags: marksInHeader(head).flags } : { flags },
    };
    const entry = file.inExport === null ? undefined : index?.find(file.inExport.path);
    if (entry !== undefined) index?.meet(entry);
    for await (const read of this.#pieces(size, () => filePieces(file.path), file.path)) {
      yield this.#judged(read, facts, entry, file, name);
    }
  }

  /** Reads Apple Mail's format: a line with the length, the source, and a property list with flags and dates. */
  async *#inEmlx(file: MailFile) {
    const label = shownPath(file.path);
    const fd = openRegularFile(file.path);
    let layout: ReturnType<typeof emlxLayout>;
    try {
      layout = emlxLayout(fd);
    } finally {
      closeSync(fd);
    }
    if (layout === undefined || layout.isCut) this.onFailure(label, 'emlx-damaged');
    else if (/\.partial\.emlx$/i.test(label)) this.onFailure(label, 'emlx-partial');
    if (layout === undefined) return;
    const { start, end, received, flags } = layout;
    const pieces = () => rangePieces(file.path, { start, end });
    for await (const read of this.#pieces(end - start, pieces)) {
      yield { ...read, received, listed: null, marks: () => ({ flags }) };
    }
  }

  async *#readMbox(file: MailFile, index: ExportIndex | null) {
    let isStray = false;
    // Our own mboxes need no Content-Length, because the manifest lists the delimiters.
    const isOurs = file.inExport !== null && index?.isOther(file.inExport.path) === true;
    let met = false;
    const read = (range: MboxRange) =>
      this.#pieces(range.end - range.start, () => unquotedPieces(file.path, range));
    const ranges = mboxRanges(file.path, {
      contentLengths: !isOurs,
      onStray: () => {
        isStray = true;
      },
      onDoubt: (line) => {
        if (!isOurs) this.onDoubt(shownPath(file.path), line);
      },
    });
    for (const range of ranges) {
      met = true;
      const date = parseHeaderDate(range.date);
      // Thunderbird omits the sender and uses the time of copying as the date.
      const dates = range.hasSender ? { received: date } : { received: null, copied: date };
      const facts: OwnFacts = { ...dates, marks: marksInHeader };
      const entry =
        file.inExport === null ? undefined : index?.find(file.inExport.path, range.start);
      const original = entry?.inMbox === undefined ? undefined : stripAdded(range, entry.inMbox);
      let isSame = false;
      if (entry !== undefined) index?.meet(entry);
      if (entry !== undefined && original !== undefined) {
        for await (const found of read(original)) {
          isSame = found.id === entry.sha256;
          if (isSame) yield this.#judged(found, facts, entry, file);
        }
      }
      if (isSame) continue;
      for await (const found of read(range)) yield this.#judged(found, facts, entry, file);
    }
    if (isStray)
      this.onFailure(shownPath(file.path), met ? 'bytes-before-from-line' : 'no-from-line');
  }

  /** Yields the messages listed in a zip's manifest. Reports entries with different bytes. */
  async *inZip(
    zip: ZipReader,
    index: ExportIndex,
    at: string,
  ): AsyncGenerator<ListedMail, void, undefined> {
    for (const name of zip.names()) {
      const entry = index.find(name);
      if (entry === undefined) continue;
      index.meet(entry);
      const facts: OwnFacts = { received: null, marks: () => ({ flags: [] }) };
      let isSame = false;
      try {
        const pieces = zip.sizeOf(name) === entry.size ? await zip.pieces(name) : undefined;
        if (pieces === undefined) continue;
        for await (const read of this.#pieces(entry.size, () => pieces)) {
          const found = withEntry(read, facts, entry);
          isSame = found !== undefined;
          if (found !== undefined) yield found;
        }
      } catch (error) {
        if (!(error instanceof ZipUnreadable)) throw error;
      } finally {
        if (!isSame) this.onFailure(`${at}/${name}`, 'differs-from-manifest');
      }
    }
  }

  #judged(
    read: Read,
    facts: OwnFacts,
    entry: ManifestEntry | undefined,
    file: MailFile,
    name?: string,
  ): FoundMail {
    if (entry === undefined) return { ...read, ...facts, listed: null };
    const found = withEntry(read, facts, entry, name);
    if (found !== undefined) return found;
    this.onFailure(shownPath(file.path), 'differs-from-manifest');
    return { ...read, ...facts, listed: null };
  }

  /** Assembles a message in memory, or in a spool file that is removed after use. */
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
      yield await readLarge(inPlace);
      return;
    }
    this.#spooled += 1;
    const file = path.join(this.spoolDir, `import-${this.#spooled}`);
    try {
      const target = await openFile(file, 'wx', 0o600);
      try {
        for await (const piece of gather(open())) await target.writeFile(piece);
      } finally {
        await target.close();
      }
      yield await readLarge(file);
    } finally {
      await rm(file, { force: true });
    }
  }
}

function withEntry(
  read: Read,
  facts: OwnFacts,
  entry: ManifestEntry,
  name = entry.path,
): ListedMail | undefined {
  if (read.id !== entry.sha256) return undefined;
  const received = entry.date === null ? facts.received : Date.parse(entry.date);
  const marks = () => ({ flags: flagsOf(entry, name) });
  return { ...read, ...facts, received, marks, listed: entry };
}

/** Returns the range of the original source, or undefined if the length differs from the manifest. */
function stripAdded(range: MboxRange, { length, added, lineEndAdded }: InMbox) {
  const { start, end } = range;
  const original = { ...range, start: start + added, end: end - (lineEndAdded ? 1 : 0) };
  return end - start === length && original.start <= original.end ? original : undefined;
}

async function readLarge(file: string): Promise<Read> {
  const { size } = statSync(file);
  const { sha256 } = await computeFetchFacts({ kind: 'file', path: file, size, sha256: '' });
  const head = Buffer.alloc(HEAD_BYTES);
  const fd = openRegularFile(file);
  try {
    const count = readSync(fd, head, 0, HEAD_BYTES, 0);
    const source: FetchedSource = { kind: 'file', path: file, size, sha256 };
    return { id: sha256, source, head: head.subarray(0, count) };
  } finally {
    closeSync(fd);
  }
}

const GATHERED_BYTES = 1024 * 1024;

async function* gather(pieces: AsyncIterable<Buffer> | Iterable<Buffer>) {
  let pending: Buffer[] = [];
  let bytes = 0;
  for await (const piece of pieces) {
    pending.push(piece);
    bytes += piece.length;
    if (bytes < GATHERED_BYTES) continue;
    yield Buffer.concat(pending);
    pending = [];
    bytes = 0;
  }
  if (bytes > 0) yield Buffer.concat(pending);
}

function filePieces(file: FilePath): AsyncIterable<Buffer> {
  return createReadStream(file, { fd: openRegularFile(file) });
}

function rangePieces(file: FilePath, { start, end }: Pick<MboxRange, 'start' | 'end'>) {
  if (end <= start) return [];
  return createReadStream(file, { fd: openRegularFile(file), start, end: end - 1 });
}

async function* unquotedPieces(file: FilePath, range: MboxRange) {
  const pieces = rangePieces(file, range);
  if (range.quotedLines === 0) {
    yield* pieces;
    return;
  }
  const quotes = new FromLineQuoter(-1, range.lineEnds);
  for await (const piece of pieces) yield* quotes.take(piece);
  yield* quotes.end();
}

const PLIST_BYTES = 64 * 1024;
/** Bits of `flags` in Apple Mail's property list. */
const APPLE_FLAGS: readonly (readonly [bit: bigint, flag: string])[] = [
  [0n, '\\Seen'],
  [1n, '\\Deleted'],
  [2n, '\\Answered'],
  [4n, '\\Flagged'],
  [6n, '\\Draft'],
  [8n, '$Forwarded'],
];

/**
 * Returns the message's range, whether it is truncated, and its property list. Returns undefined if there is no length.
 */
function emlxLayout(fd: number) {
  const readText = (offset: number, length: number): string => {
    const bytes = Buffer.alloc(length);
    return bytes.toString('latin1', 0, readSync(fd, bytes, 0, length, offset));
  };
  const [line, digits] = /^[ \t]*(\d{1,15})[ \t]*\r?\n/.exec(readText(0, 64)) ?? [];
  if (line === undefined) return undefined;
  const { size } = fstatSync(fd);
  const start = line.length;
  const end = start + Number(digits);
  const plist = readText(end, PLIST_BYTES);
  const integer = (key: string): string =>
    plist.split(`<key>${key}</key>`, 2)[1]?.match(/^\s*<integer>(\d{1,19})<\/integer>/)?.[1] ?? '0';
  const bits = BigInt(integer('flags'));
  const seconds = Number(integer('date-received'));
  return {
    start,
    end: Math.min(end, size),
    isCut: end > size,
    received: seconds > 0 && seconds < 1e11 ? seconds * 1000 : null,
    flags: APPLE_FLAGS.filter(([bit]) => ((bits >> bit) & 1n) === 1n).map(([, flag]) => flag),
  };
}
