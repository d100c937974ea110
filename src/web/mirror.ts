import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import type { Fact } from '../archive/format.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { KnownMailbox } from '../catalog/folders.ts';
import type { Reader } from '../catalog/open-reader.ts';
import type {
  OriginFacts,
  OriginFolder,
  OriginPlace,
  OriginUids,
} from '../catalog/origin-places.ts';
import { deserializeError, MailkeepError } from '../core/errors.ts';
import { isForeign, readAtMost } from '../core/listener.ts';
import { type ApiToken, mailboxKey, type ScopeValue, type StateFile } from '../core/state.ts';
import type { Listing, MessageId } from '../core/types.ts';
import { hasDate, receivedAt } from '../mail/docid.ts';
import {
  type FolderRecord,
  MAILBOX_OPERATIONS,
  type QuotaRecord,
  searchRequest,
} from '../service/mailbox-wire.ts';
import {
  allWithin,
  bodyFrom,
  bodyTooLarge,
  byFolderPath,
  type Criteria,
  canonicalPath,
  criteriaSpans,
  dataReply,
  envelope,
  type FoundPage,
  factsTest,
  invalid,
  type Page,
  pageOf,
  pageOfAll,
  pageOfSorted,
  pageOfSpans,
  pageReply,
  parseJsonBody,
  type ReadyReply,
  Refusal,
  RouteTable,
  sortOf,
  sourceTest,
  type UidOrder,
  uidFrom,
  unauthorized,
} from '../service/surface.ts';
import type { Operation } from '../service/wire.ts';
import { ContentThreads, TokenQueue } from './content-threads.ts';
import { type ServedArchive, VersionCache } from './served-archive.ts';

interface MirrorEntry {
  readonly uid: number;
  readonly row: number;
  readonly flagSet: number;
  readonly at: number;
}

class FolderUids implements UidOrder<MirrorEntry> {
  /** Sizes and dates by position, NaN until first read. Allocated on first use. */
  #facts: { readonly sizes: Float64Array; readonly dates: Float64Array } | undefined;

  constructor(
    private readonly columns: OriginUids,
    private readonly factsOf: (row: number) => OriginFacts,
  ) {}

  get count(): number {
    return this.columns.uids.length;
  }

  get unread(): number {
    return this.columns.unread;
  }

  get lastUid(): number {
    return this.columns.uids.at(-1) ?? 0;
  }

  get(uid: number): MirrorEntry | undefined {
    const [found] = this.between(uid, uid, 0, 1);
    return found;
  }

  countBetween(low: number, high: number): number {
    return this.#lowerBound(high + 1) - this.#lowerBound(low);
  }

