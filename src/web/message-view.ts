import { createHash } from 'node:crypto';
import type { KnownText } from '../catalog/attachment-texts.ts';
import type { FileContent, ListedFile } from '../catalog/files.ts';
import { findPurgedMessage, type Reader } from '../catalog/open-reader.ts';
import { parseQuery } from '../catalog/parse-query.ts';
import type { SearchNode } from '../catalog/query-ast.ts';
import type { CountRequest, SearchHit } from '../catalog/search.ts';
import type { Range } from '../catalog/snippets.ts';
import { describeError, hasCode, MailkeepError } from '../core/errors.ts';
import type { BlobHash, MessageId } from '../core/types.ts';
import { parseHeaderDate } from '../mail/header-date.ts';
import { readMessage } from '../mail/reading.ts';
import { attachmentDownload, piecesOf } from './downloads.ts';
import { type ReadingFor, yieldBetween } from './served-archive.ts';

export function namedMessage(reader: Pick<Reader, 'catalog'>, typed: string) {
  const none = { kind: 'none' } as const;
  if (!/^[0-9a-f]{4,64}$/i.test(typed)) return none;
  const found = reader.catalog.messages.byPrefix(typed);
  if (found.match === 'unique') return { kind: 'one', id: found.id } as const;
  if (found.match === 'ambiguous') return { kind: 'several', ids: found.candidates } as const;
  const purged = findPurgedMessage(reader, typed);
  return purged === undefined ? none : ({ kind: 'purged', ...purged } as const);
}

/**
 * Returns a message's conversation, oldest first, with the message at index `at`; null if the archive did not have the message at that moment.
 *
 * @param asOf milliseconds since the epoch; null for now
 * @param asked the request from the query box; null if it has no words to search mail for
 */
export function readConversation(
  { catalog }: Pick<Reader, 'catalog'>,
  id: MessageId,
  asOf: number | null,
  now: number,
  asked: CountRequest | null,
  limit: number,
) {
  const { node } = parseQuery(`thread:${id}`, { now });
  const request = { asOf: asOf ?? undefined, node };
  const page = { limit, sort: 'oldest' } as const;
  const all = catalog.prepare(request).page(page).hits;
  const at = all.findIndex(({ line }) => line.id === id);
  if (at >= 0) {
    const combined: SearchNode | null =
      asked === null ? null : { kind: 'and', nodes: [node, asked.node], span: node.span };
    const found =
      asked === null || combined === null
        ? []
        : catalog.prepare({ ...request, ...asked, node: combined }).page(page).hits;
    // Hits with their matches, including those in attachments.
    const byId = new Map(found.map((hit) => [hit.line.id, hit]));
    return {
      all: all.map((hit) => byId.get(hit.line.id) ?? hit),
      at,
      /** Ids of other messages whose text or attachments match. */
      // A message matched only by its subject shows nothing more when unfolded.
      found: found
        .filter(({ matches, line }) => matches.length + line.matchedAttachments.length > 0)
        .map(({ line }) => line.id)
        .filter((one) => one !== id),
    };
  }
  const single = singleMessage(catalog, id, asOf);
  return single === undefined ? null : { all: [single], at: 0, found: [] };
}

/** Returns a one-message conversation for a message not yet indexed, or outside the part of its conversation shown. */
function singleMessage(
  catalog: Reader['catalog'],
  id: MessageId,
  asOf: number | null,
): SearchHit | undefined {
  const docid = catalog.messages.docidOf(id);
  if (docid === undefined) return undefined;
  const node = { kind: 'all', span: { start: 0, end: 0 } } as const;
  const query = catalog.prepare({ node, asOf: asOf ?? undefined });
  const { hits } = query.page({ limit: 1, sort: 'newest', after: docid + 1 });
  return hits.find(({ line }) => line.id === id);
}

/**
 * Reads a message to the end, even if `read` needs less, because its hash can be checked only at that point.
 *
 * @throws message-damaged, blob-damaged, and any error from `read`
 */
