import { existsSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { catalogError } from './error-tables.ts';
import { hasCode } from './errors.ts';
import { makePrivateFile } from './files.ts';
import { readHostPause, readPaceState } from './pace.ts';
import { translate } from './sqlite.ts';
import {
  count,
  diskSample,
  fields,
  flag,
  integer,
  type Kept,
  knownCopy,
  list,
  listOfAll,
  makeRunTable,
  mark,
  nullable,
  number,
  oneOf,
  otherwise,
  type Read,
  type RunJournal,
  record,
  requestDay,
  runJournal,
  text,
} from './state-runs.ts';
import type { FolderKey, MailboxKey, Place } from './types.ts';

const MODES = ['full', 'quick', 'sample', 'drill', 'repair', 'rebuild'] as const;

/** `full` and `repair` read every byte; `rebuild` found damage before anything was verified. */
export type VerificationMode = (typeof MODES)[number];

/** The last verification, and the damage that is known. Times are milliseconds since the epoch. */
export interface VerificationFacts {
  readonly at: number;
  readonly mode: VerificationMode;
  /** Messages whose bytes it read and compared, of all in the archive. */
  readonly checked: number;
  readonly of: number;
  /** When every byte was last read; null while it never was. */
  readonly fullAt: number | null;
  /** Whether no damage is known. */
  readonly ok: boolean;
  readonly damage: KnownDamage | null;
  /** The last drill; null where there was none. */
  readonly drill: DrillFacts | null;
}

/** What verifications found, until a repair, or a clean verification that covered it, clears it. */
export interface KnownDamage {
  /** When the first of it was found. */
  readonly since: number;
  /** All findings; `findings` holds the first ones. */
  readonly found: number;
  readonly findings: readonly KnownFinding[];
}

/** A finding without anything that could identify mail but its hash: what is forgotten leaves no trace here. */
export interface KnownFinding {
  /** What is damaged: `log`, `message`, `missing`, `catalog`, `catalog-file`, `state-file`, `commit`, `checkpoint`, `format`, `drill`. */
  readonly what: string;
  /** The message's id, where one message is damaged. */
  readonly id: string | null;
  readonly text: string;
}

/** A finding as the state holds it. */
export interface RememberedFinding extends KnownFinding {
  /** When it was last found: milliseconds since the epoch. */
  readonly at: number;
  /** The commit that a checkpoint vouches for, where that is what is damaged. */
  readonly commit: number | null;
  /** The segment of the log that is damaged, where its bytes are. */
  readonly segment: number | null;
}

export interface RememberedDamage extends Omit<KnownDamage, 'findings'> {
  readonly findings: readonly RememberedFinding[];
  /** Findings of which only the number is remembered, by what is damaged. */
  readonly counted: Readonly<Record<string, number>>;
  /** When these were last found: milliseconds since the epoch. */
  readonly countedAt: number;
}

export interface RememberedVerification extends Omit<VerificationFacts, 'damage' | 'drill'> {
  readonly damage: RememberedDamage | null;
}

/** What the scope holds: the last verification under one key, the last drill under another. */
const verification: Read<RememberedVerification | DrillFacts> = (value) =>
  lastVerification(value) ?? earlierVerification(value) ?? drill(value);

const drill = fields({ at: number, checked: number, of: number });

/** The last drill: when it began, and how many messages of how many it exported and read back. */
type DrillFacts = Kept<typeof drill>;

const lastVerification: Read<RememberedVerification> = fields({
  at: number,
  mode: oneOf(MODES),
  checked: number,
  of: number,
  fullAt: nullable(number),
  ok: flag,
  damage: nullable(damageIn),
});

/** Earlier versions remembered complete verifications alone, and of those only the verdict. */
function earlierVerification(value: unknown): RememberedVerification | undefined {
  const verdict = fields({ at: number, ok: flag })(value);
  if (verdict === undefined || Object.hasOwn(Object(value), 'mode')) return undefined;
  const { at, ok } = verdict;
  const last = { at, mode: 'full', checked: 0, of: 0, fullAt: at, ok } as const;
  if (ok) return { ...last, damage: null };
  const told = 'an earlier version found damage: "mailkeep verify" names it';
  const finding = { what: 'log', id: null, text: told, at, commit: null, segment: null };
  return {
    ...last,
    damage: { since: at, found: 1, findings: [finding], counted: {}, countedAt: at },
  };
}

function damageIn(value: unknown): RememberedDamage | undefined {
  const since = fields({ since: number })(value)?.since ?? 0;
  const damage = fields({
    since: number,
    found: number,
    findings: list(
      fields({
        what: text,
        id: nullable(text),
        text,
        // An earlier version did not remember it.
        at: otherwise(number, since),
        commit: otherwise(number, null),
        segment: otherwise(number, null),
      }),
    ),
    countedAt: otherwise(number, since),
  })(value);
  if (damage === undefined) return undefined;
  const counted = fields({ counted: record(number) })(value)?.counted;
  return { ...damage, counted: counted ?? { log: damage.found - damage.findings.length } };
}

const proof = fields({
  /** When its newest page was requested. The proof says nothing about later mail. */
  at: text,
  complete: flag,
  generation: otherwise(number, 1),
  /** The origin's own counts: all messages, and those it calls unread. */
  originTotal: number,
  unread: otherwise(number, -1),
  /** Since when every flag of the folder was answered for; null for never. */
  flagsAt: otherwise(text, null),
  /** The UTC day whose certificate the log has; null when it has none. */
  certifiedOn: otherwise(text, null),
  /** Passes in a row whose sums did not add up. */
  incomplete: otherwise(number, 0),
});

/** When a folder was last compared with the origin, and what that showed. Times in ISO 8601 UTC. */
export type Proof = Kept<typeof proof>;

const uidPair: Read<readonly [lo: number, hi: number]> = (value) => {
  const [lo, hi, ...more] = listOfAll(integer)(value) ?? [];
  return lo === undefined || hi === undefined || more.length > 0 ? undefined : [lo, hi];
};

/** Intervals of uids, each as its lowest and its highest uid. */
const uidPairs = listOfAll(uidPair);

const flagCounts = fields({
  /** Unread messages by the origin's listing and by the archive, when nothing more could be found. */
  theirs: number,
  ours: number,
  /** When starred and answered messages were last compared, milliseconds since the epoch. */
  askedAt: otherwise(number, Number.NEGATIVE_INFINITY),
});

/** What a folder's flags were last compared at. */
export type FlagCounts = Kept<typeof flagCounts>;

const mailboxes = list(
  fields({
    resourceId: text,
    address: text,
    /** Milliseconds since the epoch; null while the account lists the mailbox. */
    unreachableSince: otherwise(number, null),
  }),
);

/** A mailbox that an account has listed. */
export type RememberedMailbox = Kept<typeof mailboxes>[number];

/** Usage and limits of a mailbox, and when the service reported them: milliseconds since the epoch. */
const quota = fields({
  at: number,
  resources: listOfAll(fields({ name: text, usage: number, limit: nullable(number) })),
});

const listingCost = fields({
  /** Milliseconds since the epoch. */
  at: number,
  pages: number,
  failed: otherwise(flag, false),
});

/** What the last listing of an account's order cost, or that it failed. */
export type ListingCost = Kept<typeof listingCost>;

const sizeLessons = fields({
  lf: count,
  crlf: count,
  offset: fields({ bytes: integer, count }),
});

const deliveries = listOfAll(
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
/** A scope that cannot be read must not become a wider one: the whole session is undefined then. */
const webSession = fields({
  createdAt: number,
  usedAt: number,
  /** What the browser calls itself. */
  agent: text,
  /** Keys of the mailboxes that it may read, as `mailboxKey` makes them; null for all. */
  mailboxes: nullable(listOfAll(text)),
});

/** A browser that is signed in to the web interface. Times are milliseconds since the epoch. */
export type WebSession = Kept<typeof webSession>;
/** A scope that cannot be read must not become a wider one: the whole token is undefined then. */
const apiToken = fields({
  /** What lists call it; it opens nothing. */
  id: text,
  name: text,
  createdAt: number,
  usedAt: nullable(number),
  expiresAt: nullable(number),
  /** Keys of the mailboxes that it reaches, as `mailboxKey` makes them; null for all. */
  mailboxes: nullable(listOfAll(text)),
});

/** A token of the API over the mirror. Times are milliseconds since the epoch. */
export type ApiToken = Kept<typeof apiToken>;

/**
 * What state.sqlite holds: every scope with the kind of its keys and the shape of its values. Nothing of it is part of
 * the archive; what is missing or malformed is learned again.
 */

/**
 * What a key names. `place`, `generation` and `folder` keys begin with the same folder key, so that purges and renames
 * find what they concern (see `placeKey`, `generationKey` and `folderKey` below).
 */
type KeyKind =
  /** One message: a folder's generation and a uid. */
  | 'place'
  /** A folder's generation. */
  | 'generation'
  | 'folder'
  /** A folder that listings lack; one that was renamed is not missing. */
  | 'missing-folder'
  /** A folder, or a mailbox as a whole. */
  | 'folder-or-mailbox'
  | 'mailbox'
  /** An account of the configuration, with the host where it matters. */
  | 'account'
  /** A host name, without its port. */
  | 'host'
  /** A gate of the limiter: host and port, and the account's label. */
  | 'gate'
  | 'segment'
  /** Any other name. */
  | 'name';

interface Scope<K extends KeyKind = KeyKind, T = unknown> {
  readonly key: K;
  readonly parse: Read<T>;
  readonly travels: boolean;
}

/** Milliseconds since the epoch, like every time in the state. */
const since = fields({ since: number });

/** A scope that another machine gets when it takes the archive over. */
function scope<const K extends KeyKind, T>(key: K, parse: Read<T>): Scope<K, T> {
  return { key, parse, travels: true };
}

/**
 * A scope that stays here: what is secret, and what is about this machine, such as its disk, its copies and its channels,
 * with paths and addresses in it. Keys that are places stay as well: they may be places of what is being forgotten.
 */
function local<const K extends KeyKind, T>(key: K, parse: Read<T>): Scope<K, T> {
  return { key, parse, travels: false };
}

const SCOPES = {
  /** When the mailboxes of an account were listed last. */
  'account-listed': scope('account', number),
  /** The mailboxes that an account has listed, and since when one is not listed any more. */
  'account-mailboxes': scope('account', mailboxes),
  /** The tokens of the API, by the HMAC of their secret. */
  'api-token': local('name', apiToken),
  /** The key of those HMACs, base64url. */
  'api-token-key': local('name', text),
  /** How many assumed places were checked in the current hour. */
  'assumed-checked': scope('account', fields({ since: number, count: number })),
  /** When an assumed place was last tried in vain. */
  'assumed-tried': local('place', number),
  /** When a host last showed that reading a source leaves a message unread. */
  canary: scope('host', fields({ provenAt: number })),
  /** The configuration without its secrets, as a copy last carried it. */
  'copy-config': local('name', (value): unknown => value ?? undefined),
  /** Until when this machine locked an object of an off-site copy, by the copy's id and the object's name. */
  'copy-lock': local('name', number),
  /** An off-site copy still holds what was purged here, by the copy's id. */
  'copy-purge': local('name', mark),
  /** The newest manifest of an off-site copy that was written or read here, by the copy's id. */
  'copy-seen': local('name', fields({ commit: number, sequence: number, at: number })),
  /** Copies of the archive, by their address: what the daemon wants of them, and how they are. */
  'copy-target': local('name', knownCopy),
  /** Objects of an off-site copy that no manifest lists yet, by the copy's id and the object's name. */
  'copy-upload': local('name', fields({ length: number, sha256: text })),
  /** The uid intervals that are covered. */
  coverage: scope('generation', uidPairs),
  /** What the service logged of webhook deliveries. The addresses of webhooks may have credentials in them. */
  'delivery-log': local('account', deliveries),
  /** How large the archive was on a UTC day. */
  'disk-sample': scope('name', diskSample),
  /** Fetches that were not accepted. */
  'earlier-fetches': local('place', list(fields({ at: number, sha256: text }))),
  /** What a folder's flags were last compared at. */
  'flag-counts': scope('folder', flagCounts),
  /** Since when a host's search does not heed flags. */
  'flag-search-refused': scope('host', (value) => mark(value) ?? since(value)),
  /** Since when the brake holds places of a folder. */
  held: scope('folder', since),
  /** What the limiter learned. */
  limiter: scope('gate', (value) => readPaceState(value) ?? readHostPause(value) ?? undefined),
  /** What each channel was notified of; the notifier, which alone reads it, parses it. */
  notify: local('name', (value): unknown => value ?? undefined),
  /** Sources in a row that came with another Message-ID than listed. */
  'odd-ids': scope('host', number),
  /** When a folder was last compared with the service, and with what result. */
  proof: scope('folder', proof),
  /** How often a quarantined place was retried, and when last. */
  'quarantine-tries': local('place', fields({ tries: number, at: number })),
  /** The quotas of a mailbox, as the service last reported them. */
  quota: scope('mailbox', quota),
  /** The requests of a gate on a UTC day, see `requestKey`. */
  requests: scope('name', requestDay),
  /** Searches that were given a name. */
  'saved-search': scope('name', text),
  /** When each schedule was last begun. */
  schedule: scope('name', number),
  /** Since when a host's search does not do what a walk needs. */
  'search-refused': scope('host', (value) => mark(value) ?? since(value)),
  /** What was learned about a host's listed sizes. */
  'size-lessons': scope('host', sizeLessons),
  /** Since when the platform's listing shows a mailbox as suspended. */
  suspended: scope('mailbox', number),
  /** The uids that the sweep under way has answered for. */
  swept: scope('generation', fields({ since: number, uids: uidPairs })),
  /** Since when a folder is missing from listings. */
  unlisted: scope('missing-folder', since),
  /** What the configuration of the last pass left out. */
  unwatched: scope('folder-or-mailbox', mark),
  /** What the last listing of an account's order cost, or that it failed. */
  'usage-listing': scope('account', listingCost),
  /** The last verification and drill, and the damage that is known. */
  verification: local('name', verification),
  /** How far samples have verified a segment. */
  verified: local(
    'segment',
    fields({ at: number, covered: number, next: number, end: otherwise(number, 0) }),
  ),
  /** The signed-in browsers of the web interface, by the SHA-256 of their cookie's value. */
  'web-session': local('name', webSession),
} as const;

export type ScopeName = keyof typeof SCOPES;
/** The value of a scope as it is read. */
export type ScopeValue<S extends ScopeName> = NonNullable<ReturnType<(typeof SCOPES)[S]['parse']>>;

/** The scopes whose keys are of a kind. */
export type ScopeOf<K extends KeyKind> = {
  [S in ScopeName]: (typeof SCOPES)[S]['key'] extends K ? S : never;
}[ScopeName];

/** Returns the scopes whose keys are of a kind. */
export function scopesOf<K extends KeyKind>(kind: K): ScopeOf<K>[];
export function scopesOf(kind: KeyKind): ScopeName[] {
  const found: ScopeName[] = [];
  let scope: ScopeName;
  for (scope in SCOPES) if (SCOPES[scope].key === kind) found.push(scope);
  return found;
}

/** Returns a stored value as its scope parses it; undefined for anything else. */
export function parseValue<S extends ScopeName>(
  scope: S,
  value: unknown,
): ScopeValue<S> | undefined;
export function parseValue(scope: ScopeName, value: unknown): unknown {
  return SCOPES[scope].parse(value);
}

/** Returns the key of a place. */
export function placeKey(place: Place): string {
  return `${generationKey(place, place.generation)}/${place.uid}`;
}

/** Returns the key of a folder's generation. */
export function generationKey(at: FolderKey, generation: number): string {
  return `${folderKey(at)}/${generation}`;
}

/** Returns the key of a folder; JSON, because a path may hold any character. */
export function folderKey({ host, mailbox, folder }: FolderKey): string {
  return JSON.stringify([host, mailbox, folder]);
}

/** Returns the key of a mailbox. */
export function mailboxKey({ host, mailbox }: MailboxKey): string {
  return JSON.stringify([host, mailbox]);
}

/** Returns the key of an account, by its name in the configuration and the host it is at. */
export function accountKey(account: string, host: string): string {
  return JSON.stringify([account, host]);
}

/** Returns the account and the host of a key that `accountKey` made. */
export function accountIn(key: string): { readonly account: string; readonly host: string } {
  const [account = '', host = ''] = list(text)(JSON.parse(key)) ?? [];
  return { account, host };
}

/** What another version of the program remembers is not among them. */
const TRAVELLING: ReadonlySet<string> = new Set(
  Object.entries(SCOPES).flatMap(([name, { travels }]) => (travels ? [name] : [])),
);

/**
 * Returns the bytes of a new database with what may leave this machine, all of one moment. Runs and restores are not in it:
 * the sentences of their failures may name files.
 *
 * @param begin makes the tables
 */
function travellingCopy(
  database: Database.Database,
  begin: (copy: Database.Database) => void,
): Buffer {
  const rows = database
    .prepare<[], { scope: string; key: string; value: string }>(
      'SELECT scope, key, value FROM remembered',
    )
    .all();
  const copy = new Database(':memory:');
  try {
    begin(copy);
    const put = copy.prepare('INSERT INTO remembered (scope, key, value) VALUES (?, ?, ?)');
    copy.transaction(() => {
      for (const { scope, key, value } of rows) {
        if (TRAVELLING.has(scope)) put.run(scope, key, value);
      }
    })();
    return copy.serialize();
  } finally {
    copy.close();
  }
}

/**
 * What is convenient to remember and no part of the archive: proofs, coverage, learned rules, the limiter,
 * backoffs. One table of JSON texts in `state.sqlite`, and one of runs; when the file is gone, all of the first is
 * learned again.
 */
export interface StateFile {
  /** Returns what was set, as its scope parses it: another version of the program may have written something else. */
  get<S extends ScopeName>(scope: S, key: string): ScopeValue<S> | undefined;
  /** Returns every key of a scope with its value, as the scope parses it, in the order of keys. */
  entries<S extends ScopeName>(scope: S): { readonly key: string; readonly value: ScopeValue<S> }[];
  /** Null and undefined forget. */
  set(scope: ScopeName, key: string, value: unknown): void;
  /** Reads and writes in one transaction: what other processes write comes before all of it or after. */
  together<T>(act: () => T): T;
  /** What was done and when. */
  readonly runs: RunJournal;
  /** Returns the bytes of a state file with what another machine may have of this one; see `travellingCopy`. */
  travelling(): Buffer;
  close(): void;
}

const VERSION = 1;
const BUSY_TIMEOUT = 5_000;

/** The state's file in a data directory. */
export function stateFile(dataDir: string): string {
  return path.join(dataDir, 'state.sqlite');
}

/**
 * Opens the state for the writer of the archive. A file that SQLite cannot read is moved aside and a new one
 * begun: nothing in it is needed, but the user may want to inspect it.
 *
 * @param movedAside called with the path that the damaged file was moved to
 * @throws `catalog-io`, `catalog-disk-full`, `catalog-busy` when the disk is the trouble, not the content
 */
export function openState(dataDir: string, movedAside?: (file: string) => void): StateFile {
  const file = stateFile(dataDir);
  try {
    return over(openForWriting(file), file);
  } catch (error) {
    if (!isUnreadable(error)) throw translate(error, file) ?? error;
    const aside = freeName(`${file}.damaged`);
    renameSync(file, aside);
    // They belong to the damaged file, and would be replayed into the new one.
    for (const name of [`${file}-wal`, `${file}-shm`]) rmSync(name, { force: true });
    movedAside?.(aside);
    return over(openForWriting(file), file);
  }
}

/** Opens the state for reading, with or without a writer; undefined where there is none that can be read. */
export function readState(dataDir: string): StateFile | undefined {
  return openIfUsable(dataDir, { readonly: true });
}

/** Returns whether there is a state file, whatever is in it: one that `readState` does not open cannot be read. */
export function hasState(dataDir: string): boolean {
  return isFile(stateFile(dataDir));
}

/** Returns what is wrong with the content of the state file; undefined where nothing is, or it cannot be looked at. */
export function stateDamage(dataDir: string): string | undefined {
  const file = stateFile(dataDir);
  if (!existsSync(file)) return undefined;
  if (!isFile(file)) return 'it is not a regular file';
  let database: Database.Database | undefined;
  try {
    database = new Database(file, { readonly: true, fileMustExist: true, timeout: BUSY_TIMEOUT });
    const found = database.pragma('quick_check(1)', { simple: true });
    if (found !== 'ok') return String(found);
    if (database.pragma('user_version', { simple: true }) === VERSION) over(database, file);
    return undefined;
  } catch (error) {
    const known = translate(error, file);
    if (known?.code === 'catalog-damaged') return error instanceof Error ? error.message : '';
    if (known !== undefined) return undefined;
    throw error;
  } finally {
    database?.close();
  }
}

/**
 * Opens the state while another process may be its writer, to store something of one's own: only a file that exists
 * and can be written. Undefined otherwise; creating, mending and putting aside are left to the writer.
 */
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
    // A read-only file system fails only at the first write.
    if (!readonly) database.exec('BEGIN IMMEDIATE; ROLLBACK');
    refuseNewer(database, file);
    if (database.pragma('user_version', { simple: true }) === VERSION) return over(database, file);
  } catch (error) {
    database?.close();
    if (error instanceof Database.SqliteError) return undefined;
    throw error;
  }
  database.close();
  return undefined;
}

