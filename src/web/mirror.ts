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
import { isForeign } from '../core/listener.ts';
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

/** The messages of a folder at one commit, in the order of their uids. */
class FolderUids implements UidOrder<MirrorEntry> {
  /** Of messages that were asked for, not a number of others; made when the first one is. */
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

  /** Returns the message of a uid; undefined where there is none. */
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

/** Characters of records kept: some 20,000 of them. */
const CEILING = 16 * 1024 * 1024;
/** Commits whose listings are kept parsed. Messages of one page mostly came together. */
const COMMITS = 16;

/** What a listing says of a message and its flags do not change, without uid and flags. */
type Unchanging = Omit<Listing, 'uid' | 'flags'>;

/**
 * The listing records of messages as the origin showed them, from the facts in the log. A record never changes while its
 * place is there, so that its JSON is kept, up to a limit.
 */
class ListingRecords {
  readonly #fragments = new Map<number, string>();
  readonly #commits = new Map<number, readonly Fact[]>();
  #characters = 0;

  constructor(
    private readonly log: () => Pick<LogReader, 'factsOf'>,
    private readonly pathAt: OriginQueries['pathAt'],
  ) {}

  /** Lets go of everything: by another commit, rows may be other messages', and messages may be forgotten. */
  clear(): void {
    this.#fragments.clear();
    this.#commits.clear();
    this.#characters = 0;
  }

  /** Returns a message's record as the wire has it, as JSON; undefined where its place is gone. */
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

  /** Returns what the origin listed of a message; what the catalog knows of it where the log does not tell any more. */
  listing(mailbox: MailboxKey, place: OriginPlace): Unchanging {
    return this.#listed(mailbox, place) ?? fromCatalog(place);
  }

  #record(mailbox: MailboxKey, place: OriginPlace): Record<string, unknown> {
    const { extra, date, ...listing } = this.listing(mailbox, place);
    const received = date === '' ? isoAt(place) : date;
    // What the wire calls otherwise than we do comes first: what we know by name is as we read it.
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
    // Folders that were renamed in the same commit have another path in its facts; uids of two folders may be the same.
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
      // A damaged stretch of the log must not hide the others of a page; verification reports it.
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

/** Null for a message without a date: imported mail may have none, which a service never shows. */
function isoAt({ docid }: OriginPlace): string | null {
  return isDated(docid) ? new Date(receivedAt(docid)).toISOString() : null;
}

/** Messages whose uids are kept in memory, with what they are sorted by: 36 bytes each. */
const KEPT_MESSAGES = 1_000_000;
/** What a folder without messages counts for: there is one for each folder and moment that is asked for. */
const FOLDER_COSTS = 20;
/** Lists of folders that are kept: one for each mailbox and moment that is asked for. */
const KEPT_LISTS = 200;

/** The archive, open. Another one stands for it after a rebuild. */
interface OpenArchive {
  readonly catalog: Catalog;
  sources(): LogReader;
}

type Moment = number | null;

/**
 * An open archive as the service's mailbox surface sees it. Uids of folders and counts are kept until the archive has
 * another commit.
 */
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
      // As of a moment, the uids of a folder are read to be counted: others may ask in between.
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

  /** Returns the record of a message as JSON; undefined where the message is gone since its uid was read. */
  json(mailbox: MirroredMailbox, folder: OriginFolder, entry: MirrorEntry): string | undefined {
    const flags = this.flags(entry);
    const placeOf = () => this.place(folder, entry);
    return this.#records.json(mailbox, folder.path, entry, flags, placeOf);
  }

