import {
  deleteMessagesRequest,
  type FolderRecord,
  feedbackRequest,
  folderRequest,
  MAILBOX_OPERATIONS as INTERFACE,
  messageFlagsRequest,
  moveMessageRequest,
  moveMessagesRequest,
  patchMessageRequest,
  searchRequest,
  WEBHOOK_STATUSES,
  type WebhookRecord,
  type WebhookTestRecord,
} from '../service/mailbox-wire.ts';
import { readAttachment, renderText } from '../service/message-view.ts';
import type { MailboxOperationName } from '../service/platform-wire.ts';
import {
  allWithin,
  byFolderPath,
  canonicalPath,
  criteriaSpans,
  dataReply,
  factsTest,
  invalid,
  NO_CONTENT,
  pageOf,
  pageOfAll,
  pageOfSorted,
  pageOfSpans,
  pageReply,
  Refusal,
  type Reply,
  rateLimited,
  sortOf,
  sourceTest,
} from '../service/surface.ts';
import { fieldOf } from '../service/wire.ts';
import { coversMailbox } from './accounts.ts';
import {
  bodyOf,
  type Call,
  entryOf,
  folderOf,
  type Handler,
  mailboxOf,
  messageNotFound,
  notFound,
  type Operation,
  targetFolderOf,
  uidOf,
} from './operation-call.ts';
import { assertComplete } from './seed.ts';
import { sendEmail } from './send-email.ts';
import {
  DELIMITER,
  type Entry,
  type Folder,
  type Mailbox,
  PERMANENT_FOLDERS,
  withSubfolders,
} from './store.ts';
import { type Webhook, webhookOperations } from './webhooks.ts';

function getCurrentAccount({ service, token }: Call): Reply {
  const mailboxes = [...service.store.mailboxes.values()]
    .filter((mailbox) => coversMailbox(token, mailbox))
    .map(({ resourceId, address }) => ({ resourceId, address }));
  return dataReply({ orderResourceId: token.orderId, mailboxes });
}

function getQuota(call: Call): Reply {
  const mailbox = mailboxOf(call);
  const { store, settings } = call.service;
  const { bytes, messages } = store.usage(mailbox);
  const storage = quotaOf('STORAGE', bytes, settings.storageQuotaBytes);
  return dataReply({
    quotas: [storage, quotaOf('MESSAGE', messages, settings.messageQuota)],
    totalUsage: storage.usage,
    totalLimit: storage.limit,
    totalPercentage: storage.percentage,
    supported: true,
  });
}

function quotaOf(resourceName: string, usage: number, limit: number) {
  const percentage = limit === 0 ? 100 : Math.round((usage / limit) * 100);
  return { resourceName, usage, limit, percentage };
}

const KIND = 'feedback';

/** Accepts feedback once per customer and interval. Does not store probable secrets. */
function submitFeedback(call: Call): Reply {
  const mailbox = mailboxOf(call);
  const { score, message } = bodyOf(call, feedbackRequest);
  const { store, settings, now } = call.service;
  const time = now();
  // A customer is the owner of an order.
  const allowedAt = lastSubmission(call, mailbox.orderId) + settings.feedbackIntervalMs;
  if (time < allowedAt) {
    const retryAfter = Math.ceil((allowedAt - time) / 1000);
    const message = 'Feedback was submitted a moment ago; wait and retry';
    throw rateLimited('ERR_FEEDBACK_RATE_LIMIT', message, retryAfter);
  }
  store.putDocument(KIND, mailbox.orderId, {
    at: time,
    mailboxResourceId: mailbox.resourceId,
    score,
    message: scrubSecrets(removeTokens(call, message)),
  });
  return NO_CONTENT;
}

function removeTokens({ service }: Call, text: string): string {
  return text.replace(/[\w.~+/=-]+/g, (word) =>
    service.tokens.has(word) || service.tokens.has(word.replace(/\.$/, '')) ? '[removed]' : word,
  );
}

function lastSubmission({ service }: Call, orderId: string): number {
  const at = fieldOf(service.store.documents(KIND).get(orderId), 'at');
  return typeof at === 'number' ? at : Number.NEGATIVE_INFINITY;
}

