import type { Fact } from '../archive/format/facts.ts';
import type { FolderKey, MailboxKey } from '../mail/words.ts';
import type { Connection } from './connection.ts';
import { MARK } from './flag-marks.ts';
import { type EverNamed, everNamed } from './folder-names.ts';
import { reachedCommit } from './moments.ts';
import { type Builder, query } from './query.ts';

export interface KnownMailbox extends MailboxKey {
  readonly id: number;
  readonly address: string;
}

/** A folder as the archive knows it. `id` stays through renames; facts and users speak of paths. */
export interface KnownFolder extends FolderKey {
  readonly id: number;
  readonly address: string;
  readonly name: string;
  readonly delimiter: string;
  readonly specialUse: string | null;
  readonly generation: number;
  /** True when it went at the origin; its ended places are still there. */
  readonly gone: boolean;
}

/** How a folder was called for some time, and when: commits with their times in milliseconds since the epoch. */
export interface FolderSpan {
  readonly folder: number;
  readonly path: string;
  readonly specialUse: string | null;
  readonly from: number;
  readonly fromTime: number;
  /** Null while it is in force; the commit that gave it another name, or found it gone. */
  readonly to: number | null;
  readonly toTime: number | null;
}

/** Places of a folder, all generations together. `open` counts the assumed and the held ones too. */
export interface FolderCounts {
  readonly open: number;
  readonly assumed: number;
  readonly held: number;
  readonly ended: number;
  readonly quarantined: number;
  /** Quarantined and acknowledged by the user. */
  readonly acknowledged: number;
  /** Places at which the origin still shows a purged message. */
  readonly forgotten: number;
}

type Certificate = Extract<Fact, { fact: 'certificate' }>;

export interface StoredCertificate extends Omit<Certificate, 'fact' | keyof FolderKey> {
  readonly folder: number;
  readonly commit: number;
  /** Milliseconds since the epoch: the time of its commit. */
  readonly time: number;
}

const MAILBOXES = query()((db) =>
  db.selectFrom('mailboxes').select(['id', 'host', 'mailbox', 'address']).orderBy('id'),
);
const MAILBOX = query<MailboxKey>()((db, p) =>
  db
    .selectFrom('mailboxes')
    .select(['id', 'host', 'mailbox', 'address'])
    .where((eb) => eb.and({ host: p.host, mailbox: p.mailbox })),
);
const SHOWN = [
  'f.id',
  'm.host',
  'm.mailbox',
  'm.address',
  'f.path as folder',
  'f.name',
  'f.delimiter',
  'f.special_use as specialUse',
  'f.generation',
  'f.gone_commit',
] as const;
const FOLDERS = query()((db) =>
  db
    .selectFrom('folders as f')
    .innerJoin('mailboxes as m', 'm.id', 'f.mailbox_id')
    .select(SHOWN)
    .orderBy('f.mailbox_id')
    .orderBy('f.path')
    .orderBy('f.id'),
);
const FOLDERS_OF = query<MailboxKey>()((db, p) =>
  db
    .selectFrom('mailboxes as m')
    .innerJoin('folders as f', 'f.mailbox_id', 'm.id')
    .select(SHOWN)
    .where((eb) => eb.and({ 'm.host': p.host, 'm.mailbox': p.mailbox }))
    .orderBy('f.path')
    .orderBy('f.id'),
);
const SPANS = query()((db) =>
  db
    .selectFrom('folder_spans as s')
    .innerJoin('commits as f', 'f.number', 's.from_commit')
    .leftJoin('commits as t', 't.number', 's.to_commit')
    .select(['s.folder_id as folder', 's.path', 's.special_use as specialUse'])
    .select(['s.from_commit as from', 'f.time as fromTime'])
    .select(['s.to_commit as to', 't.time as toTime'])
    .orderBy('s.folder_id')
    .orderBy('s.from_commit'),
);
const FIND = query<{ host: string; mailbox: string; path: string }>()((db, p) =>
  db
    .selectFrom('mailboxes as m')
    .innerJoin('folders as f', 'f.mailbox_id', 'm.id')
    .select(SHOWN)
    .where((eb) => eb.and({ 'm.host': p.host, 'm.mailbox': p.mailbox, 'f.path': p.path }))
    .where('f.gone_commit', 'is', null),
);
const HIGHEST = query<{ folder: number; generation: number }>()((db, p) =>
  db
    .selectFrom('generations')
    .select('highest_uid')
    .where((eb) => eb.and({ folder_id: p.folder, generation: p.generation })),
);
const HIGHEST_GENERATION = query<{ folder: number }>()((db, p) =>
  db
    .selectFrom('generations')
    .select((eb) => eb.fn.max('generation').as('generation'))
    .where('folder_id', '=', p.folder),
);
const countPlaces = (db: Builder, folder: number) =>
  db
    .selectFrom('places')
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .where('folder_id', '=', folder);
const OPEN = query<{ folder: number }>()((db, p) =>
  countPlaces(db, p.folder).where('to_commit', 'is', null),
);
const ENDED = query<{ folder: number }>()((db, p) =>
  countPlaces(db, p.folder).where('to_commit', 'is not', null),
);
const ASSUMED = query<{ folder: number }>()((db, p) =>
  countPlaces(db, p.folder)
    .where('assumed', '=', (eb) => eb.lit(1))
    .where('to_commit', 'is', null),
);
const HELD = query<{ folder: number }>()((db, p) =>
  countPlaces(db, p.folder)
    .where('held', '=', (eb) => eb.lit(1))
    .where('to_commit', 'is', null),
);
const UNREAD = query<{ folder: number }>()((db, p) =>
  countPlaces(db, p.folder)
    .where('to_commit', 'is', null)
    .where((eb) => eb(eb('marks', '&', eb.lit(MARK.seen)), '=', eb.lit(0))),
);
const QUARANTINED = query<{ folder: number }>()((db, p) =>
  db
    .selectFrom('quarantine')
    .select((eb) => [
      eb.fn.countAll<number>().as('quarantined'),
      eb.fn.coalesce(eb.fn.sum<number>('acknowledged'), eb.lit(0)).as('acknowledged'),
    ])
    .where('folder_id', '=', p.folder)
    .where('to_commit', 'is', null),
);
const FORGOTTEN = query<{ folder: number }>()((db, p) =>
  db
    .selectFrom('forgotten')
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .where('folder_id', '=', p.folder),
);
const CERTIFICATE = query<{ folder: number }>()((db, p) =>
  db
    .selectFrom('certificates as c')
    .innerJoin('commits as t', 't.number', 'c.commit_number')
    .select(['c.folder_id as folder', 'c.commit_number as commit', 't.time', 'c.generation'])
    .select(['c.origin_total as originTotal', 'c.stored', 'c.assumed', 'c.quarantined'])
    .select(['c.held', 'c.forgotten', 'c.complete', 'c.since'])
    .where('c.folder_id', '=', p.folder)
    .orderBy('c.commit_number', 'desc')
    .limit((eb) => eb.lit(1)),
);

