import { existsSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { catalogError } from './error-tables.ts';
import { hasCode } from './errors.ts';
import { makePrivateFile } from './files.ts';
import { readHostPause, readPaceState } from './pace.ts';
import { convertSqliteError } from './sqlite.ts';
import {
  diskSample,
  hasTable,
  knownCopy,
  makeRunTable,
  type RunJournal,
  requestDay,
  runJournal,
} from './state-runs.ts';
import {
  count,
  fields,
  flag,
  integer,
  list,
  mark,
  nullable,
  number,
  oneOf,
  parseJson,
  type Read,
  type ReadValue,
  record,
  strictList,
  text,
  withDefault,
} from './stored-values.ts';
import type { FolderKey, MailboxKey, Place } from './types.ts';

const MODES = ['full', 'quick', 'sample', 'drill', 'repair', 'rebuild'] as const;

/** `full` and `repair` read every byte. `rebuild` means that damage was found before any verification. */
export type VerificationMode = (typeof MODES)[number];

const drill = fields({ at: number, checked: number, of: number });

/** When the last export test started, how many messages it exported and read back, and how many the archive held. */
type ExportTestFacts = ReadValue<typeof drill>;

/** The last verification, without the last export test. Times are milliseconds since the epoch. */
const lastVerification = fields({
  at: number,
  mode: oneOf(MODES),
  /** Number of messages read and compared; `of` is the number in the archive. */
  checked: number,
  of: number,
  fullAt: nullable(number),
  ok: flag,
  damage: nullable(parseDamage),
});
export type StoredVerification = ReadValue<typeof lastVerification>;

export interface VerificationFacts extends Omit<StoredVerification, 'damage'> {
  readonly damage: KnownDamage | null;
  readonly drill: ExportTestFacts | null;
}

/** The last verification and the last export test are stored under two keys in one scope. */
const verification: Read<StoredVerification | ExportTestFacts> = (value) =>
  lastVerification(value) ?? upgradeVerification(value) ?? drill(value);

/** Converts values from earlier versions, which stored only full verifications, and only their verdict. */
function upgradeVerification(value: unknown): StoredVerification | undefined {
  const verdict = fields({ at: number, ok: flag })(value);
  if (verdict === undefined || Object.hasOwn(Object(value), 'mode')) return undefined;
  const { at, ok } = verdict;
  const last = { at, mode: 'full', checked: 0, of: 0, fullAt: at, ok } as const;
  if (ok) return { ...last, damage: null };
  const message = 'an earlier version found damage: "mailkeep verify" names it';
  const finding = { what: 'log', id: null, text: message, at, commit: null, segment: null };
  return {
    ...last,
    damage: { since: at, found: 1, findings: [finding], counted: {}, countedAt: at },
  };
}

/** Parses a finding, which identifies mail only by its hash, because forgotten mail must leave no trace here. */
function findingParser(since: number) {
  return fields({
    /** One of log, message, missing, catalog, catalog-file, state-file, commit, checkpoint, format, drill. */
    what: text,
    /** ID of the damaged message; null unless the finding concerns a single message. */
    id: nullable(text),
    text,
    // Earlier versions did not store these fields.
    /** When the damage was last found, milliseconds since the epoch. */
    at: withDefault(number, since),
    commit: withDefault(number, null),
    segment: withDefault(number, null),
  });
}
export type StoredFinding = ReadValue<ReturnType<typeof findingParser>>;
export type KnownFinding = Pick<StoredFinding, 'what' | 'id' | 'text'>;

/** Findings from verifications, kept until a repair or until a clean verification covers them. */
export interface StoredDamage {
  readonly since: number;
  /** Total number of findings; `findings` contains the first of them. */
  readonly found: number;
  readonly findings: readonly StoredFinding[];
  /** Number of findings not in `findings`, by what is damaged. */
  readonly counted: Readonly<Record<string, number>>;
  /** When the unlisted findings were last found, milliseconds since the epoch. */
  readonly countedAt: number;
}
export interface KnownDamage extends Pick<StoredDamage, 'since' | 'found'> {
  readonly findings: readonly KnownFinding[];
}

function parseDamage(value: unknown): StoredDamage | undefined {
  const since = fields({ since: number })(value)?.since ?? 0;
  const damage = fields({
    since: number,
    found: number,
    findings: list(findingParser(since)),
    countedAt: withDefault(number, since),
  })(value);
  if (damage === undefined) return undefined;
  const counted = fields({ counted: record(number) })(value)?.counted;
  return { ...damage, counted: counted ?? { log: damage.found - damage.findings.length } };
}

/** A folder's counts, epoch and modification sequence in an IMAP server's listing. */
const folderTuple = fields({
  messages: number,
  unseen: number,
  uidValidity: text,
  uidNext: number,
  highestModSeq: text,
});

/** A commit of the archive. With its time, it tells a restored archive from one that only continued. */
const commit = fields({ number, time: number });

const proof = fields({
  /** When the newest page was requested. The proof does not cover later mail. */
  at: text,
  complete: flag,
  generation: withDefault(number, 1),
  /** The origin's counts of all messages and of unread messages. */
  originTotal: number,
  unread: withDefault(number, -1),
  /** When all of the folder's flags were last confirmed. */
  flagsAt: withDefault(text, null),
  /** UTC day of the folder's last reconciliation in the log. */
  certifiedOn: withDefault(text, null),
  /** Number of consecutive sync runs in which the sums did not add up. */
  incomplete: withDefault(number, 0),
  /**
   * What the listing reported before the sync run read anything. As long as it reports the same, nothing has changed.
   * Null if that proves nothing, or if a later sync run may have recorded changes.
   */
  tuple: withDefault(nullable(folderTuple), null),
  /** Highest uid when the folder was last complete; 0 if unknown. */
  highestUid: withDefault(number, 0),
  /** When the newest page was last read. */
  readAt: withDefault(text, ''),
  /** The archive's last commit when the proof was stored. The proof holds only for an archive with this commit. */
  commit: withDefault(nullable(commit), null),
});

/** What the listing reported when the archive had every flag up to `modSeq`. */
const flagsUpTo = fields({
  uidValidity: text,
  modSeq: text,
  uidNext: withDefault(number, 0),
  /** The archive's last commit then. */
  commit: withDefault(nullable(commit), null),
});

export type FolderTuple = ReadValue<typeof folderTuple>;

/** Time and result of a folder's last comparison with the origin. Times are ISO 8601 UTC. */
export type Proof = ReadValue<typeof proof>;

const uidPair: Read<readonly [lo: number, hi: number]> = (value) => {
  const [lo, hi, ...more] = strictList(integer)(value) ?? [];
  return lo === undefined || hi === undefined || more.length > 0 ? undefined : [lo, hi];
};

const uidPairs = strictList(uidPair);

const flagCounts = fields({
  /** Unread messages in the origin's listing and in the archive (`ours`) once nothing more could be found. */
  theirs: number,
  ours: number,
  /** When starred and answered messages were last compared, milliseconds since the epoch. */
  askedAt: withDefault(number, Number.NEGATIVE_INFINITY),
});

/** Counts at the last comparison of a folder's flags. */
export type FlagCounts = ReadValue<typeof flagCounts>;

const mailboxes = list(
  fields({
    resourceId: text,
    address: text,
    /** Milliseconds since the epoch. Null while the account lists the mailbox. */
    unreachableSince: withDefault(number, null),
  }),
);

export type StoredMailbox = ReadValue<typeof mailboxes>[number];

/** Usage and limits of a mailbox. `at` is the time of the service's report, milliseconds since the epoch. */
const quota = fields({
  at: number,
  resources: strictList(fields({ name: text, usage: number, limit: nullable(number) })),
});

const listingCost = fields({
  /** Milliseconds since the epoch. */
  at: number,
  pages: number,
  failed: withDefault(flag, false),
});

/** Cost or failure of the last full listing of an account's mailboxes. */
export type ListingCost = ReadValue<typeof listingCost>;

const sizeLessons = fields({ lf: count, crlf: count, offset: fields({ bytes: integer, count }) });

/** Bytes exchanged with an IMAP server, by ten minutes. Times are milliseconds since the epoch. */
const imapTraffic = fields({
  /** Bytes a day when it was stored; null for no limit. */
  limit: nullable(number),
  /** End of the pause after the limit was reached. */
  until: nullable(number),
  /** When the first sync was expected to be complete, when the limit last stopped it. */
  completeAt: nullable(number),
  /** Messages and bytes per second in the last sync run that fetched many. */
  speed: nullable(fields({ messages: number, bytes: number })),
  slots: strictList(fields({ at: number, bytes: count })),
});

const deliveries = strictList(
  fields({
    at: number,
    mailbox: text,
    url: text,
    success: flag,
    attempts: number,
    mostAttempts: number,
    durationMs: number,
  }),
);
/** An invalid `mailboxes` must not widen access, so it invalidates the whole session. */
const webSession = fields({
  createdAt: number,
  usedAt: number,
  /** The browser's User-Agent. */
  agent: text,
  /** Keys (`mailboxKey`) of the readable mailboxes; null for all. */
  mailboxes: nullable(strictList(text)),
});

/** A browser's session in the web interface. Times are milliseconds since the epoch. */
export type WebSession = ReadValue<typeof webSession>;
/** An invalid `mailboxes` must not widen access, so it invalidates the whole token. */
const apiToken = fields({
  /** Identifies the token in lists. Does not grant access. */
  id: text,
  name: text,
  createdAt: number,
  usedAt: nullable(number),
  expiresAt: nullable(number),
  /** Keys (`mailboxKey`) of the accessible mailboxes; null for all. */
  mailboxes: nullable(strictList(text)),
});

/** A token for the mirror's Mailbox API. Times are milliseconds since the epoch. */
export type ApiToken = ReadValue<typeof apiToken>;

/**
 * The kind of thing that a key identifies. `place`, `generation` and `folder` keys share a prefix, so that purges and
 * renames can find them.
 */
type KeyKind =
  | 'place'
  | 'generation'
  | 'folder'
  /** A folder missing from listings. Renamed folders are not missing. */
  | 'missing-folder'
  /** A folder or a whole mailbox. */
  | 'folder-or-mailbox'
  | 'mailbox'
  /** An account in the configuration, with the host if it matters. */
  | 'account'
  /** A host name without a port. */
  | 'host'
  /** A limiter's gate: host, port and the account's label. */
  | 'gate'
  | 'segment'
  | 'name';

interface Scope<K extends KeyKind = KeyKind, T = unknown> {
  readonly key: K;
  readonly parse: Read<T>;
  readonly travels: boolean;
}

/** Milliseconds since the epoch, like every time in the state. */
const since = fields({ since: number });

/** Defines a scope that is copied to other machines with the archive. */
function scope<const K extends KeyKind, T>(key: K, parse: Read<T>): Scope<K, T> {
  return { key, parse, travels: true };
}

/**
 * Defines a scope that stays on this machine: secrets, and facts about its disk, copies and channels, which include
 * paths and addresses. `place` keys also stay, because their messages may be about to be forgotten.
 */
function local<const K extends KeyKind, T>(key: K, parse: Read<T>): Scope<K, T> {
  return { key, parse, travels: false };
}

const SCOPES = {
  /** When an account's mailboxes were last listed. */
  'account-listed': scope('account', number),
  'account-mailboxes': scope('account', mailboxes),
  /** Keyed by the HMAC of the secret part of the token. */
  'api-token': local('name', apiToken),
  /** Base64url key for the HMACs in `api-token`. */
  'api-token-key': local('name', text),
  /** Unverified messages checked in the current hour. */
  'assumed-checked': scope('account', fields({ since: number, count: number })),
  /** Last failed attempt to check an unverified message. */
  'assumed-tried': local('place', number),
  /** Last proof that reading a source at this host leaves the message unread. */
  canary: scope('host', fields({ provenAt: number })),
  /** The configuration without secrets, as of the last copy. */
  'copy-config': local('name', (value): unknown => value ?? undefined),
  /** Expiry of this machine's lock on an off-site copy's object. Keyed by the copy's ID and the object's name. */
  'copy-lock': local('name', number),
  /** Marks off-site copies that still contain purged mail. Keyed by the copy's ID. */
  'copy-purge': local('name', mark),
  /** Newest manifest of an off-site copy that this machine has written or read. Keyed by the copy's ID. */
  'copy-seen': local('name', fields({ commit: number, sequence: number, at: number })),
  /** Keyed by the copy's address. */
  'copy-target': local('name', knownCopy),
  /** Objects of an off-site copy that no manifest lists yet. Keyed by the copy's ID and the object's name. */
  'copy-upload': local('name', fields({ length: number, sha256: text })),
  coverage: scope('generation', uidPairs),
  /** The service's log of webhook deliveries. Kept local, because webhook addresses can contain credentials. */
  'delivery-log': local('account', deliveries),
  /** By UTC day. */
  'disk-sample': scope('name', diskSample),
  /** Earlier fetches whose results were not accepted. */
  'earlier-fetches': local('place', list(fields({ at: number, sha256: text }))),
  /** When a folder's UIDVALIDITY last went back to a lower value, which IMAP forbids. */
  'epoch-returned': scope('folder', since),
  'flag-counts': scope('folder', flagCounts),
  /** Modification sequence up to which the archive has every flag. */
  'flags-up-to': scope('generation', flagsUpTo),
  /** When a host's search was first found to ignore flags. */
  'flag-search-refused': scope('host', (value) => mark(value) ?? since(value)),
  /** The service's id for the folder, which stays when it is renamed. */
  'folder-id': scope('folder', text),
  /** When the deletion guard first held any of a folder's messages. */
  held: scope('folder', since),
  /** Marks IMAP servers that have answered NAMESPACE. */
  'imap-namespaces': scope('account', mark),
  /** Bytes exchanged with IMAP servers, and what limits them. */
  'imap-traffic': scope('account', imapTraffic),
  /** When an account's sync first read another mailbox instead of this one. */
  'left-behind': scope('mailbox', number),
  /** Number of messages that a folder's listing counts, if no sync run has compared that many yet. */
  listed: scope('folder', number),
  limiter: scope('gate', (value) => readPaceState(value) ?? readHostPause(value)),
  /** Marks UID epochs without modification sequences at an IMAP server. */
  'no-mod-seq': scope('generation', mark),
  /** Notifications sent, by channel. Only the notifier reads and parses them. */
  notify: local('name', (value): unknown => value ?? undefined),
  /** Number of consecutive sources whose Message-ID differs from the listing. */
  'odd-ids': scope('host', number),
  proof: scope('folder', proof),
  /** Number of retries for an incomplete message, and the time of the last one. */
  'quarantine-tries': local('place', fields({ tries: number, at: number })),
  quota: scope('mailbox', quota),
  /** Keyed by `requestKey`. */
  requests: scope('name', requestDay),
  'saved-search': scope('name', text),
  /** When each schedule last started. */
  schedule: scope('name', number),
  /** When a host's search was first found unable to support a walk. */
  'search-refused': scope('host', (value) => mark(value) ?? since(value)),
  /** A host's rule for the sizes in its listings, as learned from its sources. */
  'size-lessons': scope('host', sizeLessons),
  /** When the platform first listed a mailbox as suspended. */
  suspended: scope('mailbox', number),
  /** UIDs covered so far by the current full sync. */
  swept: scope('generation', fields({ since: number, uids: uidPairs })),
  /** When a folder was first missing from listings. */
  unlisted: scope('missing-folder', since),
  /** Marks folders and mailboxes excluded by the configuration of the last sync run. */
  unwatched: scope('folder-or-mailbox', mark),
  'usage-listing': scope('account', listingCost),
  verification: local('name', verification),
  /** Progress of the sampled verification of a segment. */
  verified: local(
    'segment',
    fields({ at: number, covered: number, next: number, end: withDefault(number, 0) }),
  ),
  /** Keyed by the SHA-256 of the cookie's value. */
  'web-session': local('name', webSession),
} as const;

export type ScopeName = keyof typeof SCOPES;
export type ScopeValue<S extends ScopeName> = NonNullable<ReturnType<(typeof SCOPES)[S]['parse']>>;

export type ScopeOf<K extends KeyKind> = {
  [S in ScopeName]: (typeof SCOPES)[S]['key'] extends K ? S : never;
}[ScopeName];

export function scopesOf<K extends KeyKind>(kind: K): ScopeOf<K>[];
export function scopesOf(kind: KeyKind): ScopeName[] {
  const found: ScopeName[] = [];
  let scope: ScopeName;
  for (scope in SCOPES) if (SCOPES[scope].key === kind) found.push(scope);
  return found;
}

/** Returns undefined for a malformed value. */
export function parseValue<S extends ScopeName>(
  scope: S,
  value: unknown,
): ScopeValue<S> | undefined;
export function parseValue(scope: ScopeName, value: unknown): unknown {
  return SCOPES[scope].parse(value);
}

export function placeKey(place: Place): string {
  return `${generationKey(place, place.generation)}/${place.uid}`;
}

export function generationKey(at: FolderKey, generation: number): string {
  return `${folderKey(at)}/${generation}`;
}

/** Returns a key in JSON, because a path may contain any character. */
export function folderKey({ host, mailbox, folder }: FolderKey): string {
  return JSON.stringify([host, mailbox, folder]);
}

export function mailboxKey({ host, mailbox }: MailboxKey): string {
  return JSON.stringify([host, mailbox]);
}

export function parseAccountKey(key: string): { readonly account: string; readonly host: string } {
  const [account = '', host = ''] = list(text)(JSON.parse(key)) ?? [];
  return { account, host };
}

/** Scopes that can leave this machine. Excludes scopes that only other versions of mailkeep know. */
const TRAVELLING: ReadonlySet<string> = new Set(
  Object.entries(SCOPES).flatMap(([name, { travels }]) => (travels ? [name] : [])),
);

/**
 * Returns a new database with the scopes that can leave this machine, in one consistent snapshot. Excludes runs and
 * restores, because their error messages can contain file names.
 * @param createTable creates the table of remembered values
 */
function travellingCopy(
  database: Database.Database,
  createTable: (copy: Database.Database) => void,
): Buffer {
  const rows = database
    .prepare<[], { scope: string; key: string; value: string }>(
      'SELECT scope, key, value FROM remembered',
    )
    .all();
  const copy = new Database(':memory:');
  try {
    createTable(copy);
    const insert = copy.prepare('INSERT INTO remembered (scope, key, value) VALUES (?, ?, ?)');
    copy.transaction(() => {
      for (const { scope, key, value } of rows) {
        if (TRAVELLING.has(scope)) insert.run(scope, key, value);
      }
    })();
    return copy.serialize();
  } finally {
    copy.close();
  }
}

/**
 * Data remembered outside the archive: proofs, coverage, learned rules, limiter state, backoffs. `state.sqlite` has a
 * table of JSON texts and a table of runs. If the file is lost, the contents of the first table are relearned.
 */
export interface StateFile {
  /** Parses the value, because another version of mailkeep may have written it. */
  get<S extends ScopeName>(scope: S, key: string): ScopeValue<S> | undefined;
  /** Returns a scope's values in key order. */
  entries<S extends ScopeName>(scope: S): { readonly key: string; readonly value: ScopeValue<S> }[];
  /** Deletes the value if it is null or undefined. */
  set(scope: ScopeName, key: string, value: unknown): void;
  /** Runs `act` in one transaction, which excludes writes by other processes. */
  together<T>(act: () => T): T;
  readonly runs: RunJournal;
  /** Returns the bytes of a state file for another machine; see `travellingCopy`. */
  travelling(): Buffer;
  close(): void;
}

const VERSION = 1;
const BUSY_TIMEOUT = 5_000;

export function stateFile(dataDir: string): string {
  return path.join(dataDir, 'state.sqlite');
}

/**
 * Opens the state for the archive's writer. Replaces an unreadable file, but keeps it for inspection.
 * @param movedAside called with the new path of the damaged file
 * @throws `catalog-io`, `catalog-disk-full`, `catalog-busy` if the cause is the disk rather than the content
 */
export function openState(dataDir: string, movedAside?: (file: string) => void): StateFile {
  const file = stateFile(dataDir);
  try {
    return wrapDatabase(openForWriting(file), file);
  } catch (error) {
    if (!isUnreadable(error)) throw convertSqliteError(error, file) ?? error;
    let target = '';
    for (let n = 1; target === '' || existsSync(target); n += 1) target = `${file}.damaged-${n}`;
    renameSync(file, target);
    // These files belong to the damaged database, and would be replayed into the new one.
    for (const name of [`${file}-wal`, `${file}-shm`]) rmSync(name, { force: true });
    movedAside?.(target);
    return wrapDatabase(openForWriting(file), file);
  }
}

export function readState(dataDir: string): StateFile | undefined {
  return openIfUsable(dataDir, { readonly: true });
}

export function hasState(dataDir: string): boolean {
  return isFile(stateFile(dataDir));
}

/** Describes the damage in the state file. Returns undefined if there is none or the file cannot be checked. */
export function stateDamage(dataDir: string): string | undefined {
  const file = stateFile(dataDir);
  if (!existsSync(file)) return undefined;
  if (!isFile(file)) return 'it is not a regular file';
  let database: Database.Database | undefined;
  try {
    database = new Database(file, { readonly: true, fileMustExist: true, timeout: BUSY_TIMEOUT });
    const found = database.pragma('quick_check(1)', { simple: true });
    if (found !== 'ok') return String(found);
    if (database.pragma('user_version', { simple: true }) === VERSION) wrapDatabase(database, file);
    return undefined;
  } catch (error) {
    const converted = convertSqliteError(error, file);
    if (converted?.code === 'catalog-damaged') return error instanceof Error ? error.message : '';
    if (converted !== undefined) return undefined;
    throw error;
  } finally {
    database?.close();
  }
}

/** Opens the state if it exists and is writable; only the archive's writer creates and repairs it. */
export function openExistingState(dataDir: string): StateFile | undefined {
  return openIfUsable(dataDir, { readonly: false });
}

function openIfUsable(
  dataDir: string,
  { readonly }: { readonly readonly: boolean },
): StateFile | undefined {
  const file = stateFile(dataDir);
  if (!isFile(file)) return undefined;
  let database: Database.Database | undefined;
  try {
    database = new Database(file, { readonly, fileMustExist: true, timeout: BUSY_TIMEOUT });
    // On a read-only file system, opening succeeds and only writing fails.
    if (!readonly) database.exec('BEGIN IMMEDIATE; ROLLBACK');
    refuseNewer(database, file);
    if (database.pragma('user_version', { simple: true }) === VERSION)
      return wrapDatabase(database, file);
  } catch (error) {
    database?.close();
    if (error instanceof Database.SqliteError) return undefined;
    throw error;
  }
  database.close();
  return undefined;
}

/**
 * Rewrites the state without deleted data, which SQLite leaves in free pages, and removes unreadable files that were
 * set aside. The caller holds the archive's lock. Empties scopes with `place` keys, because they can concern forgotten
 * messages; their contents are relearned.
 * @param mailboxes the mailboxes in the archive; entries about any other mailbox are deleted
 */
export function scrubState(dataDir: string, mailboxes: readonly MailboxKey[]): void {
  const file = stateFile(dataDir);
  for (const name of readdirSync(dataDir)) {
    if (name.startsWith('state.sqlite.damaged'))
      rmSync(path.join(dataDir, name), { recursive: true });
  }
  if (!existsSync(file)) return;
  try {
    const database = openForWriting(file);
    try {
      const remove = database.prepare('DELETE FROM remembered WHERE scope = ?');
      for (const scope of scopesOf('place')) remove.run(scope);
      dropUnknownMailboxes(database, mailboxes);
      // Unfinished restores store the hashes of the messages appended so far, because a restore also recognises
      // messages by content.
      if (hasTable(database, 'restored')) database.exec('DELETE FROM restored');
      database.exec('VACUUM');
      database.pragma('wal_checkpoint(TRUNCATE)');
    } finally {
      database.close();
    }
  } catch (error) {
    throw convertSqliteError(error, file) ?? error;
  }
}

/** Deletes entries about mailboxes that are not in the archive, because a sync would treat them as complete. */
function dropUnknownMailboxes(database: Database.Database, mailboxes: readonly MailboxKey[]): void {
  const prefixOf = (text: string) => /^\["(?:[^"\\]|\\.)*","(?:[^"\\]|\\.)*"/.exec(text)?.[0];
  const prefixes = new Set(mailboxes.map((one) => prefixOf(mailboxKey(one))));
  const remove = database.prepare('DELETE FROM remembered WHERE scope = ? AND key = ?');
  const kinds = ['generation', 'folder', 'missing-folder', 'folder-or-mailbox', 'mailbox'] as const;
  for (const scope of kinds.flatMap((kind): ScopeName[] => scopesOf(kind))) {
    const keys = database
      .prepare<[string], string>('SELECT key FROM remembered WHERE scope = ?')
      .pluck()
      .all(scope);
    for (const key of keys) if (!prefixes.has(prefixOf(key))) remove.run(scope, key);
  }
}

function openForWriting(file: string): Database.Database {
  makePrivateFile(file);
  const database = new Database(file, { timeout: BUSY_TIMEOUT });
  try {
    refuseNewer(database, file);
    database.pragma('journal_mode = WAL');
    database.pragma('synchronous = NORMAL');
    if (database.pragma('user_version', { simple: true }) !== VERSION) createTable(database);
    makeRunTable(database);
    const check = database.pragma('quick_check(1)', { simple: true });
    if (check !== 'ok') throw new UnreadableState();
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/**
 * Refuses state written by a newer version of mailkeep, to protect the user data in it.
 * @throws catalog-version
 */
function refuseNewer(database: Database.Database, file: string): void {
  const found = Number(database.pragma('user_version', { simple: true }));
  if (found <= VERSION) return;
  throw catalogError('catalog-version', { file, found, expected: VERSION, remedy: 'upgrade' });
}

/** Recreates the table. Does not migrate data from an older version, because it can be relearned. */
function createTable(database: Database.Database): void {
  database.transaction(() => {
    database.exec('DROP TABLE IF EXISTS remembered');
    database.exec(
      'CREATE TABLE remembered (scope TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (scope, key)) WITHOUT ROWID',
    );
    database.pragma(`user_version = ${VERSION}`);
  })();
}

/**
 * Returns false for pipes, which would make SQLite wait forever, and for paths under a file or an unreadable directory.
 */
function isFile(file: string): boolean {
  return existsSync(file) && statSync(file, { throwIfNoEntry: false })?.isFile() === true;
}

class UnreadableState extends Error {}

function isUnreadable(error: unknown): boolean {
  if (error instanceof UnreadableState || hasCode(error, 'catalog-damaged')) return true;
  return error instanceof Database.SqliteError && /^SQLITE_(CORRUPT|NOTADB)/.test(error.code);
}

/** Converts disk errors to `catalog-disk-full`, `catalog-io` or `catalog-busy`. */
function wrapDatabase(database: Database.Database, file: string): StateFile {
  const guard = <T>(act: () => T): T => {
    try {
      return act();
    } catch (error) {
      throw convertSqliteError(error, file) ?? error;
    }
  };
  const find = database
    .prepare<[string, string], string>('SELECT value FROM remembered WHERE scope = ? AND key = ?')
    .pluck();
  const list = database.prepare<[string], { key: string; value: string }>(
    'SELECT key, value FROM remembered WHERE scope = ? ORDER BY key',
  );
  return {
    get(scope, key) {
      const text = guard(() => find.get(scope, key));
      return text === undefined ? undefined : parseValue(scope, parseJson(text));
    },
    entries: (scope) =>
      guard(() => list.all(scope)).flatMap(({ key, value: text }) => {
        const value = parseValue(scope, parseJson(text));
        return value === undefined ? [] : [{ key, value }];
      }),
    set(scope, key, value) {
      guard(() =>
        value === null || value === undefined
          ? database.prepare('DELETE FROM remembered WHERE scope = ? AND key = ?').run(scope, key)
          : database
              .prepare('REPLACE INTO remembered (scope, key, value) VALUES (?, ?, ?)')
              .run(scope, key, JSON.stringify(value)),
      );
    },
    together: (act) => guard(() => database.transaction(act).immediate()),
    runs: runJournal(database, guard),
    travelling: () => guard(() => travellingCopy(database, createTable)),
    close: () => database.close(),
  };
}
