import type { Connection } from './connection.ts';
import { commitAt, reachedCommit, timeOf } from './moments.ts';
import { foldersIn, type Scope } from './scope.ts';

/** Scopes of one connection whose commits are kept. */
const MOST_SCOPES = 64;

const KNOWN = new WeakMap<Connection, Map<string, OwnCommits>>();

/** Returns the commits of a scope, which are kept from one question to the next. */
export function ownCommits(connection: Connection, scope: Scope): OwnCommits {
  const known = KNOWN.get(connection) ?? new Map<string, OwnCommits>();
  KNOWN.set(connection, known);
  const key = scope.mailboxes.join(' ');
  const own = known.get(key) ?? new OwnCommits(connection, scope);
  if (!known.has(key) && known.size >= MOST_SCOPES) known.clear();
  known.set(key, own);
  return own;
}

/**
 * The commits with a fact about some mailboxes, numbered from 1. The archive's own numbers count what happens in all
 * mailboxes, so whoever reads only some of them is shown these instead.
 */
export class OwnCommits {
  /** Numbers of the archive, ascending: the position of each is its own number. */
  #numbers: number[] = [];
  #read: Read = { commit: 0, span: 0, event: 0 };
  #purged = 0;

  constructor(
    private readonly connection: Connection,
    private readonly scope: Scope,
  ) {}

  /** Returns the own number of the last of them; 0 before the first. */
  last(): number {
    this.#catchUp();
    return this.#numbers.length;
  }

  /** Returns the own number of a commit of the archive, or of the last one before it; 0 before the first. */
  numberOf(commit: number): number {
    this.#catchUp();
    let [from, to] = [0, this.#numbers.length];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if ((this.#numbers[middle] ?? 0) <= commit) from = middle + 1;
      else to = middle;
    }
    return from;
  }

  /** Returns the one in force at a time, and when it was made, both in milliseconds since the epoch; null before the first. */
  at(time: number): { readonly number: number; readonly time: number } | null {
    const number = this.numberOf(commitAt(this.connection, time));
    const made = this.timeOf(number);
    return made === undefined ? null : { number, time: made };
  }

  /** Returns when a commit was made, by its own number. */
  timeOf(number: number): number | undefined {
    this.#catchUp();
    const commit = this.#numbers[number - 1];
    return commit === undefined ? undefined : timeOf(this.connection, commit);
  }

  #catchUp(): void {
    const { connection } = this;
    const reached = reachedCommit(connection);
    if (reached === this.#read.commit) return;
    // A purge takes rows away, and the numbers of rows are given again.
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

/** How far the tables were read: to a commit, and to rows of the tables that have no index by commit. */
interface Read {
  readonly commit: number;
  readonly span: number;
  readonly event: number;
}

/** What is behind the last reading: commits come in order, and rows of spans and events are only added. */
function sqlOf(scope: Scope, { commit, span, event }: Read): string {
  const own = `folder_id IN ${foldersIn(scope)}`;
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
