import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import type { Fact } from '../archive/format.ts';
import type { LogReader } from '../archive/log-reader.ts';
import type { SegmentStore } from '../archive/segment-files.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { KnownMailbox } from '../catalog/folders.ts';
import type {
  OriginFacts,
  OriginFolder,
  OriginPlace,
  OriginQueries,
  OriginUids,
} from '../catalog/origin-places.ts';
import { MailkeepError, rethrown } from '../core/errors.ts';
import { isForeign, readAtMost } from '../core/listener.ts';
import type { ApiToken } from '../core/state.ts';
import type { Listing, MailboxKey, MessageId } from '../core/types.ts';
import { isDated, receivedAt } from '../mail/docid.ts';
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
  routePath,
  type Sort,
  type SortField,
  sortOf,
  sourceTest,
  spansOfCriteria,
  spelledPath,
  type UidOrder,
  uidFrom,
  unauthorized,
} from '../service/surface.ts';
import type { Operation } from '../service/wire.ts';
import { ContentThreads, TokenTurns } from './content-threads.ts';

interface MirrorEntry {
  readonly uid: number;
  /** See `OriginUids`. */
  readonly row: number;
  readonly flagSet: number;
  readonly at: number;
}

/** The messages of a folder at one commit, ordered by uid. */
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
    this.#facts ??= { sizes: unknown(this.count), dates: unknown(this.count) };
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

function unknown(count: number): Float64Array {
  return new Float64Array(count).fill(Number.NaN);
}

/** Characters of cached records: about 20,000 records. */
const CEILING = 16 * 1024 * 1024;
/** Commits whose parsed facts are cached. The messages of one page mostly arrived together. */
const COMMITS = 16;

/** The parts of a listing that do not depend on uid or flags. */
type Unchanging = Omit<Listing, 'uid' | 'flags'>;

/**
 * Returns listing records as the origin showed them, from the facts in the log. A record never changes while its place
 * exists, so its JSON is cached up to a limit.
 */
class ListingRecords {
  readonly #fragments = new Map<number, string>();
  readonly #commits = new Map<number, readonly Fact[]>();
  #characters = 0;

  constructor(
    private readonly log: () => Pick<LogReader, 'factsOf'>,
    private readonly pathAt: OriginQueries['pathAt'],
  ) {}

  /** Clears the caches: after another commit, rows may be reused and messages may be forgotten. */
  clear(): void {
    this.#fragments.clear();
    this.#commits.clear();
    this.#characters = 0;
  }

  /** Returns a message's record as wire JSON; undefined if its place is gone. */
  json(
    mailbox: MailboxKey,
    path: string,
    { uid, row }: { uid: number; row: number },
    flags: readonly string[],
    placeOf: () => OriginPlace | undefined,
  ): string | undefined {
    let fragment = this.#fragments.get(row);
    if (fragment === undefined) {
      const place = placeOf();
      if (place === undefined) return undefined;
      fragment = JSON.stringify(this.#record(mailbox, place)).slice(1, -1);
      this.#keep(row, fragment);
    }
    const unseen = !flags.includes('\\Seen');
    return `{"uid":${uid},"path":${JSON.stringify(path)},"flags":${JSON.stringify(flags)},"unseen":${unseen},${fragment}}`;
  }

  /** Returns the origin's listing of a message, or the catalog's data if the log no longer has the facts. */
  listing(mailbox: MailboxKey, place: OriginPlace): Unchanging {
    return this.#listed(mailbox, place) ?? fromCatalog(place);
  }

  #record(mailbox: MailboxKey, place: OriginPlace): Record<string, unknown> {
    const { extra, date, ...listing } = this.listing(mailbox, place);
    const received = date === '' ? isoAt(place) : date;
    // Unknown fields of the wire come first, so that the fields we parsed take precedence.
    return { ...extra, date: received, ...listing };
  }