  between(low: number, high: number, skip: number, limit: number): MirrorEntry[] {
    const start = this.#lowerBound(low) + skip;
    const stop = Math.min(start + limit, this.#lowerBound(high + 1));
    const { uids, rows, flagSets } = this.columns;
    const found: MirrorEntry[] = [];
    for (let at = start; at < stop; at += 1)
      found.push({ uid: uids[at] ?? 0, row: rows[at] ?? 0, flagSet: flagSets[at] ?? 0, at });
    return found;
  }

  facts({ at, row }: MirrorEntry): OriginFacts {
    const unread = () => new Float64Array(this.count).fill(Number.NaN);
    this.#facts ??= { sizes: unread(), dates: unread() };
    const { sizes, dates } = this.#facts;
    const [size = Number.NaN, date = Number.NaN] = [sizes[at], dates[at]];
    if (!Number.isNaN(size)) return { size, date };
    const facts = this.factsOf(row);
    sizes[at] = facts.size;
    dates[at] = facts.date;
    return facts;
  }

  #lowerBound(uid: number): number {
    const { uids } = this.columns;
    let [low, high] = [0, uids.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((uids[middle] ?? 0) < uid) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

type Unchanging = Omit<Listing, 'uid' | 'flags'>;

function fromCatalog(place: OriginPlace): Unchanging {
  const { senderName, senderAddress } = place;
  const isNamed = senderName !== null || senderAddress !== null;
  return {
    date: isoAt(place) ?? '',
    size: place.size,
    subject: place.subject,
    from: isNamed ? { name: senderName ?? '', address: senderAddress ?? '' } : null,
    to: [],
    cc: [],
    bcc: [],
    messageId: place.messageId,
    inReplyTo: null,
    attachments: [],
    extra: {},
  };
}

/** Imported mail may have no date, even though a service always returns one. */
function isoAt({ docid }: OriginPlace): string | null {
  return hasDate(docid) ? new Date(receivedAt(docid)).toISOString() : null;
}

/** Maximum messages whose uids and sort fields are cached, at 36 bytes each. */
const MAX_MESSAGES = 1_000_000;
/** Cost of an empty folder, in messages. A folder is cached once per requested moment. */
const FOLDER_COST = 20;
const MAX_LISTS = 200;
/** Maximum characters in cached records, enough for about 20,000 records. */
const MAX_CHARACTERS = 16 * 1024 * 1024;
/** Maximum commits whose parsed facts are cached. Most messages on a page arrived together. */
const MAX_COMMITS = 16;

type OpenArchive = Pick<Reader, 'catalog' | 'sources'>;
type Moment = number | null;

/**
 * Answers Mailbox API requests from an open archive, presenting messages as the origin did. Caches answers until the
 * next commit, which may reuse rows and forget messages.
 */
export class MirrorView {
  readonly #uids = new VersionCache<string, FolderUids>(
    MAX_MESSAGES,
    ({ count }) => count + FOLDER_COST,
  );
  readonly #folders = new VersionCache<string, readonly FolderRecord[]>(MAX_LISTS);
  /** Records by row, as JSON. A record never changes while its place exists. */
  readonly #records = new VersionCache<number, string>(MAX_CHARACTERS, ({ length }) => length);
  readonly #facts = new VersionCache<number, readonly Fact[]>(MAX_COMMITS);
  #commit = -1;

  constructor(private readonly archive: OpenArchive) {}

  async folders(mailbox: MirroredMailbox, moment: Moment): Promise<readonly FolderRecord[]> {
    const version = this.#refresh();
    const key = `${mailbox.id} ${moment ?? 'now'}`;
    const known = this.#folders.find(version, key);
    if (known !== undefined) return known;
    const records: FolderRecord[] = [];
    for (const folder of this.archive.catalog.origin.folders(mailbox, moment)) {
      records.push(recordOf(folder, this.#counts(folder, moment)));
      // Counting as of a moment reads all uids in a folder, so let other requests run between folders.
      if (moment !== null) await nextTurn();
    }
    records.sort(byFolderPath);
    return version === this.#refresh() ? this.#folders.keep(key, records) : records;
  }

  folder(mailbox: MirroredMailbox, path: string, moment: Moment): OriginFolder | undefined {
    return this.archive.catalog.origin.folders(mailbox, moment).find((one) => one.path === path);
  }

  uids(folder: OriginFolder, moment: Moment): FolderUids {
    const key = `${folder.id} ${folder.generation} ${moment ?? 'now'}`;
    const known = this.#uids.find(this.#refresh(), key);
    if (known !== undefined) return known;
    const { origin } = this.archive.catalog;
    const uids = new FolderUids(origin.uids(folder, moment), (row) => origin.facts(row));
    return this.#uids.keep(key, uids);
  }

  /** Returns undefined if the message has been removed since its uid was read. */
  json(mailbox: MirroredMailbox, folder: OriginFolder, entry: MirrorEntry): string | undefined {
    const { uid, row } = entry;
    let record = this.#records.find(this.#commit, row);
    if (record === undefined) {
      const place = this.place(folder, entry);
      if (place === undefined) return undefined;
      const { extra, date, ...listing } = this.listing(mailbox, place);
      const received = date === '' ? isoAt(place) : date;
      // Unknown wire fields come first, so that parsed fields take precedence.
      const fields = JSON.stringify({ ...extra, date: received, ...listing });
      record = this.#records.keep(row, fields.slice(1, -1));
    }
    const flags = this.flags(entry);
    const isUnseen = !flags.includes('\\Seen');
    return `{"uid":${uid},"path":${JSON.stringify(folder.path)},"flags":${JSON.stringify(flags)},"unseen":${isUnseen},${record}}`;
  }

  /** Returns undefined if the message has been removed since its uid was read. */
  place({ id, generation }: OriginFolder, { row, uid }: MirrorEntry): OriginPlace | undefined {
    const place = this.archive.catalog.origin.place(row);
    const isIt = place?.folder === id && place.generation === generation && place.uid === uid;
    return isIt ? place : undefined;
  }

  /** Returns the origin's listing of a message, or the catalog's data if the log no longer contains the facts. */
  listing(mailbox: MirroredMailbox, place: OriginPlace): Unchanging {
    const found = this.#factsOf(place.commit).filter(
      (fact) =>
        (fact.fact === 'appeared' || fact.fact === 'quarantined') &&
        fact.host === mailbox.host &&
        fact.mailbox === mailbox.mailbox &&
        fact.generation === place.generation &&
        fact.uid === place.uid,
    );
    const path = this.archive.catalog.origin.pathAt(place.folder, place.commit);
    const samePath = found.find((fact) => 'folder' in fact && fact.folder === path);
    // If a folder was renamed in the same commit, its facts contain another path. Two folders may use the same uids.
    const fact = samePath ?? (found.length === 1 ? found[0] : undefined);
    if (fact === undefined || !('listing' in fact)) return fromCatalog(place);
    const { uid: _uid, flags: _flags, ...listing } = fact.listing;
    return listing;
  }

  flags({ flagSet }: MirrorEntry): readonly string[] {
    return this.archive.catalog.origin.flags(flagSet);
  }

  #counts(folder: OriginFolder, moment: Moment) {
    if (moment === null) return this.archive.catalog.origin.counts(folder);
    const { count, unread } = this.uids(folder, moment);
    return { messages: count, unread };
  }

  #factsOf(commit: number): readonly Fact[] {
    const known = this.#facts.find(this.#commit, commit);
    if (known !== undefined) return known;
    try {
      return this.#facts.keep(commit, this.archive.sources().factsOf(commit));
    } catch (error) {
      // Damage in one part of the log must not hide the page's other messages. Verification reports it.
      if (error instanceof MailkeepError && error.family === 'damage')
        return this.#facts.keep(commit, []);
      throw error;
    }
  }

  #refresh(): number {
    this.#commit = this.archive.catalog.reached().number;
    return this.#commit;
  }
}

