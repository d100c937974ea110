import type { z } from 'zod';
import { decodeText } from '../mail/charsets.ts';
import type { searchRequest } from './mailbox-wire.ts';
import { decodedBody, decodeHeader, headerEnd, partsOf, readHeaderBlock } from './message-view.ts';
import { parseUidSet, type UidRange } from './wire.ts';

function searchableHeader(source: Buffer, name: string): string[] {
  const { fields } = readHeaderBlock(source, 0, source.length, new Set([name]));
  return (fields.get(name) ?? []).map((value) => decodeHeader(value).toLowerCase());
}

function searchableHeaders(source: Buffer): string {
  const end = headerEnd(source, 0, source.length);
  return decodeHeader(source.toString('latin1', 0, end).replace(/\r?\n[ \t]+/g, ' ')).toLowerCase();
}

/** Returns a message's decoded text parts in lower case, including any HTML tags. */
function searchableBody(source: Buffer): string {
  return partsOf(source)
    .filter((part) => part.contentType.startsWith('text/'))
    .map((part) => decodeText(decodedBody(source, part), part.charset).toLowerCase())
    .join('\n');
}

export interface FileRange {
  readonly path: string | Buffer;
  readonly start: number;
  readonly length: number;
}

/** An operation's response, to which the sandbox may add faults and latency. */
export type Reply =
  | { readonly kind: 'empty'; readonly status: number }
  | {
      readonly kind: 'text';
      readonly status: number;
      readonly text: string;
      readonly headers?: Readonly<Record<string, string>>;
    }
  | { readonly kind: 'bytes'; readonly type: string; readonly bytes: Buffer }
  | { readonly kind: 'file'; readonly type: string; readonly range: FileRange };

/** A response whose bytes are in memory. */
export type ReadyReply = Exclude<Reply, { kind: 'file' }>;

export const NO_CONTENT: ReadyReply = { kind: 'empty', status: 204 };

/** Wraps a resource or a list in `data`. */
export function dataReply(data: unknown, status = 200): ReadyReply {
  return { kind: 'text', status, text: JSON.stringify({ data }) };
}

/** Returns a page with pagination. The items are already JSON. */
export function pageReply(items: readonly string[], page: Page, total: number): ReadyReply {
  const totalPages = Math.ceil(total / page.perPage);
  return {
    kind: 'text',
    status: 200,
    text: `{"data":[${items.join(',')}],"pagination":{"page":${page.page},"perPage":${page.perPage},"total":${total},"totalPages":${totalPages}}}`,
  };
}

export function pageOfAll<T>(
  all: readonly T[],
  page: Page,
  recordOf: (item: T) => object,
): ReadyReply {
  const offset = pageOffset(page);
  const items = all.slice(offset, offset + page.perPage);
  return pageReply(
    items.map((item) => JSON.stringify(recordOf(item))),
    page,
    all.length,
  );
}

/** The requested page. Both values start at 1 and are within bounds. */
export interface Page {
  readonly page: number;
  readonly perPage: number;
}

export function pageOffset(page: Page): number {
  return (page.page - 1) * page.perPage;
}

/** A folder's messages in UID order. */
export interface UidOrder<Entry> {
  readonly count: number;
  /** The highest UID, or 0 in an empty folder. */
  readonly lastUid: number;
  countBetween(low: number, high: number): number;
  /** Returns a UID range's messages in ascending order. Skips the first `skip` messages. */
  between(low: number, high: number, skip: number, limit: number): Entry[];
}

export interface FoundPage<Entry> {
  readonly entries: readonly Entry[];
  readonly total: number;
}

interface Span {
  readonly low: number;
  readonly high: number;
}

/**
 * Returns the UIDs in a set as sorted, disjoint, non-adjacent spans. `last` is the folder's highest UID, which `*`
 * stands for. `n:*` with a higher n is therefore the last message, as in IMAP (RFC 3501, 6.4.8).
 */
export function spansOf(ranges: readonly UidRange[], last: number): Span[] {
  const sorted = ranges
    .map(({ from, to }) => {
      const a = from === '*' ? last : from;
      const b = to === '*' ? last : to;
      return { low: Math.min(a, b), high: Math.max(a, b) };
    })
    .sort((a, b) => a.low - b.low);
  const spans: Span[] = [];
  for (const span of sorted) {
    const before = spans.at(-1);
    if (before === undefined || span.low > before.high + 1) spans.push(span);
    else spans[spans.length - 1] = { low: before.low, high: Math.max(before.high, span.high) };
  }
  return spans;
}

