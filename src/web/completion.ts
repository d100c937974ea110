import type { KnownFolder } from '../catalog/folders.ts';
import { parseQuery } from '../catalog/parse-query.ts';
import { AS_OF, STATES } from '../catalog/query-ast.ts';
import { wallTime } from '../catalog/query-dates.ts';
import { mailboxKey } from '../core/state.ts';
import { within } from './mail-list.ts';
import { filterText } from './query-text.ts';
import { accountsFor, type ServedReader, searchesFor } from './served-archive.ts';
import {
  type CompletionRequest,
  type CompletionRow,
  MAX_ROWS,
  operatorRows,
  type OfferedRow as Row,
  type TypedWord,
  typedWord,
} from './typed-word.ts';

interface KnownPeriod {
  readonly key: string;
  readonly messages: number;
}

/** A year, or the start of one of its months. */
const MONTHS_OF = /^(\d{4})-?\d{0,2}$/;
const MOMENTS: readonly (readonly [string, string])[] = [
  ['yesterday', 'the end of yesterday'],
  ['1w', 'a week ago'],
  ['1mo', 'a month ago'],
  ['1y', 'a year ago'],
];

function row(insert: string, label: string, detail: string, count: number | null): Row {
  return { insert, label, detail, count, kind: 'date' };
}

/** Years and months that have messages, counted once per commit in the zone of queries. */
class KnownDates {
  #version = -1;
  readonly #periods = new Map<string, readonly KnownPeriod[]>();

  /** Returns today, this month, the last one and each year; or the months of the typed year. */
  rows(
    reader: ServedReader,
    operator: string,
    typed: string,
    { now }: Pick<CompletionRequest, 'now'>,
  ): Row[] {
    const wanted = typed.toLowerCase();
    const month = (count: number): string => {
      const { year, month: current } = wallTime(now);
      return new Date(Date.UTC(year, current - 1 - count, 1)).toISOString().slice(0, 7);
    };
    if (operator === AS_OF)
      return MOMENTS.filter(([text]) => text.startsWith(wanted)).map(([text, detail]) =>
        row(text, text, detail, null),
      );
    const isDate = operator === 'date' || operator === 'on';
    const counted = (unit: 'year' | 'month', key: string): number | null => {
      const found = this.#known(reader, unit).find((period) => period.key === key);
      return isDate ? (found?.messages ?? 0) : null;
    };
    const [year] = MONTHS_OF.exec(wanted)?.slice(1) ?? [];
    const periods = this.#known(reader, year === undefined ? 'year' : 'month')
      .filter(({ key, messages }) => key.startsWith(wanted) && messages > 0)
      .toReversed()
      .map(({ key, messages }) => row(key, key, '', isDate ? messages : null));
    const near = [
      row('today', 'today', '', null),
      row(month(0), 'this month', month(0), counted('month', month(0))),
      row(month(1), 'last month', month(1), counted('month', month(1))),
    ].filter(({ label, insert }) => label.startsWith(wanted) || insert.startsWith(wanted));
    return year === undefined ? [...near, ...periods] : periods;
  }

  #known({ catalog }: ServedReader, unit: 'year' | 'month'): readonly KnownPeriod[] {
    const version = catalog.version();
    if (version !== this.#version) this.#periods.clear();
    this.#version = version;
    const known = this.#periods.get(unit) ?? catalog.stats.rows(unit, {});
    this.#periods.set(unit, known);
    return known;
  }
}

/** Time limit for people, in milliseconds: their addresses are read in order. */
const PEOPLE_MS = 6;
/** Time limit for counts of people without sums, in milliseconds. */
const COUNTING_MS = 12;
/** Maximum messages of a person to count individually. */
const MAX_COUNTED = 20_000;
const PEOPLE = new Set(['from', 'to', 'cc', 'bcc', 'contact', 'recip', 'deliveredto']);
const DATES = new Set(['date', 'on', 'before', 'older', 'after', 'newer', AS_OF]);
const SPAN = { start: 0, end: 0 };

export class Completion {
  readonly #dates = new KnownDates();

