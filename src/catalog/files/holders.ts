import type { Address } from '../../mail/words.ts';
import type { Connection } from '../connection.ts';
import { readable, senderOf } from '../messages.ts';
import { query } from '../query.ts';
import { seen, type View } from '../search/conditions.ts';
import type { HitCount } from '../search/search.ts';
import { shownPlaces } from '../search/shown-places.ts';
import { carriersOf } from './carriers.ts';

/** A message as far as a list of attachments shows it. */
export interface HolderMessage {
  readonly id: string;
  readonly subject: string | null;
  readonly from: Address | null;
  /** When it was received, milliseconds since the epoch, as are the others. */
  readonly date: number | null;
  /** When the service deleted it; null for a message that it still had. */
  readonly endedAt: number | null;
}

/** A message that has a content, and as which attachment. */
export interface Holder extends HolderMessage {
  readonly number: number;
  readonly filename: string | null;
}

/** The messages that have a content. */
export interface Holders {
  /** The newest ones, the newest first. */
  readonly newest: readonly Holder[];
  readonly messages: HitCount;
  /** When the first of them was received. */
  readonly first: number | null;
}

/** Messages with one content that are counted. */
const MOST_COUNTED = 1_000;

const MESSAGE = query<{ docid: number }>()((db, p) =>
  db
    .selectFrom('messages')
    .select(['id', 'date', 'subject', 'sender_name', 'sender_address'])
    .where('docid', '=', p.docid),
);

/** Returns what a view shows of a message; undefined for one that went meanwhile. */
export function holderMessage(
  connection: Connection,
  docid: number,
  view: View,
): HolderMessage | undefined {
  const row = connection.get(MESSAGE, { docid });
  const [place] = shownPlaces(connection, docid, view);
  if (row === undefined || place === undefined) return undefined;
  return {
    id: connection.hex(row.id),
    subject: readable(row.subject),
    from: senderOf(row),
    date: place.date ?? row.date,
    endedAt: place.ended_at,
  };
}

const FILENAME = query<{ docid: number; number: number }>()((db, p) =>
  db
    .selectFrom('attachments')
    .select('filename')
    .where((eb) => eb.and({ docid: p.docid, number: p.number })),
);

/** Counts the messages of a view that have a content; at least so many where there was no time for more. */
export function countHolders(
  connection: Connection,
  hash: Buffer,
  view: View,
  mayContinue: () => boolean,
): HitCount {
  if (seen(view).length > 0) return countOf(walked(connection, hash, view, 0, mayContinue));
  const [counts] = connection.text<{ messages: number; rows: number }>(
    `SELECT count(DISTINCT docid) AS messages, count(*) AS rows FROM (
       SELECT docid FROM attachments WHERE hash = ? AND type <> '' LIMIT ${MOST_COUNTED + 1})`,
    [hash],
  );
  const { messages = 0, rows = 0 } = counts ?? {};
  return rows > MOST_COUNTED
    ? { count: Math.min(messages, MOST_COUNTED), complete: false }
    : { count: messages, complete: true };
}

/** Returns the messages of a view that have a content: of the newest ones at most `limit`. */
export function holdersOf(
  connection: Connection,
  hash: Buffer,
  limit: number,
  view: View,
  mayContinue: () => boolean,
): Holders {
  const found = walked(connection, hash, view, limit, mayContinue);
  const newest = [...found.newest].flatMap(([docid, number]) => {
    const message = holderMessage(connection, docid, view);
    const filename = connection.get(FILENAME, { docid, number })?.filename ?? null;
    return message === undefined ? [] : [{ ...message, number, filename }];
  });
  const oldest = carriersOf(
    connection,
    hash,
    { meant: meantIn(view), order: 'oldest' },
    mayContinue,
  );
  const [first] = oldest;
  return {
    newest,
    messages: countOf(found),
    first:
      first === undefined ? null : (holderMessage(connection, first.docid, view)?.date ?? null),
  };
}

/** The newest messages that have a content, each with its first attachment that has it; and how many there are. */
interface Walked {
  readonly newest: ReadonlyMap<number, number>;
  readonly messages: number;
  readonly complete: boolean;
}

function walked(
  connection: Connection,
  hash: Buffer,
  view: View,
  limit: number,
  mayContinue: () => boolean,
): Walked {
  const newest = new Map<number, number>();
  let messages = 0;
  let last: number | undefined;
  const carriers = carriersOf(
    connection,
    hash,
    { meant: meantIn(view), order: 'newest' },
    mayContinue,
  );
  for (let next = carriers.next(); ; next = carriers.next()) {
    if (next.done === true) return { newest, messages, complete: next.value };
    const { docid, number } = next.value;
    if (docid !== last) {
      if (messages === MOST_COUNTED) break;
      messages += 1;
      last = docid;
    }
    // Those of one message come in the order of their types.
    if (messages <= limit) newest.set(docid, Math.min(number, newest.get(docid) ?? number));
  }
  carriers.return(false);
  return { newest, messages, complete: false };
}

function countOf({ messages, complete }: Walked): HitCount {
  return { count: messages, complete };
}

/** What holds for the messages that a view shows, as SQL. */
function meantIn(view: View): string {
  return ['1', ...seen(view)].join(' AND ');
}
