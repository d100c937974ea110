import { nearest, nearestAddress, nearestFolder, specialUseByName } from '../core/names.ts';
import { docidAt } from '../mail/docid.ts';
import { exactAddress, recipientToken, senderToken, threadNode } from '../mail/identity.ts';
import {
  ftsString,
  listTokens,
  mailboxToken,
  mimeTokens,
  TOKEN_ATTACHMENT,
  TOKEN_INLINE,
} from '../mail/normalise.ts';
import type { Connection, Scope } from './database.ts';
import { searchError } from './errors.ts';
import {
  type AllNames,
  accountMailboxes,
  type FolderName,
  findMailboxes,
  matchesMailboxTerm,
} from './folders.ts';
import type { SearchNode, State, TextField, TextNode } from './query-ast.ts';
import { commitAt, type FlagSetRow, isOwnFolder, isVisible, MARK } from './sql.ts';

export interface Names {
  readonly folders: ReadonlyMap<number, FolderName>;
  flagSets(): readonly FlagSetRow[];
  byIdPrefix(prefix: string): readonly number[];
  /** Return the thread of a message or Message-ID, if there is one. */
  threadOf(docid: number): MemberSet | undefined;
  threadNaming(messageId: string): MemberSet | undefined;
  /** Returns all past and present names. A query for a past name is valid but matches nothing. */
  ever(): AllNames;
  readonly observed: ObservedCommits;
  readonly accounts: ReadonlyMap<string, string>;
}

/** A name in the query that does not exist at the time searched. */
export interface UnknownName {
  readonly kind: 'folder' | 'mailbox' | 'account' | 'message';
  readonly found: string;
  readonly suggestion: string | null;
  /** The existing names, if there are few enough to list. */
  readonly candidates: readonly string[];
  /** False for a past name or a configured account without mail, for which an empty result is correct. */
  readonly never: boolean;
}

const COLUMNS: Readonly<Record<TextField, string>> = {
  any: '- meta',
  from: 'from_',
  to: 'rcpt',
  cc: 'cc',
  bcc: 'bcc',
  deliveredto: 'delivered',
  recip: '{rcpt cc bcc}',
  contact: '{from_ rcpt cc bcc}',
  subject: 'subject',
  body: 'body',
  filename: 'att_name',
};

const STATE_MARKS: Readonly<Record<Exclude<State, 'deleted'>, readonly [number, boolean]>> = {
  unread: [MARK.seen, false],
  read: [MARK.seen, true],
  starred: [MARK.flagged, true],
  unstarred: [MARK.flagged, false],
  answered: [MARK.answered, true],
  unanswered: [MARK.answered, false],
  forwarded: [MARK.forwarded, true],
  draft: [MARK.draft, true],
};

const never: Predicate = { op: 'never' };

/** Resolves the names in a query. Calls `report` for each one that does not exist. */
export function resolve(
  node: SearchNode,
  names: Names,
  report: (name: UnknownName) => void,
): Predicate {
  switch (node.kind) {
    case 'and':
    case 'or':
      return { op: node.kind, parts: node.nodes.map((part) => resolve(part, names, report)) };
    case 'not':
      return { op: 'not', part: resolve(node.node, names, report) };
    case 'all':
      return { op: 'always' };
    case 'text':
      return text(node);
    case 'near':
      return near(node.terms, node.distance);
    case 'has':
      return meta([node.what === 'attachment' ? TOKEN_ATTACHMENT : TOKEN_INLINE]);
    case 'mime': {
      const type = node.value.endsWith('/*') ? node.value.slice(0, -2) : node.value;
      return meta(mimeTokens(type).slice(-1));
    }
    case 'list':
      return meta(listTokens(node.value));
    case 'id':
      return messageId(node.value, names);
    case 'thread':
      return thread(node.value, names, report);
    case 'me':
      return me(node.field, names);
    case 'account':
      return account(node.value, names, report);
    case 'folder':
      return folder(node.value, names, report);
    case 'mailbox':
      return mailbox(node.value, names, report);
    case 'flag': {
      const keyword = node.value.toLowerCase().replace(/^\\/, '');
      return flagged(names, ({ flags }) =>
        flags.some(
          (flag) => flag.toLowerCase().replace(/^[\\$]/, '') === keyword.replace(/^\$/, ''),
        ),
      );
    }
    case 'state': {
      if (node.state === 'deleted') return { op: 'deleted' };
      const [mark, set] = STATE_MARKS[node.state];
      const indexed = node.state === 'unread' || node.state === 'starred' ? node.state : null;
      return flagged(names, ({ marks }) => ((marks & mark) !== 0) === set, indexed);
    }
    case 'received':
      return {
        op: 'docids',
        low: docidAt(node.from),
        high: node.to === null ? Number.MAX_SAFE_INTEGER : docidAt(node.to),
      };
    case 'observed': {
      const { what, from, to } = node;
      const commits = names.observed.between(from, to);
      if (commits === undefined) return never;
      const observed = { what, ...commits };
      return { op: 'observed', observed, within: names.observed.docidsOf(observed) };
    }
    case 'size':
      return { op: 'size', low: node.min ?? 0, high: node.max ?? Number.MAX_SAFE_INTEGER };
  }
}