/** Names of secrets. The value follows `=`, `:` or `is`, or is the next word with a digit. */
const NAMED = String.raw`\b(pass(?:word|wd|code|phrase)?|pwd|pw|pin|secret|token|credentials?|(?:api|access|private)[-_ ]?key)`;

const SECRETS: readonly (readonly [RegExp, string])[] = [
  [/\b(bearer|basic)\s+[^\s"',;]+/gi, '$1 [removed]'],
  [new RegExp(`${NAMED}("?\\s*[:=]\\s*|\\s+is\\s+)("[^"]*"|[^\\s"}]+)`, 'gi'), '$1$2[removed]'],
  [new RegExp(`${NAMED}(\\s+)(?=[^\\s\\d]*\\d)\\S+`, 'gi'), '$1$2[removed]'],
  [/(:\/\/)[^\s/@]+@/g, '$1[removed]@'],
  // Known prefixes of tokens and keys.
  [/\b(?:mbx|plt|ctl|whsec|sk|pk|gh[a-z]|xox[a-z])[-_][\w.-]+/g, '[removed]'],
];

const WORD = /[\w.~+/=-]{8,}/g;

/** Removes probable tokens and passwords. When in doubt, removes the text. */
export function scrubSecrets(text: string): string {
  const scrubbed = SECRETS.reduce((result, [pattern, by]) => result.replace(pattern, by), text);
  return scrubbed.replace(WORD, (word) => (looksSecret(word) ? '[removed]' : word));
}

/** Detects long mixes of letters and digits (tokens, keys, hashes), and short ones that alternate. */
function looksSecret(word: string): boolean {
  if (!/\d/.test(word) || !/[A-Za-z]/.test(word)) return false;
  if (word.length >= 20) return true;
  return /[a-z]/.test(word) && /[A-Z]/.test(word) && /\d[A-Za-z]+\d/.test(word);
}

/** Lists folders: INBOX first, then the others by path. */
function listFolders(call: Call): Reply {
  const mailbox = mailboxOf(call);
  const page = pageOf(call.query, 50, 100);
  const folders = [...mailbox.folders.values()].sort(byFolderPath);
  return pageOfAll(folders, page, folderRecordOf);
}

function folderRecordOf(folder: Folder): FolderRecord {
  return {
    path: folder.path,
    name: folder.path.slice(folder.path.lastIndexOf(DELIMITER) + 1),
    delimiter: DELIMITER,
    specialUse: folder.specialUse,
    messageCount: folder.count,
    unreadCount: folder.unread,
  };
}

/** Creates a folder and any missing parents. */
function createFolder(call: Call): Reply {
  const mailbox = mailboxOf(call);
  const path = parsePath(bodyOf(call, folderRequest).name);
  if (mailbox.folders.has(path)) throw folderExists(path);
  const { store } = call.service;
  const folder = store.atomically(() => store.folderWithParents(mailbox, path));
  return dataReply(folderRecordOf(folder), 201);
}

function updateFolder(call: Call): Reply {
  const { mailbox, folder } = folderOf(call);
  const path = parsePath(bodyOf(call, folderRequest).name);
  if (path === folder.path) return dataReply(folderRecordOf(folder));
  refuseStanding(folder);
  if (path.startsWith(folder.path + DELIMITER)) {
    throw invalid({ name: ['must not lie below the folder itself'] });
  }
  const { store } = call.service;
  const folders = withSubfolders(mailbox, folder.path);
  for (const { path: old } of folders) {
    const renamed = path + old.slice(folder.path.length);
    if (mailbox.folders.has(renamed)) throw folderExists(renamed);
  }
  store.atomically(() => {
    const end = path.lastIndexOf(DELIMITER);
    if (end >= 0) store.folderWithParents(mailbox, path.slice(0, end));
    store.renameFolder(mailbox, folder.path, path);
  });
  return dataReply(folderRecordOf(folder));
}

function deleteFolder(call: Call): Reply {
  const { mailbox, folder } = folderOf(call);
  for (const affected of withSubfolders(mailbox, folder.path)) refuseStanding(affected);
  call.service.store.deleteFolder(mailbox, folder.path);
  return NO_CONTENT;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
const BAD_NAME = /[\x00-\x1f\x7f-\x9f/*%\\]|\p{Surrogate}/u;

function parsePath(name: string): string {
  const path = canonicalPath(name);
  if (BAD_NAME.test(path) || path.split(DELIMITER).some((part) => part.trim() === '')) {
    throw invalid({ name: ['must be a path of names joined by dots, without / * % \\'] });
  }
  return path;
}

function refuseStanding(folder: Folder): void {
  if (!PERMANENT_FOLDERS.has(folder.path)) return;
  throw new Refusal(409, 'ERR_FOLDER_PROTECTED', 'This folder is part of every mailbox', {
    folder: folder.path,
  });
}

function folderExists(path: string): Refusal {
  return new Refusal(409, 'ERR_FOLDER_EXISTS', 'A folder of this path exists', { folder: path });
}

/** Returns a message's text and marks the message as read. */
async function getMessageText(call: Call): Promise<Reply> {
  const entry = entryOf(call);
  const rendered = await renderText(call.service.store.sources.read(entry.source));
  // The message may have been deleted during rendering.
  call.service.store.changeFlags(folderOf(call).folder, uidOf(call), ['\\Seen'], []);
  return dataReply(rendered);
}

function getMessageAttachment(call: Call): Reply {
  const entry = entryOf(call);
  const attachmentId = call.params.attachmentId ?? '';
  const bytes = readAttachment(call.service.store.sources.read(entry.source), attachmentId);
  if (bytes === null) {
    throw notFound(call, 'ERR_ATTACHMENT_NOT_FOUND', 'The attachment does not exist', {
      uid: entry.uid,
      attachmentId,
    });
  }
  return { kind: 'bytes', type: 'application/octet-stream', bytes };
}

function getMessage(call: Call): Reply {
  const json = call.service.store.records.messageJson(folderOf(call).folder, entryOf(call));
  return { kind: 'text', status: 200, text: `{"data":${json}}` };
}

function patchMessage(call: Call): Reply {
  const { folder } = folderOf(call);
  const uid = uidOf(call);
  const { add, remove } = flagChange(bodyOf(call, patchMessageRequest));
  if (call.service.store.changeFlags(folder, uid, add, remove) === null) {
    throw messageNotFound(call, uid);
  }
  return getMessage(call);
}

/** Responds with 200 if every uid exists, otherwise with 207 and individual results. */
function updateMessageFlags(call: Call): Reply {
  const { folder } = folderOf(call);
  const body = bodyOf(call, messageFlagsRequest);
  const { add, remove } = flagChange(body);
  const { store } = call.service;
  const successful: number[] = [];
  const failed: { uid: number; reason: string }[] = [];
  store.atomically(() => {
    for (const uid of new Set(body.uids)) {
      if (store.changeFlags(folder, uid, add, remove) === null) {
        failed.push({ uid, reason: 'The message does not exist' });
      } else successful.push(uid);
    }
  });
  return dataReply({ successful, failed }, failed.length === 0 ? 200 : 207);
}

function moveMessage(call: Call): Reply {
  const { mailbox, folder } = folderOf(call);
  const uid = uidOf(call);
  const target = targetFolderOf(mailbox, bodyOf(call, moveMessageRequest).targetFolder);
  if (call.service.store.move(folder, uid, target) === null) throw messageNotFound(call, uid);
  return NO_CONTENT;
}

/** Moves messages in the given order. Ignores missing uids, like IMAP. */
function moveMessages(call: Call): Reply {
  const { mailbox, folder } = folderOf(call);
  const body = bodyOf(call, moveMessagesRequest);
  const target = targetFolderOf(mailbox, body.targetFolder);
  const { store } = call.service;
  store.atomically(() => {
    for (const uid of new Set(body.uids)) store.move(folder, uid, target);
  });
  return NO_CONTENT;
}

/** Deletes a message. Succeeds even if it does not exist: the API declares no 404 here. */
function deleteMessage(call: Call): Reply {
  const { folder } = folderOf(call);
  call.service.store.remove(folder, uidOf(call));
  return NO_CONTENT;
}

function deleteMessages(call: Call): Reply {
  const { folder } = folderOf(call);
  const { uids } = bodyOf(call, deleteMessagesRequest);
  const { store } = call.service;
  store.atomically(() => {
    for (const uid of uids) store.remove(folder, uid);
  });
  return NO_CONTENT;
}

function deleteAllMessages(call: Call): Reply {
  const { folder } = folderOf(call);
  call.service.store.removeAll(folder);
  return NO_CONTENT;
}

/** Returns a message's source without setting `\Seen`. */
function getMessageSource(call: Call): Reply {
  const entry = entryOf(call);
  const { store } = call.service;
  const range = store.sources.file(entry.source);
  if (range !== null && range.length > STREAM_FROM_BYTES) {
    // If a stream ended early, the client would wait for the remaining bytes.
    assertComplete(range);
    return { kind: 'file', type: 'message/rfc822', range };
  }
  return { kind: 'bytes', type: 'message/rfc822', bytes: store.sources.read(entry.source) };
}

/** Smaller sources are faster to read whole than to stream. */
const STREAM_FROM_BYTES = 1 << 20;

const SYSTEM_FLAGS = ['\\Seen', '\\Answered', '\\Flagged', '\\Deleted', '\\Draft'];
/** An IMAP atom (RFC 3501, section 9). */
const KEYWORD = /^[!#$&'+,\-./0-9:;<=>?@A-Z[^_`a-z|}~]+$/;

/** Normalises the case of system flags. @throws Refusal 422 for an invalid flag */
function flagChange(body: {
  readonly addFlags?: readonly string[] | undefined;
  readonly removeFlags?: readonly string[] | undefined;
}): { readonly add: readonly string[]; readonly remove: readonly string[] } {
  return {
    add: normaliseFlags('addFlags', body.addFlags ?? []),
    remove: normaliseFlags('removeFlags', body.removeFlags ?? []),
  };
}

function normaliseFlags(field: string, flags: readonly string[]): string[] {
  return flags.map((flag) => {
    if (!flag.startsWith('\\')) {
      if (KEYWORD.test(flag)) return flag;
      throw invalid({ [field]: [`${JSON.stringify(flag)} is not a flag`] });
    }
    const match = SYSTEM_FLAGS.find((system) => system.toLowerCase() === flag.toLowerCase());
    if (match !== undefined) return match;
    throw invalid({ [field]: [`${JSON.stringify(flag)} is not one of ${SYSTEM_FLAGS.join(' ')}`] });
  });
}

/** Returns a page of messages. A listing is a search without criteria. */
function findMessages(call: Call): Reply {
  const { folder } = folderOf(call);
  const page = pageOf(call.query, 25, 100);
  const { field, descending } = sortOf(call.query);
  const criteria = bodyOf({ ...call, body: call.body ?? {} }, searchRequest);
  const { store } = call.service;
  const spans = criteriaSpans(criteria, folder.lastUid);
  const facts = factsTest(criteria);
  const source = sourceTest(criteria);
  const matches = (entry: Entry): boolean =>
    (facts === null ||
      facts({
        flags: entry.flags,
        received: () => store.sources.received(entry.source),
        size: () => store.sources.size(entry.source),
      })) &&
    (source === null || source(store.sources.read(entry.source)));
  const keyOf = {
    uid: null,
    date: (entry: Entry) => store.sources.received(entry.source),
    size: (entry: Entry) => store.sources.size(entry.source),
  }[field];
  const found =
    facts === null && source === null && field === 'uid'
      ? pageOfSpans(folder, spans, page, descending)
      : pageOfSorted(allWithin(folder, spans).filter(matches), keyOf, page, descending);
  return pageReply(
    found.entries.map((entry) => store.records.messageJson(folder, entry)),
    page,
    found.total,
  );
}

function listWebhooks(call: Call): Reply {
  const mailbox = mailboxOf(call);
  const page = pageOf(call.query, 50, 1000);
  const status = call.query.get('status');
  if (status !== null && !WEBHOOK_STATUSES.some((valid) => valid === status)) {
    throw invalid({ status: [`must be one of ${WEBHOOK_STATUSES.join(', ')}`] });
  }
  const matches = call.service.webhooks
    .of(new Set([mailbox.resourceId]))
    .filter((webhook) => status === null || webhook.status === status);
  return pageOfAll(matches, page, (webhook) => webhookRecordOf(mailbox, webhook));
}

const { createWebhook, getWebhook, updateWebhook, regenerateWebhookSecret } =
  webhookOperations<Call>({
    body: bodyOf,
    mailboxOf,
    webhookOf,
    checkCreate: () => {},
    urlRefusal: (problem) => invalid({ url: [problem] }),
    recordOf: webhookRecordOf,
    reply: dataReply,
  });

function deleteWebhook(call: Call): Reply {
  call.service.webhooks.remove(webhookOf(call).webhook);
  return NO_CONTENT;
}

/** Sends one delivery immediately, whatever the webhook's status, without retries. The API declares no limit. */
async function testWebhook(call: Call): Promise<Reply> {
  const { mailbox, webhook } = webhookOf(call);
  const outcome = await call.service.deliveries.test(mailbox, webhook);
  const record: WebhookTestRecord = {
    // The API declares an integer, which is 0 without a response.
    httpStatus: outcome.httpStatus ?? 0,
    success: outcome.success,
    error: outcome.error,
  };
  return dataReply(record);
}

function webhookOf(call: Call): { readonly mailbox: Mailbox; readonly webhook: Webhook } {
  const mailbox = mailboxOf(call);
  const id = call.params.webhookId ?? '';
  const webhook = call.service.webhooks.get(id);
  if (webhook === null || webhook.mailbox !== mailbox.resourceId) {
    throw new Refusal(404, 'ERR_WEBHOOK_NOT_FOUND', 'The webhook does not exist', {
      webhookId: id,
    });
  }
  return { mailbox, webhook };
}

function webhookRecordOf(mailbox: Mailbox, webhook: Webhook): WebhookRecord {
  return {
    id: webhook.id,
    accountResourceId: mailbox.resourceId,
    mailbox: mailbox.address,
    name: webhook.name,
    description: webhook.description,
    events: webhook.events,
    status: webhook.status,
    url: webhook.url,
    createdAt: new Date(webhook.createdAt).toISOString(),
    updatedAt: new Date(webhook.updatedAt).toISOString(),
  };
}

function operation(id: MailboxOperationName, handle: Handler): Operation {
  const { method, path, body, errors } = INTERFACE[id];
  return { id, method, path, takesBody: body !== null, declared: errors, handle };
}

export const MAILBOX_OPERATIONS: readonly Operation[] = [
  operation('getCurrentAccount', getCurrentAccount),
  operation('submitFeedback', submitFeedback),
  operation('getQuota', getQuota),
  operation('listFolders', listFolders),
  operation('createFolder', createFolder),
  operation('updateFolder', updateFolder),
  operation('deleteFolder', deleteFolder),
  operation('listMessages', findMessages),
  operation('deleteAllMessages', deleteAllMessages),
  operation('searchMessages', findMessages),
  operation('updateMessageFlags', updateMessageFlags),
  operation('moveMessages', moveMessages),
  operation('deleteMessages', deleteMessages),
  operation('getMessage', getMessage),
  operation('patchMessage', patchMessage),
  operation('deleteMessage', deleteMessage),
  operation('getMessageSource', getMessageSource),
  operation('getMessageText', getMessageText),
  operation('getMessageAttachment', getMessageAttachment),
  operation('moveMessage', moveMessage),
  operation('sendEmail', sendEmail),
  operation('listWebhooks', listWebhooks),
  operation('createWebhook', createWebhook),
  operation('getWebhook', getWebhook),
  operation('updateWebhook', updateWebhook),
  operation('deleteWebhook', deleteWebhook),
  operation('regenerateWebhookSecret', regenerateWebhookSecret),
  operation('testWebhook', testWebhook),
];
