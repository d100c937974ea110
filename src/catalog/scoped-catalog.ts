import type { MailboxKey } from '../core/types.ts';
import type { Catalog } from './catalog.ts';
import type { Connection } from './database.ts';
import { folderQueries } from './folders.ts';
import { scopedPositions } from './list.ts';
import { messageQueries } from './messages.ts';
import {
  commitAt,
  commitTime,
  isInScope,
  isVisible,
  reachedCommit,
  type Scope,
  scopedFolders,
} from './sql.ts';
import { countUpTo, ReceivedCounts } from './sums.ts';
import type { ChangedCommit } from './timeline.ts';

const MAX_SCOPES = 64;

const KNOWN = new WeakMap<Connection, Map<string, OwnCommits>>();

function ownCommits(connection: Connection, scope: Scope): OwnCommits {
  const cache = KNOWN.get(connection) ?? new Map<string, OwnCommits>();
  KNOWN.set(connection, cache);
  const key = scope.mailboxes.join(' ');
  const commits = cache.get(key) ?? new OwnCommits(connection, scope);
  if (!cache.has(key) && cache.size >= MAX_SCOPES) cache.clear();
  cache.set(key, commits);
  return commits;
}

/**
 * The commits that concern a scope's mailboxes, numbered from 1. The archive's own numbers would reveal activity in
 * other mailboxes.
 */
class OwnCommits {
  /** The archive's commit numbers, ascending. The index of each determines its number in the scope. */
  #numbers: number[] = [];
  #read: Read = { commit: 0, span: 0, event: 0 };
  #purged = 0;

  constructor(
    private readonly connection: Connection,
    private readonly scope: Scope,
  ) {}

  last(): number {
    this.#catchUp();
    return this.#numbers.length;
  }