export async function readWhole<T>(
  reader: Pick<Reader, 'sources'>,
  id: MessageId,
  signal: AbortSignal,
  read: (source: AsyncIterable<Buffer>) => Promise<T>,
): Promise<T> {
  const sources = reader.sources();
  let isWhole = false;
  async function* tracked() {
    yield* sources.streamMessage(id);
    isWhole = true;
  }
  const result = await read(tracked());
  if (!isWhole) for await (const _ of yieldBetween(sources.streamMessage(id), signal));
  return result;
}

/** Returns a fully read message that matches its hash, or the reason why it does not. */
export async function readVerified(
  reader: Pick<Reader, 'sources'>,
  id: MessageId,
  options: ReadingFor & { readonly countsRemote: boolean | 'rich' },
) {
  try {
    const read = (source: AsyncIterable<Buffer>) => readMessage(source, options);
    return { reading: await readWhole(reader, id, options.signal, read), damage: null };
  } catch (error) {
    if (!(error instanceof MailkeepError) || error.family !== 'damage') throw error;
    return { reading: null, damage: describeError(error) };
  }
}

export type VerifiedRead = Awaited<ReturnType<typeof readVerified>>;

/** Maximum hops per message; real mail has about ten. */
const MAX_HOPS = 100;
/** Maximum characters to parse in a line, in its date and in each name. Real lines have about 300. */
const MAX_CHARS = 4_000;
const DATE_CHARS = 200;
const NAME_CHARS = 200;

/** Returns the servers that a message passed through, in order. Any line can be forged. Each server adds its line above earlier ones. */
export function readHops(fields: readonly { readonly name: string; readonly value: string }[]) {
  const lines = fields.filter(({ name }) => name.toLowerCase() === 'received').slice(0, MAX_HOPS);
  let before: number | null = null;
  return lines.toReversed().map(({ value }) => {
    const hop = hopOf(value);
    const delay = hop.time === null || before === null ? null : hop.time - before;
    before = hop.time ?? before;
    /** `delay`: milliseconds since the previous hop; negative if clocks differ, null if a time is missing. */
    return { ...hop, delay };
  });
}

const CLAUSES = ['from', 'by', 'with'] as const;
type Clause = (typeof CLAUSES)[number];

/** Parses a line (RFC 5321, section 4.4): keyword clauses with comments in brackets, then a semicolon and the date. */
function hopOf(value: string) {
  /** Empty if the line does not name the server. */
  const found: Record<Clause, string> = { from: '', by: '', with: '' };
  const seen = new Set<Clause>();
  let clause: Clause | undefined;
  for (const { text, comment } of wordsOf(value.slice(0, MAX_CHARS))) {
    const next = comment ? undefined : CLAUSES.find((word) => word === text.toLowerCase());
    if (next !== undefined && !seen.has(next)) {
      seen.add(next);
      clause = next;
    } else if (comment && clause !== 'from') {
      // Skips versions and ciphers. In the `from` clause, a comment contains the server's own lookup.
    } else if (!comment && OTHER_CLAUSES.has(text.toLowerCase())) clause = undefined;
    else if (clause !== undefined && found[clause].length < NAME_CHARS) {
      const known = found[clause];
      found[clause] = `${known}${known === '' ? '' : ' '}${text}`.slice(0, NAME_CHARS);
    }
  }
  const end = value.lastIndexOf(';');
  /** Milliseconds since the epoch; null if there is no plausible time. */
  const time = end < 0 ? null : parseHeaderDate(value.slice(end + 1).slice(0, DATE_CHARS));
  return { ...found, time };
}

const OTHER_CLAUSES = new Set(['id', 'for', 'via']);

/** Yields the words of a line up to the first semicolon outside comments. A comment is one word, brackets included. */
function* wordsOf(line: string): Iterable<{ readonly text: string; readonly comment: boolean }> {
  let comment = '';
  let depth = 0;
  for (const [piece] of line.matchAll(/[();]|\s+|[^\s();]+/g)) {
    if (piece === '(') depth += 1;
    if (depth > 0) {
      comment += piece;
      if (piece !== ')') continue;
      depth -= 1;
      if (depth > 0) continue;
      yield { text: comment, comment: true };
      comment = '';
    } else if (piece === ';') return;
    else if (piece.trim() !== '') yield { text: piece, comment: false };
  }
  if (depth > 0) yield { text: comment.trim(), comment: true };
}