function text({ field, text: words, prefix }: TextNode): Predicate {
  const address = prefix ? undefined : exactAddress(words);
  if (address !== undefined) {
    if (field === 'from') return meta([senderToken(address)]);
    if (field === 'recip') return meta([recipientToken(address)]);
    if (field === 'contact') {
      const parts = [senderToken(address), recipientToken(address)].map((token) => meta([token]));
      return { op: 'or', parts };
    }
  }
  const string = ftsString(words, prefix);
  return string === undefined ? never : { op: 'fts', expression: `${COLUMNS[field]} : ${string}` };
}

function near(terms: readonly TextNode[], distance: number): Predicate {
  const strings = terms.map((term) => ftsString(term.text, term.prefix));
  if (strings.some((string) => string === undefined)) return never;
  const columns = COLUMNS[terms[0]?.field ?? 'any'];
  return { op: 'fts', expression: `${columns} : NEAR(${strings.join(' ')}, ${distance})` };
}

function meta(tokens: readonly string[]): Predicate {
  return tokens.length === 0 ? never : { op: 'fts', expression: `meta : "${tokens.join(' ')}"` };
}

function messageId(value: string, names: Names): Predicate {
  const exact: Predicate = {
    op: 'members',
    members: { column: 'node', values: [threadNode(value)] },
  };
  if (!/^[0-9a-f]{4,64}$/i.test(value)) return exact;
  const matches = names
    .byIdPrefix(value)
    .map((docid): Predicate => ({ op: 'docids', low: docid, high: docid + 1 }));
  return matches.length === 0 ? exact : { op: 'or', parts: [exact, ...matches] };
}

/** Accepts the ID of any message in the thread, its prefix, or a Message-ID that a message has or references. */
function thread(value: string, names: Names, report: (name: UnknownName) => void): Predicate {
  const matches = /^[0-9a-f]{4,64}$/i.test(value) ? names.byIdPrefix(value) : [];
  const found = [
    ...matches.flatMap((docid) => names.threadOf(docid) ?? []),
    ...[names.threadNaming(value) ?? []].flat(),
  ];
  const [first] = found;
  if (first === undefined) {
    report({ kind: 'message', found: value, suggestion: null, candidates: [], never: true });
    return never;
  }
  const values = [...new Set(found.flatMap((members) => members.values))];
  return { op: 'members', members: { column: first.column, values } };
}

function me(field: TextField, { folders }: Names): Predicate {
  const addresses = new Set([...folders.values()].map(({ address }) => address));
  const parts = [...addresses].flatMap((address) => {
    const string = ftsString(address, false);
    return string === undefined
      ? []
      : [{ op: 'fts', expression: `${COLUMNS[field]} : ${string}` } as const];
  });
  return parts.length === 0 ? never : { op: 'or', parts };
}