export function allWithin<Entry>(folder: UidOrder<Entry>, spans: readonly Span[]): Entry[] {
  return spans.flatMap(({ low, high }) => folder.between(low, high, 0, folder.count));
}

/** Returns a page of a search by UID ranges alone. Does not visit messages outside the page. */
export function pageOfSpans<Entry>(
  folder: UidOrder<Entry>,
  spans: readonly Span[],
  page: Page,
  descending: boolean,
): FoundPage<Entry> {
  const counts = spans.map(({ low, high }) => folder.countBetween(low, high));
  const total = counts.reduce((sum, count) => sum + count, 0);
  const offset = pageOffset(page);
  // A descending page is an ascending range in reverse.
  const first = descending ? Math.max(0, total - offset - page.perPage) : offset;
  const end = descending ? Math.max(0, total - offset) : Math.min(total, offset + page.perPage);
  const entries: Entry[] = [];
  let skipped = 0;
  spans.forEach(({ low, high }, index) => {
    const count = counts[index] ?? 0;
    const skip = Math.max(0, first - skipped);
    const limit = Math.min(count, end - skipped) - skip;
    if (limit > 0) entries.push(...folder.between(low, high, skip, limit));
    skipped += count;
  });
  return { entries: descending ? entries.reverse() : entries, total };
}

/**
 * Returns a page of messages that are all in memory.
 *
 * @param all ascending by uid; sorted in place
 * @param keyOf sort key, or null to sort by uid; ties are broken by uid
 */
export function pageOfSorted<Entry extends { readonly uid: number }>(
  all: Entry[],
  keyOf: ((entry: Entry) => number) | null,
  page: Page,
  descending: boolean,
): FoundPage<Entry> {
  if (keyOf !== null) {
    const keys = new Map(all.map((entry) => [entry.uid, keyOf(entry)]));
    all.sort((a, b) => (keys.get(a.uid) ?? 0) - (keys.get(b.uid) ?? 0) || a.uid - b.uid);
  }
  if (descending) all.reverse();
  const offset = pageOffset(page);
  return { entries: all.slice(offset, offset + page.perPage), total: all.length };
}

/** Search criteria. All must match, except that one of the alternative substrings suffices (see `searchRequest`). */
export type Criteria = z.output<typeof searchRequest>;

export function criteriaSpans({ uid }: Criteria, last: number): Span[] {
  const ranges = uid === undefined ? null : parseUidSet(uid);
  return ranges === null ? [{ low: 1, high: last }] : spansOf(ranges, last);
}

/** Facts about a message that do not require its source. */
interface MessageFacts {
  readonly flags: readonly string[];
  /** Milliseconds since the epoch. */
  received(): number;
  size(): number;
}

type Test<T> = (of: T) => boolean;

const DAY_MS = 86_400_000;

/**
 * Returns a test for the criteria that need no source, or null if there are none. Days are UTC. `since` includes its
 * day, and `before` excludes it. `larger` and `smaller` exclude the given size, as in IMAP.
 */
export function factsTest(criteria: Criteria): Test<MessageFacts> | null {
  const { flags, since, before, larger, smaller } = criteria;
  const tests: Test<MessageFacts>[] = [];
  // Deduplicated, because a request can repeat a flag a million times.
  const names = [...new Set(flags?.map((flag) => flag.toLowerCase()))];
  if (flags !== undefined) tests.push((of) => names.every((flag) => hasFlag(of.flags, flag)));
  if (since !== undefined || before !== undefined) {
    // Messages without a date precede every day and never match.
    const from = since === undefined ? Number.MIN_SAFE_INTEGER : Date.parse(since);
    const to = before === undefined ? Number.POSITIVE_INFINITY : Date.parse(before);
    tests.push((of) => {
      const day = Math.floor(of.received() / DAY_MS) * DAY_MS;
      return day >= from && day < to;
    });
  }
  if (larger !== undefined) tests.push((of) => of.size() > larger);
  if (smaller !== undefined) tests.push((of) => of.size() < smaller);
  return allOf(tests);
}

