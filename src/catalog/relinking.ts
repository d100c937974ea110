import type { CountedFlag, MailboxKey, MessageId } from '../mail/words.ts';
import type { Connection } from './connection.ts';
import { flagMarks, MARK } from './flag-marks.ts';
import { query } from './query.ts';

/** An open place with what a new place needs to take its bytes over. */
export interface PlacedMessage {
  readonly uid: number;
  readonly docid: number;
  readonly id: MessageId;
  /** Bytes of the raw source. */
  readonly size: number;
  readonly fingerprint: string;
  /** From the message's first listing: shows whether a uid still names the same message. */
  readonly messageId: string | null;
  /** Received date, milliseconds since the epoch; null where the listing's could not be read. */
  readonly date: number | null;
}

const PLACED = query<{ folder: number; generation: number; uid: number }>()((db, p) =>
  db
    .selectFrom('places as p')
    .innerJoin('messages as m', 'm.docid', 'p.docid')
    .select((eb) => [
      'p.uid',
      'p.docid',
      'm.id',
      'm.size',
      'p.fingerprint',
      'm.message_id as messageId',
      // A place keeps a date of its own only where it differs from the message's.
      eb.fn.coalesce('p.date', 'm.date').as('date'),
    ])
    .where((eb) =>
      eb.and({ 'p.folder_id': p.folder, 'p.generation': p.generation, 'p.uid': p.uid }),
    )
    .where('p.to_commit', 'is', null)
    .limit((eb) => eb.lit(1)),
);
const OPEN_ALIKE = query<{ fingerprint: Buffer; host: string; mailbox: string; before: number }>()(
  (db, p) =>
    db
      .selectFrom('places as p')
      .innerJoin('folders as f', 'f.id', 'p.folder_id')
      .innerJoin('mailboxes as b', 'b.id', 'f.mailbox_id')
      .select('p.id')
      .where('p.fingerprint', '=', p.fingerprint)
      .where('p.to_commit', 'is', null)
      .where((eb) => eb.and({ 'b.host': p.host, 'b.mailbox': p.mailbox }))
      .where('p.first_commit', '<=', p.before)
      .limit((eb) => eb.lit(1)),
);
interface InGeneration {
  readonly folder: number;
  readonly generation: number;
}
/** Rows read at a time: a folder of a million messages is a million numbers, and never as many rows. */
const CHUNK = 5_000;
type Stretch = InGeneration & { readonly after: number; readonly limit: number };

const OPEN_UIDS = query<Stretch>()((db, p) =>
  db
    .selectFrom('places')
    .select('uid')
    .where((eb) => eb.and({ folder_id: p.folder, generation: p.generation }))
    .where('uid', '>', p.after)
    .where('to_commit', 'is', null)
    .orderBy('uid')
    .limit(p.limit),
);
const UNREAD = query<InGeneration>()((db, p) =>
  db
    .selectFrom('places')
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .where((eb) => eb.and({ folder_id: p.folder, generation: p.generation }))
    .where('to_commit', 'is', null)
    .where((eb) => eb(eb('marks', '&', eb.lit(MARK.seen)), '=', eb.lit(0))),
);
const MARKED_UIDS = query<Stretch & { mark: number }>()((db, p) =>
  db
    .selectFrom('places')
    .select('uid')
    .where((eb) => eb.and({ folder_id: p.folder, generation: p.generation }))
    .where('uid', '>', p.after)
    .where('to_commit', 'is', null)
    .where((eb) => eb(eb('marks', '&', p.mark), '<>', eb.lit(0)))
    .orderBy('uid')
    .limit(p.limit),
);
const HELD_UIDS = query<InGeneration>()((db, p) =>
  db
    .selectFrom('places')
    .select('uid')
    .where((eb) => eb.and({ folder_id: p.folder, generation: p.generation }))
    .where('held', '=', (eb) => eb.lit(1)),
);
const QUARANTINED_UIDS = query<InGeneration>()((db, p) =>
  db
    .selectFrom('quarantine')
    .select('uid')
    .where((eb) => eb.and({ folder_id: p.folder, generation: p.generation }))
    .where('to_commit', 'is', null)
    .orderBy('uid'),
);
const FORGOTTEN_UIDS = query<InGeneration>()((db, p) =>
  db
    .selectFrom('forgotten')
    .select('uid')
    .where((eb) => eb.and({ folder_id: p.folder, generation: p.generation })),
);