/**
 * Rewrites the state without what was deleted from it: SQLite leaves that in free pages. The caller holds the
 * archive's lock. Files that were put aside as unreadable are removed.
 *
 * Scopes whose keys are places are forgotten, since these may be places of what was forgotten; they are learned again.
 *
 * @param mailboxes the mailboxes in the archive; entries about other mailboxes are deleted
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
      const drop = database.prepare('DELETE FROM remembered WHERE scope = ?');
      for (const scope of scopesOf('place')) drop.run(scope);
      dropUnknownMailboxes(database, mailboxes);
      // What unfinished restores have appended, by hash: a restore recognises it by content as well.
      if (hasTable(database, 'restored')) database.exec('DELETE FROM restored');
      database.exec('VACUUM');
      database.pragma('wal_checkpoint(TRUNCATE)');
    } finally {
      database.close();
    }
  } catch (error) {
    throw translate(error, file) ?? error;
  }
}

/** Deletes entries about mailboxes that are not in the archive. A sync would otherwise treat them as complete. */
function dropUnknownMailboxes(database: Database.Database, known: readonly MailboxKey[]): void {
  const beginning = (text: string) => /^\["(?:[^"\\]|\\.)*","(?:[^"\\]|\\.)*"/.exec(text)?.[0];
  const begins = new Set(known.map((one) => beginning(mailboxKey(one))));
  const drop = database.prepare('DELETE FROM remembered WHERE scope = ? AND key = ?');
  const kinds = ['generation', 'folder', 'missing-folder', 'folder-or-mailbox', 'mailbox'] as const;
  for (const scope of kinds.flatMap((kind): ScopeName[] => scopesOf(kind))) {
    const keys = database
      .prepare<[string], string>('SELECT key FROM remembered WHERE scope = ?')
      .pluck()
      .all(scope);
    for (const key of keys) if (!begins.has(beginning(key))) drop.run(scope, key);
  }
}

function hasTable(database: Database.Database, name: string): boolean {
  const sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?";
  return database.prepare<unknown[]>(sql).get(name) !== undefined;
}

function openForWriting(file: string): Database.Database {
  makePrivateFile(file);
  const database = new Database(file, { timeout: BUSY_TIMEOUT });
  try {
    refuseNewer(database, file);
    database.pragma('journal_mode = WAL');
    database.pragma('synchronous = NORMAL');
    if (database.pragma('user_version', { simple: true }) !== VERSION) begin(database);
    makeRunTable(database);
    const check = database.pragma('quick_check(1)', { simple: true });
    if (check !== 'ok') throw new UnreadableState();
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** A newer program may have what people made in it. @throws catalog-version */
function refuseNewer(database: Database.Database, file: string): void {
  const found = Number(database.pragma('user_version', { simple: true }));
  if (found <= VERSION) return;
  throw catalogError('catalog-version', { file, found, expected: VERSION, remedy: 'upgrade' });
}

/** What an older version left is not migrated: it is learned again. */
function begin(database: Database.Database): void {
  database.transaction(() => {
    database.exec('DROP TABLE IF EXISTS remembered');
    database.exec(
      'CREATE TABLE remembered (scope TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (scope, key)) WITHOUT ROWID',
    );
    database.pragma(`user_version = ${VERSION}`);
  })();
}

/** Refuses pipes, whose other end SQLite would await for ever. False also below a file or an unreadable folder. */
function isFile(file: string): boolean {
  return existsSync(file) && statSync(file, { throwIfNoEntry: false })?.isFile() === true;
}

class UnreadableState extends Error {}

function isUnreadable(error: unknown): boolean {
  if (error instanceof UnreadableState || hasCode(error, 'catalog-damaged')) return true;
  return error instanceof Database.SqliteError && /^SQLITE_(CORRUPT|NOTADB)/.test(error.code);
}

function freeName(stem: string): string {
  for (let n = 1; ; n += 1) if (!existsSync(`${stem}-${n}`)) return `${stem}-${n}`;
}

/** Errors of the disk come out as catalog errors: `catalog-disk-full`, `catalog-io`, `catalog-busy`. */
function over(database: Database.Database, file: string): StateFile {
  const guard = <T>(act: () => T): T => {
    try {
      return act();
    } catch (error) {
      throw translate(error, file) ?? error;
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
    travelling: () => guard(() => travellingCopy(database, begin)),
    close: () => database.close(),
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Not ours then; as good as nothing remembered.
    return undefined;
  }
}
