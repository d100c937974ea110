import { DOCIDS_PER_SECOND } from '../mail/docid.ts';
import type { RowDifference, Turn } from './comparison.ts';
import type { Connection } from './connection.ts';
import { ROLE } from './people.ts';
import { dayOf, placeSetOf } from './place-sets.ts';

/** Messages between turns: about 20 ms. */
const MESSAGES_A_TURN = 8_192;

type PlaceRow = readonly [docid: number, folder: number, to: number | null];

interface OwnPlace {
  readonly folder_id: number;
  readonly to_commit: number | null;
}

/**
 * Counts the rows of a catalog again, and yields what differs from its sums: messages with the wrong set of places, and
 * days with another number of messages or bytes.
 */
export function* miscounted(grown: Connection): Generator<RowDifference | Turn, void, undefined> {
  const sets = new Map(
    [
      ...grown.values<[number, string]>(
        "SELECT id, current || ' ' || last || ' ' || mailboxes FROM place_sets",
      ),
    ].map(([id, set]) => [id, set]),
  );
  const days = new Map<string, [messages: number, bytes: number]>();
  let walked = 0;
  for (const { docid, size, set, text } of located(grown)) {
    walked += 1;
    if (walked % MESSAGES_A_TURN === 0) yield 'turn';
    if (sets.get(set) !== text)
      yield { ...ofMessage(docid), difference: 'different', columns: ['place_set'] };
    const key = `${set} ${dayOf(docid)}`;
    const known = days.get(key);
    if (known === undefined) days.set(key, [1, size]);
    else {
      known[0] += 1;
      known[1] += size;
    }
  }
  const counts = grown.values<[number, number, number, number]>(
    'SELECT place_set, day, messages, bytes FROM received_days',
  );
  for (const [set, day, messages, bytes] of counts) {
    const key = `${set} ${day}`;
    const [counted, size] = days.get(key) ?? [];
    days.delete(key);
    if (counted === messages && size === bytes) continue;
    yield { ...ofDay(key), ...(counted === undefined ? SURPLUS : DIFFERENT) };
  }
  for (const key of days.keys()) yield { ...ofDay(key), difference: 'lacking', columns: [] };
}

const SURPLUS = { difference: 'surplus', columns: [] } as const;
const DIFFERENT = { difference: 'different', columns: ['messages', 'bytes'] } as const;

function ofMessage(docid: number) {
  return { table: 'messages', key: { docid }, docid, position: null };
}

function ofDay(key: string) {
  const [set, day] = key.split(' ').map(Number);
  return {
    table: 'received_days',
    key: { place_set: set ?? null, day: day ?? null },
    docid: null,
    position: null,
  };
}

/** Sums that one statement counts again: the table, its key and other columns, and what counting gives in their order. */
const SUMS = [
  {
    table: 'commit_changes',
    keys: ['commit_number', 'folder_id'],
    sums: ['came', 'ended'],
    counted: `SELECT commit_number, folder_id, sum(came), sum(ended) FROM (
        SELECT first_commit AS commit_number, folder_id, 1 AS came, 0 AS ended FROM places
        UNION ALL SELECT to_commit, folder_id, 0, 1 FROM places WHERE to_commit IS NOT NULL
        UNION ALL SELECT resumed, folder_id, 1, 0 FROM spans WHERE resumed IS NOT NULL
        UNION ALL SELECT to_commit, folder_id, 0, 1 FROM spans WHERE resumed IS NOT NULL)
      GROUP BY 1, 2`,
  },
  {
    table: 'attachment_types',
    keys: ['type'],
    sums: ['contents', 'bytes'],
    counted: `SELECT type, count(*), sum(size)
      FROM (SELECT DISTINCT hash, type, size FROM attachments WHERE hash IS NOT NULL) GROUP BY type`,
  },
  {
    table: 'correspondents',
    keys: ['address_id', 'role', 'year', 'mailboxes'],
    sums: ['messages', 'last_docid'],
    counted: [
      [ROLE.sender, 'senders'],
      [ROLE.recipient, 'recipients'],
    ]
      .map(
        ([role, list]) => `SELECT value, ${role},
          CAST(strftime('%Y', docid / ${DOCIDS_PER_SECOND}, 'unixepoch') AS INTEGER), mailboxes,
          count(*), max(docid)
        FROM message_people, json_each(${list}) GROUP BY 1, 2, 3, 4`,
      )
      .join(' UNION ALL '),
  },
] as const;

/** The same for sums that one statement counts again. */
export function* miscountedSums(grown: Connection): Generator<RowDifference, void, undefined> {
  for (const { table, keys, sums, counted } of SUMS) {
    // Rows of one side only. One EXCEPT for each direction would count twice.
    const columns = [...keys, ...sums].join(', ');
    const sql = `SELECT max(is_counted), ${columns} FROM (
        SELECT 0 AS is_counted, ${columns} FROM ${table} UNION ALL SELECT 1, * FROM (${counted}))
      GROUP BY ${columns} HAVING min(is_counted) = max(is_counted) ORDER BY 1`;
    for (const [isCounted, ...row] of grown.values<readonly [number, ...Value[]]>(sql)) {
      const key = Object.fromEntries(keys.map((name, i) => [name, row[i] ?? null]));
      const difference = isCounted === 1 ? 'lacking' : 'surplus';
      yield { table, difference, columns: [], key, docid: null, position: null };
    }
  }
}

type Value = string | number | null;

/** Every message with the set that its row names, and the text of the set that its places make. */
function* located(grown: Connection): Generator<{
  readonly docid: number;
  readonly size: number;
  readonly set: number;
  readonly text: string;
}> {
  const mailboxes = new Map(grown.values<[number, number]>('SELECT id, mailbox_id FROM folders'));
  const mailboxOf = (folder: number): number => mailboxes.get(folder) ?? 0;
  const textOf = (own: readonly OwnPlace[]): string => {
    const { current, last, mailboxes: all } = placeSetOf(own, mailboxOf);
    return [current, last, all].map((list) => JSON.stringify(list)).join(' ');
  };
  /** By folder: most messages have one place, a current one. */
  const ofOnePlace = new Map<number, string>();
  const knownTextOf = (own: readonly OwnPlace[]): string => {
    const [only, another] = own;
    if (only === undefined || another !== undefined || only.to_commit !== null) return textOf(own);
    const known = ofOnePlace.get(only.folder_id) ?? textOf(own);
    ofOnePlace.set(only.folder_id, known);
    return known;
  };
  const places = grown.values<PlaceRow>(
    'SELECT docid, folder_id, to_commit FROM places ORDER BY docid',
  );
  try {
    let next = places.next();
    const messages = grown.values<[number, number, number]>(
      'SELECT docid, size, place_set FROM messages ORDER BY docid',
    );
    for (const [docid, size, set] of messages) {
      const own: OwnPlace[] = [];
      while (next.done !== true && next.value[0] <= docid) {
        if (next.value[0] === docid)
          own.push({ folder_id: next.value[1], to_commit: next.value[2] });
        next = places.next();
      }
      yield { docid, size, set, text: knownTextOf(own) };
    }
  } finally {
    places.return();
  }
}
