import type Database from 'better-sqlite3';
import { translate } from '../disk/sqlite-errors.ts';
import { catalogError } from '../errors/catalog.ts';
import type { BoundSql } from './bound-sql.ts';
import type { Query } from './query.ts';

/** A query prepared on one connection. Errors of SQLite come out as catalog errors. */
export interface Statement<P, R> {
  run(params: P): { readonly changes: number; readonly lastInsertRowid: number };
  get(params: P): R | undefined;
  all(params: P): R[];
  /** Holds a read transaction, and keeps this connection from writing, until it is drained or returned. */
  iterate(params: P): IterableIterator<R>;
}

/** Statements of one occasion that are kept for the next: preparing one takes as long as answering it. */
const IDLE_STATEMENTS = 64;

/** One open database with its prepared statements. */
export class Connection {
  static #opened = 0;
  readonly #number = ++Connection.#opened;
  readonly #statements = new Map<object, unknown>();
  /** Statements by their text that no walk is using. */
  readonly #idle = new Map<string, Database.Statement<unknown[], unknown>>();
  /** Statements of `first` by their text. */
  readonly #firsts = new Map<string, Database.Statement<unknown[], unknown>>();

  constructor(
    readonly db: Database.Database,
    readonly file: string,
  ) {}

  /** The statement of a query, prepared once for the life of the connection. */
  statement<P, R>(query: Query<P, R>): Statement<P, R> {
    let known = this.#statements.get(query);
    if (known === undefined) {
      known = this.#prepare<P, R>(query.compiled());
      this.#statements.set(query, known);
    }
    // Keyed by the query that made it, whose types it has.
    return known as Statement<P, R>;
  }

  run<P>(query: Query<P, unknown>, params: NoInfer<P>): ReturnType<Statement<P, unknown>['run']> {
    return this.statement(query).run(params);
  }

  /** The first row of a query. */
  get<P, R>(query: Query<P, R>, params: NoInfer<P>): R | undefined {
    return this.statement(query).get(params);
  }

  /** All rows of a query, at once. */
  all<P, R>(query: Query<P, R>, params: NoInfer<P>): R[] {
    return this.statement(query).all(params);
  }

  /**
   * Walks a query's rows on a statement of its own, so that several walks of one query can be open at once.
   * Return it when it is not drained.
   */
  rows<P, R>(query: Query<P, R>, params: P): IterableIterator<R> {
    return this.#prepare<P, R>(query.compiled()).iterate(params);
  }

  /** Walks the rows of SQL that was put together for one occasion; return it when it is not drained. */
  text<R>(sql: string, params: readonly unknown[]): IterableIterator<R> {
    return this.#reused<R>(sql, params);
  }

  /** The first column of all rows of such SQL, at once: a third of the time of walking them. */
  column<T>(sql: string, params: readonly unknown[]): T[] {
    const known = this.#idle.get(sql);
    this.#idle.delete(sql);
    return this.guard(() => {
      const prepared = known ?? this.db.prepare<unknown[], unknown>(sql);
      // The text was written for values of this type.
      const values = prepared.pluck(true).all(...params) as T[];
      this.#keep(sql, prepared.pluck(false));
      return values;
    });
  }

  /** The first column of the first row of such SQL, if there is one. */
  first<T>(sql: string, params: readonly unknown[]): T | undefined {
    let known = this.#firsts.get(sql);
    if (known === undefined) {
      known = this.guard(() => this.db.prepare<unknown[], unknown>(sql).pluck(true));
      this.#firsts.set(sql, known);
    }
    try {
      // The text was written for a value of this type.
      return known.get(...params) as T | undefined;
    } catch (error) {
      throw translate(error, this.file) ?? error;
    }
  }

  #keep(sql: string, prepared: Database.Statement<unknown[], unknown>): void {
    const oldest = this.#idle.keys().next();
    if (this.#idle.size >= IDLE_STATEMENTS && oldest.done !== true) this.#idle.delete(oldest.value);
    this.#idle.set(sql, prepared);
  }

  *#reused<R>(sql: string, params: readonly unknown[]): Generator<R, void, undefined> {
    const known = this.#idle.get(sql);
    this.#idle.delete(sql);
    const prepared = known ?? this.guard(() => this.db.prepare<unknown[], unknown>(sql));
    try {
      // The text was written for rows of this type.
      yield* this.#walk(() => prepared.iterate(...params) as IterableIterator<R>);
    } finally {
      this.#keep(sql, prepared);
    }
  }

  /** Walks rows of SQL as lists of their columns' values; return it when it is not drained. */
  values<R>(sql: string): Generator<R, void, undefined> {
    return this.#walk(() => this.db.prepare<unknown[], R>(sql).raw().iterate());
  }

  /** Walks the first column of such rows. */
  pluck<T>(sql: string): Generator<T, void, undefined> {
    return this.#walk(() => this.db.prepare<unknown[], T>(sql).pluck().iterate());
  }

  *#walk<R>(open: () => IterableIterator<R>): Generator<R, void, undefined> {
    const rows = this.guard(open);
    try {
      for (;;) {
        const next = this.guard(() => rows.next());
        if (next.done === true) return;
        yield next.value;
      }
    } finally {
      rows.return?.();
    }
  }

  /** Runs reads that must agree with each other on one state of the database. */
  snapshot<T>(act: () => T): T {
    return this.db.inTransaction ? act() : this.guard(() => this.db.transaction(act).deferred());
  }

  #prepare<P, R>({ sql, bind }: BoundSql<P>): Statement<P, R> {
    const prepared = this.guard(() => this.db.prepare<unknown[], R>(sql));
    // Without `guard`: these run some dozen times in a millisecond, and a closure each would be a tenth of that.
    const { file } = this;
    return {
      run: (params) => {
        try {
          const { changes, lastInsertRowid } = prepared.run(...bind(params));
          return { changes, lastInsertRowid: Number(lastInsertRowid) };
        } catch (error) {
          throw translate(error, file) ?? error;
        }
      },
      get: (params) => {
        try {
          return prepared.get(...bind(params));
        } catch (error) {
          throw translate(error, file) ?? error;
        }
      },
      all: (params) => {
        try {
          return prepared.all(...bind(params));
        } catch (error) {
          throw translate(error, file) ?? error;
        }
      },
      iterate: (params) => this.#walk(() => prepared.iterate(...bind(params))),
    };
  }

  /**
   * Returns a number that changes with every change of the database, through any connection: commits of the archive,
   * and rows of the index, which follow them. Numbers of different connections differ.
   */
  version(): number {
    const others = Number(this.guard(() => this.db.pragma('data_version', { simple: true })));
    return (
      this.#number * 2 ** 32 + others + (this.first<number>('select total_changes()', []) ?? 0)
    );
  }

  /** Runs an act of SQLite and gives its errors our codes; other errors pass. */
  guard<T>(act: () => T): T {
    try {
      return act();
    } catch (error) {
      throw translate(error, this.file) ?? error;
    }
  }

  /** Runs `act` in one write transaction: all of it or nothing. */
  transaction<T>(act: () => T): T {
    return this.guard(() => this.db.transaction(act).immediate());
  }

  /**
   * A column's bytes in hex.
   *
   * @throws `catalog-damaged` for anything else, as a damaged page may have it in their place
   */
  hex(bytes: Buffer): string {
    if (Buffer.isBuffer(bytes)) return bytes.toString('hex');
    throw catalogError('catalog-damaged', { file: this.file, reason: 'a row without its hash' });
  }

  close(): void {
    this.#statements.clear();
    this.#idle.clear();
    this.#firsts.clear();
    this.db.close();
  }
}
