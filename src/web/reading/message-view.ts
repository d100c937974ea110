import { setImmediate as nextTurn } from 'node:timers/promises';
import type { SearchHit } from '../../catalog/search/hit.ts';
import { purgedMessage } from '../../engine/archive/purged-message.ts';
import type { Reader } from '../../engine/archive/reader.ts';
import { MailkeepError } from '../../errors/mailkeep-error.ts';
import type { MessageId } from '../../mail/words.ts';
import type { MessageReading } from '../../mime/message-reading.ts';
import { readMessage, type SpareReader } from '../../mime/reading.ts';
import { parseQuery } from '../../search/parse.ts';
import { sentenceOf } from '../../wording/sentence-of.ts';

/** Messages of a conversation that are shown. */
const MOST_OF_THREAD = 200;

/** What an id, or the beginning of one, names. */
export type NamedMessage =
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

/** A message as search lists it, with its conversation, oldest first. It stands in it itself. */
export interface Conversation {
  readonly own: SearchHit;
  readonly all: readonly SearchHit[];
}

/**
 * Returns a message with its conversation, as the archive knew them at a time.
 *
 * @param asOf milliseconds since the epoch; null for now
 * @returns null where the archive did not have the message then
 */
export function conversationOf(
  { catalog }: Pick<Reader, 'catalog'>,
  id: MessageId,
  asOf: number | null,
  now: number,
): Conversation | null {
  const found = (query: string): readonly SearchHit[] => {
    const { node } = parseQuery(query, { now });
    const request = { node, asOf: asOf ?? undefined, limit: MOST_OF_THREAD };
    return catalog.search({ ...request, sort: 'oldest' }).hits;
  };
  const all = found(`thread:${id}`);
  const own = all.find(({ line }) => line.id === id) ?? alone(catalog, id, asOf);
  return own === undefined ? null : { own, all: all.includes(own) ? all : [own] };
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
  spare: SpareReader,
): Promise<ReadBack> {
  const sources = reader.sources();
  try {
    let isWhole = false;
    async function* noted() {
      yield* sources.streamMessage(id);
      isWhole = true;
    }
    const reading = await readMessage(noted(), { spare });
    if (!isWhole) for await (const _ of inTurns(sources.streamMessage(id)));
    return { reading, damage: null };
  } catch (error) {
    if (!(error instanceof MailkeepError) || error.family !== 'damage') throw error;
    return { reading: null, damage: sentenceOf(error) };
  }
}

/** Bytes of a source that are read before others have their turn: reading, inflating and hashing are synchronous. */
const TURN_BYTES = 1024 * 1024;

async function* inTurns(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, undefined> {
  let read = 0;
  for await (const piece of pieces) {
    yield piece;
    read += piece.length;
    if (read < TURN_BYTES) continue;
    read = 0;
    await nextTurn();
  }
}

/** A stretch of a source, and how much there is in all. Bytes. */
export interface SourceWindow {
  readonly from: number;
  readonly bytes: Buffer;
  readonly size: number;
}

/** Bytes of a source on one page. */
export const WINDOW_BYTES = 256 * 1024;

/** Reads a stretch of a source, and the rest for its hash. @throws message-damaged, blob-damaged */
export async function sourceWindow(
  reader: Pick<Reader, 'sources'>,
  id: MessageId,
  from: number,
): Promise<SourceWindow> {
  const pieces: Buffer[] = [];
  let at = 0;
  for await (const piece of inTurns(reader.sources().streamMessage(id))) {
    const start = Math.max(0, from - at);
    const end = from + WINDOW_BYTES - at;
    if (start < piece.length && end > 0) pieces.push(Buffer.from(piece.subarray(start, end)));
    at += piece.length;
  }
  return { from, bytes: Buffer.concat(pieces), size: at };
}

/** Pieces of a text on one page: a text of quotes and answers in turns, line by line, would cost seconds. */
const MOST_PIECES = 2_000;

/** A piece of a message's text: as it is written, quoted, or its signature. */
export interface TextPiece {
  readonly kind: 'text' | 'quote' | 'signature';
  readonly lines: readonly string[];
}

/** Returns the text of a message in pieces: what is quoted is folded, and a signature dimmed. */
export function textPieces(text: string): TextPiece[] {
  const pieces: { kind: TextPiece['kind']; lines: string[] }[] = [];
  let signature = false;
  for (const line of text.replace(/\r\n?/g, '\n').split('\n')) {
    const quoted = /^[ \t]?>/.test(line);
    // RFC 3676 section 4.3; the blank behind the dashes is often lost.
    if (/^-- ?$/.test(line)) signature = true;
    if (quoted) signature = false;
    const kind = quoted ? 'quote' : signature ? 'signature' : 'text';
    const last = pieces.at(-1);
    if (last !== undefined && (last.kind === kind || pieces.length >= MOST_PIECES))
      last.lines.push(line);
    else pieces.push({ kind, lines: [line] });
  }
  return pieces;
}