  /** Returns what is known of a message; undefined where the message is gone since its uid was read. */
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
 * Returns mailboxes with the resource ids that they are served under: their own, and with the name of their host where
 * another host's mailbox has the same one and was met before.
 *
 * @param mailboxes those that a token reaches, in the order in which they were met: what it does not reach must not show
 */
export function mirroredMailboxes(mailboxes: readonly KnownMailbox[]): MirroredMailbox[] {
  const taken = new Set<string>();
  return mailboxes.map((mailbox) => {
    let resourceId = mailbox.mailbox;
    // A host may call its mailbox as if it were another's.
    while (taken.has(resourceId)) resourceId += `~${mailbox.host}`;
    taken.add(resourceId);
    return { ...mailbox, resourceId };
  });
}

const DAY = z.iso.date();
/** Seconds may be left out. */
const INSTANT = z.union([
  z.iso.datetime({ offset: true }),
  z.iso.datetime({ offset: true, precision: -1 }),
]);
const DAY_MS = 86_400_000;

/**
 * Reads `asOf`, an extension of the mirror: a day in UTC, which stands for its end, or a time with its zone (RFC 3339).
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

/** The mailbox of the path. One that is not there and one that the token does not reach are the same. */
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

/** A message whose source is here. @throws Refusal 502 for one in quarantine */
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

/** What is not there: 404 where the operation declares it, else 422. */
function missing(
  { operation }: MirrorCall,
  code: string,
  message: string,
  params: Readonly<Record<string, unknown>>,
): Refusal {
  return new Refusal(operation.errors.includes(404) ? 404 : 422, code, message, params);
}

/** Messages of a slice: each costs some microseconds of queries. */
const SLICE = 500;

/** Does something with each item, and lets other requests in between: a folder may have a million messages. */
async function inSlices<T>(items: readonly T[], act: (item: T) => void): Promise<void> {
  for (let start = 0; start < items.length; start += SLICE) {
    if (start > 0) await nextTurn();
    for (const item of items.slice(start, start + SLICE)) act(item);
  }
}

/** A search may take this long, in milliseconds, with the time that it waits for others. */
const SEARCH_MS = 60_000;
const MOST_NAMED = 100;

async function listMessages(call: MirrorCall): Promise<ReadyReply> {
  const at = folderOf(call);
  const page = pageOf(call.query, 25, 100);
  const sort = sortOf(call.query);
  const everything = [{ low: 1, high: at.uids.lastUid }];
  if (sort.field === 'uid')
    return listed(call, at, page, pageOfSpans(at.uids, everything, page, sort.descending));
  return listed(call, at, page, await sorted(at, allWithin(at.uids, everything), page, sort));
}

/** Answers `searchMessages`: criteria that read sources come last, on a thread. */
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

/** Quarantined messages have no source that could match. */
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

/** Whether they match is unknown: a page without them would be a part of one. */
function damagedSources(folder: string, uids: readonly number[], cause: Error): Refusal {
  return new Refusal(
    502,
    'ERR_DAMAGED',
    'Messages that the search has to read are damaged. A set of uids without these can be searched',
    { folder, damaged: uids.length, uids: uids.slice(0, MOST_NAMED) },
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

/** Those that are gone since their uids were read are left out: a page may be short, and `total` tells how many there were. */
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

/** Sources larger than this are sent in pieces, as they are read. */
const STREAM_FROM_BYTES = 1 << 20;

type Handler = (call: MirrorCall) => MirrorReply | Promise<MirrorReply>;

/** The operations that read, by their names. Whatever is not here would write. */
const READING: Readonly<Record<string, Handler>> = {
  getCurrentAccount: ({ mailboxes, orderId }) =>
    dataReply({
      orderResourceId: orderId,
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

/** Answers larger than this are sent in pieces, in bytes. */
const LARGE = 1 << 20;
const PIECE = 1 << 16;

type Ready = Exclude<MirrorReply, { kind: 'stream' }>;

/**
 * Returns the response of an answer. A large one holds its turn until it is sent: a client that does not read must not
 * pile them up in memory.
 *
 * @param check throws where no more of the answer may be sent
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

/** The bytes of a successful answer that is large; null for others. */
function largeBytes(reply: Ready): Buffer | null {
  if (reply.kind === 'bytes') return reply.bytes.length > LARGE ? reply.bytes : null;
  if (reply.kind === 'empty' || reply.status !== 200 || reply.text.length <= LARGE) return null;
  return Buffer.from(reply.text);
}

async function* piecesOf(bytes: Buffer): AsyncGenerator<Buffer, void, undefined> {
  for (let at = 0; at < bytes.length; at += PIECE) yield bytes.subarray(at, at + PIECE);
}

/** A source that turns out damaged breaks the connection: its length was promised. */
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

/** Bytes of a request's body: criteria of a search. */
const MOST_BODY_BYTES = 1 << 20;
/** Stands for the order whose mailboxes these are: the archive knows of none. */
const ORDER = 'mirror';
/** A search ends by itself before, unless one message takes too long; in milliseconds. */
const SEARCHING_MS = 65_000;
/** One message may take this long to be rendered or taken apart, in milliseconds. */
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
  /** Where segments are that are not in the folder; without it, all are. */
  readonly segments?: SegmentStore | undefined;
  /** Opens the archive for one request; it stays open until it is released. */
  readonly hold: () => {
    readonly archive: OpenArchive & { readonly key: object };
    readonly release: () => void;
  };
  readonly authorize: (secret: string) => ApiToken | undefined;
  readonly keyOf: (mailbox: KnownMailbox) => string;
  readonly quotaOf: (mailbox: MirroredMailbox) => QuotaRecord;
  readonly onError: (error: unknown) => void;
  /** Returns milliseconds of a clock that never jumps. */
  readonly clock?: () => number;
}

/**
 * The mailbox surface of the service, answered from the archive: every operation that reads. Those that would write are
 * refused. It takes bearer tokens and no cookies.
 */
export class MirrorSurface {
  readonly #views = new WeakMap<object, MirrorView>();
  /** Apart from each other: however many searches there are, messages are rendered. */
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
   * Answers a request; never rejects: what goes wrong becomes an answer.
   *
   * @param ownOrigin of the pages that this server has; a page of another one may not ask
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
        orderId: ORDER,
        quotaOf,
        alone: (act) => this.#turns.alone(token.id, act),
        clock,
        isGone: () => request.signal.aborted,
      });
      // It may have waited or searched for a while, and the token may have been revoked meanwhile.
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

/** What is not in the archive as it should be is an upstream that cannot be reached; all else is a failure of ours. */
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
  const { body } = request;
  const chunks: Uint8Array[] = [];
  let length = 0;
  if (body !== null)
    for await (const chunk of body) {
      length += chunk.length;
      if (length > MOST_BODY_BYTES) throw bodyTooLarge(MOST_BODY_BYTES);
      chunks.push(chunk);
    }
  return parseJsonBody(Buffer.concat(chunks), request.headers.get('content-type') ?? undefined);
}

/** A request to the mirror that was routed and authorized, with its body read. */
interface MirrorCall {
  readonly operation: Operation;
  readonly token: ApiToken;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly body: unknown;
  readonly mailboxes: readonly MirroredMailbox[];
  readonly moment: Moment;
  readonly archive: OpenArchive;
  readonly dataDir: string;
  readonly view: MirrorView;
  readonly threads: Readonly<Record<'searching' | 'rendering', ContentThreads>>;
  /** Names the archive in place of an order. */
  readonly orderId: string;
  readonly quotaOf: (mailbox: MirroredMailbox) => QuotaRecord;
  readonly alone: <T>(act: () => Promise<T>) => Promise<T>;
  /** Returns milliseconds of a clock that never jumps. */
  readonly clock: () => number;
  readonly isGone: () => boolean;
}

/** An answer; one that is not ready comes in pieces, and is proven only when all of them have come. */
type MirrorReply =
  | ReadyReply
  | {
      readonly kind: 'stream';
      readonly type: string;
      readonly length: number;
      readonly pieces: AsyncIterable<Buffer>;
    };