  #listed(mailbox: MailboxKey, place: OriginPlace): Unchanging | undefined {
    const found = this.#factsOf(place.commit).filter(
      (fact) =>
        (fact.fact === 'appeared' || fact.fact === 'quarantined') &&
        fact.host === mailbox.host &&
        fact.mailbox === mailbox.mailbox &&
        fact.generation === place.generation &&
        fact.uid === place.uid,
    );
    const then = this.pathAt(place.folder, place.commit);
    const there = found.find((fact) => 'folder' in fact && fact.folder === then);
    // A folder renamed in the same commit has another path in its facts. Uids of two folders may coincide.
    const fact = there ?? (found.length === 1 ? found[0] : undefined);
    if (fact === undefined || !('listing' in fact)) return undefined;
    const { uid: _uid, flags: _flags, ...listing } = fact.listing;
    return listing;
  }

  #factsOf(commit: number): readonly Fact[] {
    const known = this.#commits.get(commit);
    if (known !== undefined) return known;
    const facts = this.#readFacts(commit);
    this.#commits.set(commit, facts);
    const [oldest] = this.#commits.keys();
    if (this.#commits.size > COMMITS && oldest !== undefined) this.#commits.delete(oldest);
    return facts;
  }

  #readFacts(commit: number): readonly Fact[] {
    try {
      return this.log().factsOf(commit);
    } catch (error) {
      // Damage in one part of the log must not hide the other messages of a page. Verification reports it.
      if (error instanceof MailkeepError && error.family === 'damage') return [];
      throw error;
    }
  }

  #keep(row: number, fragment: string): void {
    this.#fragments.set(row, fragment);
    this.#characters += fragment.length;
    for (const [oldest, { length }] of this.#fragments) {
      if (this.#characters <= CEILING) return;
      this.#fragments.delete(oldest);
      this.#characters -= length;
    }
  }
}

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

/** Null for a message without a date: imported mail may have none, although a service always shows one. */
function isoAt({ docid }: OriginPlace): string | null {
  return isDated(docid) ? new Date(receivedAt(docid)).toISOString() : null;
}

/** Messages whose uids and sort fields are cached: 36 bytes each. */
const KEPT_MESSAGES = 1_000_000;
/** Cost of an empty folder, in messages: each folder is cached once per requested moment. */
const FOLDER_COSTS = 20;
/** Cached folder lists: one per mailbox and requested moment. */
const KEPT_LISTS = 200;

/** An open archive. A rebuild replaces it. */
interface OpenArchive {
  readonly catalog: Catalog;
  sources(): LogReader;
}

type Moment = number | null;

/** Answers the Mailbox API from an open archive. Uids and counts are cached until the next commit. */
export class MirrorView {
  readonly #records: ListingRecords;
  readonly #uids = new Map<string, FolderUids>();
  readonly #folders = new Map<string, readonly FolderRecord[]>();
  #reached = -1;
  #kept = 0;

