import type { KnownFolder } from '../catalog/folders.ts';
import { parseQuery } from '../catalog/parse-query.ts';
import type { Role } from '../catalog/people.ts';
import { AS_OF, type ParseContext, STATES } from '../catalog/query-ast.ts';
import { wallTime } from '../catalog/query-dates.ts';
import type { StatsRow } from '../catalog/sums.ts';
import { mailboxKey } from '../core/state.ts';
import { savedTerm } from '../core/text.ts';
import { deadline } from './mail-list.ts';
import { filterText } from './query-text.ts';
import { accountsFor, type ServedReader, searchesFor, VersionCache } from './served-archive.ts';
import {
  type CompletionRequest,
  type CompletionRow,
  MAX_ROWS,
  operatorRows,
  type SuggestedRow as Row,
  type TypedWord,
  typedWord,
} from './typed-word.ts';

const MONTHS_OF = /^(\d{4})-?\d{0,2}$/;
const MOMENTS = [
  ['yesterday', 'the end of yesterday'],
  ['1w', 'a week ago'],
  ['1mo', 'a month ago'],
  ['1y', 'a year ago'],
] as const;

function row(kind: Row['kind'], insert: string, more: Partial<Row> = {}): Row {
  return { insert, label: insert, detail: '', count: null, kind, ...more };
}

const PEOPLE_MS = 6;
/** Milliseconds allowed for counting messages per person if no totals are stored. */
const COUNTING_MS = 12;
const MAX_COUNTED = 20_000;
const PEOPLE = new Set(['from', 'to', 'cc', 'bcc', 'contact', 'recip', 'deliveredto']);
const DATES = new Set(['date', 'on', 'before', 'older', 'after', 'newer', AS_OF]);
const SPAN = { start: 0, end: 0 };

export class Completion {
  readonly #periods = new VersionCache<string, readonly StatsRow[]>(16);

  rows(reader: ServedReader, request: CompletionRequest): CompletionRow[] {
    const word = typedWord(request.query, request.caret);
    const { from, to } = word;
    // Counts describe the present, so they are omitted for a past moment.
    const isPast = /(?:^|\s)asof:/i.test(request.query);
    return (
      this.#of(reader, word, request)
        .slice(0, MAX_ROWS)
        // Terms of the language are offered even if they find nothing.
        .map((row) => ({ ...row, from, to, count: isPast ? null : row.count || null }))
    );
  }

  #of(reader: ServedReader, word: TypedWord, request: CompletionRequest): Row[] {
    const { operator, typed } = word;
    if (operator === null)
      return typed.startsWith('@') ? searchRows(reader, typed) : operatorRows(typed);
    if (PEOPLE.has(operator)) return people(reader, operator, typed, request.context);
    if (DATES.has(operator))
      return this.#dates(reader, operator, typed.toLowerCase(), request.context);
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

  #dates(
    { catalog }: ServedReader,
    operator: string,
    prefix: string,
    { now, timeZone }: ParseContext,
  ): Row[] {
    if (operator === AS_OF)
      return MOMENTS.filter(([text]) => text.startsWith(prefix)).map(([text, detail]) =>
        row('date', text, { detail }),
      );
    const isDate = operator === 'date' || operator === 'on';
    const known = (unit: 'year' | 'month') =>
      this.#periods.find(catalog.version(), `${unit} ${timeZone}`) ??
      this.#periods.keep(`${unit} ${timeZone}`, catalog.stats.rows(unit, { timeZone }));
    const [year] = MONTHS_OF.exec(prefix)?.slice(1) ?? [];
    const periods = known(year === undefined ? 'year' : 'month')
      .filter(({ key, messages }) => key.startsWith(prefix) && messages > 0)
      .toReversed()
      .map(({ key, messages }) => row('date', key, { count: isDate ? messages : null }));
    if (year !== undefined) return periods;
    const month = (label: string, back: number): Row => {
      const { year: current, month: number } = wallTime(now, timeZone);
      const key = new Date(Date.UTC(current, number - 1 - back, 1)).toISOString().slice(0, 7);
      const messages = known('month').find((period) => period.key === key)?.messages ?? 0;
      return row('date', key, { label, detail: key, count: isDate ? messages : null });
    };
    const near = [row('date', 'today'), month('this month', 0), month('last month', 1)];
    return [
      ...near.filter(({ label, insert }) => label.startsWith(prefix) || insert.startsWith(prefix)),
      ...periods,
    ];
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
    .map((value) => row('value', value, { count: request.knownCount(`${operator}:${value}`) }));
}