/** Maximum bytes to read for a page, both from an attachment and from the message that contains it. */
const MAX_BYTES = 8 * 1024 * 1024;
const MAX_SOURCE = 24 * 1024 * 1024;

type ContentRead =
  | { readonly state: 'whole'; readonly bytes: Buffer }
  | { readonly state: 'damaged'; readonly message: string; readonly hint: string | null }
  /** The bytes have a different hash, because the message is truncated or its parsing has changed. */
  | { readonly state: 'other' }
  /** Too large for a page, in an unparseable message, or purged after the catalog was read. */
  | { readonly state: 'large' | 'unreadable' | 'purged' };

/** Reads an attachment, along with its message unless it is stored separately. Always checks its hash. */
export async function readContent(
  reader: Pick<Reader, 'sources'>,
  {
    message,
    number,
    hash,
    size,
  }: Pick<FileContent, 'number' | 'hash' | 'size'> & { message: MessageId },
  options: ReadingFor,
): Promise<ContentRead> {
  if (size > MAX_BYTES) return { state: 'large' };
  const sources = reader.sources();
  try {
    const stored = storedBytes(sources, hash);
    if (stored !== undefined) return { state: 'whole', bytes: stored };
    if (sources.sizeOf(message) > MAX_SOURCE) return { state: 'large' };
    const download = await attachmentDownload(reader, message, number, options);
    if (download === undefined) return { state: 'other' };
    const pieces: Uint8Array[] = [];
    let length = 0;
    for await (const piece of piecesOf(download)) {
      length += piece.byteLength;
      // The catalog's size may come from an earlier parsing of the message.
      if (length > MAX_BYTES) return { state: 'large' };
      pieces.push(piece);
    }
    const bytes = Buffer.concat(pieces, length);
    const digest = createHash('sha256').update(bytes).digest('hex');
    return digest === hash ? { state: 'whole', bytes } : { state: 'other' };
  } catch (error) {
    if (hasCode(error, 'mail-unreadable')) return { state: 'unreadable' };
    if (hasCode(error, 'bytes-purged')) return { state: 'purged' };
    if (!(error instanceof MailkeepError) || error.family !== 'damage') throw error;
    return { state: 'damaged', ...describeError(error) };
  }
}

function storedBytes(sources: ReturnType<Reader['sources']>, hash: BlobHash): Buffer | undefined {
  try {
    return sources.readBlob(hash);
  } catch (error) {
    if (hasCode(error, 'bytes-unknown') || hasCode(error, 'bytes-purged')) return undefined;
    throw error;
  }
}

const FAILURES = ['encrypted', 'malformed', 'too-large', 'unsupported', 'damaged'] as const;

/** Why no text is shown. `picture` and `archive` depend on the kind, the others on the content. */
export type NoTextReason =
  | 'picture'
  | 'archive'
  | 'other'
  | 'pending'
  | 'scan'
  | 'empty'
  | 'later'
  | 'unreadable'
  | (typeof FAILURES)[number];

export function contentText(
  catalog: Reader['catalog'],
  { textId, group }: Pick<ListedFile, 'textId' | 'group'>,
): Pick<KnownText, 'text' | 'truncated'> | { readonly why: NoTextReason } {
  const known = textId === null ? undefined : intactText(catalog, textId);
  if (known === 'damaged') return { why: 'damaged' };
  if (known === undefined)
    return { why: group === 'pictures' ? 'picture' : group === 'archives' ? 'archive' : 'other' };
  if (known.status === 'pending') return { why: 'pending' };
  if (known.status === 'failed') {
    const reason = known.reason === 'bomb' ? 'too-large' : known.reason;
    return { why: FAILURES.find((one) => one === reason) ?? 'unreadable' };
  }
  if (known.text.trim() === '') return { why: group === 'pdf' ? 'scan' : 'empty' };
  return { text: known.text, truncated: known.truncated };
}

