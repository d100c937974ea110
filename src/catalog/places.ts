import type { FlagSet, MailboxKey, Place } from '../mail/words.ts';
import type { Connection } from './connection.ts';
import { flagSetRows } from './flag-sets.ts';
import { query, type Row } from './query.ts';

/** An open place as a pass compares it with the origin's listing. */
export interface OpenPlace {
  readonly uid: number;
  readonly docid: number;
  readonly flags: FlagSet;
  /** See `mail/fingerprint.ts`. */
  readonly fingerprint: string;
  readonly assumed: boolean;
  readonly held: boolean;
  /** Time of the commit since which it has had these flags, as a commit number. */
  readonly since: number;
}

/** What the archive knows about one uid. */
export type PlaceState =
  | ({ readonly state: 'open' } & OpenPlace)
  | ({ readonly state: 'ended'; readonly endedCommit: number } & Pick<
      OpenPlace,
      'uid' | 'docid' | 'fingerprint' | 'flags'
    >)
  | { readonly state: 'quarantined'; readonly uid: number; readonly fingerprint: string }
  | { readonly state: 'forgotten'; readonly uid: number };

export interface AssumedPlace extends Place {
  readonly id: string;
  readonly docid: number;
  /** Milliseconds since the epoch: when it was assumed. */
  readonly since: number;
}

/** Rows fetched at a time by the iterators: they hold no statement open, so the caller may write between rows. */
const CHUNK = 1_000;

/** What an open place's row is read for. */
const OPENED = [
  'uid',
  'docid',
  'flag_set',
  'fingerprint',
  'assumed',
  'held',
  'from_commit',
] as const;
const OPEN = query<{
  folder: number;
  generation: number;
  after: number;
  last: number;
  limit: number;
}>()((db, p) =>
  db
    .selectFrom('places')
    .select(OPENED)
    .where((eb) => eb.and({ folder_id: p.folder, generation: p.generation }))
    .where('uid', '>', p.after)
    .where('uid', '<=', p.last)
    .where('to_commit', 'is', null)
    .orderBy('uid')
    .limit(p.limit),
);
const AT = query<{ folder: number; generation: number; uid: number }>()((db, p) =>
  db
    .selectFrom('places')
    .select([...OPENED, 'to_commit'])
    .where((eb) => eb.and({ folder_id: p.folder, generation: p.generation, uid: p.uid }))
    .orderBy('id', 'desc')
    .limit((eb) => eb.lit(1)),
);
const QUARANTINED_AT = query<{ folder: number; generation: number; uid: number }>()((db, p) =>
  db
    .selectFrom('quarantine')
    .select(['fingerprint'])
    .where((eb) => eb.and({ folder_id: p.folder, generation: p.generation, uid: p.uid }))
    .where('to_commit', 'is', null),
);
const FORGOTTEN_AT = query<{ folder: number; generation: number; uid: number }>()((db, p) =>
  db
    .selectFrom('forgotten')
    .select('uid')
    .where((eb) => eb.and({ folder_id: p.folder, generation: p.generation, uid: p.uid })),
);
const IN_FOLDER = query<{ folder: number; docid: number }>()((db, p) =>
  db
    .selectFrom('places')
    .select('id')
    .where((eb) => eb.and({ docid: p.docid, folder_id: p.folder }))
    .limit((eb) => eb.lit(1)),
);
const GENERATIONS_OPEN = query<{ folder: number }>()((db, p) =>
  db
    .selectFrom('places')
    .select('generation')
    .distinct()
    .where('folder_id', '=', p.folder)
    .where('to_commit', 'is', null)
    .orderBy('generation'),
);
const ASSUMED = query<MailboxKey & { before: number; limit: number }>()((db, p) =>
  db
    .selectFrom('places as p')
    .innerJoin('folders as f', 'f.id', 'p.folder_id')
    .innerJoin('mailboxes as b', 'b.id', 'f.mailbox_id')
    .innerJoin('messages as m', 'm.docid', 'p.docid')
    .innerJoin('commits as t', 't.number', 'p.first_commit')
    .select(['b.host', 'b.mailbox', 'f.path as folder', 'p.generation', 'p.uid'])
    .select(['p.docid', 'm.id', 't.time'])
    .where('p.assumed', '=', (eb) => eb.lit(1))
    .where('p.to_commit', 'is', null)
    .where((eb) => eb.and({ 'b.host': p.host, 'b.mailbox': p.mailbox }))
    .where('p.first_commit', '<=', p.before)
    .orderBy('p.from_commit')
    .orderBy('p.id')
    .limit(p.limit),
);