/** Accepts the account's name in the configuration, or its host. */
function account(
  value: string,
  { folders, ever, accounts }: Names,
  report: (name: UnknownName) => void,
): Predicate {
  const name = value.toLowerCase();
  const host = accounts.get(name) ?? name;
  const ids = accountMailboxes(value, [...folders.values()], accounts);
  if (ids.size === 0) {
    const archived = new Set(
      ever().mailboxes.flatMap((entry) =>
        [entry.account?.toLowerCase(), entry.host].filter((one) => one !== undefined),
      ),
    );
    const candidates = [...accounts.keys(), ...archived];
    const suggestion = nearest(value, candidates);
    const named = { kind: 'account', found: value, suggestion, candidates } as const;
    report({ ...named, never: !accounts.has(name) && !archived.has(host) });
  }
  return { op: 'mailboxes', ids: [...ids] };
}

function folder(
  value: string,
  { folders, ever }: Names,
  report: (name: UnknownName) => void,
): Predicate {
  if (value.toLowerCase() === 'anywhere') return { op: 'always' };
  const all = [...folders.values()];
  const found = foldersCalled(value, all);
  if (found.length === 0) {
    const past = ever().folders;
    const isNever = foldersCalled(value, past).length === 0;
    const suggestion = nearestFolder(value, past);
    report({ kind: 'folder', found: value, suggestion, candidates: [], never: isNever });
    return never;
  }
  return place({ folders: found.map(({ id }) => id), flagSets: null, indexed: null });
}

/**
 * Matches the full path or, failing that, the path ignoring case, the special use, or the last part of the path. `X*`
 * is a prefix of the path.
 */
function foldersCalled<F extends Pick<FolderName, 'path' | 'name' | 'specialUse'>>(
  value: string,
  all: readonly F[],
): readonly F[] {
  const exact = all.filter(({ path }) => path === value);
  if (exact.length > 0) return exact;
  const term = value.toLowerCase();
  if (term.endsWith('*')) {
    const stem = term.replace(/[*]+$/, '');
    return all.filter(({ path }) => path.toLowerCase().startsWith(stem));
  }
  const use = specialUseByName(term);
  return all.filter(
    ({ path, name, specialUse }) =>
      path.toLowerCase() === term ||
      name.toLowerCase() === term ||
      (use !== undefined && specialUse?.toLowerCase() === use),
  );
}

function mailbox(
  value: string,
  { folders, ever }: Names,
  report: (name: UnknownName) => void,
): Predicate {
  const ids = findMailboxes(value, [...folders.values()]);
  if (ids.size === 0) {
    const { mailboxes } = ever();
    const candidates = mailboxes.map(({ address }) => address);
    const suggestion = nearestAddress(value, candidates);
    const named = { kind: 'mailbox', found: value, suggestion, candidates } as const;
    report({ ...named, never: !mailboxes.some((one) => matchesMailboxTerm(value, one)) });
  }
  return { op: 'mailboxes', ids: [...ids] };
}

function flagged(
  names: Names,
  fits: (set: FlagSetRow) => boolean,
  indexed: PlaceCondition['indexed'] = null,
): Predicate {
  const flagSets = names
    .flagSets()
    .filter(fits)
    .map(({ id }) => id);
  return place({ folders: null, flagSets, indexed });
}

function place(condition: PlaceCondition): Predicate {
  return { op: 'place', place: condition };
}

/** What a query sees: the archive now or at a commit, and the connection's scope. */
export interface View {
  readonly asOf: number | null;
  readonly scope: Scope | null;
}

/** @param asOf milliseconds since the epoch */
export function createView(
  connection: Connection,
  { asOf }: { readonly asOf?: number | undefined },
): View {
  const { scope } = connection;
  return { asOf: asOf === undefined ? null : commitAt(connection, asOf), scope };
}