export function intactText(
  catalog: Reader['catalog'],
  textId: number,
): KnownText | 'damaged' | undefined {
  try {
    return catalog.files.text(textId);
  } catch (error) {
    if (hasCode(error, 'catalog-damaged')) return 'damaged';
    throw error;
  }
}

const MAX_SEARCHED_BYTES = 200;

/** Finds text in a source, ignoring ASCII case. Holds one piece in memory at a time. */
export class SourceFinder {
  readonly #needle: Buffer;
  /** End of the searched bytes, which may contain the start of a match. */
  #rest: Buffer = Buffer.alloc(0);
  #passed = 0;
  #count = 0;
  /** The first two matches. */
  readonly #first: number[] = [];
  /** The wanted match and the next one. */
  readonly #wanted: number[] = [];
  /** Position of the wanted match among all, from 1. */
  #number = 0;
  #previous: number | null = null;
  #last: number | null = null;
  /** End of the last match, because matches do not overlap. */
  #free = 0;

  /** @param from byte position; the wanted match starts there or later */
  constructor(
    text: string,
    private readonly from: number,
  ) {
    this.#needle = lower(Buffer.from(text).subarray(0, MAX_SEARCHED_BYTES));
  }

  push(piece: Buffer): void {
    const { length } = this.#needle;
    if (length === 0) return;
    const bytes = lower(Buffer.concat([this.#rest, piece]));
    let behind = Math.max(0, this.#free - this.#passed);
    for (
      let found = bytes.indexOf(this.#needle, behind);
      found >= 0;
      found = bytes.indexOf(this.#needle, behind)
    ) {
      this.#note(this.#passed + found);
      behind = found + length;
    }
    this.#free = Math.max(this.#free, this.#passed + behind);
    const overlap = Math.min(bytes.length, length - 1);
    this.#rest = Buffer.from(bytes.subarray(bytes.length - overlap));
    this.#passed += bytes.length - overlap;
  }

  /** Positions are in bytes from the start of the source. */
  found() {
    // The search wraps around after the last match.
    const wraps = this.#wanted.length === 0;
    const [first = null] = this.#first;
    const [at = null, next = first] = wraps ? this.#first : this.#wanted;
    const number = wraps ? Math.min(1, this.#count) : this.#number;
    const previous = number <= 1 ? this.#last : this.#previous;
    const others = this.#count < 2 ? { next: null, previous: null } : { next, previous };
    return { count: this.#count, at, number, ...others };
  }

  #note(at: number): void {
    this.#count += 1;
    if (this.#first.length < 2) this.#first.push(at);
    if (at >= this.from && this.#wanted.length < 2) {
      if (this.#wanted.length === 0) [this.#number, this.#previous] = [this.#count, this.#last];
      this.#wanted.push(at);
    }
    this.#last = at;
  }
}

/** Converts ASCII letters to lower case. Other bytes are unchanged, because their charset is unknown. */
function lower(bytes: Buffer): Buffer {
  const out = Buffer.from(bytes);
  for (let i = 0; i < out.length; i += 1) {
    const byte = out[i] ?? 0;
    if (byte >= 0x41 && byte <= 0x5a) out[i] = byte + 0x20;
  }
  return out;
}

const MAX_MARKED = 2_000;

export function matchRanges(shown: string, text: string): readonly Range[] {
  const fold = (value: string): string => value.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
  const needle = fold(Buffer.from(text).subarray(0, MAX_SEARCHED_BYTES).toString('utf8'));
  if (needle === '') return [];
  const input = fold(shown);
  const ranges: Range[] = [];
  for (let at = input.indexOf(needle); at >= 0; at = input.indexOf(needle, at + needle.length)) {
    ranges.push({ start: at, end: at + needle.length });
    if (ranges.length >= MAX_MARKED) break;
  }
  return ranges;
}
