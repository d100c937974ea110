import type { HitPlace, SearchLine } from '../../mail/lines.ts';
import type { SearchNode, TextNode } from '../../search/ast.ts';
import { ftsString } from '../../search/fts-text.ts';
import { UnpackedTexts } from '../../search/packed-text.ts';
import { beginning, type Snippet, snippet } from '../../search/snippet.ts';
import { soughtWords } from '../../search/word-matches.ts';
import { attachmentTexts } from '../attachment-texts.ts';
import { attachmentsOf } from '../attachments.ts';
import type { Connection } from '../connection.ts';
import type { FolderName } from '../folder-names.ts';
import { readable, senderOf } from '../messages.ts';
import { isoTime } from '../moments.ts';
import type { PlaceQueries } from '../places.ts';
import { query } from '../query.ts';
import type { View } from './conditions.ts';
import { shownPlaces } from './shown-places.ts';

/** An attachment of a hit in whose text something sought stands. */
export interface MatchedAttachment {
  readonly number: number;
  readonly filename: string | null;
  /** A piece of its text around what matched: on one line, and not made safe for terminals. */
  readonly snippet: string;
  /** The matches within `snippet`. */
  readonly matches: Snippet['matches'];
}

/** Attachments of one message whose texts are unpacked, the first ones; each may be half a million characters. */
const UNPACKED = 16;

const HAS_ANY = query<{ docid: number }>()((db, p) =>
  db
    .selectFrom('attachments')
    .select('number')
    .where('docid', '=', p.docid)
    .where('text_id', 'is not', null)
    .limit((eb) => eb.lit(1)),
);
const IN_ATTACHMENTS =
  'SELECT rowid AS docid FROM msg_fts WHERE msg_fts MATCH ? AND msg_fts.rowid = ?';

/**
 * Finds the attachments of a message that show what a query looks for. Texts are unpacked only where the index
 * says that something sought stands in one of them.
 */
export function attachmentMatcher(
  connection: Connection,
  node: SearchNode,
): (docid: number) => MatchedAttachment[] {
  // `body:` and other fields are not looked for in attachments.
  const words = soughtWords(node, ['any']);
  const strings = soughtTexts(node).flatMap(({ text, prefix }) => ftsString(text, prefix) ?? []);
  if (words.length === 0 || strings.length === 0) return () => [];
  const expression = `att_text : (${strings.join(' OR ')})`;
  const indexed = (docid: number): boolean => {
    if (connection.get(HAS_ANY, { docid }) === undefined) return false;
    return [...connection.text(IN_ATTACHMENTS, [expression, BigInt(docid)])].length > 0;
  };
  return (docid) => {
    if (!indexed(docid)) return [];
    const found: MatchedAttachment[] = [];
    let unpacked = 0;
    for (const { number, filename, text } of attachmentTexts(connection, docid)) {
      unpacked += 1;
      if (unpacked > UNPACKED) break;
      const shown = snippet(text, words);
      if (shown !== undefined)
        found.push({ number, filename, snippet: shown.text, matches: shown.matches });
    }
    return found;
  };
}

/** The words and phrases that are looked for everywhere, and not excluded. */
function soughtTexts(node: SearchNode): TextNode[] {
  switch (node.kind) {
    case 'and':
    case 'or':
      return node.nodes.flatMap(soughtTexts);
    case 'near':
      return node.terms.filter(({ field }) => field === 'any');
    case 'text':
      return node.field === 'any' ? [node] : [];
    default:
      return [];
  }
}

export interface SearchHit {
  readonly docid: number;
  readonly line: SearchLine;
  /** The matches within `line.snippet`, and within those of `line.matchedAttachments`. */
  readonly matches: Snippet['matches'];
  readonly attachmentMatches: readonly Snippet['matches'][];
}

/** With its packed text: one statement costs less than two. */
const MESSAGE = query<{ docid: number }>()((db, p) =>
  db
    .selectFrom('messages as m')
    .leftJoin('texts as t', 't.docid', 'm.docid')
    .select(['m.id', 'm.size', 'm.date', 'm.subject', 'm.sender_name', 'm.sender_address'])
    .select(['m.message_id', 'm.extractor', 't.text'])
    .where('m.docid', '=', p.docid),
);

/** Reads hits by docid for one search. A docid that went meanwhile gives undefined. */
export function hitReader(
  connection: Connection,
  places: Pick<PlaceQueries, 'flags'>,
  names: ReadonlyMap<number, FolderName>,
  node: SearchNode,
  view: View,
): (docid: number) => SearchHit | undefined {
  const texts = unpackedTexts(connection);
  const words = soughtWords(node);
  const inAttachments = attachmentMatcher(connection, node);
  // Many messages came with one commit, and to put a time in words takes longer than to read one.
  const times = new Map<number, string | null>();
  const timeOf = (time: number): string | null => {
    const known = times.get(time) ?? isoTime(time);
    times.set(time, known);
    return known;
  };
  return (docid) => {
    const row = connection.get(MESSAGE, { docid });
    if (row === undefined) return undefined;
    const hitPlaces = shownPlaces(connection, docid, view).map((place): HitPlace => {
      const name = names.get(place.folder_id);
      return {
        mailbox: name?.address ?? '',
        folder: name?.path ?? '',
        uid: place.uid,
        flags: places.flags(place.flag_set),
        date: isoTime(place.date ?? row.date),
        firstSeen: timeOf(place.first_seen),
        endedAt: isoTime(place.ended_at),
      };
    });
    const [first] = hitPlaces;
    if (first === undefined) return undefined;
    const text = texts.of(docid, row.text);
    const found = snippet(text, words) ?? { text: beginning(text), matches: [] };
    const attached = inAttachments(docid);
    const listed = attachmentsOf(connection, docid);
    const line: SearchLine = {
      id: row.id.toString('hex'),
      ...first,
      size: row.size,
      subject: readable(row.subject),
      from: senderOf(row),
      messageId: row.message_id,
      places: hitPlaces,
      snippet: found.text,
      // Nobody knows yet whether one that waits has any.
      attachments: row.extractor <= 0 && listed.length === 0 ? null : listed,
      matchedAttachments: attached.map(({ matches: _, ...attachment }) => attachment),
    };
    const attachmentMatches = attached.map(({ matches }) => matches);
    return { docid, line, matches: found.matches, attachmentMatches };
  };
}

const UNPACKED_TEXTS = new WeakMap<Connection, UnpackedTexts>();

function unpackedTexts(connection: Connection): UnpackedTexts {
  let known = UNPACKED_TEXTS.get(connection);
  if (known === undefined) {
    known = new UnpackedTexts(connection.file);
    UNPACKED_TEXTS.set(connection, known);
  }
  return known;
}