export function candidateConditions(conjunct: Conjunct, view: View): string[] {
  const { sizeLow, sizeHigh, deleted, noPlaces, members, noMembers, observed, noObserved } =
    conjunct;
  return [
    ...seen(view),
    ...(sizeLow > 0 ? [`m.size >= ${sizeLow}`] : []),
    ...(sizeHigh < Number.MAX_SAFE_INTEGER ? [`m.size <= ${sizeHigh}`] : []),
    ...(deleted === null ? [] : [deleted ? `NOT ${isCurrent(view)}` : isCurrent(view)]),
    ...mergePlaceConditions(conjunct.places).map((place) => placeCondition(place, view)),
    ...members.map((some) => isMember(some)),
    ...noMembers.map((some) => `NOT ${isMember(some)}`),
    ...observed.map((change) => observedCondition(change, view)),
    ...noObserved.map((change) => `NOT ${observedCondition(change, view)}`),
    ...noPlaces.map((place) => `NOT ${placeCondition(place, view)}`),
  ];
}

/** Combines conditions on one place: `in:INBOX is:unread` means unread in INBOX. Each folder needs a separate place. */
export function mergePlaceConditions(places: readonly PlaceCondition[]): readonly PlaceCondition[] {
  const states = places.filter(({ folders }) => folders === null);
  const inFolders = places.filter(({ folders }) => folders !== null);
  const flagSets = states
    .map((place) => place.flagSets ?? [])
    .reduce<readonly number[] | null>(
      (common, sets) => (common === null ? sets : common.filter((id) => sets.includes(id))),
      null,
    );
  if (inFolders.length === 0)
    return flagSets === null ? [] : [{ folders: null, flagSets, indexed: null }];
  return inFolders.map(({ folders }) => ({ folders, flagSets, indexed: null }));
}

function isMember({ column, values }: MemberSet): string {
  return `EXISTS (SELECT 1 FROM thread_members t WHERE t.docid = m.docid AND t.${column} IN (${values.join(', ')}))`;
}

export function seen({ asOf, scope }: View): string[] {
  if (scope === null) return asOf === null ? [] : [`m.first_commit <= ${asOf}`];
  if (asOf === null) return [isVisible(scope)];
  const then = `q.docid = m.docid AND q.first_commit <= ${asOf}${inScope(scope)}`;
  return [isVisible(scope), `EXISTS (SELECT 1 FROM places q WHERE ${then})`];
}

export function isCurrent({ asOf, scope }: View): string {
  if (asOf !== null) return openAt(asOf, inScope(scope));
  return scope === null ? '(m.open_places > 0)' : isOpen(inScope(scope));
}

/** Returns SQL that tests whether a current place, or else the last one, meets the condition. */
export function placeCondition(place: PlaceCondition, { asOf, scope }: View): string {
  const ours = inScope(scope);
  const condition = `${ofPlace(place)}${ours}`;
  if (asOf !== null)
    return `(${openAt(asOf, condition)} OR (NOT ${openAt(asOf, ours)} AND ${lastWas(asOf, condition, ours)}))`;
  const none = scope === null ? 'm.open_places = 0' : `NOT ${isOpen(ours)}`;
  return `(${isOpen(condition)} OR (${none} AND ${lastPlaceCondition(place, scope)}))`;
}

export function lastPlaceCondition(place: PlaceCondition, scope: Scope | null): string {
  const ours = inScope(scope);
  const last = `SELECT max(q.to_commit) FROM places q WHERE q.docid = m.docid${ours}`;
  return `EXISTS (SELECT 1 FROM places q WHERE q.docid = m.docid AND q.to_commit = (${last})${ofPlace(place)}${ours})`;
}

export function observedCondition({ what, low, high, except }: ObservedChange, view: View): string {
  const ours = inScope(view.scope);
  const ofPlaces = (column: string) =>
    `(SELECT ${column} FROM places q WHERE q.docid = m.docid${ours})`;
  const added = view.scope === null ? 'm.first_commit' : ofPlaces('min(q.first_commit)');
  const deleted =
    view.asOf === null
      ? ofPlaces('max(q.to_commit)')
      : `(SELECT max(to_commit) FROM (${endedBy(view.asOf, ours)}))`;
  const commit = what === 'added' ? added : deleted;
  return [
    `(${commit} BETWEEN ${low} AND ${high}`,
    ...(except.length === 0 ? [] : [`${commit} NOT IN (${except.join(', ')})`]),
    ...(what === 'added' ? [] : [`NOT ${isCurrent(view)}`]),
  ]
    .join(' AND ')
    .concat(')');
}