  /** Returns the scope's number for a commit, or for the last one before it; 0 before the first. */
  numberOf(commit: number): number {
    this.#catchUp();
    return countUpTo(this.#numbers, commit);
  }

  /** Returns the last commit at or before a time. Times are in milliseconds since the epoch. */
  at(time: number): { readonly number: number; readonly time: number } | null {
    const number = this.numberOf(commitAt(this.connection, time));
    const made = this.timeOf(number);
    return made === undefined ? null : { number, time: made };
  }

  timeOf(number: number): number | undefined {
    this.#catchUp();
    const commit = this.#numbers[number - 1];
    return commit === undefined ? undefined : commitTime(this.connection, commit);
  }

  #catchUp(): void {
    const { connection } = this;
    const reached = reachedCommit(connection);
    if (reached === this.#read.commit) return;
    // A purge removes rows, and SQLite reuses their numbers.
    const purged = connection.first<number>('SELECT count(*) FROM tombstones', []) ?? 0;
    if (purged !== this.#purged || reached < this.#read.commit) {
      this.#numbers = [];
      this.#read = { commit: 0, span: 0, event: 0 };
    }
    const ends = {
      span: connection.first<number | null>('SELECT max(id) FROM spans', []) ?? 0,
      event: connection.first<number | null>('SELECT max(id) FROM events', []) ?? 0,
    };
    for (const number of connection.column<number>(sqlOf(this.scope, this.#read), []))
      this.#numbers.push(number);
    this.#purged = purged;
    this.#read = { commit: reached, ...ends };
  }
}

/** The last commit read, and the last rows read from tables without a commit index. */
interface Read {
  readonly commit: number;
  readonly span: number;
  readonly event: number;
}

/** Selects commits not yet read. Commits arrive in order, and rows of spans and events are only ever added. */
function sqlOf(scope: Scope, { commit, span, event }: Read): string {
  const own = `folder_id IN ${scopedFolders(scope)}`;
  const sources = [
    `SELECT from_commit AS number FROM mailboxes WHERE id IN (${scope.mailboxes.join(', ')})`,
    `SELECT from_commit FROM folder_spans WHERE ${own}`,
    `SELECT to_commit FROM folder_spans WHERE ${own}`,
    `SELECT from_commit FROM generations WHERE ${own}`,
    `SELECT commit_number FROM commit_changes WHERE commit_number > ${commit} AND ${own}`,
    `SELECT commit_number FROM certificates WHERE commit_number > ${commit} AND ${own}`,
    `SELECT from_commit FROM quarantine WHERE ${own}`,
    `SELECT to_commit FROM quarantine WHERE ${own}`,
    `SELECT to_commit FROM spans WHERE id > ${span} AND ${own}`,
    `SELECT commit_number FROM events WHERE id > ${event} AND ${own}`,
  ];
  return `SELECT number FROM (${sources.join(' UNION ')}) WHERE number > ${commit} ORDER BY number`;
}

/**
 * Returns a catalog that behaves as if the archive held only these mailboxes. Queries that cannot be limited throw. For
 * every new catalog query, decide here what a reader limited to some mailboxes may see.
 */
export function scopedCatalog(
  connection: Connection,
  inner: Catalog,
  keys: readonly MailboxKey[],
): Catalog {
  const scope = inner.scopeOf(keys);
  const commits = ownCommits(connection, scope);
  const isOurs = (docid: number | undefined): docid is number =>
    docid !== undefined && isInScope(connection, scope, docid);
  const count = (condition: string) => countWhere(connection, scope, condition);
  const withScope =
    <R extends { readonly scope?: Scope | undefined }, More extends unknown[], T>(
      ask: (request: R, ...more: More) => T,
    ) =>
    (request: R, ...more: More): T =>
      ask({ ...request, scope }, ...more);
  const { files, stats, changes } = inner;
  const { highestUid } = inner.folders;
  return {
    ...{ version: inner.version, snapshot: inner.snapshot },
    // The number, time and hash of a commit reveal activity in other mailboxes.
    reached() {
      const number = commits.last();
      return { number, hash: '', time: commits.timeOf(number) ?? 0, orphans: 0 };
    },
    commitAt: (time) => commits.at(time),
    folders: {
      ...folderQueries(connection, scope),
      ...withhold({ highestUid }),
    },
    messages: messageQueries(connection, scope),
    index: { ...withhold(inner.index), pendingCount: () => count('m.extractor <= 0') },
    attachments: {
      ...withhold(inner.attachments),
      ofMessage: (docid) => (isOurs(docid) ? inner.attachments.ofMessage(docid) : []),
      counts: () => attachmentCounts(connection, scope),
    },
    totals: () => ({
      ...new ReceivedCounts(connection, { scope, fits: null }, []).all(() => true),
      pending: count('m.extractor <= 0'),
      unparsed: count('m.docid IN (SELECT docid FROM texts WHERE unparsed IS NOT NULL)'),
    }),
    positions: scopedPositions(connection, scope),
    list: withScope(inner.list),
    listPlaces: withScope(inner.listPlaces),
    prepare: (request) => inner.prepare(request, scope),
    // The totals cover all mailboxes.
    sumUnread: () => false,
    changes: {
      span() {
        const [first, last] = [commits.timeOf(1), commits.timeOf(commits.last())];
        return first === undefined || last === undefined ? undefined : { first, last };
      },
      columns: withScope(changes.columns),
      next: (time) => renumber(commits, changes.next(time, scope)),
      previous: (time) => renumber(commits, changes.previous(time, scope)),
      since: (time) => changes.since(time, scope),
    },
    timeline: withScope(inner.timeline),
    files: {
      page: withScope(files.page),
      sums: withScope(files.sums),
      content: withScope(files.content),
      ofMessage: (request, docid, mayContinue) =>
        isOurs(docid) ? files.ofMessage({ ...request, scope }, docid, mayContinue) : [],
      text: (textId) => (hasText(connection, scope, textId) ? files.text(textId) : undefined),
    },
    stats: {
      totals: withScope(stats.totals),
      rows: (by, request, limit) => stats.rows(by, { ...request, scope }, limit),
      facets: withScope(stats.facets),
      people: (typed, limit, _, mayContinue) => stats.people(typed, limit, scope, mayContinue),
      // The totals cover all mailboxes.
      types: () => [],
      largest: withScope(stats.largest),
      duplicates: withScope(stats.duplicates),
    },
    charts: {
      ...inner.charts,
      // The filter carries the scope to all other chart queries.
      filterOf: (node, accounts) => inner.charts.filterOf(node, accounts, scope),
      firstCommitAt: () => commits.timeOf(1),
    },
    threadOf: (id) => inner.threadOf(id, scope),
    conversationSizes: (docids, request) => inner.conversationSizes(docids, { ...request, scope }),
    changesSince: (docids, request) => inner.changesSince(docids, { ...request, scope }),
    history: (id) =>
      inner.history(id, scope).map((line) => ({ ...line, commit: commits.numberOf(line.commit) })),
    lastSeen: (id) =>
      inner.lastSeen(id, scope).map((end) => ({ ...end, commit: commits.numberOf(end.commit) })),
    scopeOf: () => scope,
    within: () => scopedCatalog(connection, inner, keys),
    quarantine: {
      ...withhold(inner.quarantine),
      open: () => inner.quarantine.open().filter((entry) => keys.some((key) => isSame(key, entry))),
    },
    places: withhold(inner.places),
    origin: withhold(inner.origin),
    ended: withhold(inner.ended),
    relinking: withhold(inner.relinking),
    locator: withhold(inner.locator),
    ...withhold({ close: inner.close }),
  };
}

/** Replaces queries that cannot be limited with ones that throw. Readers limited to some mailboxes do not need them. */
function withhold<Q extends object>(queries: Q): Q {
  const refusals = Object.keys(queries).map((name) => [
    name,
    () => {
      throw new TypeError(`${name} obeys no limit to mailboxes`);
    },
  ]);
  // Every name is given a function that never returns.
  return Object.fromEntries(refusals) as Q;
}

function renumber(own: OwnCommits, found: ChangedCommit | undefined): ChangedCommit | undefined {
  return found === undefined ? undefined : { ...found, commit: own.numberOf(found.commit) };
}

function isSame(a: MailboxKey, b: MailboxKey): boolean {
  return a.host === b.host && a.mailbox === b.mailbox;
}

function countWhere(connection: Connection, scope: Scope, condition: string): number {
  const sql = `SELECT count(*) FROM messages m WHERE ${condition} AND ${isVisible(scope)}`;
  return connection.first<number>(sql, []) ?? 0;
}

function hasText(connection: Connection, scope: Scope, textId: number): boolean {
  const sql = `SELECT 1 FROM attachments a CROSS JOIN messages m ON m.docid = a.docid
    WHERE a.text_id = ? AND ${isVisible(scope)}`;
  return connection.first<number>(sql, [BigInt(textId)]) !== undefined;
}

function attachmentCounts(
  connection: Connection,
  scope: Scope,
): ReturnType<Catalog['attachments']['counts']> {
  const [row] = connection.text<{ pending: number; done: number; failed: number }>(
    `SELECT count(*) FILTER (WHERE t.version <= 0) AS pending,
       count(*) FILTER (WHERE t.version > 0 AND t.failure IS NULL) AS done,
       count(*) FILTER (WHERE t.version > 0 AND t.failure IS NOT NULL) AS failed
     FROM attachment_texts t WHERE EXISTS (
       SELECT 1 FROM attachments a JOIN messages m ON m.docid = a.docid
       WHERE a.text_id = t.id AND ${isVisible(scope)})`,
    [],
  );
  return row ?? { pending: 0, done: 0, failed: 0 };
}