  /** Returns the possible completions, most likely first: at most eight rows. */
  rows(reader: ServedReader, request: CompletionRequest): CompletionRow[] {
    const word = typedWord(request.query, request.caret);
    const { from, to } = word;
    // Counts are as of now.
    const isPast = /(?:^|\s)asof:/i.test(request.query);
    return this.#of(reader, word, request)
      .slice(0, MAX_ROWS)
      .map((row) => ({ ...row, from, to, count: isPast ? null : row.count }));
  }

  #of(reader: ServedReader, word: TypedWord, request: CompletionRequest): Row[] {
    const { operator, typed } = word;
    if (operator === null)
      return typed.startsWith('@') ? saved(reader, typed) : operatorRows(typed);
    if (PEOPLE.has(operator)) return people(reader, operator, typed, request.now);
    if (DATES.has(operator)) return this.#dates.rows(reader, operator, typed, request);
    switch (operator) {
      case 'in':
      case 'folder':
        return folders(reader, word, request);
      case 'mailbox':
        return mailboxes(reader, typed);
      case 'account':
        return accounts(reader, typed, request);
      case 'is':
        return values('is', STATES, typed, request);
      case 'has':
        return values('has', ['attachment', 'inline'], typed, request);
      case 'mime':
      case 'mimetype':
        return types(reader, typed);
      default:
        return [];
    }
  }
}

function values(
  operator: string,
  known: readonly string[],
  typed: string,
  request: CompletionRequest,
): Row[] {
  return known
    .filter((value) => value.startsWith(typed.toLowerCase()))
    .map((value) => {
      const count = request.knownCount(`${operator}:${value}`);
      return { insert: value, label: value, detail: '', count, kind: 'value' };
    });
}

function folders(
  { catalog }: ServedReader,
  { typed, excluded }: TypedWord,
  request: CompletionRequest,
): Row[] {
  const wanted = typed.toLowerCase();
  const all = catalog.folders.all({ gone: true });
  const boxes = catalog.folders.mailboxes();
  const byPath = Map.groupBy(all, ({ folder }) => folder);
  const ranked = all
    .map((folder) => ({ folder, rank: rankOf(folder, wanted) }))
    .filter(({ folder, rank }) => rank < UNLIKE && isWritable(folder.folder))
    .toSorted((a, b) => a.rank - b.rank || (a.folder.folder < b.folder.folder ? -1 : 1));
  const rows = new Map<string, Row>();
  for (const { folder } of ranked) {
    if (rows.size >= MAX_ROWS) break;
    const path = writtenFor('in', folder.folder);
    const isShared = new Set((byPath.get(folder.folder) ?? []).map(mailboxKey)).size > 1;
    // A minus would exclude only the folder, and still search for the mailbox.
    const box = isShared && !excluded ? ` ${filterText('mailbox', folder.address)}` : '';
    const query = `${boxes.length > 1 ? `${filterText('mailbox', folder.address)} ` : ''}in:${path}`;
    const goneAt = catalog.folders.goneAt(folder.id);
    const until = goneAt === null ? '' : `until ${new Date(goneAt).toISOString().slice(0, 10)}`;
    const owner = isShared && excluded ? '' : folder.address;
    if (rows.has(path + box)) continue;
    rows.set(path + box, {
      insert: path + box,
      label: folder.folder,
      detail: [owner, until].filter((part) => part !== '').join(', '),
      count: isShared && excluded ? null : request.knownCount(query),
      kind: 'folder',
    });
  }
  return [...rows.values()];
}

function accounts(reader: ServedReader, typed: string, request: CompletionRequest): Row[] {
  const { catalog } = reader;
  const hosts = new Set(catalog.folders.mailboxes().map(({ host }) => host.toLowerCase()));
  const named = [
    ...accountsFor(reader, request.accounts, { kind: 'account', value: '', span: SPAN }),
  ];
  const rest = [...hosts].filter((host) => named.every(([, known]) => known !== host));
  return [...named, ...rest.map((host) => [host, ''] as const)]
    .filter(([name]) => name.startsWith(typed.toLowerCase()) && isWritable(name))
    .map(([name, detail]) => ({
      ...{ insert: writtenFor('account', name), label: name, detail },
      ...{ count: null, kind: 'account' },
    }));
}

