import { createHash } from 'node:crypto';
import type { KnownText } from '../catalog/attachment-texts.ts';
import type { FileGroup } from '../catalog/file-group-names.ts';
import type { ListedFile } from '../catalog/files.ts';
import { purgedMessage, type Reader } from '../catalog/open-reader.ts';
import { parseQuery } from '../catalog/parse-query.ts';
import type { SearchNode } from '../catalog/query-ast.ts';
import type { CountRequest, SearchHit } from '../catalog/search.ts';
import type { Range } from '../catalog/snippets.ts';
import { hasCode, MailkeepError, sentenceOf } from '../core/errors.ts';
import type { BlobHash, MessageId } from '../core/types.ts';
import type { MessageReading } from '../mail/extraction.ts';
import { parseHeaderDate } from '../mail/header-date.ts';
import { readMessage } from '../mail/reading.ts';
import { attachmentDownload } from './downloads.ts';
import type { Conversation } from './pages/message-props.ts';
import { inTurns, type ReadingFor } from './served-archive.ts';

type NamedMessage =
  | { readonly kind: 'one'; readonly id: MessageId }
  | { readonly kind: 'several'; readonly ids: readonly MessageId[] }
  | {
      readonly kind: 'purged';
      readonly id: MessageId;
      readonly reason: string;
      readonly time: string | null;
    }
  | { readonly kind: 'none' };

/** Returns what an id, or the beginning of one (four digits or more), names. */
export function namedMessage(reader: Pick<Reader, 'catalog'>, typed: string): NamedMessage {
  if (!/^[0-9a-f]{4,64}$/i.test(typed)) return { kind: 'none' };
  const found = reader.catalog.messages.byPrefix(typed);
  if (found.match === 'unique') return { kind: 'one', id: found.id };
  if (found.match === 'ambiguous') return { kind: 'several', ids: found.candidates };
  const purged = purgedMessage(reader, typed);
  return purged === undefined ? { kind: 'none' } : { kind: 'purged', ...purged };
}

/**
 * Returns a message with its conversation, as the archive knew them at a time.
 *
 * @param asOf milliseconds since the epoch; null for now
 * @param asked what the query box asks for; null where it has no words that mail is looked through for
 * @param limit messages of a conversation, at most
 * @returns null where the archive did not have the message then
 */
export function conversationOf(
  { catalog }: Pick<Reader, 'catalog'>,
  id: MessageId,
  asOf: number | null,
  now: number,
  asked: CountRequest | null,
  limit: number,
): Conversation | null {
  const { node } = parseQuery(`thread:${id}`, { now });
  const request = { asOf: asOf ?? undefined, limit, sort: 'oldest' as const };
  const all = catalog.search({ ...request, node }).hits;
  const at = all.findIndex(({ line }) => line.id === id);
  if (at >= 0) {
    const both: SearchNode | null =
      asked === null ? null : { kind: 'and', nodes: [node, asked.node], span: node.span };
    const found =
      asked === null || both === null
        ? []
        : catalog.search({ ...request, ...asked, node: both }).hits;
    // With what was found in them, and in their attachments.
    const byId = new Map(found.map((hit) => [hit.line.id, hit]));
    return {
      all: all.map((hit) => byId.get(hit.line.id) ?? hit),
      at,
      // One that only its subject finds shows no more when it is unfolded.
      found: found
        .filter(({ matches, line }) => matches.length + line.matchedAttachments.length > 0)
        .map(({ line }) => line.id)
        .filter((one) => one !== id),
    };
  }
  const own = alone(catalog, id, asOf);
  return own === undefined ? null : { all: [own], at: 0, found: [] };
}

/** A message that is not indexed yet is in no conversation, nor in one of which only the first part is shown. */
function alone(
  catalog: Reader['catalog'],
  id: MessageId,
  asOf: number | null,
): SearchHit | undefined {
  const docid = catalog.messages.docidOf(id);
  if (docid === undefined) return undefined;
  const request = {
    node: { kind: 'all', span: { start: 0, end: 0 } },
    asOf: asOf ?? undefined,
    limit: 1,
    sort: 'newest',
    after: docid + 1,
  } as const;
  return catalog.search(request).hits.find(({ line }) => line.id === id);
}

/** A message whose bytes were all read, and compared with its hash; or why they are not what was stored. */
export type ReadBack =
  | { readonly reading: MessageReading; readonly damage: null }
  | {
      readonly reading: null;
      readonly damage: { readonly message: string; readonly hint: string | null };
    };

/**
 * Reads a message to its last byte, whatever its parser needs of it: only then its hash is compared.
 */