const GONE = query<{ folder: number }>()((db, p) =>
  db
    .selectFrom('folders as f')
    .innerJoin('commits as c', 'c.number', 'f.gone_commit')
    .select('c.time')
    .where('f.id', '=', p.folder),
);

export interface FolderQueries {
  mailboxes(): KnownMailbox[];
  /** Returns one of them without reading the others: there may be a thousand, and a caller asks for each. */
  mailbox(key: MailboxKey): KnownMailbox | undefined;
  /** All folders ever seen, by mailbox and path; live ones only unless `gone` is asked for. */
  all(options?: { readonly mailbox?: MailboxKey; readonly gone?: boolean }): KnownFolder[];
  /** What each folder was called and when, by folder and in the order of time. */
  spans(): FolderSpan[];
  /** What folders and mailboxes were ever called. */
  everNamed(): EverNamed;
  /** The live folder at a path. */
  find(key: FolderKey): KnownFolder | undefined;
  counts(folder: number): FolderCounts;
  /** Open places without `\\Seen`. */
  unread(folder: number): number;
  /** The highest uid any fact of this generation named; 0 for none. */
  highestUid(folder: number, generation: number): number;
  /** The highest generation number the folder has had; 0 for none. */
  highestGeneration(folder: number): number;
  latestCertificate(folder: number): StoredCertificate | undefined;
  /** When a folder was found gone at the origin, milliseconds since the epoch; null where it is there. */
  goneAt(folder: number): number | null;
}

export function folderQueries(connection: Connection): FolderQueries {
  const all: FolderQueries['all'] = ({ mailbox, gone = false } = {}) =>
    (mailbox === undefined
      ? connection.all(FOLDERS, {})
      : connection.all(FOLDERS_OF, { host: mailbox.host, mailbox: mailbox.mailbox })
    )
      .filter((row) => gone || row.gone_commit === null)
      .map(known);
  // Flags change with commits only, and a large folder takes its time.
  let counted = { commit: -1, unread: new Map<number, number>() };
  const unread = (folder: number): number => {
    const commit = reachedCommit(connection);
    if (counted.commit !== commit) counted = { commit, unread: new Map() };
    const count = counted.unread.get(folder) ?? connection.get(UNREAD, { folder })?.n ?? 0;
    counted.unread.set(folder, count);
    return count;
  };
  return {
    mailboxes: () => connection.all(MAILBOXES, {}),
    mailbox: ({ host, mailbox }) => connection.get(MAILBOX, { host, mailbox }),
    all,
    spans: () => connection.all(SPANS, {}),
    everNamed: () => everNamed(connection),
    find({ host, mailbox, folder }) {
      const row = connection.get(FIND, { host, mailbox, path: folder });
      return row === undefined ? undefined : known(row);
    },
    counts(folder) {
      const quarantine = connection.get(QUARANTINED, { folder });
      return {
        open: connection.get(OPEN, { folder })?.n ?? 0,
        assumed: connection.get(ASSUMED, { folder })?.n ?? 0,
        held: connection.get(HELD, { folder })?.n ?? 0,
        ended: connection.get(ENDED, { folder })?.n ?? 0,
        quarantined: quarantine?.quarantined ?? 0,
        acknowledged: quarantine?.acknowledged ?? 0,
        forgotten: connection.get(FORGOTTEN, { folder })?.n ?? 0,
      };
    },
    unread: (folder) => connection.snapshot(() => unread(folder)),
    highestUid: (folder, generation) => highestUid(connection, folder, generation),
    highestGeneration: (folder) => connection.get(HIGHEST_GENERATION, { folder })?.generation ?? 0,
    latestCertificate(folder) {
      const row = connection.get(CERTIFICATE, { folder });
      return row && { ...row, complete: row.complete === 1 };
    },
    goneAt: (folder) => connection.get(GONE, { folder })?.time ?? null,
  };
}

/** Returns the highest uid that any fact of a generation named; 0 for none. */
export function highestUid(connection: Connection, folder: number, generation: number): number {
  return connection.get(HIGHEST, { folder, generation })?.highest_uid ?? 0;
}

function known({
  gone_commit: gone,
  ...folder
}: Omit<KnownFolder, 'gone'> & { readonly gone_commit: number | null }): KnownFolder {
  return { ...folder, gone: gone !== null };
}
