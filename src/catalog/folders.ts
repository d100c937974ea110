import { findFolders } from '../core/names.ts';
import type { FolderKey, MailboxKey } from '../core/types.ts';
import type { Connection } from './database.ts';
import { type Row, selectBy, sqlQuery } from './query.ts';
import { type FlagSetRow, flagSetRows, MARK, untilCommit } from './sql.ts';

/** A folder's name at a commit, and its mailbox. */
export interface FolderName {
  /** Name of the account that is this mailbox (IMAP), or null. */
  readonly account: string | null;
  readonly id: number;
  readonly host: string;
  readonly mailbox: string;
  readonly address: string;
  readonly mailboxId: number;
  readonly path: string;
  readonly name: string;
  readonly delimiter: string;
  readonly specialUse: string | null;
  /** Number of earlier folders with the same path. Nearly always 0. */
  readonly namesake: number;
}

type NameRow = Omit<FolderName, 'name' | 'namesake'>;
const CURRENT = sqlQuery<object, NameRow>(
  `SELECT f.id, b.host, b.mailbox, b.address, b.account, b.id AS mailboxId, f.path,
     f.special_use AS specialUse, f.delimiter
   FROM folders f JOIN mailboxes b ON b.id = f.mailbox_id ORDER BY f.id`,
);
/** Selects the last span that started by the commit, so that a removed folder keeps its name. */
const AT = sqlQuery<{ commit: number }, NameRow>(
  `SELECT f.id, b.host, b.mailbox, b.address, b.account, b.id AS mailboxId, s.path,
     s.special_use AS specialUse, f.delimiter
   FROM folder_spans s JOIN folders f ON f.id = s.folder_id JOIN mailboxes b ON b.id = f.mailbox_id
   WHERE s.from_commit <= :commit ORDER BY s.folder_id, s.from_commit`,
);

const EVER = sqlQuery<object, Omit<NameRow, 'id'>>(
  `SELECT DISTINCT b.id AS mailboxId, b.host, b.mailbox, b.address, b.account, s.path,
     s.special_use AS specialUse, f.delimiter
   FROM folder_spans s JOIN folders f ON f.id = s.folder_id JOIN mailboxes b ON b.id = f.mailbox_id
   ORDER BY s.path`,
);

export interface AllNames {
  readonly folders: readonly Pick<
    FolderName,
    'host' | 'mailbox' | 'address' | 'path' | 'name' | 'specialUse'
  >[];
  readonly mailboxes: readonly Pick<FolderName, 'host' | 'mailbox' | 'address' | 'account'>[];
}

/** Returns all past and present folder names, and all mailboxes, even those without folders. */
export function allNames(connection: Connection): AllNames {
  const has = mailboxFilter(connection);
  const folders = connection
    .all(EVER, {})
    .filter(({ mailboxId }) => has(mailboxId))
    .map(({ mailboxId: _, ...row }) => ({ ...row, name: lastPart(row) }));
  const mailboxes = connection.all(WITH_ACCOUNT, {}).filter(({ id }) => has(id));
  return { folders, mailboxes: mailboxes.map(({ id: _, ...mailbox }) => mailbox) };
}

function mailboxFilter({ scope }: Connection) {
  return (mailbox: number): boolean => scope?.mailboxes.includes(mailbox) ?? true;
}

/** Returns all folders by number, including removed ones, with their latest paths or those at a commit. */
export function folderNames(
  connection: Connection,
  commit?: number,
): ReadonlyMap<number, FolderName> {
  const rows = commit === undefined ? connection.all(CURRENT, {}) : connection.all(AT, { commit });
  const counts = new Map<string, number>();
  const names = new Map<number, FolderName>();
  const isOurs = mailboxFilter(connection);
  // The last span of a folder wins.
  for (const row of new Map(rows.map((one) => [one.id, one])).values()) {
    if (!isOurs(row.mailboxId)) continue;
    const name = lastPart(row);
    const key = `${row.mailboxId}\0${row.path}`;
    const namesake = counts.get(key) ?? 0;
    counts.set(key, namesake + 1);
    names.set(row.id, { ...row, name, namesake });
  }
  return names;
}

export function lastPart({ path, delimiter }: Pick<FolderName, 'path' | 'delimiter'>): string {
  const cut = delimiter === '' ? -1 : path.lastIndexOf(delimiter);
  return cut < 0 ? path : path.slice(cut + delimiter.length);
}

/** Alternative names. Undefined or an empty list matches everything. */
export type OneOrMore = string | readonly string[] | undefined;

/** Selects folders that are in one of the mailboxes and have one of the names. */
export interface FolderFilter {
  /** Addresses or resource IDs, case-insensitive. */
  readonly mailbox?: OneOrMore;
  /** Paths, patterns or special uses. See `findFolders`. */
  readonly folder?: OneOrMore;
}