export async function readBack(
  reader: Pick<Reader, 'sources'>,
  id: MessageId,
  how: ReadingFor & { readonly countsRemote: boolean },
): Promise<ReadBack> {
  const sources = reader.sources();
  try {
    let isWhole = false;
    async function* noted() {
      yield* sources.streamMessage(id);
      isWhole = true;
    }
    const reading = await readMessage(noted(), how);
    if (!isWhole) for await (const _ of inTurns(sources.streamMessage(id), how.signal));
    return { reading, damage: null };
  } catch (error) {
    if (!(error instanceof MailkeepError) || error.family !== 'damage') throw error;
    return { reading: null, damage: sentenceOf(error) };
  }
}

/** A server that a message passed through, as the server itself wrote it down. Any of it may be forged. */
export interface Hop {
  /** Who handed the message over; empty where the line does not say. */
  readonly from: string;
  readonly by: string;
  readonly with: string;
  /** Milliseconds since the epoch; null where no plausible time stands there. */
  readonly time: number | null;
  /** Milliseconds since the hop before it; negative where clocks differ, null where a time is missing. */
  readonly delay: number | null;
}

/** Hops of one message: real mail has some ten. */
const MOST_HOPS = 100;
/** Characters of a line that are read, from its beginning and for its date from its end: real ones have some 300. */
const MOST_CHARS = 4_000;
const DATE_CHARS = 200;
/** Characters of a name that are shown. */
const NAME_CHARS = 200;

/** Returns the way that a message took by its Received lines, first hop first: each server writes its line above the others. */
export function hopsOf(
  fields: readonly { readonly name: string; readonly value: string }[],
): readonly Hop[] {
  const lines = fields.filter(({ name }) => name.toLowerCase() === 'received').slice(0, MOST_HOPS);
  const hops: Hop[] = [];
  let before: number | null = null;
  for (const { value } of lines.toReversed()) {
    const hop = hopOf(value);
    const delay = hop.time === null || before === null ? null : hop.time - before;
    hops.push({ ...hop, delay });
    before = hop.time ?? before;
  }
  return hops;
}

const CLAUSES = ['from', 'by', 'with'] as const;
type Clause = (typeof CLAUSES)[number];

/** RFC 5321 section 4.4: clauses of a word and its value with comments in brackets, then a semicolon and the date. */
function hopOf(value: string): Omit<Hop, 'delay'> {
  const found: Record<Clause, string> = { from: '', by: '', with: '' };
  const seen = new Set<Clause>();
  let clause: Clause | undefined;
  for (const { text, comment } of wordsOf(value.slice(0, MOST_CHARS))) {
    const next = comment ? undefined : CLAUSES.find((word) => word === text.toLowerCase());
    if (next !== undefined && !seen.has(next)) {
      seen.add(next);
      clause = next;
    } else if (comment && clause !== 'from') {
      // Versions and ciphers; of the sender's side, a comment names what the server looked up.
    } else if (!comment && OTHER_CLAUSES.has(text.toLowerCase())) clause = undefined;
    else if (clause !== undefined && found[clause].length < NAME_CHARS) {
      const known = found[clause];
      found[clause] = `${known}${known === '' ? '' : ' '}${text}`.slice(0, NAME_CHARS);
    }
  }
  const end = value.lastIndexOf(';');
  const time = end < 0 ? null : parseHeaderDate(value.slice(end + 1).slice(0, DATE_CHARS));
  return { ...found, time };
}

const OTHER_CLAUSES = new Set(['id', 'for', 'via']);

/** The words of a line up to the semicolon outside of comments; a comment is one word, with its brackets. */
function* wordsOf(line: string): Iterable<{ readonly text: string; readonly comment: boolean }> {
  let depth = 0;
  let start = 0;
  const word = (end: number, comment: boolean) => {
    const text = line.slice(start, end).trim();
    return text === '' ? [] : [{ text, comment }];
  };
  for (let at = 0; at < line.length; at += 1) {
    const sign = line[at] ?? '';
    if (sign === '(') {
      if (depth === 0) {
        yield* word(at, false);
        start = at;
      }
      depth += 1;
    } else if (sign === ')' && depth > 0) {
      depth -= 1;
      if (depth > 0) continue;
      yield* word(at + 1, true);
      start = at + 1;
    } else if (depth === 0 && (sign === ';' || BLANK.test(sign))) {
      yield* word(at, false);
      start = at + 1;
      if (sign === ';') return;
    }
  }
  yield* word(line.length, depth > 0);
}

const BLANK = /\s/;