/** Returns a condition that restricts a place `q` to a scope, for appending to others. */
function inScope(scope: Scope | null): string {
  return scope === null ? '' : ` AND ${isOwnFolder('q.folder_id', scope)}`;
}

function ofPlace({ folders, flagSets }: PlaceCondition): string {
  return [
    ...(folders === null ? [] : [` AND q.folder_id IN (${folders.join(', ')})`]),
    ...(flagSets === null ? [] : [` AND q.flag_set IN (${flagSets.join(', ')})`]),
  ].join('');
}

function isOpen(condition: string): string {
  return `EXISTS (SELECT 1 FROM places q WHERE q.docid = m.docid AND q.to_commit IS NULL${condition})`;
}

function openAt(commit: number, condition: string): string {
  const within = `q.docid = m.docid AND q.from_commit <= ${commit}`;
  return `(EXISTS (SELECT 1 FROM places q WHERE ${within} AND (q.to_commit IS NULL OR q.to_commit > ${commit})${condition}) OR EXISTS (SELECT 1 FROM spans q WHERE ${within} AND q.to_commit > ${commit}${condition}))`;
}

/**
 * Returns SQL that tests whether one of the places that ended last before a commit met the condition.
 *
 * @param ours see `inScope`
 */
function lastWas(commit: number, condition: string, ours: string): string {
  const ended = endedBy(commit, ours);
  return `EXISTS (SELECT 1 FROM (${ended}) q WHERE q.to_commit = (SELECT max(to_commit) FROM (${ended}))${condition})`;
}

/** Selects a message's places that had ended by a commit. `resumed` is the commit at which a place came back. */
function endedBy(commit: number, ours: string): string {
  const closed = (table: string) =>
    `SELECT folder_id, flag_set, to_commit FROM ${table} q WHERE docid = m.docid AND to_commit <= ${commit}${ours}`;
  return `${closed('places')} UNION ALL ${closed('spans')} AND resumed > ${commit}`;
}

/** A condition on one place of a message; null means any folder or any flags. */
export interface PlaceCondition {
  readonly folders: readonly number[] | null;
  readonly flagSets: readonly number[] | null;
  /** Partial index that contains matching places, if one exists. */
  readonly indexed: 'unread' | 'starred' | null;
}

export interface MemberSet {
  readonly column: 'thread' | 'node' | 'docid';
  readonly values: readonly number[];
}

export interface ObservedChange {
  readonly what: 'added' | 'deleted';
  /** Both are inclusive. */
  readonly low: number;
  readonly high: number;
  /** Commits within the bounds whose time is outside the range, because the clock was set back. */
  readonly except: readonly number[];
}

/** A query with resolved names. `fts` is an FTS5 expression built here. */
export type Predicate =
  | { readonly op: 'and' | 'or'; readonly parts: readonly Predicate[] }
  | { readonly op: 'not'; readonly part: Predicate }
  | { readonly op: 'fts'; readonly expression: string }
  /** In any of these mailboxes, now or in the past. */
  | { readonly op: 'mailboxes'; readonly ids: readonly number[] }
  /** Half-open, like `Range`. */
  | { readonly op: 'docids'; readonly low: number; readonly high: number }
  | { readonly op: 'size'; readonly low: number; readonly high: number }
  | { readonly op: 'place'; readonly place: PlaceCondition }
  | { readonly op: 'members'; readonly members: MemberSet }
  /** `within` is the docid range of all possible matches, if they are few. */
  | {
      readonly op: 'observed';
      readonly observed: ObservedChange;
      readonly within: { readonly low: number; readonly high: number } | null;
    }
  | { readonly op: 'deleted' }
  | { readonly op: 'always' | 'never' };

/**
 * One alternative of a query. The index evaluates expressions and docid bounds. Everything else is checked per
 * candidate.
 */
