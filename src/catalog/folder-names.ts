import { foldersMeant } from '../mail/name-selection.ts';
import type { Connection } from './connection.ts';
import { query } from './query.ts';
import type { Scope } from './scope.ts';

/** How a folder was called at a commit, and whose it is. */
export interface FolderName {
  readonly id: number;
  readonly host: string;
  readonly mailbox: string;
  readonly address: string;
  readonly mailboxId: number;
  readonly path: string;
  /** The last part of the path. */
  readonly name: string;
  readonly delimiter: string;
  readonly specialUse: string | null;
  /** How many folders that were met before had this path as well: 0 for the first, and nearly always. */
  readonly namesake: number;
}

const CURRENT = query()((db) =>
  db
    .selectFrom('folders as f')
    .innerJoin('mailboxes as b', 'b.id', 'f.mailbox_id')
    .select(['f.id', 'b.host', 'b.mailbox', 'b.address', 'b.id as mailboxId', 'f.path'])
    .select(['f.special_use as specialUse', 'f.delimiter'])
    .orderBy('f.id'),
);
/** The span in force at the commit, else the one before it: a folder that had gone is still named. */
const AT = query<{ commit: number }>()((db, p) =>
  db
    .selectFrom('folder_spans as s')
    .innerJoin('folders as f', 'f.id', 's.folder_id')
    .innerJoin('mailboxes as b', 'b.id', 'f.mailbox_id')
    .select(['f.id', 'b.host', 'b.mailbox', 'b.address', 'b.id as mailboxId', 's.path'])
    .select(['s.special_use as specialUse', 'f.delimiter'])
    .where('s.from_commit', '<=', p.commit)
    .orderBy('s.folder_id')
    .orderBy('s.from_commit'),
);

const EVER = query()((db) =>
  db
    .selectFrom('folder_spans as s')
    .innerJoin('folders as f', 'f.id', 's.folder_id')
    .innerJoin('mailboxes as b', 'b.id', 'f.mailbox_id')
    .select(['b.id as mailboxId', 'b.host', 'b.mailbox', 'b.address', 's.path'])
    .select(['s.special_use as specialUse', 'f.delimiter'])
    .distinct()
    .orderBy('s.path'),
);
const MAILBOXES = query()((db) =>
  db.selectFrom('mailboxes').select(['id', 'host', 'address', 'mailbox']).orderBy('id'),
);

/** What folders and mailboxes of the archive were ever called, whatever became of them. */
export interface EverNamed {
  readonly folders: readonly Pick<
    FolderName,
    'host' | 'mailbox' | 'address' | 'path' | 'name' | 'specialUse'
  >[];
  readonly mailboxes: readonly Pick<FolderName, 'host' | 'mailbox' | 'address'>[];
}

/** Returns every name a folder ever had, and every mailbox, also one without folders; or those in a scope. */
export function everNamed(connection: Connection, scope?: Scope | null): EverNamed {
  const has = (mailbox: number) => scope?.mailboxes.includes(mailbox) ?? true;
  const folders = connection
    .all(EVER, {})
    .filter(({ mailboxId }) => has(mailboxId))
    .map(({ mailboxId: _, ...row }) => ({ ...row, name: lastPart(row) }));
  const mailboxes = connection.all(MAILBOXES, {}).filter(({ id }) => has(id));
  return { folders, mailboxes: mailboxes.map(({ id: _, ...mailbox }) => mailbox) };
}

/** Returns the folders of a scope. */
export function namesWithin(
  names: ReadonlyMap<number, FolderName>,
  scope: Scope,
): ReadonlyMap<number, FolderName> {
  return new Map([...names].filter(([, { mailboxId }]) => scope.mailboxes.includes(mailboxId)));
}