/** Bytes of an attachment, and of a message around it, that are read for a page. */
const MOST_BYTES = 8 * 1024 * 1024;
const MOST_SOURCE = 24 * 1024 * 1024;

type ContentRead =
  | { readonly state: 'whole'; readonly bytes: Buffer }
  /** The message's bytes are not what was stored. */
  | { readonly state: 'damaged'; readonly message: string; readonly hint: string | null }
  /** The bytes have another hash: the message ends before the attachment does, or is read otherwise than it was. */
  | { readonly state: 'other' }
  /** Too large for a page; of a message that cannot be parsed; or purged after the catalog was asked. */
  | { readonly state: 'large' | 'unreadable' | 'purged' };

interface Wanted {
  readonly message: MessageId;
  readonly number: number;
  readonly hash: BlobHash;
  readonly size: number;
}

/**
 * Reads an attachment: by its own hash where the archive stores it apart, and else with all of its message. Either hash is
 * compared.
 */
export async function readContent(
  reader: Pick<Reader, 'sources'>,
  { message, number, hash, size }: Wanted,
  how: ReadingFor,
): Promise<ContentRead> {
  if (size > MOST_BYTES) return { state: 'large' };
  const sources = reader.sources();
  try {
    const stored = storedBytes(sources, hash);
    if (stored !== undefined) return { state: 'whole', bytes: stored };
    if (sources.sizeOf(message) > MOST_SOURCE) return { state: 'large' };
    const download = await attachmentDownload(reader, message, number, how);
    if (download === undefined) return { state: 'other' };
    const pieces: Uint8Array[] = [];
    let length = 0;
    try {
      for (let next = await download.bytes.next(); next.done !== true; ) {
        length += next.value.byteLength;
        // What the catalog says may be of another reading of the message.
        if (length > MOST_BYTES) return { state: 'large' };
        pieces.push(next.value);
        next = await download.bytes.next();
      }
    } finally {
      await download.stop();
    }
    const bytes = Buffer.concat(pieces, length);
    const found = createHash('sha256').update(bytes).digest('hex');
    return found === hash ? { state: 'whole', bytes } : { state: 'other' };
  } catch (error) {
    if (hasCode(error, 'mail-unreadable')) return { state: 'unreadable' };
    if (hasCode(error, 'bytes-purged')) return { state: 'purged' };
    if (!(error instanceof MailkeepError) || error.family !== 'damage') throw error;
    return { state: 'damaged', ...sentenceOf(error) };
  }
}

/** Returns bytes that the archive stores apart; undefined for those that stand in the source of a message only. */
function storedBytes(sources: ReturnType<Reader['sources']>, hash: BlobHash): Buffer | undefined {
  try {
    return sources.readBlob(hash);
  } catch (error) {
    if (hasCode(error, 'bytes-unknown') || hasCode(error, 'bytes-purged')) return undefined;
    throw error;
  }
}

/** Why a content shows no text: `picture` and `archive` by its kind, the others by what reading it gave. */
export type NoText =
  | 'picture'
  | 'archive'
  | 'other'
  | 'pending'
  | 'scan'
  | 'empty'
  | 'later'
  | 'unreadable'
  | 'encrypted'
  | 'malformed'
  | 'too-large'
  | 'unsupported'
  | 'damaged';

export function contentText(
  catalog: Reader['catalog'],
  { textId, group }: Pick<ListedFile, 'textId' | 'group'>,
): Pick<KnownText, 'text' | 'truncated'> | { readonly why: NoText } {
  const known = textId === null ? undefined : intactText(catalog, textId);
  if (known === 'damaged') return { why: 'damaged' };
  if (known === undefined) return { why: byGroup(group) };
  if (known.status === 'pending') return { why: 'pending' };
  if (known.status === 'failed') return { why: byFailure(known.reason) };
  if (known.text.trim() === '') return { why: group === 'pdf' ? 'scan' : 'empty' };
  return { text: known.text, truncated: known.truncated };
}

/** Returns a text; one that does not unpack is missing, and nothing else is. */
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

function byGroup(group: FileGroup): NoText {
  switch (group) {
    case 'pictures':
      return 'picture';
    case 'archives':
      return 'archive';
    default:
      return 'other';
  }
}

function byFailure(reason: string | null): NoText {
  switch (reason) {
    case 'encrypted':
    case 'malformed':
    case 'too-large':
    case 'unsupported':
    case 'damaged':
      return reason;
    case 'bomb':
      return 'too-large';
    default:
      return 'unreadable';
  }
}

