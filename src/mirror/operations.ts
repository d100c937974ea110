import type { OriginFolder, OriginPlace } from '../catalog/origin-places.ts';
import type { MessageId } from '../mail/words.ts';
import { factsTest, sourceTest, spansOfCriteria } from '../mailbox-surface/criteria.ts';
import { bodyFrom, pageOf, sortOf, spelledPath, uidFrom } from '../mailbox-surface/parameters.ts';
import { Refusal } from '../mailbox-surface/refusal.ts';
import { dataReply, pageOfAll, pageReply, type ReadyReply } from '../mailbox-surface/reply.ts';
import {
  allWithin,
  type FoundPage,
  pageOfSorted,
  pageOfSpans,
} from '../mailbox-surface/uid-pages.ts';
import type { ApiToken } from '../state/values.ts';
import type { QuotaRecord } from '../wire/mailbox-records.ts';
import { searchRequest } from '../wire/mailbox-requests.ts';
import type { Operation } from '../wire/operation.ts';
import type { ContentThreads } from './content-threads.ts';
import type { FolderUids, MirrorEntry } from './folder-uids.ts';
import type { MirrorView, Moment, OpenArchive } from './mirror-view.ts';
import type { MirroredMailbox } from './mirrored-mailboxes.ts';

/** Searches that read sources may take this long, in milliseconds. */
const SEARCH_MS = 60_000;
/** Sources larger than this are sent in pieces, as they are read. */
const STREAM_FROM_BYTES = 1 << 20;

/** A request to the mirror that was routed and authorized, with its body read. */
export interface MirrorCall {
  readonly operation: Operation;
  readonly token: ApiToken;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly body: unknown;
  /** The mailboxes that the token reaches. */
  readonly mailboxes: readonly MirroredMailbox[];
  readonly moment: Moment;
  readonly archive: OpenArchive;
  readonly dataDir: string;
  readonly view: MirrorView;
  readonly threads: ContentThreads;
  /** Names the archive in place of an order. */
  readonly orderId: string;
  /** Returns the quota of a mailbox as the origin last told it. */
  readonly quotaOf: (mailbox: MirroredMailbox) => QuotaRecord;
  /** Runs what one token may do once at a time. */
  readonly alone: <T>(act: () => Promise<T>) => Promise<T>;
}

/** An answer; one that is not ready comes in pieces, and is proven only when all of them have come. */
export type MirrorReply =
  | ReadyReply
  | {
      readonly kind: 'stream';
      readonly type: string;
      readonly length: number;
      readonly pieces: AsyncIterable<Buffer>;
    };

type Handler = (call: MirrorCall) => MirrorReply | Promise<MirrorReply>;