/** Returns a test for the criteria that need the source, or null if there are none. */
export function sourceTest(criteria: Criteria): Test<Buffer> | null {
  const { header, text } = criteria;
  const tests: Test<Buffer>[] = [];
  if (header !== undefined) {
    const colon = header.indexOf(':');
    const name = header.slice(0, colon).toLowerCase();
    const value = header
      .slice(colon + 1)
      .trim()
      .toLowerCase();
    tests.push((raw) => searchableHeader(raw, name).some((found) => found.includes(value)));
  }
  const alternatives = alternativesOf(criteria);
  if (alternatives.length > 0) tests.push((raw) => alternatives.some((test) => test(raw)));
  if (text !== undefined) {
    const needle = text.toLowerCase();
    tests.push(
      (raw) => searchableHeaders(raw).includes(needle) || searchableBody(raw).includes(needle),
    );
  }
  return allOf(tests);
}

/** Reports whether the criteria need more than the headers. */
export function needsBody({ body, text }: Criteria): boolean {
  return body !== undefined || text !== undefined;
}

function alternativesOf(criteria: Criteria): Test<Buffer>[] {
  const alternatives: Test<Buffer>[] = [];
  for (const name of ['subject', 'from', 'to', 'cc'] as const) {
    const needle = criteria[name]?.toLowerCase();
    if (needle === undefined) continue;
    alternatives.push((raw) => searchableHeader(raw, name).some((text) => text.includes(needle)));
  }
  const body = criteria.body?.toLowerCase();
  if (body !== undefined) alternatives.push((raw) => searchableBody(raw).includes(body));
  return alternatives;
}

/** Returns a test that passes if all of these tests do. List cheap tests first. */
function allOf<T>(tests: readonly Test<T>[]): Test<T> | null {
  return tests.length === 0 ? null : (of) => tests.every((test) => test(of));
}

/** Reports whether a list contains a flag, ignoring case (RFC 3501, 2.3.2). */
export function hasFlag(flags: readonly string[], flag: string): boolean {
  const name = flag.toLowerCase();
  return flags.some((candidate) => candidate.toLowerCase() === name);
}

/** Plain values that describe an error to the client, sent as `params` in the error envelope. */
type RefusalParams = Readonly<Record<string, unknown>>;

/** A 4xx or 5xx response, thrown by operations. Their API wraps it in its envelope. */
export class Refusal extends Error {
  override readonly name = 'Refusal';