function recordOf(
  { path, name, delimiter, specialUse }: OriginFolder,
  { messages, unread }: { messages: number; unread: number },
): FolderRecord {
  return { path, name, delimiter, specialUse, messageCount: messages, unreadCount: unread };
}

interface MirroredMailbox extends KnownMailbox {
  readonly resourceId: string;
}

/**
 * Assigns mailbox ids. If two hosts share an id, the later mailbox has its host appended.
 *
 * @param mailboxes all that the token may read, in order of discovery: others must not affect the ids
 */
export function mirroredMailboxes(mailboxes: readonly KnownMailbox[]): MirroredMailbox[] {
  const taken = new Set<string>();
  return mailboxes.map((mailbox) => {
    let resourceId = mailbox.mailbox;
    // A host may use an id that looks like another host's.
    while (taken.has(resourceId)) resourceId += `~${mailbox.host}`;
    taken.add(resourceId);
    return { ...mailbox, resourceId };
  });
}

const DAY = z.iso.date();
const INSTANT = z.union([
  z.iso.datetime({ offset: true }),
  z.iso.datetime({ offset: true, precision: -1 }),
]);
const DAY_MS = 86_400_000;

/**
 * Reads `asOf`, our extension of the Mailbox API: a UTC day, meaning its end, or an RFC 3339 time. @throws Refusal 422
 */