export interface RelinkQueries {
  /** The open place of a uid with its message; undefined where none is open. */
  placed(folder: number, generation: number, uid: number): PlacedMessage | undefined;
  /** True when an open place of the mailbox, older than commit `before`, shows this fingerprint. */
  isOpenSomewhere(mailbox: MailboxKey, fingerprint: string, before: number): boolean;
  /** Open places without `\\Seen`. */
  unread(folder: number, generation: number): number;
  /** Uids of open places that carry a flag, ascending. */
  uidsFlagged(folder: number, generation: number, flag: CountedFlag): number[];
  /** Uids of open places, ascending. */
  openUids(folder: number, generation: number): number[];
  /** Uids in quarantine, ascending. */
  quarantinedUids(folder: number, generation: number): number[];
  /** Uids at which the origin showed what was forgotten, in no order. */
  forgottenUids(folder: number, generation: number): number[];
  /** Uids that the brake holds, in no order. */
  heldUids(folder: number, generation: number): number[];
  /** Uids that the origin should answer for: open and not held, quarantined, forgotten. Ascending. */
  expectedUids(folder: number, generation: number): number[];
}

/** What a pass asks about places that may have moved. */
export function relinkQueries(connection: Connection): RelinkQueries {
  const uids = (which: typeof HELD_UIDS, folder: number, generation: number): number[] =>
    connection.all(which, { folder, generation }).map(({ uid }) => uid);
  const inChunks = (read: (stretch: Omit<Stretch, keyof InGeneration>) => { uid: number }[]) => {
    const found: number[] = [];
    for (;;) {
      const rows = read({ after: found[found.length - 1] ?? 0, limit: CHUNK });
      for (const { uid } of rows) found.push(uid);
      if (rows.length < CHUNK) return found;
    }
  };
  const openUids = (folder: number, generation: number): number[] =>
    inChunks((stretch) => connection.all(OPEN_UIDS, { folder, generation, ...stretch }));
  return {
    placed(folder, generation, uid) {
      const row = connection.get(PLACED, { folder, generation, uid });
      return (
        row && { ...row, id: row.id.toString('hex'), fingerprint: row.fingerprint.toString('hex') }
      );
    },
    isOpenSomewhere: ({ host, mailbox }, fingerprint, before) =>
      connection.get(OPEN_ALIKE, {
        fingerprint: Buffer.from(fingerprint, 'hex'),
        host,
        mailbox,
        before,
      }) !== undefined,
    unread: (folder, generation) => connection.get(UNREAD, { folder, generation })?.n ?? 0,
    uidsFlagged: (folder, generation, flag) =>
      inChunks((stretch) =>
        connection.all(MARKED_UIDS, { folder, generation, mark: flagMarks([flag]), ...stretch }),
      ),
    openUids,
    quarantinedUids: (folder, generation) => uids(QUARANTINED_UIDS, folder, generation),
    forgottenUids: (folder, generation) => uids(FORGOTTEN_UIDS, folder, generation),
    heldUids: (folder, generation) => uids(HELD_UIDS, folder, generation),
    expectedUids(folder, generation) {
      const open = openUids(folder, generation);
      const held = new Set(uids(HELD_UIDS, folder, generation));
      const others = [
        ...uids(QUARANTINED_UIDS, folder, generation),
        ...uids(FORGOTTEN_UIDS, folder, generation),
      ];
      const current = held.size === 0 ? open : open.filter((uid) => !held.has(uid));
      return others.length === 0 ? current : current.concat(others).sort((a, b) => a - b);
    },
  };
}
