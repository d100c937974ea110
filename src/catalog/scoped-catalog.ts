import type { MailboxKey } from '../core/types.ts';
import type { Catalog } from './catalog.ts';
import type { Connection, Scope } from './database.ts';
import { commitAt, commitTime, isInScope, isOwnFolder, isVisible, reachedCommit } from './sql.ts';
import { countUpTo, EVERYWHERE, ReceivedCounts } from './sums.ts';
import type { ChangedCommit } from './timeline.ts';

const KNOWN = new WeakMap<Connection, OwnCommits>();

function ownCommits(connection: Connection, scope: Scope): OwnCommits {
  const commits = KNOWN.get(connection) ?? new OwnCommits(connection, scope);
  KNOWN.set(connection, commits);
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
  const own = isOwnFolder('folder_id', scope);
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
 *
 * @param connection limited to the mailboxes, like `inner`
 */
export function scopedCatalog(
  connection: Connection,
  scope: Scope,
  inner: Omit<Catalog, 'within'>,
  keys: readonly MailboxKey[],
): Catalog {
  const commits = ownCommits(connection, scope);
  const count = (condition: string) => countWhere(connection, condition);
  const { version, snapshot, messages, positions, list, listPlaces, prepare, sumUnread } = inner;
  const { respell, timeline, files, stats, threadOf, conversationSizes, changesSince } = inner;
  const { changes, charts, attachments, quarantine } = inner;
  const scoped: Catalog = {
    ...{ version, snapshot, messages, positions, list, listPlaces, prepare, sumUnread },
    ...{ respell, timeline, files, stats, threadOf, conversationSizes, changesSince },
    // The number, time and hash of a commit reveal activity in other mailboxes.
    reached() {
      const number = commits.last();
      return { number, hash: '', time: commits.timeOf(number) ?? 0, orphans: 0 };
    },
    commitAt: (time) => commits.at(time),
    folders: { ...inner.folders, ...withhold({ highestUid: inner.folders.highestUid }) },
    index: { ...withhold(inner.index), pendingCount: () => count('m.extractor <= 0') },
    attachments: {
      ...withhold(attachments),
      ofMessage: (docid) => (isInScope(connection, docid) ? attachments.ofMessage(docid) : []),
      counts: () => attachmentCounts(connection),
    },
    totals: () => ({
      ...new ReceivedCounts(connection, EVERYWHERE, []).all(() => true),
      pending: count('m.extractor <= 0'),
      unparsed: count('m.docid IN (SELECT docid FROM texts WHERE unparsed IS NOT NULL)'),
    }),
    changes: {
      ...changes,
      span() {
        const [first, last] = [commits.timeOf(1), commits.timeOf(commits.last())];
        return first === undefined || last === undefined ? undefined : { first, last };
      },
      next: (time) => renumber(commits, changes.next(time)),
      previous: (time) => renumber(commits, changes.previous(time)),
    },
    charts: { ...charts, firstCommitAt: () => commits.timeOf(1) },
    history: (id) =>
      inner.history(id).map((line) => ({ ...line, commit: commits.numberOf(line.commit) })),
    lastSeen: (id) =>
      inner.lastSeen(id).map((end) => ({ ...end, commit: commits.numberOf(end.commit) })),
    within: () => scoped,
    quarantine: {
      ...withhold(quarantine),
      open: () => quarantine.open().filter((entry) => keys.some((key) => isSame(key, entry))),
    },
    places: withhold(inner.places),
    origin: withhold(inner.origin),
    ended: withhold(inner.ended),
    relinking: withhold(inner.relinking),
    locator: withhold(inner.locator),
    ...withhold({ close: inner.close }),
  };
  return scoped;
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

function countWhere(connection: Connection, condition: string): number {
  const sql = `SELECT count(*) FROM messages m WHERE ${condition} AND ${isVisible(connection.scope)}`;
  return connection.first<number>(sql, []) ?? 0;
}

function attachmentCounts(connection: Connection): ReturnType<Catalog['attachments']['counts']> {
  const [row] = connection.text<{ pending: number; done: number; failed: number }>(
    `SELECT count(*) FILTER (WHERE t.version <= 0) AS pending,
       count(*) FILTER (WHERE t.version > 0 AND t.failure IS NULL) AS done,
       count(*) FILTER (WHERE t.version > 0 AND t.failure IS NOT NULL) AS failed
     FROM attachment_texts t WHERE EXISTS (
       SELECT 1 FROM attachments a JOIN messages m ON m.docid = a.docid
       WHERE a.text_id = t.id AND ${isVisible(connection.scope)})`,
    [],
  );
  return row ?? { pending: 0, done: 0, failed: 0 };
}