function momentOf(raw: string | null, commitAt: (time: number) => number | undefined): Moment {
  if (raw === null) return null;
  const isDay = DAY.safeParse(raw).success;
  if (!isDay && !INSTANT.safeParse(raw).success)
    throw invalid({ asOf: ['must be a day (2026-03-14) or a time with its zone (RFC 3339)'] });
  const time = Date.parse(raw);
  return commitAt(isDay ? time + DAY_MS - 1 : time) ?? 0;
}

type InFolder = ReturnType<typeof folderOf>;

/** Throws the same error for a missing mailbox and one outside the token's scope. */
function mailboxOf(call: MirrorCall): MirroredMailbox {
  const { mailboxResourceId = '' } = call.params;
  const mailbox = call.mailboxes.find(({ resourceId }) => resourceId === mailboxResourceId);
  if (mailbox !== undefined) return mailbox;
  const status = call.operation.errors.includes(404) ? 404 : 403;
  const params = { mailboxResourceId };
  throw new Refusal(status, 'ERR_MAILBOX_NOT_FOUND', 'The mailbox does not exist', params);
}

function folderOf(call: MirrorCall) {
  const mailbox = mailboxOf(call);
  const { folder: path = '' } = call.params;
  const folder = call.view.folder(mailbox, canonicalPath(path), call.moment);
  if (folder === undefined)
    throw notFound(call, 'ERR_FOLDER_NOT_FOUND', 'The folder does not exist', { folder: path });
  return { mailbox, folder, uids: call.view.uids(folder, call.moment) };
}

function messageOf(call: MirrorCall) {
  const at = folderOf(call);
  const uid = uidFrom(call.params.uid);
  const entry = at.uids.get(uid);
  if (entry === undefined) throw messageMissing(call, uid);
  return { ...at, entry };
}

/** @throws Refusal 502 for an incomplete message */
function storedOf(call: MirrorCall) {
  const message = messageOf(call);
  const { uid } = message.entry;
  const place = call.view.place(message.folder, message.entry);
  if (place === undefined) throw messageMissing(call, uid);
  const { id } = place;
  if (id === null)
    throw new Refusal(
      502,
      'ERR_QUARANTINED',
      'The source of this message could not be fetched whole, and is not in the archive',
      { uid },
    );
  return { ...message, id, place };
}

function messageMissing(call: MirrorCall, uid: number): Refusal {
  return notFound(call, 'ERR_MESSAGE_NOT_FOUND', 'The message does not exist', { uid });
}

function notFound(
  { operation }: MirrorCall,
  code: string,
  message: string,
  params: Readonly<Record<string, unknown>>,
): Refusal {
  return new Refusal(operation.errors.includes(404) ? 404 : 422, code, message, params);
}

/** Messages per slice. Each takes a few microseconds to query. */
const SLICE = 500;

/** Lets other requests run between slices: a folder may have a million messages. */
async function inSlices<T>(items: readonly T[], act: (item: T) => void): Promise<void> {
  for (let start = 0; start < items.length; start += SLICE) {
    if (start > 0) await nextTurn();
    for (const item of items.slice(start, start + SLICE)) act(item);
  }
}

/** Time limit for a search in milliseconds, including its wait for other searches. */
const SEARCH_MS = 60_000;
const MAX_NAMED = 100;