/** Bytes of what is looked for in a source; a longer text is cut. */
const MOST_SEARCHED_BYTES = 200;

/** Where a text stands in a source. Bytes from its beginning. */
export interface FoundInSource {
  readonly count: number;
  /** The match at or after the place that was asked about, else the first; null where there is none. */
  readonly at: number | null;
  /** Which of all matches it is, from 1. */
  readonly number: number;
  readonly next: number | null;
  readonly previous: number | null;
}

/**
 * Finds a text in the raw bytes of a source, letters of ASCII in either case. Memory stays at one piece of the source,
 * whatever its size.
 *
 * @param sought the text, and the byte at which the wanted match begins, or which it follows
 * @throws message-damaged, blob-damaged
 */
export async function findInSource(
  reader: Pick<Reader, 'sources'>,
  id: MessageId,
  { text, from }: { text: string; from: number },
  signal: AbortSignal,
): Promise<FoundInSource> {
  const finder = new SourceFinder(text, from);
  const pieces = inTurns(reader.sources().streamMessage(id), signal);
  for await (const piece of pieces) finder.push(piece);
  return finder.found();
}

/** Looks for a text in bytes that come piece by piece. */
export class SourceFinder {
  readonly #sought: Buffer;
  /** The end of what was looked through, in which a match may have begun. */
  #rest: Buffer = Buffer.alloc(0);
  /** Bytes before `#rest`. */
  #passed = 0;
  #count = 0;
  #first: number | null = null;
  #last: number | null = null;
  #at: number | null = null;
  #number = 0;
  #next: number | null = null;
  #previous: number | null = null;
  /** Behind the last match: matches do not overlap. */
  #free = 0;

  constructor(
    text: string,
    private readonly from: number,
  ) {
    this.#sought = lower(Buffer.from(text).subarray(0, MOST_SEARCHED_BYTES));
  }

  push(piece: Buffer): void {
    const { length } = this.#sought;
    if (length === 0) return;
    const bytes = lower(Buffer.concat([this.#rest, piece]));
    let behind = Math.max(0, this.#free - this.#passed);
    for (
      let found = bytes.indexOf(this.#sought, behind);
      found >= 0;
      found = bytes.indexOf(this.#sought, behind)
    ) {
      this.#note(this.#passed + found);
      behind = found + length;
    }
    this.#free = Math.max(this.#free, this.#passed + behind);
    const kept = Math.min(bytes.length, length - 1);
    this.#rest = Buffer.from(bytes.subarray(bytes.length - kept));
    this.#passed += bytes.length - kept;
  }

  found(): FoundInSource {
    // Behind the last match the search begins again.
    const wraps = this.#at === null;
    const at = this.#at ?? this.#first;
    const number = wraps ? Math.min(1, this.#count) : this.#number;
    const only = this.#count < 2;
    const next = wraps ? this.#second : (this.#next ?? this.#first);
    const previous = number <= 1 ? this.#last : this.#previous;
    return {
      count: this.#count,
      at,
      number,
      next: only ? null : next,
      previous: only ? null : previous,
    };
  }

  #second: number | null = null;

  #note(at: number): void {
    this.#count += 1;
    if (this.#count === 1) this.#first = at;
    if (this.#count === 2) this.#second = at;
    if (this.#at !== null && this.#next === null) this.#next = at;
    if (this.#at === null && at >= this.from) {
      this.#at = at;
      this.#number = this.#count;
      this.#previous = this.#last;
    }
    this.#last = at;
  }
}

/** In lower case, of ASCII only: in bytes of any charset nothing else can be told. */
function lower(bytes: Buffer): Buffer {
  const out = Buffer.from(bytes);
  for (let i = 0; i < out.length; i += 1) {
    const byte = out[i] ?? 0;
    if (byte >= 0x41 && byte <= 0x5a) out[i] = byte + 0x20;
  }
  return out;
}

/** Matches that are marked in one part of a source. */
const MOST_MARKED = 2_000;

/** Returns where a text stands in the part of a source that is shown, as `SourceFinder` compares. */
export function rangesIn(shown: string, text: string): readonly Range[] {
  const plain = (some: string): string => some.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
  const sought = plain(Buffer.from(text).subarray(0, MOST_SEARCHED_BYTES).toString('utf8'));
  if (sought === '') return [];
  const whole = plain(shown);
  const ranges: Range[] = [];
  for (let at = whole.indexOf(sought); at >= 0; at = whole.indexOf(sought, at + sought.length)) {
    ranges.push({ start: at, end: at + sought.length });
    if (ranges.length >= MOST_MARKED) break;
  }
  return ranges;
}