  constructor(
    readonly status: number,
    /** In SCREAMING_SNAKE_CASE. Clients branch on it. */
    readonly code: string,
    message: string,
    readonly params: RefusalParams = {},
    readonly headers: Readonly<Record<string, string>> = {},
    /** `cause` is for the operator and is never sent to the client. */
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

export function unauthorized(message: string): Refusal {
  return new Refusal(401, 'ERR_UNAUTHORIZED', message, {}, { 'www-authenticate': 'Bearer' });
}

/** Returns a 429. `retryAfter` is in seconds. */
export function rateLimited(code: string, message: string, retryAfter: number): Refusal {
  const headers = { 'retry-after': String(retryAfter) };
  return new Refusal(429, code, message, { retryAfter }, headers);
}

/** Groups a body's problems by field path. `word` phrases each problem. */
export function problemsByField(
  issues: readonly z.core.$ZodIssue[],
  describe: (issue: z.core.$ZodIssue, field: string) => string = ({ message }) => message,
): Record<string, string[]> {
  const fields: Record<string, string[]> = {};
  for (const issue of issues) {
    const field = issue.path.map(String).join('.') || 'body';
    fields[field] = [...(fields[field] ?? []), describe(issue, field)];
  }
  return fields;
}

/** Returns a 422 with each field's problems, keyed by its path in the body or query. */
export function invalid(fields: Readonly<Record<string, readonly string[]>>): Refusal {
  const [first] = Object.entries(fields);
  const message =
    first === undefined ? 'Validation failed' : `${first[0]}: ${first[1][0] ?? 'is not valid'}`;
  return new Refusal(422, 'ERR_VALIDATION_FAILED', message, { fields });
}

/** Returns an error in the Mailbox API's envelope. An unexpected error becomes a 500 without its cause. */
export function envelope(error: unknown): ReadyReply {
  const refusal = error instanceof Refusal ? error : statusRefusal(500, undefined, undefined);
  const { message, code, params, status, headers } = refusal;
  return {
    kind: 'text',
    status,
    text: JSON.stringify({ error: message, code, params }),
    headers,
  };
}

const STATUS_CODES: Readonly<Record<number, readonly [code: string, message: string]>> = {
  400: ['ERR_BAD_REQUEST', 'The request could not be processed as sent'],
  401: ['ERR_UNAUTHORIZED', 'The token is missing, malformed, expired or revoked'],
  403: ['ERR_FORBIDDEN', 'The token does not reach this'],
  404: ['ERR_NOT_FOUND', 'There is no such thing'],
  408: ['ERR_REQUEST_TIMEOUT', 'The request took too long to arrive'],
  409: ['ERR_CONFLICT', 'The state of the resource forbids this'],
  422: ['ERR_VALIDATION_FAILED', 'Validation failed'],
  429: ['ERR_RATE_LIMIT', 'Too many requests'],
  500: ['ERR_INTERNAL', 'The service failed'],
  502: ['ERR_UPSTREAM_UNREACHABLE', 'The mail server cannot be reached'],
  503: ['ERR_UNAVAILABLE', 'The service is down for maintenance'],
  504: ['ERR_UPSTREAM_TIMEOUT', 'The mail server did not answer in time'],
};

/** Returns the default refusal for a status. `retryAfter` is in seconds. */
export function statusRefusal(
  status: number,
  code: string | undefined,
  retryAfter: number | undefined,
): Refusal {
  const [defaultCode, message] = STATUS_CODES[status] ?? ['ERR_UNKNOWN', 'The request failed'];
  return new Refusal(
    status,
    code ?? defaultCode,
    message,
    retryAfter === undefined ? {} : { retryAfter },
    retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) },
  );
}

/** Parses a JSON object. A missing body becomes `{}`, because bodies are optional. @throws Refusal 422 */
export function parseJsonBody(bytes: Uint8Array, contentType: string | undefined): unknown {
  if (bytes.length === 0) return {};
  if (
    contentType !== undefined &&
    !/^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(contentType)
  ) {
    throw new Refusal(422, 'ERR_CONTENT_TYPE', 'The body must be sent as application/json', {
      contentType,
    });
  }
  let body: unknown;
  try {
    body = JSON.parse(Buffer.from(bytes).toString('utf8'));
  } catch {
    throw new Refusal(422, 'ERR_INVALID_JSON', 'The body is not valid JSON');
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new Refusal(422, 'ERR_INVALID_JSON', 'The body must be a JSON object');
  }
  return body;
}

/** Returns the refusal for a body that exceeds `ceiling` bytes. */
export function bodyTooLarge(
  ceiling: number,
  headers: Readonly<Record<string, string>> = {},
): Refusal {
  const params = { maxBytes: ceiling };
  return new Refusal(422, 'ERR_BODY_TOO_LARGE', 'The body is too large', params, headers);
}

interface Sort {
  readonly field: 'uid' | 'date' | 'size';
  readonly descending: boolean;
}

/** Reads `page` and `perPage` from a query. @throws Refusal 422 */
export function pageOf(query: URLSearchParams, defaultPerPage: number, maxPerPage: number): Page {
  const problems: Record<string, string[]> = {};
  const page = integer(query.get('page'), 1, Number.MAX_SAFE_INTEGER, 1);
  const perPage = integer(query.get('perPage'), 1, maxPerPage, defaultPerPage);
  if (page === null) problems.page = ['must be an integer of at least 1'];
  if (perPage === null) problems.perPage = [`must be an integer from 1 to ${maxPerPage}`];
  if (page === null || perPage === null) throw invalid(problems);
  return { page, perPage };
}

function integer(raw: string | null, low: number, high: number, fallback: number): number | null {
  if (raw === null) return fallback;
  if (!/^\d{1,16}$/.test(raw)) return null;
  const value = Number(raw);
  return value >= low && value <= high ? value : null;
}