/** Answers `listMessages` and `searchMessages`. Criteria that read sources run last, on a worker thread. */
async function pageOfMessages(call: MirrorCall): Promise<ReadyReply> {
  const until = call.clock() + SEARCH_MS;
  const at = folderOf(call);
  const { uids } = at;
  const page = pageOf(call.query, 25, 100);
  const { field, descending } = sortOf(call.query);
  const criteria = call.body === undefined ? {} : bodyFrom(call.body, searchRequest);
  const spans = criteriaSpans(criteria, uids.lastUid);
  const facts = factsTest(criteria);
  const readsSources = sourceTest(criteria) !== null;
  if (facts === null && !readsSources && field === 'uid')
    return listPage(call, at, page, pageOfSpans(uids, spans, page, descending));
  let found = allWithin(uids, spans);
  if (facts !== null) {
    const matches: MirrorEntry[] = [];
    await inSlices(found, (entry) => {
      const received = () => uids.facts(entry).date;
      const size = () => uids.facts(entry).size;
      if (facts({ flags: call.view.flags(entry), received, size })) matches.push(entry);
    });
    found = matches;
  }
  if (readsSources) found = await withMatchingSources(call, at, found, criteria, until);
  if (field === 'uid') return listPage(call, at, page, pageOfSorted(found, null, page, descending));
  await inSlices(found, (entry) => uids.facts(entry));
  const key = (entry: MirrorEntry): number => uids.facts(entry)[field];
  return listPage(call, at, page, pageOfSorted(found, key, page, descending));
}

/** Incomplete messages have no source, so they never match. */
async function withMatchingSources(
  { alone, searching, view, clock, isGone }: MirrorCall,
  { folder }: InFolder,
  entries: readonly MirrorEntry[],
  criteria: Criteria,
  until: number,
): Promise<MirrorEntry[]> {
  const stored: MirrorEntry[] = [];
  const ids: MessageId[] = [];
  await inSlices(entries, (entry) => {
    const id = view.place(folder, entry)?.id ?? null;
    if (id === null) return;
    stored.push(entry);
    ids.push(id);
  });
  const jobNow = () => {
    const withinMs = until - clock();
    if (withinMs <= 0 || isGone()) throw timeoutError();
    return { kind: 'match', criteria, ids, withinMs } as const;
  };
  const { positions, damaged, why } = await alone(() => searching.run(jobNow));
  if (positions === null) throw timeoutError();
  if (why !== null) {
    const uids = damaged.flatMap((at) => stored[at]?.uid ?? []);
    // The page would be incomplete, because the damaged messages may match.
    throw new Refusal(
      502,
      'ERR_DAMAGED',
      'Messages that the search has to read are damaged. A set of uids without these can be searched',
      { folder: folder.path, damaged: uids.length, uids: uids.slice(0, MAX_NAMED) },
      {},
      { cause: deserializeError(why) },
    );
  }
  return positions.flatMap((at) => stored[at] ?? []);
}

function timeoutError(): Refusal {
  return new Refusal(502, 'ERR_SEARCH_TOO_LONG', 'The search took longer than a minute');
}

/** Omits messages removed since the search, so a page can be short. `total` still counts them. */
function listPage(
  { view }: MirrorCall,
  { mailbox, folder }: InFolder,
  page: Page,
  { entries, total }: FoundPage<MirrorEntry>,
): ReadyReply {
  return pageReply(
    entries.flatMap((entry) => view.json(mailbox, folder, entry) ?? []),
    page,
    total,
  );
}

const STREAM_FROM_BYTES = 1 << 20;

type MirrorReply = ReadyReply | StreamReply;
type Handler = (call: MirrorCall) => MirrorReply | Promise<MirrorReply>;