export interface PlaceQueries {
  /** Open places of a folder's generation with uids from `from` (1) to `to` (no end), ascending. */
  open(range: {
    readonly folder: number;
    readonly generation: number;
    readonly from?: number;
    readonly to?: number;
  }): Iterable<OpenPlace>;
  at(folder: number, generation: number, uid: number): PlaceState | undefined;
  /** True when a message has, or ever had, a place in a folder. */
  wasIn(folder: number, docid: number): boolean;
  /** Generations of a folder that still have open places: more than one while the brake holds an old one. */
  openGenerations(folder: number): number[];
  /** Open places of a mailbox whose bytes were assumed in commits up to `before`, the oldest first. */
  assumed(mailbox: MailboxKey, before: number, limit: number): AssumedPlace[];
  /** The flags of a stored flag set. */
  flags(id: number): FlagSet;
}

export function placeQueries(connection: Connection): PlaceQueries {
  const sets = new Map<number, FlagSet>();
  const flags = (id: number): FlagSet => {
    if (!sets.has(id)) for (const set of flagSetRows(connection)) sets.set(set.id, set.flags);
    return sets.get(id) ?? [];
  };
  const opened = (row: Pick<Row<'places'>, (typeof OPENED)[number]>): OpenPlace => ({
    uid: row.uid,
    docid: row.docid,
    flags: flags(row.flag_set),
    fingerprint: row.fingerprint.toString('hex'),
    assumed: row.assumed === 1,
    held: row.held === 1,
    since: row.from_commit,
  });
  return {
    *open({ folder, generation, from = 1, to = Number.MAX_SAFE_INTEGER }) {
      let after = from - 1;
      for (;;) {
        const rows = connection.all(OPEN, { folder, generation, after, last: to, limit: CHUNK });
        for (const row of rows) {
          after = row.uid;
          yield opened(row);
        }
        if (rows.length < CHUNK) return;
      }
    },
    at(folder, generation, uid) {
      const key = { folder, generation, uid };
      const quarantined = connection.get(QUARANTINED_AT, key);
      const row = connection.get(AT, key);
      if (row !== undefined && row.to_commit === null) return { state: 'open', ...opened(row) };
      if (quarantined !== undefined)
        return { state: 'quarantined', uid, fingerprint: quarantined.fingerprint.toString('hex') };
      if (connection.get(FORGOTTEN_AT, key) !== undefined) return { state: 'forgotten', uid };
      if (row === undefined || row.to_commit === null) return undefined;
      return {
        state: 'ended',
        uid,
        docid: row.docid,
        fingerprint: row.fingerprint.toString('hex'),
        flags: flags(row.flag_set),
        endedCommit: row.to_commit,
      };
    },
    wasIn: (folder, docid) => connection.get(IN_FOLDER, { folder, docid }) !== undefined,
    openGenerations: (folder) =>
      connection.all(GENERATIONS_OPEN, { folder }).map((row) => row.generation),
    assumed: ({ host, mailbox }, before, limit) =>
      connection
        .all(ASSUMED, { host, mailbox, before, limit })
        .map(({ id, time, ...place }) => ({ ...place, id: id.toString('hex'), since: time })),
    flags,
  };
}