export function asList(names: OneOrMore): readonly string[] {
  return typeof names === 'string' ? [names] : (names ?? []);
}

/** Returns the matching folders, resolving the names in each mailbox separately. */
export function matchingFolders<
  F extends Pick<FolderName, 'host' | 'mailbox' | 'address' | 'path' | 'specialUse'>,
>(names: readonly F[], { mailbox, folder }: FolderFilter): readonly F[] {
  const inMailbox = names.filter((name) => hasMailboxName(name, mailbox));
  const terms = asList(folder);
  if (terms.length === 0) return inMailbox;
  const byMailbox = new Map<string, F[]>();
  for (const name of inMailbox) {
    const key = `${name.host}\0${name.mailbox}`;
    const entry = byMailbox.get(key);
    if (entry === undefined) byMailbox.set(key, [name]);
    else entry.push(name);
  }
  const matches = [...byMailbox.values()].flatMap((folders) =>
    terms.flatMap((name) => findFolders(name, folders)),
  );
  return [...new Set(matches)];
}

export function hasMailboxName(
  { mailbox, address }: Pick<FolderName, 'mailbox' | 'address'>,
  terms: OneOrMore,
): boolean {
  const names = asList(terms).map((name) => name.toLowerCase());
  return (
    names.length === 0 ||
    names.includes(address.toLowerCase()) ||
    names.includes(mailbox.toLowerCase())
  );
}

type Named = Pick<FolderName, 'host' | 'mailbox' | 'address' | 'account' | 'mailboxId'>;

/** Resolves the value of `mailbox:`: an address, a resource ID, or the part before the @. */
export function findMailboxes(value: string, folders: readonly Named[]): ReadonlySet<number> {
  return new Set(
    folders.filter((one) => matchesMailboxTerm(value, one)).map(({ mailboxId }) => mailboxId),
  );
}

export function matchesMailboxTerm(
  value: string,
  { address, mailbox }: Pick<FolderName, 'address' | 'mailbox'>,
): boolean {
  const term = value.toLowerCase();
  const named = address.toLowerCase();
  return named === term || mailbox.toLowerCase() === term || named.split('@', 1)[0] === term;
}

/**
 * Resolves the value of `account:`: a name in the configuration, or a host.
 *
 * @param accounts hosts by lower-case name of each account of the hosted service; the archive has the names of others
 */
export function accountMailboxes(
  value: string,
  folders: readonly Named[],
  accounts: ReadonlyMap<string, string>,
): ReadonlySet<number> {
  const term = value.toLowerCase();
  const host = accounts.get(term) ?? term;
  return new Set(
    folders
      .filter((one) => one.account?.toLowerCase() === term || one.host.toLowerCase() === host)
      .map(({ mailboxId }) => mailboxId),
  );
}

export interface KnownMailbox extends MailboxKey {
  readonly id: number;
  readonly address: string;
}

export interface AccountMailbox extends KnownMailbox {
  readonly account: string;
}

/** A folder whose `id` survives renames. Facts and users refer to folders by path. */
export interface KnownFolder extends FolderKey {
  readonly id: number;
  readonly address: string;
  readonly name: string;
  readonly delimiter: string;
  readonly specialUse: string | null;
  readonly generation: number;
  /** True if it was deleted at the service. Its places remain. */
  readonly gone: boolean;
}

const MAILBOXES = selectBy('mailboxes', 'id, host, mailbox, address', '', 'ORDER BY id');
const WITH_ACCOUNT = selectBy(
  'mailboxes',
  'id, host, mailbox, address, account',
  '',
  'ORDER BY id',
);
const MAILBOX = selectBy('mailboxes', 'id, host, mailbox, address', 'host, mailbox');
const SHOWN = `SELECT f.id, m.host, m.mailbox, m.address, f.path AS folder, f.name, f.delimiter,
    f.special_use AS specialUse, f.generation, f.gone_commit, f.mailbox_id
  FROM mailboxes m JOIN folders f ON f.mailbox_id = m.id`;
type KnownRow = Omit<KnownFolder, 'gone'> & Pick<Row<'folders'>, 'gone_commit' | 'mailbox_id'>;
const FOLDERS = sqlQuery<object, KnownRow>(`${SHOWN} ORDER BY f.mailbox_id, f.path, f.id`);
const FOLDERS_OF = sqlQuery<MailboxKey, KnownRow>(
  `${SHOWN} WHERE m.host = :host AND m.mailbox = :mailbox ORDER BY f.path, f.id`,
);
type SpanRow = Pick<FolderName, 'path' | 'specialUse'> &
  Record<'folder' | 'from' | 'fromTime', number> &
  Record<'to' | 'toTime', number | null>;
