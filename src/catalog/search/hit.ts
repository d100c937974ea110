import type { HitPlace, SearchLine } from '../../mail/lines.ts';
import type { SearchNode, TextNode } from '../../search/ast.ts';
import { ftsString } from '../../search/fts-text.ts';
import { UnpackedTexts } from '../../search/packed-text.ts';
import { beginning, type Snippet, snippet, soughtWords } from '../../search/snippet.ts';
import { attachmentTexts } from '../attachment-texts.ts';
import { attachmentsOf } from '../attachments.ts';
import type { Connection } from '../connection.ts';
import type { FolderName } from '../folder-names.ts';
import { senderOf } from '../messages.ts';
import { isoTime } from '../moments.ts';
import type { PlaceQueries } from '../places.ts';
import { type Builder, query, type Row } from '../query.ts';
import { foldersOf } from '../scope.ts';
import type { View } from './conditions.ts';

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
const placesOf = (db: Builder, docid: number) =>
  db
    .selectFrom('places as p')
    .innerJoin('commits as seen', 'seen.number', 'p.first_commit')
    .leftJoin('commits as closing', 'closing.number', 'p.to_commit')
    .select(['p.id', 'p.folder_id', 'p.uid', 'p.flag_set', 'p.date', 'p.from_commit'])
    .select(['p.to_commit', 'seen.time as first_seen', 'closing.time as ended_at'])
    .where('p.docid', '=', docid);
const spansOf = (db: Builder, docid: number) =>
  db
    .selectFrom('spans as s')
    .innerJoin('places as p', 'p.id', 's.place_id')
    .innerJoin('commits as seen', 'seen.number', 'p.first_commit')
    .innerJoin('commits as closing', 'closing.number', 's.to_commit')
    .select(['p.id', 's.folder_id', 'p.uid', 's.flag_set', 's.date', 's.from_commit'])
    .select(['s.to_commit', 'seen.time as first_seen', 'closing.time as ended_at'])
    .where('s.docid', '=', docid);
const PLACES = query<{ docid: number }>()((db, p) => placesOf(db, p.docid));
const SPANS = query<{ docid: number }>()((db, p) => spansOf(db, p.docid));
/** The same in some mailboxes, a JSON array of their numbers. */
const PLACES_WITHIN = query<{ docid: number; mailboxes: string }>()((db, p) =>
  placesOf(db, p.docid).where('p.folder_id', 'in', foldersOf(p.mailboxes)),
);
const SPANS_WITHIN = query<{ docid: number; mailboxes: string }>()((db, p) =>
  spansOf(db, p.docid).where('s.folder_id', 'in', foldersOf(p.mailboxes)),
);

/** The places of a message that a view may show, and their earlier intervals. */
function intervalsOf(connection: Connection, docid: number, { scope }: View) {
  if (scope === null)
    return {
      places: connection.all(PLACES, { docid }),
      spans: () => connection.all(SPANS, { docid }),
    };
  const within = { docid, mailboxes: JSON.stringify(scope.mailboxes) };
  return {
    places: connection.all(PLACES_WITHIN, within),
    spans: () => connection.all(SPANS_WITHIN, within),
  };
}

interface PlaceRow
  extends Pick<
    Row<'places'>,
    'id' | 'folder_id' | 'uid' | 'flag_set' | 'date' | 'from_commit' | 'to_commit'
  > {
  readonly first_seen: number;
  readonly ended_at: number | null;
}

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
    const shown = inOrder(
      view.asOf === null
        ? intervalsOf(connection, docid, view).places
        : placesAt(connection, docid, view.asOf, view),
    );
    const hitPlaces = shown.map((place): HitPlace => {
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
      subject: row.subject,
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

/** Current places in the order in which they came, then ended ones, the last to end first. */
function inOrder(rows: readonly PlaceRow[]): PlaceRow[] {
  return rows.toSorted(
    (a, b) => (b.ended_at ?? Infinity) - (a.ended_at ?? Infinity) || a.id - b.id,
  );
}

/** Every place as it was: its interval at the commit, or the last one before. */
function placesAt(connection: Connection, docid: number, commit: number, view: View): PlaceRow[] {
  const { places, spans } = intervalsOf(connection, docid, view);
  const intervals = [...places, ...spans()].filter((row) => row.from_commit <= commit);
  const last = new Map<number, PlaceRow>();
  for (const row of intervals) {
    const known = last.get(row.id);
    if (known === undefined || row.from_commit >= known.from_commit) last.set(row.id, row);
  }
  return [...last.values()].map((row) =>
    row.to_commit === null || row.to_commit > commit ? { ...row, ended_at: null } : row,
  );
}