/** Every folder ever seen by its number, under its last path, or under the path it had at a commit. */
export function folderNames(
  connection: Connection,
  commit?: number,
): ReadonlyMap<number, FolderName> {
  const rows = commit === undefined ? connection.all(CURRENT, {}) : connection.all(AT, { commit });
  const met = new Map<string, number>();
  const names = new Map<number, FolderName>();
  // Of several spans of a folder, the last holds.
  for (const row of new Map(rows.map((one) => [one.id, one])).values()) {
    const name = lastPart(row);
    const key = `${row.mailboxId}\0${row.path}`;
    const namesake = met.get(key) ?? 0;
    met.set(key, namesake + 1);
    names.set(row.id, { ...row, name, namesake });
  }
  return names;
}

function lastPart({ path, delimiter }: Pick<FolderName, 'path' | 'delimiter'>): string {
  const cut = delimiter === '' ? -1 : path.lastIndexOf(delimiter);
  return cut < 0 ? path : path.slice(cut + delimiter.length);
}

/** Names of which any may match; undefined and an empty list match everything. */
export type AnyOf = string | readonly string[] | undefined;

/** The mailboxes and folders to read: a folder matches if it is in a listed mailbox and under a listed name. */
export interface FolderFilter {
  /** Addresses or resource ids, in any case. */
  readonly mailbox?: AnyOf;
  /** Paths, patterns or special uses: `foldersMeant` resolves each name in each mailbox separately. */
  readonly folder?: AnyOf;
}

/** Returns the names of a filter as a list. */
export function namesIn(names: AnyOf): readonly string[] {
  return typeof names === 'string' ? [names] : (names ?? []);
}

/** Returns the folders that a filter means, by the mailboxes that they are in. */
export function matchingFolders<
  F extends Pick<FolderName, 'host' | 'mailbox' | 'address' | 'path' | 'specialUse'>,
>(names: readonly F[], { mailbox, folder }: FolderFilter): readonly F[] {
  const those = names.filter((name) => isMailbox(name, mailbox));
  const wanted = namesIn(folder);
  if (wanted.length === 0) return those;
  const byMailbox = new Map<string, F[]>();
  for (const name of those) {
    const key = `${name.host}\0${name.mailbox}`;
    const known = byMailbox.get(key);
    if (known === undefined) byMailbox.set(key, [name]);
    else known.push(name);
  }
  const matches = [...byMailbox.values()].flatMap((folders) =>
    wanted.flatMap((name) => foldersMeant(name, folders)),
  );
  return [...new Set(matches)];
}

/** Returns whether a mailbox has one of these addresses or resource ids. */
export function isMailbox(
  { mailbox, address }: Pick<FolderName, 'mailbox' | 'address'>,
  wanted: AnyOf,
): boolean {
  const names = namesIn(wanted).map((name) => name.toLowerCase());
  return (
    names.length === 0 ||
    names.includes(address.toLowerCase()) ||
    names.includes(mailbox.toLowerCase())
  );
}

type Named = Pick<FolderName, 'host' | 'mailbox' | 'address' | 'mailboxId'>;

/** Returns the mailboxes that `mailbox:` means: by address, resource id, or what stands before the @. */
export function mailboxesCalled(value: string, folders: readonly Named[]): ReadonlySet<number> {
  return new Set(
    folders.filter((one) => isMailboxCalled(value, one)).map(({ mailboxId }) => mailboxId),
  );
}

export function isMailboxCalled(
  value: string,
  { address, mailbox }: Pick<FolderName, 'address' | 'mailbox'>,
): boolean {
  const wanted = value.toLowerCase();
  const named = address.toLowerCase();
  return named === wanted || mailbox.toLowerCase() === wanted || named.split('@', 1)[0] === wanted;
}

/**
 * Returns the mailboxes that `account:` means: by its name in the configuration, or by the host that they are at.
 *
 * @param accounts hosts by the names of accounts in lower case
 */
export function mailboxesOfAccount(
  value: string,
  folders: readonly Named[],
  accounts: ReadonlyMap<string, string>,
): ReadonlySet<number> {
  const wanted = value.toLowerCase();
  const host = accounts.get(wanted) ?? wanted;
  return new Set(
    folders.filter((one) => one.host.toLowerCase() === host).map(({ mailboxId }) => mailboxId),
  );
}