export interface Conjunct {
  readonly has: readonly string[];
  readonly lacks: readonly string[];
  readonly low: number;
  readonly high: number;
  readonly sizeLow: number;
  readonly sizeHigh: number;
  readonly places: readonly PlaceCondition[];
  readonly noPlaces: readonly PlaceCondition[];
  readonly members: readonly MemberSet[];
  readonly noMembers: readonly MemberSet[];
  readonly observed: readonly ObservedChange[];
  readonly noObserved: readonly ObservedChange[];
  readonly deleted: boolean | null;
}

export const EVERYTHING = 'meta : "zall"';

const CONJUNCT_LIMIT = 32;

/** Maximum number of words with a star across all alternatives. FTS5 merges the lists of all words with each prefix. */
const STAR_LIMIT = 6;
/** A string in our expressions that ends with a star. Strings never contain a quotation mark. */
const STARS = /" \*/g;

export function hasPrefixStar(expression: string): boolean {
  return countPrefixes(expression) > 0;
}

export function countPrefixes(expression: string): number {
  return expression.match(STARS)?.length ?? 0;
}

const WHOLE: Conjunct = {
  has: [],
  lacks: [],
  low: 0,
  high: Number.MAX_SAFE_INTEGER,
  sizeLow: 0,
  sizeHigh: Number.MAX_SAFE_INTEGER,
  places: [],
  noPlaces: [],
  members: [],
  noMembers: [],
  observed: [],
  noObserved: [],
  deleted: null,
};

/**
 * Returns the alternatives of a predicate. Parts that the full-text index evaluates alone remain one expression.
 * Mixtures of text and other filters are multiplied out, so that each alternative can be walked newest first and stop
 * early.
 *
 * @throws `search-too-complex` if there are too many
 */
export function alternatives(predicate: Predicate): Conjunct[] {
  const found = expand(predicate, true).filter(isPossible);
  const stars = found
    .flatMap(({ has, lacks }) => [...has, ...lacks])
    .reduce((sum, expression) => sum + countPrefixes(expression), 0);
  if (found.length > 1 && stars > STAR_LIMIT)
    throw searchError('search-too-complex', { limit: STAR_LIMIT, of: 'stars' });
  return found;
}

function expand(predicate: Predicate, holds: boolean): Conjunct[] {
  // Excluded text is kept separate from searched text, which ranks hits.
  if (predicate.op === 'not') return expand(predicate.part, !holds);
  const expression = ftsExpression(predicate);
  if (expression !== undefined)
    return [holds ? { ...WHOLE, has: [expression] } : { ...WHOLE, lacks: [expression] }];
  switch (predicate.op) {
    case 'and':
    case 'or': {
      const all = (predicate.op === 'and') === holds;
      const parts = gather(predicate.parts, predicate.op).map((part) => expand(part, holds));
      const found = all ? product(parts) : parts.flat();
      if (found.length > CONJUNCT_LIMIT)
        throw searchError('search-too-complex', { limit: CONJUNCT_LIMIT, of: 'alternatives' });
      return found;
    }
    case 'docids':
      if (holds) return [{ ...WHOLE, low: predicate.low, high: predicate.high }];
      return [
        { ...WHOLE, high: predicate.low },
        { ...WHOLE, low: predicate.high },
      ];
    case 'size':
      if (holds) return [{ ...WHOLE, sizeLow: predicate.low, sizeHigh: predicate.high }];
      return [
        { ...WHOLE, sizeHigh: predicate.low - 1 },
        { ...WHOLE, sizeLow: predicate.high + 1 },
      ];
    case 'place':
      return [
        holds ? { ...WHOLE, places: [predicate.place] } : { ...WHOLE, noPlaces: [predicate.place] },
      ];
    case 'members':
      return [
        holds
          ? { ...WHOLE, members: [predicate.members] }
          : { ...WHOLE, noMembers: [predicate.members] },
      ];
    case 'observed': {
      const { observed, within } = predicate;
      if (!holds) return [{ ...WHOLE, noObserved: [observed] }];
      const deleted = observed.what === 'deleted' ? true : null;
      return [{ ...WHOLE, ...within, observed: [observed], deleted }];
    }
    case 'deleted':
      return [{ ...WHOLE, deleted: holds }];
    case 'always':
    case 'never':
    case 'mailboxes':
      return (predicate.op === 'always') === holds ? [WHOLE] : [];
    case 'fts':
      return [];
  }
}

