import { docidAt, isDated, receivedAt } from '../../mail/docid.ts';
import { archiveNames } from '../archive-names.ts';
import type { Connection } from '../connection.ts';
import { type FolderName, namesWithin } from '../folder-names.ts';
import { commitAt } from '../moments.ts';
import type { Scope } from '../scope.ts';
import type { CountRequest, SearchQueries } from '../search/search.ts';
import { foundPeople, foundTypes, keptPeople, keptTypes } from './by-content.ts';
import { everything, Found, named, sumsOf } from './found.ts';
import { KeptSums } from './kept-sums.ts';
import { type Period, periodsBetween } from './periods.ts';
import { type Dimension, type StatsRow, type Sums, term } from './rows.ts';

/** Which messages are counted. */
export interface StatsRequest extends Omit<CountRequest, 'node'> {
  /** Only what this finds; everything where it is not given. */
  readonly node?: CountRequest['node'] | undefined;
  /** IANA name of the zone whose years and months are meant; absent: this machine's. */
  readonly timeZone?: string | undefined;
}

/** Messages without a date come before this docid. */
const FIRST = docidAt(null);

/** A row for messages without a date, if there are any. */
function undatedRows(sums: Sums): StatsRow[] {
  return sums.messages === 0 ? [] : [{ key: 'no date', ...sums, query: '-after:1971-01-01' }];
}

/** One question about the archive. */
export class Asked {
  /** What the query finds; undefined where there is none, and sums may answer. */
  readonly found: Found | undefined;
  readonly scope: Scope | null;
  readonly #all: Found;

  constructor(
    private readonly connection: Connection,
    private readonly search: SearchQueries,
    private readonly request: StatsRequest,
  ) {
    const { node = everything() } = request;
    this.scope = request.scope ?? null;
    this.#all = new Found(connection, search, { ...request, node });
    // Sums are those of now.
    const isKept = request.node === undefined && request.asOf === undefined;
    this.found = isKept ? undefined : this.#all;
  }

  totals(): Sums {
    return this.found?.sums() ?? this.#kept().where(() => true);
  }

  /** @param limit rows of people that are needed, at least */
  rows(by: Dimension, limit: number): StatsRow[] {
    switch (by) {
      case 'year':
      case 'month':
        return this.#periods(by);
      case 'mailbox':
        return this.#mailboxes();
      case 'folder':
        return this.#folders();
      case 'type':
        return this.found === undefined && this.scope === null
          ? keptTypes(this.connection, (type) => this.#count(type))
          : foundTypes(this.#all);
      case 'from':
      case 'to':
      case 'domain':
        return this.found === undefined
          ? keptPeople(this.connection, by, this.scope, limit)
          : foundPeople(by, this.found, limit);
    }
  }

  #kept(): KeptSums {
    return new KeptSums(this.connection, this.scope);
  }

  #count(type: string): number {
    return this.search.countHits({ ...this.request, node: named('mime', type) });
  }

  #periods(unit: 'year' | 'month'): StatsRow[] {
    const { timeZone } = this.request;
    const between = (low: number, high: number): Period[] =>
      periodsBetween(unit, receivedAt(low), receivedAt(high), timeZone);
    const row = (key: string, sums: Sums): StatsRow => ({ key, ...sums, query: `date:${key}` });
    if (this.found === undefined) {
      const kept = this.#kept();
      const { low: first, high: end } = kept.range() ?? { low: FIRST, high: FIRST };
      const dated = first === end ? [] : between(first, end - 1);
      const rows = dated.map(({ key, low, high }) => row(key, kept.between(low, high)));
      return [...undatedRows(kept.between(0, FIRST)), ...rows];
    }
    const all = this.found.messages();
    const messages = all.filter(({ docid }) => isDated(docid));
    const undated = undatedRows(sumsOf(all.slice(messages.length)));
    const [newest, oldest] = [messages[0], messages.at(-1)];
    if (newest === undefined || oldest === undefined) return undated;
    // Both are in order: one walk over the messages, however many periods there are.
    let at = messages.length;
    const rows = between(oldest.docid, newest.docid).map(({ key, high }) => {
      const end = at;
      while (at > 0 && (messages[at - 1]?.docid ?? high) < high) at -= 1;
      return row(key, sumsOf(messages.slice(at, end)));
    });
    return [...undated, ...rows];
  }

  #mailboxes(): StatsRow[] {
    const kept = this.found === undefined ? this.#kept() : undefined;
    const byAddress = new Map<string, Set<number>>();
    for (const { address, mailboxId } of this.#names().values())
      byAddress.set(address, (byAddress.get(address) ?? new Set()).add(mailboxId));
    return [...byAddress].map(([address, ids]) => ({
      key: address,
      ...(kept?.where(({ mailboxes }) => mailboxes.some((id) => ids.has(id))) ??
        this.#all.sums(named('mailbox', address))),
      query: term('mailbox', address),
    }));
  }

  #folders(): StatsRow[] {
    // A set does not say where a message was last within a scope that it left.
    const kept = this.found === undefined && this.scope === null ? this.#kept() : undefined;
    const byPath = new Map<string, Set<number>>();
    for (const { path, id } of this.#names().values())
      byPath.set(path, (byPath.get(path) ?? new Set()).add(id));
    return [...byPath]
      .filter(([path]) => path.toLowerCase() !== 'anywhere')
      .map(([path, ids]) => ({
        key: path,
        ...(kept?.where(({ current, last }) => [...current, ...last].some((id) => ids.has(id))) ??
          this.#all.sums(named('folder', path))),
        query: term('in', path),
      }));
  }

  #names(): ReadonlyMap<number, FolderName> {
    const { asOf } = this.request;
    const commit = asOf === undefined ? null : commitAt(this.connection, asOf);
    const { folders } = archiveNames(this.connection, commit);
    return this.scope === null ? folders : namesWithin(folders, this.scope);
  }
}