/** Read operations by name. Any operation not listed here would write. */
const READING: Readonly<Record<string, Handler>> = {
  getCurrentAccount: ({ mailboxes }) =>
    dataReply({
      orderResourceId: ORDER,
      mailboxes: mailboxes.map(({ resourceId, address }) => ({ resourceId, address })),
    }),
  getQuota: (call) => dataReply(call.quotaOf(mailboxOf(call))),
  async listFolders(call) {
    const mailbox = mailboxOf(call);
    const page = pageOf(call.query, 50, 100);
    return pageOfAll(await call.view.folders(mailbox, call.moment), page, (record) => record);
  },
  listMessages: pageOfMessages,
  searchMessages: pageOfMessages,
  getMessage(call) {
    const { mailbox, folder, entry } = messageOf(call);
    const json = call.view.json(mailbox, folder, entry);
    if (json === undefined) throw messageMissing(call, entry.uid);
    return { kind: 'text', status: 200, text: `{"data":${json}}` };
  },
  getMessageSource(call) {
    const { id, place } = storedOf(call);
    const sources = call.reader.sources();
    const type = 'message/rfc822';
    if (place.size <= STREAM_FROM_BYTES)
      return { kind: 'bytes', type, bytes: sources.readMessage(id) };
    return { kind: 'stream', type, length: sources.sizeOf(id), pieces: sources.streamMessage(id) };
  },
  async getMessageText(call) {
    const { id } = storedOf(call);
    return dataReply(await call.rendering.run(() => ({ kind: 'text', id })));
  },
  async getMessageAttachment(call) {
    const { mailbox, id, place, entry } = storedOf(call);
    const attachmentId = call.params.attachmentId ?? '';
    const { attachments: listed } = call.view.listing(mailbox, place);
    const isKnown = listed.some((attachment) => attachment.id === attachmentId);
    const bytes = isKnown
      ? await call.rendering.run(() => ({ kind: 'attachment', id, listed, attachmentId }))
      : null;
    if (bytes === null)
      throw notFound(call, 'ERR_ATTACHMENT_NOT_FOUND', 'The attachment does not exist', {
        uid: entry.uid,
        attachmentId,
      });
    const { buffer, byteOffset, byteLength } = bytes;
    const type = 'application/octet-stream';
    return { kind: 'bytes', type, bytes: Buffer.from(buffer, byteOffset, byteLength) };
  },
  listWebhooks(call) {
    mailboxOf(call);
    return pageOfAll([], pageOf(call.query, 50, 1000), () => ({}));
  },
  getWebhook(call) {
    mailboxOf(call);
    const { webhookId = '' } = call.params;
    throw notFound(call, 'ERR_WEBHOOK_NOT_FOUND', 'The webhook does not exist', { webhookId });
  },
};

const LARGE = 1 << 20;
const PIECE = 1 << 16;
const JSON_TYPE = 'application/json; charset=utf-8';

/** A reply that is sent in pieces. A source is verified only after its last piece. */
interface StreamReply {
  readonly kind: 'stream';
  readonly type: string;
  readonly length: number;
  readonly pieces: AsyncIterable<Buffer>;
}

/**
 * Sends a reply. A large one keeps its turn until it is sent, so that replies to slow clients cannot pile up in memory.
 *
 * @param check throws if no more of the reply may be sent
 */
function sendReply(reply: MirrorReply, check: () => void, finish: () => void): Response {
  const ready = reply.kind === 'stream' ? reply : inPieces(reply);
  if (ready.kind !== 'stream') {
    finish();
    return toResponse(ready);
  }
  const headers = { 'content-type': ready.type, 'content-length': String(ready.length) };
  return new Response(streamOf(ready.pieces, check, finish), { headers });
}

export function toResponse(reply: ReadyReply): Response {
  switch (reply.kind) {
    case 'empty':
      return new Response(null, { status: reply.status });
    case 'text':
      return new Response(reply.text, {
        status: reply.status,
        headers: { 'content-type': JSON_TYPE, ...reply.headers },
      });
    case 'bytes':
      return new Response(new Uint8Array(reply.bytes), {
        headers: { 'content-type': reply.type, 'content-length': String(reply.bytes.length) },
      });
  }
}

function inPieces(reply: ReadyReply): MirrorReply {
  if (reply.kind === 'empty' || (reply.kind === 'text' && reply.status !== 200)) return reply;
  const isText = reply.kind === 'text';
  if ((isText ? reply.text : reply.bytes).length <= LARGE) return reply;
  const bytes = isText ? Buffer.from(reply.text) : reply.bytes;
  const type = isText ? JSON_TYPE : reply.type;
  return { kind: 'stream', type, length: bytes.length, pieces: piecesOf(bytes) };
}

async function* piecesOf(bytes: Buffer): AsyncGenerator<Buffer, void, undefined> {
  for (let at = 0; at < bytes.length; at += PIECE) yield bytes.subarray(at, at + PIECE);
}