/** Merges parts that one index evaluates alone, because they need no alternatives. */
function gather(parts: readonly Predicate[], op: 'and' | 'or'): readonly Predicate[] {
  const text = parts.filter((part) => ftsExpression(part) !== undefined);
  const found = parts.filter((part) => !text.includes(part));
  if (text.length > 0) found.unshift(text.length === 1 ? (text[0] ?? ALWAYS) : { op, parts: text });
  if (op === 'and') return found;
  for (const column of ['thread', 'node', 'docid'] as const) {
    const same = found.flatMap((part) =>
      part.op === 'members' && part.members.column === column ? [part.members] : [],
    );
    if (same.length < 2) continue;
    const rest = found.filter((part) => part.op !== 'members' || part.members.column !== column);
    const values = [...new Set(same.flatMap((members) => members.values))];
    found.splice(0, found.length, ...rest, { op: 'members', members: { column, values } });
  }
  return found;
}

const ALWAYS: Predicate = { op: 'always' };

function product(factors: readonly Conjunct[][]): Conjunct[] {
  let found: Conjunct[] = [WHOLE];
  for (const factor of factors) {
    found = found.flatMap((left) => factor.map((right) => combine(left, right))).filter(isPossible);
    if (found.length > CONJUNCT_LIMIT)
      throw searchError('search-too-complex', { limit: CONJUNCT_LIMIT, of: 'alternatives' });
  }
  return found;
}

function combine(a: Conjunct, b: Conjunct): Conjunct {
  const contradiction = a.deleted !== null && b.deleted !== null && a.deleted !== b.deleted;
  return {
    has: [...a.has, ...b.has],
    lacks: [...a.lacks, ...b.lacks],
    low: Math.max(a.low, b.low),
    high: contradiction ? 0 : Math.min(a.high, b.high),
    sizeLow: Math.max(a.sizeLow, b.sizeLow),
    sizeHigh: Math.min(a.sizeHigh, b.sizeHigh),
    places: [...a.places, ...b.places],
    noPlaces: [...a.noPlaces, ...b.noPlaces],
    members: [...a.members, ...b.members],
    noMembers: [...a.noMembers, ...b.noMembers],
    observed: [...a.observed, ...b.observed],
    noObserved: [...a.noObserved, ...b.noObserved],
    deleted: a.deleted ?? b.deleted,
  };
}

function isPossible({ low, high, sizeLow, sizeHigh, places, members }: Conjunct): boolean {
  return (
    low < high &&
    members.every(({ values }) => values.length > 0) &&
    sizeLow <= sizeHigh &&
    places.every(
      ({ folders, flagSets }) =>
        (folders === null || folders.length > 0) && (flagSets === null || flagSets.length > 0),
    )
  );
}

/** Returns the predicate as an FTS5 expression; undefined if the full-text index alone cannot evaluate it. */
function ftsExpression(predicate: Predicate): string | undefined {
  switch (predicate.op) {
    case 'fts':
      return predicate.expression;
    case 'mailboxes': {
      const tokens = predicate.ids.map((id) => `meta : "${mailboxToken(id)}"`);
      return tokens.length === 0 ? undefined : `(${tokens.join(' OR ')})`;
    }
    case 'not': {
      const part = ftsExpression(predicate.part);
      return part === undefined ? undefined : ftsMatch([], [part]);
    }
    case 'or': {
      const parts = predicate.parts.map(ftsExpression);
      return parts.some((part) => part === undefined) ? undefined : `(${parts.join(' OR ')})`;
    }
    case 'and': {
      const has: string[] = [];
      const lacks: string[] = [];
      for (const part of predicate.parts) {
        const negated = part.op === 'not';
        const expression = ftsExpression(negated ? part.part : part);
        if (expression === undefined) return undefined;
        (negated ? lacks : has).push(expression);
      }
      return ftsMatch(has, lacks);
    }
    default:
      return undefined;
  }
}

type Test<T> = (value: T) => boolean;