const SPANS = sqlQuery<object, SpanRow>(
  `SELECT s.folder_id AS folder, s.path, s.special_use AS specialUse, s.from_commit AS "from",
     f.time AS fromTime, s.to_commit AS "to", t.time AS toTime
   FROM folder_spans s JOIN commits f ON f.number = s.from_commit
     LEFT JOIN commits t ON t.number = s.to_commit
   ORDER BY s.folder_id, s.from_commit`,
);
const FIND = sqlQuery<FolderKey, KnownRow>(
  `${SHOWN} WHERE m.host = :host AND m.mailbox = :mailbox AND f.path = :folder
     AND f.gone_commit IS NULL`,
);
type EpochRow = Pick<Row<'folders'>, 'generation' | 'gone_commit' | 'mailbox_id'> & {
  readonly newest: number;
  readonly uidValidity: string | null;
  readonly since: number;
};
// Like the fold: prefers a live folder, then the one removed most recently.
const EPOCH = sqlQuery<FolderKey, EpochRow>(
  `SELECT f.generation, f.gone_commit, f.mailbox_id, g.uid_validity AS uidValidity, g.from_commit AS since,
     (SELECT max(n.generation) FROM generations n WHERE n.folder_id = f.id) AS newest
   FROM mailboxes m JOIN folders f ON f.mailbox_id = m.id
     JOIN generations g ON g.folder_id = f.id AND g.generation = f.generation
   WHERE m.host = :host AND m.mailbox = :mailbox AND f.path = :folder
   ORDER BY f.gone_commit IS NULL DESC, f.gone_commit DESC, f.id DESC LIMIT 1`,
);
const HIGHEST = selectBy('generations', 'highest_uid', 'folder_id, generation');
const COUNTED = {
  open: 'places WHERE to_commit IS NULL',
  assumed: 'places WHERE assumed = 1 AND held = 0 AND to_commit IS NULL',
  held: 'places WHERE held = 1 AND to_commit IS NULL',
  ended: 'places WHERE to_commit IS NOT NULL',
  quarantined: 'quarantine WHERE to_commit IS NULL',
  acknowledged: 'quarantine WHERE to_commit IS NULL AND acknowledged = 1',
  forgotten: 'forgotten WHERE 1',
};
type FolderCounts = Readonly<Record<keyof typeof COUNTED, number>>;
const COUNTS = sqlQuery<{ folder: number }, FolderCounts>(
  `SELECT ${Object.entries(COUNTED)
    .map(([name, rows]) => `(SELECT count(*) FROM ${rows} AND folder_id = :folder) AS "${name}"`)
    .join(', ')}`,
);
type CertificateRow = Pick<
  Row<'certificates'>,
  'generation' | 'stored' | 'assumed' | 'quarantined' | 'held' | 'forgotten' | 'complete' | 'since'
> &
  Record<'folder' | 'commit' | 'time' | 'originTotal', number>;
const CERTIFICATE = sqlQuery<{ folder: number }, CertificateRow>(
  `SELECT c.folder_id AS folder, c.commit_number AS "commit", t.time, c.generation,
     c.origin_total AS originTotal, c.stored, c.assumed, c.quarantined, c.held, c.forgotten,
     c.complete, c.since
   FROM certificates c JOIN commits t ON t.number = c.commit_number
   WHERE c.folder_id = :folder ORDER BY c.commit_number DESC LIMIT 1`,
);

const GONE = sqlQuery<{ folder: number }, { time: number }>(
  `SELECT c.time FROM folders f JOIN commits c ON c.number = f.gone_commit WHERE f.id = :folder`,
);

/** Counts places without `\Seen` by folder, in one pass over the index that has only these. */
const unreadCounts = untilCommit(
  (connection) =>
    new Map(
      connection.values<readonly [folder: number, places: number]>(
        `SELECT folder_id, count(*) FROM places INDEXED BY places_unread
         WHERE to_commit IS NULL AND marks & ${MARK.seen} = 0 GROUP BY folder_id`,
      ),
    ),
);