  constructor(private readonly archive: OpenArchive) {
    this.#records = new ListingRecords(
      () => archive.sources(),
      (folder, commit) => archive.catalog.origin.pathAt(folder, commit),
    );
  }

  async folders(mailbox: MirroredMailbox, moment: Moment): Promise<readonly FolderRecord[]> {
    this.#refresh();
    const key = `${mailbox.id} ${moment ?? 'now'}`;
    const known = this.#folders.get(key);
    if (known !== undefined) return known;
    const { origin } = this.archive.catalog;
    const reached = this.#reached;
    const records: FolderRecord[] = [];
    for (const folder of origin.folders(mailbox, moment)) {
      records.push(recordOf(folder, this.#counts(folder, moment)));
      // Counting as of a moment reads all uids of a folder, so let other requests run in between.
      if (moment !== null) await nextTurn();
    }
    records.sort(byFolderPath);
    if (reached !== this.#reached) return records;
    this.#folders.set(key, records);
    const [oldest] = this.#folders.keys();
    if (this.#folders.size > KEPT_LISTS && oldest !== undefined) this.#folders.delete(oldest);
    return records;
  }

  folder(mailbox: MirroredMailbox, path: string, moment: Moment): OriginFolder | undefined {
    return this.archive.catalog.origin.folders(mailbox, moment).find((one) => one.path === path);
  }

  uids(folder: OriginFolder, moment: Moment): FolderUids {
    this.#refresh();
    const key = `${folder.id} ${folder.generation} ${moment ?? 'now'}`;
    let uids = this.#uids.get(key);
    if (uids === undefined) {
      const { origin } = this.archive.catalog;
      uids = new FolderUids(origin.uids(folder, moment), (row) => origin.facts(row));
      this.#keep(key, uids);
    }
    return uids;
  }

  /** Returns the record of a message as JSON; undefined if the message has gone since its uid was read. */
  json(mailbox: MirroredMailbox, folder: OriginFolder, entry: MirrorEntry): string | undefined {
    const flags = this.flags(entry);
    const placeOf = () => this.place(folder, entry);
    return this.#records.json(mailbox, folder.path, entry, flags, placeOf);
  }

  /** Returns the place of a message; undefined if the message has gone since its uid was read. */
  place({ id, generation }: OriginFolder, { row, uid }: MirrorEntry): OriginPlace | undefined {
    const place = this.archive.catalog.origin.place(row);
    const isIt = place?.folder === id && place.generation === generation && place.uid === uid;
    return isIt ? place : undefined;
  }

  listing(mailbox: MirroredMailbox, place: OriginPlace) {
    return this.#records.listing(mailbox, place);
  }

  flags({ flagSet }: MirrorEntry): readonly string[] {
    return this.archive.catalog.origin.flags(flagSet);
  }

  #counts(folder: OriginFolder, moment: Moment) {
    if (moment === null) return this.archive.catalog.origin.counts(folder);
    const { count, unread } = this.uids(folder, moment);
    return { messages: count, unread };
  }

  #refresh(): void {
    const { number } = this.archive.catalog.reached();
    if (number === this.#reached) return;
    this.#reached = number;
    this.#uids.clear();
    this.#folders.clear();
    this.#records.clear();
    this.#kept = 0;
  }

  #keep(key: string, uids: FolderUids): void {
    this.#uids.set(key, uids);
    this.#kept += uids.count + FOLDER_COSTS;
    for (const [oldest, { count }] of this.#uids) {
      if (this.#kept <= KEPT_MESSAGES || oldest === key) return;
      this.#uids.delete(oldest);
      this.#kept -= count + FOLDER_COSTS;
    }
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
 * Returns mailboxes with their resource ids. If two hosts share a mailbox id, the later one gets its host appended.
 *
 * @param mailboxes all mailboxes that the token may read, in order of discovery: other mailboxes must not affect the
 *   ids
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
/** Seconds are optional. */
const INSTANT = z.union([
  z.iso.datetime({ offset: true }),
  z.iso.datetime({ offset: true, precision: -1 }),
]);
const DAY_MS = 86_400_000;

/**
 * Reads `asOf`, our extension of the Mailbox API: a UTC day, meaning its end, or an RFC 3339 time with its zone.
 *
 * @throws Refusal 422, also for days that do not exist
 */
function momentOf(raw: string | null, commitAt: (time: number) => number | undefined): Moment {
  if (raw === null) return null;
  const isDay = DAY.safeParse(raw).success;
  if (!isDay && !INSTANT.safeParse(raw).success)
    throw invalid({ asOf: ['must be a day (2026-03-14) or a time with its zone (RFC 3339)'] });
  const time = Date.parse(raw);
  return commitAt(isDay ? time + DAY_MS - 1 : time) ?? 0;
}

interface InFolder {
  readonly mailbox: MirroredMailbox;
  readonly folder: OriginFolder;
  readonly uids: FolderUids;
}

/** Returns the mailbox of the path. A missing mailbox and one outside the token's scope give the same error. */
function mailboxOf(call: MirrorCall): MirroredMailbox {
  const { mailboxResourceId = '' } = call.params;
  const mailbox = call.mailboxes.find(({ resourceId }) => resourceId === mailboxResourceId);
  if (mailbox !== undefined) return mailbox;
  const status = call.operation.errors.includes(404) ? 404 : 403;
  const params = { mailboxResourceId };
  throw new Refusal(status, 'ERR_MAILBOX_NOT_FOUND', 'The mailbox does not exist', params);
}

function folderOf(call: MirrorCall): InFolder {
  const mailbox = mailboxOf(call);
  const { folder: path = '' } = call.params;
  const folder = call.view.folder(mailbox, spelledPath(path), call.moment);
  if (folder === undefined)
    throw missing(call, 'ERR_FOLDER_NOT_FOUND', 'The folder does not exist', { folder: path });
  return { mailbox, folder, uids: call.view.uids(folder, call.moment) };
}

function messageOf(call: MirrorCall): InFolder & { readonly entry: MirrorEntry } {
  const at = folderOf(call);
  const uid = uidFrom(call.params.uid);
  const entry = at.uids.get(uid);
  if (entry === undefined) throw messageMissing(call, uid);
  return { ...at, entry };
}

/** Returns a message whose source is stored. @throws Refusal 502 for an incomplete message */
function storedOf(
  call: MirrorCall,
): ReturnType<typeof messageOf> & { readonly id: MessageId; readonly place: OriginPlace } {
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
  return missing(call, 'ERR_MESSAGE_NOT_FOUND', 'The message does not exist', { uid });
}

/** Returns a refusal for missing data: 404 if the operation declares it, else 422. */
function missing(
  { operation }: MirrorCall,
  code: string,
  message: string,
  params: Readonly<Record<string, unknown>>,
): Refusal {
  return new Refusal(operation.errors.includes(404) ? 404 : 422, code, message, params);
}

/** Messages per slice: each takes a few microseconds of queries. */
const SLICE = 500;

/** Runs `act` on each item and lets other requests run between slices: a folder may have a million messages. */
async function inSlices<T>(items: readonly T[], act: (item: T) => void): Promise<void> {
  for (let start = 0; start < items.length; start += SLICE) {
    if (start > 0) await nextTurn();
    for (const item of items.slice(start, start + SLICE)) act(item);
  }
}

/** Time limit of a search in milliseconds, including its wait for other searches. */
const SEARCH_MS = 60_000;
const MAX_NAMED = 100;

async function listMessages(call: MirrorCall): Promise<ReadyReply> {
  const at = folderOf(call);
  const page = pageOf(call.query, 25, 100);
  const sort = sortOf(call.query);
  const everything = [{ low: 1, high: at.uids.lastUid }];
  if (sort.field === 'uid')
    return listed(call, at, page, pageOfSpans(at.uids, everything, page, sort.descending));
  return listed(call, at, page, await sorted(at, allWithin(at.uids, everything), page, sort));
}

/** Answers `searchMessages`. Criteria that read sources run last, on a worker thread. */
async function searchMessages(call: MirrorCall): Promise<ReadyReply> {
  const until = call.clock() + SEARCH_MS;
  const at = folderOf(call);
  const page = pageOf(call.query, 25, 100);
  const sort = sortOf(call.query);
  const criteria = bodyFrom(call.body, searchRequest);
  const spans = spansOfCriteria(criteria, at.uids.lastUid);
  const facts = factsTest(criteria);
  const readsSources = sourceTest(criteria) !== null;
  if (facts === null && !readsSources && sort.field === 'uid')
    return listed(call, at, page, pageOfSpans(at.uids, spans, page, sort.descending));
  let found = allWithin(at.uids, spans);
  if (facts !== null) {
    const fitting: MirrorEntry[] = [];
    await inSlices(found, (entry) => {
      const received = () => at.uids.facts(entry).date;
      const size = () => at.uids.facts(entry).size;
      if (facts({ flags: call.view.flags(entry), received, size })) fitting.push(entry);
    });
    found = fitting;
  }
  if (readsSources) found = await withMatchingSources(call, at, found, criteria, until);
  return listed(call, at, page, await sorted(at, found, page, sort));
}

/** Keeps the entries whose sources match. Incomplete messages have no source, so they never match. */
async function withMatchingSources(
  { alone, threads, dataDir, view, clock, isGone }: MirrorCall,
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
    if (withinMs <= 0 || isGone()) throw tooLong();
    return { kind: 'match', dataDir, criteria, ids, withinMs } as const;
  };
  const { positions, damaged, why } = await alone(() => threads.searching.run(jobNow));
  if (positions === null) throw tooLong();
  if (why !== null) {
    const uids = damaged.flatMap((at) => stored[at]?.uid ?? []);
    throw damagedSources(folder.path, uids, rethrown(why));
  }
  return positions.flatMap((at) => stored[at] ?? []);
}

/** Refuses the search: whether the damaged messages match is unknown, so the page would be incomplete. */
function damagedSources(folder: string, uids: readonly number[], cause: Error): Refusal {
  return new Refusal(
    502,
    'ERR_DAMAGED',
    'Messages that the search has to read are damaged. A set of uids without these can be searched',
    { folder, damaged: uids.length, uids: uids.slice(0, MAX_NAMED) },
    {},
    { cause },
  );
}

function tooLong(): Refusal {
  return new Refusal(502, 'ERR_SEARCH_TOO_LONG', 'The search took longer than a minute');
}

/** @param entries ascending by uid; sorted in place */
async function sorted(
  { uids }: InFolder,
  entries: MirrorEntry[],
  page: Page,
  { field, descending }: Sort,
): Promise<FoundPage<MirrorEntry>> {
  if (field !== 'uid') await inSlices(entries, (entry) => uids.facts(entry));
  return pageOfSorted(entries, keyOf(uids, field), page, descending);
}

function keyOf(uids: InFolder['uids'], field: SortField): ((entry: MirrorEntry) => number) | null {
  return field === 'uid' ? null : (entry) => uids.facts(entry)[field];
}

/** Returns a page. Messages gone meanwhile are left out, so it may be short; `total` still counts them. */
function listed(
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

/** Sources above this size in bytes are streamed as they are read. */
const STREAM_FROM_BYTES = 1 << 20;

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
  listMessages,
  searchMessages,
  getMessage(call) {
    const { mailbox, folder, entry } = messageOf(call);
    const json = call.view.json(mailbox, folder, entry);
    if (json === undefined) throw messageMissing(call, entry.uid);
    return { kind: 'text', status: 200, text: `{"data":${json}}` };
  },
  getMessageSource(call) {
    const { id, place } = storedOf(call);
    const sources = call.archive.sources();
    const type = 'message/rfc822';
    if (place.size <= STREAM_FROM_BYTES)
      return { kind: 'bytes', type, bytes: sources.readMessage(id) };
    return { kind: 'stream', type, length: sources.sizeOf(id), pieces: sources.streamMessage(id) };
  },
  async getMessageText(call) {
    const { id } = storedOf(call);
    const { dataDir, threads } = call;
    const { rendered } = await threads.rendering.run(() => ({ kind: 'text', dataDir, id }));
    return dataReply(rendered);
  },
  async getMessageAttachment(call) {
    const { mailbox, id, place, entry } = storedOf(call);
    const { dataDir, threads } = call;
    const attachmentId = call.params.attachmentId ?? '';
    const { attachments: listed } = call.view.listing(mailbox, place);
    const known = listed.some((attachment) => attachment.id === attachmentId);
    const { bytes } = known
      ? await threads.rendering.run(() => ({
          ...{ kind: 'attachment', dataDir, id },
          ...{ listed, attachmentId },
        }))
      : { bytes: null };
    if (bytes === null)
      throw missing(call, 'ERR_ATTACHMENT_NOT_FOUND', 'The attachment does not exist', {
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
    throw missing(call, 'ERR_WEBHOOK_NOT_FOUND', 'The webhook does not exist', { webhookId });
  },
};

/** Answers above this size in bytes are sent in pieces. */
const LARGE = 1 << 20;
const PIECE = 1 << 16;

type Ready = Exclude<MirrorReply, { kind: 'stream' }>;

/**
 * Turns a reply into a response. A large reply keeps its turn until it is sent, so that a slow client cannot pile up
 * replies in memory.
 *
 * @param check throws if no more of the reply may be sent
 * @param done ends the turn
 */
function sending(reply: MirrorReply, check: () => void, done: () => void): Response {
  if (reply.kind === 'stream') {
    const headers = { 'content-type': reply.type, 'content-length': String(reply.length) };
    return new Response(streamOf(reply.pieces, check, done), { headers });
  }
  const bytes = largeBytes(reply);
  if (bytes === null) {
    done();
    return responseOf(reply);
  }
  const type = reply.kind === 'bytes' ? reply.type : JSON_TYPE;
  const headers = { 'content-type': type, 'content-length': String(bytes.length) };
  return new Response(streamOf(piecesOf(bytes), check, done), { headers });
}

const JSON_TYPE = 'application/json; charset=utf-8';

export function responseOf(reply: Ready): Response {
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

/** Returns the bytes of a large successful reply; null for any other. */
function largeBytes(reply: Ready): Buffer | null {
  if (reply.kind === 'bytes') return reply.bytes.length > LARGE ? reply.bytes : null;
  if (reply.kind === 'empty' || reply.status !== 200 || reply.text.length <= LARGE) return null;
  return Buffer.from(reply.text);
}

async function* piecesOf(bytes: Buffer): AsyncGenerator<Buffer, void, undefined> {
  for (let at = 0; at < bytes.length; at += PIECE) yield bytes.subarray(at, at + PIECE);
}

/** Streams pieces. Damage found on the way breaks the connection, because the length has already been sent. */
function streamOf(
  pieces: AsyncIterable<Buffer>,
  check: () => void,
  done: () => void,
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
        done();
      } catch (error) {
        done();
        await iterator.return?.();
        controller.error(error);
      }
    },
    async cancel() {
      await iterator.return?.();
      done();
    },
  });
}

/** Largest request body, in bytes: the criteria of a search. */
const MAX_BODY_BYTES = 1 << 20;
/** Order id to report: the archive has no orders. */
const ORDER = 'mirror';
/** Timeout of a search thread, in milliseconds. A search stops earlier by itself unless one message takes too long. */
const SEARCHING_MS = 65_000;
/** Timeout for rendering or parsing one message, in milliseconds. */
const RENDERING_MS = 20_000;
const SEARCHES = 2;

const ROUTES = new RouteTable(
  Object.values(MAILBOX_OPERATIONS).map((operation) => ({
    method: operation.method,
    path: routePath(operation.path),
    operation,
  })),
);

interface MirrorOptions {
  readonly dataDir: string;
  /** Store of segments that are not in the directory; if absent, all of them are. */
  readonly segments?: SegmentStore | undefined;
  /** Opens the archive for one request, until `release` is called. */
  readonly hold: () => {
    readonly archive: OpenArchive & { readonly key: object };
    readonly release: () => void;
  };
  readonly authorize: (secret: string) => ApiToken | undefined;
  readonly keyOf: (mailbox: KnownMailbox) => string;
  readonly quotaOf: (mailbox: MirroredMailbox) => QuotaRecord;
  readonly onError: (error: unknown) => void;
  /** Returns milliseconds of a monotonic clock. */
  readonly clock?: () => number;
}

/** Serves the Mailbox API's read operations from the archive, and refuses writes. Tokens only, no cookies. */
export class MirrorSurface {
  readonly #views = new WeakMap<object, MirrorView>();
  /** Separate threads, so that searches never delay rendering. */
  readonly #threads: Readonly<Record<'searching' | 'rendering', ContentThreads>>;
  readonly #turns = new TokenTurns();

  constructor(private readonly options: MirrorOptions) {
    const { segments } = options;
    this.#threads = {
      searching: new ContentThreads(SEARCHES, SEARCHING_MS, segments),
      rendering: new ContentThreads(1, RENDERING_MS, segments),
    };
  }

  /**
   * Answers a request; never rejects, because errors become replies.
   *
   * @param ownOrigin origin of this server's pages; requests from other origins are refused
   */
  async fetch(request: Request, ownOrigin: string): Promise<Response> {
    try {
      return await this.#answer(request, ownOrigin);
    } catch (error) {
      const refused = refusalOf(error);
      const cause = error instanceof Refusal ? error.cause : error;
      if (cause !== undefined) this.options.onError(cause);
      return responseOf(envelope(refused));
    }
  }

  async close(): Promise<void> {
    const { searching, rendering } = this.#threads;
    await Promise.all([searching.close(), rendering.close()]);
  }

  async #answer(request: Request, ownOrigin: string): Promise<Response> {
    const url = new URL(request.url);
    const match = ROUTES.match(request.method, url.pathname);
    if (match.kind !== 'found') throw noRoute(match);
    const { operation } = match.route;
    if (isForeign(request, ownOrigin))
      throw new Refusal(403, 'ERR_FORBIDDEN_ORIGIN', 'A page of another origin may not ask here');
    const authorize = () => this.#authorize(request.headers.get('authorization'));
    const token = authorize();
    const handler = READING[operation.name];
    if (handler === undefined || !Object.hasOwn(READING, operation.name)) throw readOnly(operation);
    const leave = await this.#turns.enter(token.id);
    let release = () => {};
    const done = () => {
      release();
      leave();
    };
    try {
      const held = this.options.hold();
      release = held.release;
      const { archive } = held;
      const { catalog } = archive;
      const moment = momentOf(url.searchParams.get('asOf'), (at) => catalog.commitAt(at)?.number);
      const { dataDir, quotaOf, keyOf, clock = () => performance.now() } = this.options;
      const reached = catalog.folders
        .mailboxes()
        .filter((one) => token.mailboxes?.includes(keyOf(one)) ?? true);
      const reply = await handler({
        operation,
        token,
        params: match.params,
        query: url.searchParams,
        body: operation.body === null ? undefined : await jsonBody(request),
        mailboxes: mirroredMailboxes(reached),
        moment,
        archive,
        dataDir,
        view: this.#viewOf(archive),
        threads: this.#threads,
        quotaOf,
        alone: (act) => this.#turns.alone(token.id, act),
        clock,
        isGone: () => request.signal.aborted,
      });
      // The request may have waited or searched for a while, and the token may have been revoked meanwhile.
      authorize();
      return sending(reply, authorize, done);
    } catch (error) {
      done();
      throw error;
    }
  }

  #authorize(header: string | null): ApiToken {
    const secret = /^Bearer +([^\s]+) *$/i.exec(header ?? '')?.[1];
    const token = secret === undefined ? undefined : this.options.authorize(secret);
    if (token !== undefined) return token;
    throw unauthorized('The token is missing, malformed, expired or revoked');
  }

  #viewOf(archive: OpenArchive & { readonly key: object }): MirrorView {
    let view = this.#views.get(archive.key);
    if (view === undefined) {
      view = new MirrorView(archive);
      this.#views.set(archive.key, view);
    }
    return view;
  }
}