function saved(reader: ServedReader, typed: string): Row[] {
  return searchesFor(reader)
    .filter(({ name }) => name.toLowerCase().startsWith(typed.slice(1).toLowerCase()))
    .map(({ name, query }) => ({
      ...{ insert: `@${name}`, label: `@${name}`, detail: query },
      ...{ count: null, kind: 'search' },
    }));
}

/** An address that a query can match exactly, without quotes. */
const EXACT = /^[^\s<>@(){}"“”„]+@[^\s<>@(){}"“”„]+$/u;

function people({ catalog }: ServedReader, operator: string, typed: string, now: number): Row[] {
  const me: Row = {
    ...{ insert: 'me', label: 'me', detail: 'any address of the archive’s mailboxes' },
    ...{ count: null, kind: 'value' },
  };
  const wanted = typed.replace(/^</, '');
  const found = catalog.stats
    .people(wanted, MAX_ROWS, undefined, within(PEOPLE_MS))
    .filter(({ address }) => EXACT.test(address));
  const hasTime = within(COUNTING_MS);
  const rows = found.map(({ address, name, received, sent }): Row => {
    // Only these operators find the exact address; the others find its words.
    const exact = { from: sent, recip: received }[operator];
    const isExact = exact !== undefined || operator === 'contact';
    const insert = isExact ? `<${address}>` : writtenFor('to', address);
    const isFew = sent + received <= MAX_COUNTED;
    return {
      insert,
      label: name ?? address,
      detail: name === null ? '' : address,
      count: exact ?? (isFew ? countOf(catalog, `${operator}:${insert}`, now, hasTime) : null),
      kind: 'person',
    };
  });
  return typed !== '' && 'me'.startsWith(typed.toLowerCase()) ? [me, ...rows] : rows;
}

/** Counts the results of a term without sums; null if there is no time. */
function countOf(
  catalog: ServedReader['catalog'],
  query: string,
  now: number,
  hasTime: () => boolean,
): number | null {
  if (!hasTime()) return null;
  const { count, complete } = catalog.countHitsWhile(
    { node: parseQuery(query, { now }).node },
    hasTime,
  );
  return complete ? count : null;
}

function mailboxes({ catalog }: ServedReader, typed: string): Row[] {
  const wanted = typed.toLowerCase();
  return catalog.folders
    .mailboxes()
    .filter(({ address }) => address.toLowerCase().startsWith(wanted) && isWritable(address))
    .map(({ address, host }) => ({
      ...{ insert: writtenFor('mailbox', address), label: address, detail: host },
      ...{ count: null, kind: 'mailbox' },
    }));
}

function types({ catalog }: ServedReader, typed: string): Row[] {
  return catalog.stats
    .types(typed, MAX_ROWS)
    .filter(({ type }) => isWritable(type))
    .map(({ type, contents }) => ({
      insert: writtenFor('mime', type),
      label: type,
      detail: `${contents} different ${contents === 1 ? 'file' : 'files'}`,
      ...{ count: null, kind: 'type' },
    }));
}

const UNLIKE = 8;

/** Ranks by the last part, then by the path; folders that are gone come last. */
function rankOf({ folder, name, gone }: KnownFolder, wanted: string): number {
  const [last, path] = [name.toLowerCase(), folder.toLowerCase()];
  const likeness = last.startsWith(wanted)
    ? 0
    : path.startsWith(wanted)
      ? 1
      : last.includes(wanted)
        ? 2
        : path.includes(wanted)
          ? 3
          : UNLIKE;
  return likeness + (gone ? 4 : 0);
}

/** No quotation marks can enclose such a name. */
function isWritable(name: string): boolean {
  return !/["“”„]/u.test(name) && name !== '';
}

function writtenFor(operator: string, name: string): string {
  return filterText(operator, name).slice(operator.length + 1);
}