function folders(
  { catalog }: ServedReader,
  { typed, excluded }: TypedWord,
  request: CompletionRequest,
): Row[] {
  const prefix = typed.toLowerCase();
  const all = catalog.folders.all({ gone: true });
  const boxes = catalog.folders.mailboxes();
  const byPath = Map.groupBy(all, ({ folder }) => folder);
  const ranked = all
    .map((folder) => ({ folder, rank: rankOf(folder, prefix) }))
    .filter(({ folder, rank }) => rank < NO_MATCH && isWritable(folder.folder))
    .toSorted((a, b) => a.rank - b.rank || (a.folder.folder < b.folder.folder ? -1 : 1));
  const rows = new Map<string, Row>();
  for (const { folder } of ranked) {
    if (rows.size >= MAX_ROWS) break;
    const path = writtenFor('in', folder.folder);
    const isShared = new Set((byPath.get(folder.folder) ?? []).map(mailboxKey)).size > 1;
    // A negated term would exclude only the folder, and still search for the mailbox.
    const box = isShared && !excluded ? ` ${filterText('mailbox', folder.address)}` : '';
    const query = `${boxes.length > 1 ? `${filterText('mailbox', folder.address)} ` : ''}in:${path}`;
    const goneAt = catalog.folders.goneAt(folder.id);
    const until = goneAt === null ? '' : `until ${new Date(goneAt).toISOString().slice(0, 10)}`;
    const owner = isShared && excluded ? '' : folder.address;
    if (rows.has(path + box)) continue;
    const detail = [owner, until].filter((part) => part !== '').join(', ');
    const count = isShared && excluded ? null : request.knownCount(query);
    rows.set(path + box, row('folder', path + box, { label: folder.folder, detail, count }));
  }
  return [...rows.values()];
}

function accounts(reader: ServedReader, typed: string, request: CompletionRequest): Row[] {
  const { catalog } = reader;
  const hosts = new Set(catalog.folders.mailboxes().map(({ host }) => host.toLowerCase()));
  const named = [
    ...accountsFor(reader, request.accounts, { kind: 'account', value: '', span: SPAN }),
    ...catalog.folders.accountMailboxes().map(({ account, host }) => [account, host] as const),
  ];
  const rest = [...hosts].filter((host) => named.every(([, known]) => known !== host));
  return [...named, ...rest.map((host) => [host, ''] as const)]
    .filter(([name]) => name.startsWith(typed.toLowerCase()) && isWritable(name))
    .map(([name, detail]) => row('account', writtenFor('account', name), { label: name, detail }));
}

function searchRows(reader: ServedReader, typed: string): Row[] {
  const prefix = typed.replace(/^@["“„]?/u, '').toLowerCase();
  return searchesFor(reader)
    .filter(({ name }) => name.toLowerCase().startsWith(prefix))
    .map(({ name, query }) => row('search', savedTerm(name), { detail: query }));
}

const EXACT = /^[^\s<>@(){}"“”„]+@[^\s<>@(){}"“”„]+$/u;

function people(
  { catalog }: ServedReader,
  operator: string,
  typed: string,
  context: ParseContext,
): Row[] {
  const me = row('value', 'me', { detail: 'any address of the archive’s mailboxes' });
  const prefix = typed.replace(/^</, '');
  const found = catalog.stats
    .people(prefix, 2 * MAX_ROWS, deadline(PEOPLE_MS), roleOf(operator))
    .filter(({ address }) => EXACT.test(address));
  const hasTime = deadline(COUNTING_MS);
  const all = found.map(({ address, name, received, sent }): Row => {
    // Only these operators match the exact address. Other operators match its words.
    const exact = { from: sent, recip: received }[operator];
    const isExact = exact !== undefined || operator === 'contact';
    const insert = isExact ? `<${address}>` : writtenFor('to', address);
    const isFew = sent + received <= MAX_COUNTED;
    return row('person', insert, {
      label: name ?? address,
      detail: name === null ? '' : address,
      count: exact ?? (isFew ? countOf(catalog, `${operator}:${insert}`, context, hasTime) : null),
    });
  });
  // Mail to someone need not name them in Cc.
  const rows = all.filter(({ count }) => count !== 0);
  return typed !== '' && 'me'.startsWith(typed.toLowerCase()) ? [me, ...rows] : rows;
}

function roleOf(operator: string): Role | null {
  return operator === 'from' ? 'sender' : operator === 'contact' ? null : 'recipient';
}

function countOf(
  catalog: ServedReader['catalog'],
  query: string,
  context: ParseContext,
  hasTime: () => boolean,
): number | null {
  if (!hasTime()) return null;
  const { node } = parseQuery(query, context);
  const { count, complete } = catalog.prepare({ node }).countWhile(hasTime);
  return complete ? count : null;
}

function mailboxes({ catalog }: ServedReader, typed: string): Row[] {
  const prefix = typed.toLowerCase();
  return catalog.folders
    .mailboxes()
    .filter(({ address }) => address.toLowerCase().startsWith(prefix) && isWritable(address))
    .map(({ address, host }) =>
      row('mailbox', writtenFor('mailbox', address), { label: address, detail: host }),
    );
}

function types({ catalog }: ServedReader, typed: string): Row[] {
  return catalog.stats
    .types(typed, MAX_ROWS)
    .filter(({ type }) => isWritable(type))
    .map(({ type, contents }) => {
      const detail = `${contents} different ${contents === 1 ? 'file' : 'files'}`;
      return row('type', writtenFor('mime', type), { label: type, detail });
    });
}

const NO_MATCH = 8;

/** Ranks by the last part of the path, then by the whole path. Deleted folders come last. */
function rankOf({ folder, name, gone }: KnownFolder, prefix: string): number {
  const [last, path] = [name.toLowerCase(), folder.toLowerCase()];
  const level = [
    last.startsWith(prefix),
    path.startsWith(prefix),
    last.includes(prefix),
    path.includes(prefix),
  ].indexOf(true);
  return (level < 0 ? NO_MATCH : level) + (gone ? 4 : 0);
}

function isWritable(name: string): boolean {
  return !/["“”„]/u.test(name) && name !== '';
}

function writtenFor(operator: string, name: string): string {
  return filterText(operator, name).slice(operator.length + 1);
}