/** Damage found mid-stream drops the connection, because the length has already been sent. */
function streamOf(
  pieces: AsyncIterable<Buffer>,
  check: () => void,
  finish: () => void,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const iterator = pieces[Symbol.asyncIterator]();
  return new ReadableStream({
    async pull(controller) {
      try {
        const next = await iterator.next();
        check();
        if (next.done !== true) {
          controller.enqueue(new Uint8Array(next.value));
          return;
        }
        controller.close();
        finish();
      } catch (error) {
        finish();
        await iterator.return?.();
        controller.error(error);
      }
    },
    async cancel() {
      await iterator.return?.();
      finish();
    },
  });
}

export function bearerToken(
  header: string | null,
  authorize: (secret: string) => ApiToken | undefined,
): ApiToken | undefined {
  const secret = /^Bearer +([^\s]+) *$/i.exec(header ?? '')?.[1];
  return secret === undefined ? undefined : authorize(secret);
}

/** @throws Refusal 401 */
export function requireToken(...args: Parameters<typeof bearerToken>): ApiToken {
  const token = bearerToken(...args);
  if (token !== undefined) return token;
  throw unauthorized('The token is missing, malformed, expired or revoked');
}

/** @throws Refusal 403 for a request from another origin's page */
export function refuseForeign(request: Request, ownOrigin: string): void {
  if (isForeign(request, ownOrigin))
    throw new Refusal(403, 'ERR_FORBIDDEN_ORIGIN', 'A page of another origin may not ask here');
}

const MAX_BODY_BYTES = 1 << 20;
/** Order id to report: the archive has no orders. */
const ORDER = 'mirror';
/** Timeout of a search thread, in milliseconds. A search stops itself earlier unless one message takes too long. */
const SEARCHING_MS = 65_000;
const RENDERING_MS = 20_000;
const SEARCHES = 2;

const ROUTES = new RouteTable(
  Object.values(MAILBOX_OPERATIONS).map((operation) => ({
    method: operation.method,
    path: operation.path,
    operation,
  })),
);

interface MirrorOptions {
  readonly archive: Pick<ServedArchive, 'dataDir' | 'hold'>;
  readonly authorize: (secret: string) => ApiToken | undefined;
  readonly state: Pick<StateFile, 'get'> | null;
  readonly onError: (error: unknown) => void;
  /** Returns milliseconds from a monotonic clock. */
  readonly clock?: () => number;
}

/** Serves the Mailbox API's read operations from the archive, and refuses writes. Tokens only, no cookies. */
export class MirrorSurface {
  readonly #views = new WeakMap<Catalog, MirrorView>();
  readonly #searching: ContentThreads;
  readonly #rendering: ContentThreads;
  readonly #turns = new TokenQueue();

  constructor(private readonly options: MirrorOptions) {
    const { archive } = options;
    this.#searching = new ContentThreads(archive, SEARCHES, SEARCHING_MS);
    this.#rendering = new ContentThreads(archive, 1, RENDERING_MS);
  }