function readOnly({ name }: Operation): Refusal {
  return new Refusal(
    403,
    'ERR_READ_ONLY',
    'This is a mirror of the mailboxes: it can be read, and changes nothing',
    { operation: name },
  );
}

/** Maps archive damage to a 502, like an unreachable upstream; returns other errors unchanged. */
function refusalOf(error: unknown): unknown {
  if (error instanceof MailkeepError && error.family === 'damage')
    return new Refusal(502, 'ERR_DAMAGED', 'This part of the archive is damaged');
  return error;
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

/** A routed and authorised request with its parsed body. */
interface MirrorCall extends Pick<MirrorOptions, 'dataDir' | 'quotaOf'> {
  readonly operation: Operation;
  readonly token: ApiToken;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly body: unknown;
  readonly mailboxes: readonly MirroredMailbox[];
  readonly moment: Moment;
  readonly archive: OpenArchive;
  readonly view: MirrorView;
  readonly threads: Readonly<Record<'searching' | 'rendering', ContentThreads>>;
  readonly alone: <T>(act: () => Promise<T>) => Promise<T>;
  /** Returns milliseconds of a monotonic clock. */
  readonly clock: () => number;
  readonly isGone: () => boolean;
}

/** A reply. A stream is verified only after its last piece. */
type MirrorReply =
  | ReadyReply
  | {
      readonly kind: 'stream';
      readonly type: string;
      readonly length: number;
      readonly pieces: AsyncIterable<Buffer>;
    };