export function folderQueries(connection: Connection) {
  const isOurs = mailboxFilter(connection);
  const ownMailbox = ({ host, mailbox }: MailboxKey): KnownMailbox | undefined => {
    const row = connection.get(MAILBOX, { host, mailbox });
    return row !== undefined && isOurs(row.id) ? row : undefined;
  };
  const all = ({
    mailbox,
    gone = false,
  }: {
    mailbox?: MailboxKey;
    gone?: boolean;
  } = {}): KnownFolder[] =>
    (mailbox === undefined
      ? connection.all(FOLDERS, {})
      : connection.all(FOLDERS_OF, { host: mailbox.host, mailbox: mailbox.mailbox })
    )
      .filter((row) => isOurs(row.mailbox_id) && (gone || row.gone_commit === null))
      .map(toKnownFolder);
  let ownFolders: ReadonlySet<number> | undefined;
  const isOwn = (folder: number): boolean => {
    if (connection.scope === null) return true;
    ownFolders ??= new Set(all({ gone: true }).map(({ id }) => id));
    return ownFolders.has(folder);
  };
  return {
    mailboxes: (): KnownMailbox[] => connection.all(MAILBOXES, {}).filter(({ id }) => isOurs(id)),
    /** Lists mailboxes that are an account of their own (IMAP). */
    accountMailboxes: (): AccountMailbox[] =>
      connection
        .all(WITH_ACCOUNT, {})
        .flatMap(({ account, ...mailbox }) =>
          account !== null && isOurs(mailbox.id) ? { ...mailbox, account } : [],
        ),
    /** Avoids reading all other mailboxes, of which there can be a thousand. */
    mailbox: ownMailbox,
    /** Lists folders by mailbox and path. Includes deleted ones only with `gone`. */
    all,
    /**
     * Lists the names of each folder over time, with commits and their times in milliseconds since the epoch. `to` is
     * the commit that renamed or removed the folder, or null for the current name.
     */
    spans: () => connection.all(SPANS, {}).filter(({ folder }) => isOwn(folder)),
    everNamed: () => allNames(connection),
    find({ host, mailbox, folder }: FolderKey): KnownFolder | undefined {
      const row = connection.get(FIND, { host, mailbox, folder });
      return row === undefined || !isOurs(row.mailbox_id) ? undefined : toKnownFolder(row);
    },
    /**
     * Returns the current UID epoch of a folder, or the last one of a removed folder. `newest` is its highest one, and
     * `since` the commit in which the current one started.
     */
    epoch({ host, mailbox, folder }: FolderKey) {
      const row = connection.get(EPOCH, { host, mailbox, folder });
      if (row === undefined || !isOurs(row.mailbox_id)) return undefined;
      const { generation, newest, uidValidity, since, gone_commit: gone } = row;
      return { generation, newest, uidValidity, since, gone: gone !== null };
    },
    /**
     * Counts a folder's places in all generations. `open` includes those that are held or were matched without being
     * downloaded; a place that is both counts as held. `quarantined` includes acknowledged ones. `forgotten` counts
     * purged messages that the service still has.
     */
    counts: (folder: number): FolderCounts =>
      (isOwn(folder) ? connection.get(COUNTS, { folder }) : undefined) ?? NO_PLACES,
    /** Returns the number of open places without `\Seen`. */
    unread: (folder: number) =>
      isOwn(folder) ? connection.snapshot(() => unreadCounts(connection).get(folder) ?? 0) : 0,
    highestUid: (folder: number, generation: number) => highestUid(connection, folder, generation),
    /** Returns the latest reconciliation. `time` is its commit time in milliseconds since the epoch. */
    latestCertificate(folder: number) {
      const row = isOwn(folder) ? connection.get(CERTIFICATE, { folder }) : undefined;
      return row && { ...row, complete: row.complete === 1 };
    },
    /** Returns when a folder was found deleted at the service, in milliseconds since the epoch, or null. */
    goneAt: (folder: number) =>
      isOwn(folder) ? (connection.get(GONE, { folder })?.time ?? null) : null,
  };
}

/** Returns the highest UID in any fact, or 0. */
export function highestUid(connection: Connection, folder: number, generation: number): number {
  return connection.get(HIGHEST, { folder_id: folder, generation })?.highest_uid ?? 0;
}

function toKnownFolder({ gone_commit: gone, mailbox_id: _, ...folder }: KnownRow): KnownFolder {
  return { ...folder, gone: gone !== null };
}

const NO_PLACES: FolderCounts = {
  ...{ open: 0, assumed: 0, held: 0, ended: 0 },
  ...{ quarantined: 0, acknowledged: 0, forgotten: 0 },
};

interface ArchiveNames {
  readonly folders: ReadonlyMap<number, FolderName>;
  flagSets(): readonly FlagSetRow[];
}

const currentNames = untilCommit((connection) => readNames(connection, null));

/** Returns folders and flag sets: for a past commit, with the names used at the time; otherwise, cached. */
export function archiveNames(connection: Connection, asOf: number | null): ArchiveNames {
  return asOf === null ? currentNames(connection) : readNames(connection, asOf);
}

function readNames(connection: Connection, asOf: number | null): ArchiveNames {
  let flagSets: readonly FlagSetRow[] | undefined;
  return {
    folders: folderNames(connection, asOf ?? undefined),
    flagSets() {
      flagSets ??= flagSetRows(connection);
      return flagSets;
    },
  };
}