  /** Never rejects: errors become replies. @param ownOrigin origin of this server's pages; others are refused */
  async fetch(request: Request, ownOrigin: string): Promise<Response> {
    try {
      return await this.#answer(request, ownOrigin);
    } catch (error) {
      const cause = error instanceof Refusal ? error.cause : error;
      if (cause !== undefined) this.options.onError(cause);
      // Reported like an unreachable upstream.
      const isDamage = error instanceof MailkeepError && error.family === 'damage';
      const damaged = 'This part of the archive is damaged';
      return toResponse(envelope(isDamage ? new Refusal(502, 'ERR_DAMAGED', damaged) : error));
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#searching.close(), this.#rendering.close()]);
  }

  async #answer(request: Request, ownOrigin: string): Promise<Response> {
    const url = new URL(request.url);
    const match = ROUTES.match(request.method, url.pathname);
    if (match.kind !== 'found') throw noRoute(match);
    const { operation } = match.route;
    refuseForeign(request, ownOrigin);
    const header = request.headers.get('authorization');
    const authorize = () => requireToken(header, this.options.authorize);
    const token = authorize();
    const handler = Object.hasOwn(READING, operation.name) ? READING[operation.name] : undefined;
    if (handler === undefined)
      throw new Refusal(
        403,
        'ERR_READ_ONLY',
        'This is a mirror of the mailboxes: it can be read, and changes nothing',
        { operation: operation.name },
      );
    const leave = await this.#turns.enter(token.id);
    let release = () => {};
    const finish = () => {
      release();
      leave();
    };
    try {
      const { archive, state, clock = () => performance.now() } = this.options;
      const { reader, release: releaseArchive } = archive.hold(null);
      release = releaseArchive;
      const { catalog } = reader;
      const query = url.searchParams;
      const moment = momentOf(query.get('asOf'), (at) => catalog.commitAt(at)?.number);
      const mailboxes = catalog.folders
        .mailboxes()
        .filter((one) => token.mailboxes?.includes(mailboxKey(one)) ?? true);
      const view = this.#views.get(catalog) ?? new MirrorView(reader);
      this.#views.set(catalog, view);
      const reply = await handler({
        ...{ operation, query, moment, reader, view, clock },
        params: match.params,
        body: operation.body === null ? undefined : await jsonBody(request),
        mailboxes: mirroredMailboxes(mailboxes),
        searching: this.#searching,
        rendering: this.#rendering,
        quotaOf: (mailbox) => quotaRecord(state?.get('quota', mailboxKey(mailbox))),
        alone: (act) => this.#turns.alone(token.id, act),
        isGone: () => request.signal.aborted,
      });
      // The request may have waited or searched for a while, during which the token may have been revoked.
      authorize();
      return sendReply(reply, authorize, finish);
    } catch (error) {
      finish();
      throw error;
    }
  }
}

interface MirrorCall {
  readonly operation: Operation;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly body: unknown;
  readonly mailboxes: readonly MirroredMailbox[];
  readonly moment: Moment;
  readonly reader: OpenArchive;
  readonly view: MirrorView;
  readonly searching: ContentThreads;
  readonly rendering: ContentThreads;
  readonly quotaOf: (mailbox: KnownMailbox) => QuotaRecord;
  readonly alone: <T>(act: () => Promise<T>) => Promise<T>;
  readonly clock: () => number;
  readonly isGone: () => boolean;
}

function noRoute(match: { readonly kind: string; readonly allowed?: readonly string[] }): Refusal {
  const { allowed } = match;
  if (allowed === undefined) return new Refusal(404, 'ERR_NOT_FOUND', 'There is no such route');
  const allow = allowed.join(', ');
  const message = `There is no such route; this path has ${allow}`;
  return new Refusal(404, 'ERR_NOT_FOUND', message, { allowed }, { allow });
}

async function jsonBody(request: Request): Promise<unknown> {
  const bytes = await readAtMost(request, MAX_BODY_BYTES);
  if (bytes === null) throw bodyTooLarge(MAX_BODY_BYTES);
  return parseJsonBody(bytes, request.headers.get('content-type') ?? undefined);
}

/** Returns a mailbox's quota in wire format, as the origin last reported it; unsupported if it never did. */
function quotaRecord(known: ScopeValue<'quota'> | undefined): QuotaRecord {
  const quotas = (known?.resources ?? []).map(({ name, usage, limit }) => ({
    resourceName: name,
    usage,
    limit: limit ?? 0,
    percentage: limit === null || limit === 0 ? 0 : Math.round((usage / limit) * 100),
  }));
  const storage = quotas.find(({ resourceName }) => resourceName === 'STORAGE');
  return {
    quotas,
    totalUsage: storage?.usage ?? 0,
    totalLimit: storage?.limit ?? 0,
    totalPercentage: storage?.percentage ?? 0,
    supported: quotas.length > 0,
  };
}