/**
 * Returns a test that evaluates a predicate outside the index; undefined if it has a part that `leaf` cannot test.
 *
 * @param leaf tests everything but `and`, `or`, `not` and `always`
 */
export function testOf<T>(
  predicate: Predicate,
  leaf: (predicate: Predicate) => Test<T> | undefined,
): Test<T> | undefined {
  switch (predicate.op) {
    case 'always':
      return () => true;
    case 'not': {
      const part = testOf(predicate.part, leaf);
      return part && ((value) => !part(value));
    }
    case 'and':
    case 'or': {
      const parts = predicate.parts.flatMap((part) => testOf(part, leaf) ?? []);
      if (parts.length < predicate.parts.length) return undefined;
      return predicate.op === 'and'
        ? (value) => parts.every((part) => part(value))
        : (value) => parts.some((part) => part(value));
    }
    default:
      return leaf(predicate);
  }
}

/** Returns the parts that must all hold. */
export function conjunctsOf(predicate: Predicate): readonly Predicate[] {
  if (predicate.op === 'always') return [];
  return predicate.op === 'and' ? predicate.parts.flatMap(conjunctsOf) : [predicate];
}

/** Returns one FTS5 expression. FTS5's NOT is binary, so it needs a left operand. */
export function ftsMatch(has: readonly string[], lacks: readonly string[]): string {
  const start = has.length === 0 ? EVERYTHING : has.join(' AND ');
  const whole = has.length > 1 || lacks.length > 0 ? `(${start})` : start;
  return lacks.length === 0 ? whole : `(${whole} NOT (${lacks.join(' OR ')}))`;
}

/** Maximum number of docids to read for a time range. More would be most of the archive, so a range would not help. */
const LOOKED_AT = 20_000;

export class ObservedCommits {
  constructor(
    private readonly connection: Connection,
    private readonly view: View,
  ) {}

  /** Returns the commits in a half-open range of times (milliseconds since the epoch), or undefined. */
  between(from: number | null, to: number | null): Omit<ObservedChange, 'what'> | undefined {
    const isWithin = [
      ...(from === null ? [] : [`time >= ${from}`]),
      ...(to === null ? [] : [`time < ${to}`]),
    ].join(' AND ');
    const [[low, high] = [null, null]] = this.connection.values<
      readonly [number | null, number | null]
    >(`SELECT min(number), max(number) FROM commits WHERE ${isWithin}`);
    if (low === null || high === null) return undefined;
    const except = this.connection.column<number>(
      `SELECT number FROM commits WHERE number > ${low} AND number < ${high} AND NOT (${isWithin})`,
      [],
    );
    return { low, high, except };
  }

  /** Returns the half-open docid range of these messages, most of which were received at that time; null if unknown. */
  docidsOf({
    what,
    low,
    high,
  }: ObservedChange): { readonly low: number; readonly high: number } | null {
    const { asOf, scope } = this.view;
    // A mailbox can receive an old message later, and a deleted message may have come back.
    if (scope !== null || (what === 'deleted' && asOf !== null)) return null;
    const rows =
      what === 'added'
        ? `messages INDEXED BY messages_by_commit WHERE first_commit >= ${low} AND first_commit <= ${high}`
        : `places INDEXED BY places_by_end
           WHERE to_commit IS NOT NULL AND to_commit >= ${low} AND to_commit <= ${high}`;
    const [[first, last, count] = [null, null, 0]] = this.connection.values<
      readonly [number | null, number | null, number]
    >(
      `SELECT min(docid), max(docid), count(*) FROM (SELECT docid FROM ${rows} LIMIT ${LOOKED_AT + 1})`,
    );
    if (count > LOOKED_AT) return null;
    return first === null || last === null ? { low: 0, high: 0 } : { low: first, high: last + 1 };
  }
}

/**
 * Returns the warning about a name that does not exist now. A name that never existed is already an error.
 *
 * @param found the name, escaped for the warning's destination
 */
export function unknownText({ kind, never }: UnknownName, found: string): string {
  const name = `${kind} "${found}"`;
  return never ? `the archive has no ${name}` : `nothing in the archive is in the ${name} now`;
}
