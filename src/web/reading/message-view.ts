import type { SearchHit } from '../../catalog/search/hit.ts';
import type { CountRequest } from '../../catalog/search/search.ts';
import { purgedMessage } from '../../engine/archive/purged-message.ts';
import type { Reader } from '../../engine/archive/reader.ts';
import { MailkeepError } from '../../errors/mailkeep-error.ts';
import type { MessageId } from '../../mail/words.ts';
import type { MessageReading } from '../../mime/message-reading.ts';
import { readMessage } from '../../mime/reading.ts';
import type { SearchNode } from '../../search/ast.ts';
import { parseQuery } from '../../search/parse.ts';
import { sentenceOf } from '../../wording/sentence-of.ts';
import { inTurns } from './in-turns.ts';
import type { Conversation } from './message-shapes.ts';
import type { ReadingFor } from './reading-for.ts';

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