/** The operations that read, by their names. Whatever is not here would write. */
export const READING: Readonly<Record<string, Handler>> = {
  getCurrentAccount: ({ mailboxes, orderId }) =>
    dataReply({
      orderResourceId: orderId,
      mailboxes: mailboxes.map(({ resourceId, address }) => ({ resourceId, address })),
    }),
  getQuota: (call) => dataReply(call.quotaOf(mailboxOf(call))),
  listFolders(call) {
    const page = pageOf(call.query, 50, 100);
    return pageOfAll(call.view.folders(mailboxOf(call), call.moment), page, (record) => record);
  },
  listMessages(call) {
    const at = folderOf(call);
    const page = pageOf(call.query, 25, 100);
    const { field, descending } = sortOf(call.query);
    const everything = [{ low: 1, high: at.uids.lastUid }];
    const found =
      field === 'uid'
        ? pageOfSpans(at.uids, everything, page, descending)
        : pageOfSorted(allWithin(at.uids, everything), keyOf(at, field), page, descending);
    return listed(call, at, page, found);
  },
  searchMessages,
  getMessage(call) {
    const { mailbox, folder, entry } = messageOf(call);
    const text = `{"data":${call.view.json(mailbox, folder, entry)}}`;
    return { kind: 'text', status: 200, text };
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
    const { rendered } = await threads.run({ kind: 'text', dataDir, id });
    return dataReply(rendered);
  },
  async getMessageAttachment(call) {
    const { mailbox, id, place, entry } = storedOf(call);
    const { dataDir, threads } = call;
    const attachmentId = call.params.attachmentId ?? '';
    const { attachments: listed } = call.view.listing(mailbox, place);
    const known = listed.some((attachment) => attachment.id === attachmentId);
    const { bytes } = known
      ? await threads.run({ kind: 'attachment', dataDir, id, listed, attachmentId })
      : { bytes: null };
    if (bytes === null)
      throw missing(call, 'ERR_ATTACHMENT_NOT_FOUND', 'The attachment does not exist', {
        uid: entry.uid,
        attachmentId,
      });
    return { kind: 'bytes', type: 'application/octet-stream', bytes: Buffer.from(bytes) };
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

async function searchMessages(call: MirrorCall): Promise<MirrorReply> {
  const at = folderOf(call);
  const page = pageOf(call.query, 25, 100);
  const { field, descending } = sortOf(call.query);
  const criteria = bodyFrom(call.body, searchRequest);
  const spans = spansOfCriteria(criteria, at.uids.lastUid);
  const facts = factsTest(criteria);
  const readsSources = sourceTest(criteria) !== null;
  if (facts === null && !readsSources && field === 'uid')
    return listed(call, at, page, pageOfSpans(at.uids, spans, page, descending));
  const { view } = call;
  let found = allWithin(at.uids, spans);
  if (facts !== null)
    found = found.filter((entry) =>
      facts({
        flags: view.flags(entry),
        received: () => at.uids.facts(entry).date,
        size: () => at.uids.facts(entry).size,
      }),
    );
  if (readsSources) found = await withMatchingSources(call, found, criteria);
  return listed(call, at, page, pageOfSorted(found, keyOf(at, field), page, descending));
}

/** Quarantined messages have no source that could match. */
async function withMatchingSources(
  { alone, threads, dataDir, view }: MirrorCall,
  entries: readonly MirrorEntry[],
  criteria: Parameters<typeof sourceTest>[0],
): Promise<MirrorEntry[]> {
  const stored = entries.flatMap((entry) => {
    const id = view.place(entry)?.id ?? null;
    return id === null ? [] : [{ entry, id }];
  });
  const ids = stored.map(({ id }) => id);
  const { positions } = await alone(() =>
    threads.run({ kind: 'match', dataDir, criteria, ids, withinMs: SEARCH_MS }),
  );
  if (positions === null)
    throw new Refusal(502, 'ERR_SEARCH_TOO_LONG', 'The search took longer than a minute');
  return positions.flatMap((at) => stored[at]?.entry ?? []);
}

interface InFolder {
  readonly mailbox: MirroredMailbox;
  readonly folder: OriginFolder;
  readonly uids: FolderUids;
}

function listed(
  { view }: MirrorCall,
  { mailbox, folder }: InFolder,
  page: ReturnType<typeof pageOf>,
  { entries, total }: FoundPage<MirrorEntry>,
): ReadyReply {
  return pageReply(
    entries.map((entry) => view.json(mailbox, folder, entry)),
    page,
    total,
  );
}

function keyOf(
  { uids }: InFolder,
  field: 'uid' | 'date' | 'size',
): ((entry: MirrorEntry) => number) | null {
  return field === 'uid' ? null : (entry) => uids.facts(entry)[field];
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
  if (entry === undefined)
    throw missing(call, 'ERR_MESSAGE_NOT_FOUND', 'The message does not exist', { uid });
  return { ...at, entry };
}

/** A message whose source is here. @throws Refusal 502 for one in quarantine */
function storedOf(
  call: MirrorCall,
): ReturnType<typeof messageOf> & { readonly id: MessageId; readonly place: OriginPlace } {
  const message = messageOf(call);
  const place = call.view.place(message.entry);
  const id = place?.id ?? null;
  if (place === undefined || id === null)
    throw new Refusal(
      502,
      'ERR_QUARANTINED',
      'The source of this message could not be fetched whole, and is not in the archive',
      { uid: message.entry.uid },
    );
  return { ...message, id, place };
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