/** Reads `sort`: `uid`, `date` or `size`, descending with `-`. Defaults to `-uid`. @throws Refusal 422 */
export function sortOf(query: URLSearchParams): Sort {
  const raw = query.get('sort') ?? '-uid';
  const descending = raw.startsWith('-');
  const field = descending ? raw.slice(1) : raw;
  if (field === 'uid' || field === 'date' || field === 'size') return { field, descending };
  throw invalid({ sort: ['must be one of uid, -uid, date, -date, size, -size'] });
}

/** Reads the UID in a path: an integer of at least 1. @throws Refusal 422 */
export function uidFrom(raw = ''): number {
  const uid = /^\d{1,15}$/.test(raw) ? Number(raw) : 0;
  if (uid < 1) throw invalid({ uid: ['must be an integer of at least 1'] });
  return uid;
}

/** Validates a body against its schema. @throws Refusal 422 with every problem, keyed by its path */
export function bodyFrom<T extends z.ZodType>(body: unknown, schema: T): z.output<T> {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  throw invalid(problemsByField(result.error.issues));
}

/** Returns a folder's path with INBOX in upper case, the only name whose case does not matter (RFC 3501, 5.1). */
export function canonicalPath(path: string): string {
  return /^inbox(?=$|\.)/i.test(path) ? `INBOX${path.slice(5)}` : path;
}

/** Compares paths, with INBOX first. */
export function byFolderPath(
  { path: a }: { readonly path: string },
  { path: b }: { readonly path: string },
): number {
  if (a === 'INBOX' || b === 'INBOX') return a === b ? 0 : a === 'INBOX' ? -1 : 1;
  return a < b ? -1 : 1;
}

/** A path that can have named segments: `/api/v1/mailboxes/{mailboxResourceId}/quota`. */
export interface RoutePattern {
  readonly method: string;
  readonly path: string;
}

/** Splits a request target into its path (still percent-encoded) and its query. */
export function splitUrl(url = '/'): { readonly path: string; readonly query: URLSearchParams } {
  const queryStart = url.indexOf('?');
  return queryStart < 0
    ? { path: url, query: NO_QUERY }
    : { path: url.slice(0, queryStart), query: new URLSearchParams(url.slice(queryStart + 1)) };
}

const NO_QUERY = new URLSearchParams();

export type RouteMatch<T extends RoutePattern> =
  | { readonly kind: 'found'; readonly route: T; readonly params: Readonly<Record<string, string>> }
  | { readonly kind: 'wrong-method'; readonly allowed: readonly string[] }
  | { readonly kind: 'unknown' };

/**
 * Finds the route for a method and a path. A literal segment takes precedence over a named one, even if only the named
 * one supports the method: `GET …/messages/search` uses the wrong method, rather than naming a message "search".
 */
export class RouteTable<T extends RoutePattern> {
  /** Routes with the fewest named segments come first. */
  readonly #routes: readonly { readonly route: T; readonly names: number; pattern: RegExp }[];

  constructor(routes: readonly T[]) {
    this.#routes = routes
      .map((route) => ({
        route,
        names: route.path.split('{').length,
        pattern: new RegExp(`^${route.path.replace(/\{(\w+)\}/g, '(?<$1>[^/]+)')}$`),
      }))
      .sort((a, b) => a.names - b.names);
  }

  /** @param path percent-encoded, without the query */
  match(method: string, path: string): RouteMatch<T> {
    const allowed: string[] = [];
    let fewestNames = Number.POSITIVE_INFINITY;
    for (const { route, names, pattern } of this.#routes) {
      if (names > fewestNames) break;
      const match = pattern.exec(path);
      if (match === null) continue;
      if (route.method === method) {
        const params = Object.entries(match.groups ?? {});
        const decoded = params.map(([name, segment]) => [name, decodeSegment(segment)]);
        return { kind: 'found', route, params: Object.fromEntries(decoded) };
      }
      fewestNames = names;
      allowed.push(route.method);
    }
    return allowed.length > 0 ? { kind: 'wrong-method', allowed } : { kind: 'unknown' };
  }
}

/** Keeps invalid percent-encoding, which the operation refuses with one of its declared statuses. */
function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch (error) {
    if (error instanceof URIError) return segment;
    throw error;
  }
}
