import { dataReply, type Reply } from '../http/reply.ts';
import { readAttachment } from '../message/listing-record.ts';
import { renderText } from '../message/rendered-text.ts';
import { type Call, folderOf, mailboxOf, missing, type Operation, uidOf } from './call.ts';
import { createFolder, deleteFolder, listFolders, updateFolder } from './folders.ts';
import {
  deleteAllMessages,
  deleteMessage,
  deleteMessages,
  entryOf,
  getMessage,
  getMessageSource,
  listMessages,
  moveMessage,
  moveMessages,
  patchMessage,
  updateMessageFlags,
} from './messages.ts';
import { searchMessages } from './search-messages.ts';
import { sendEmail } from './send-email.ts';
import { submitFeedback } from './submit-feedback.ts';
import {
  createWebhook,
  deleteWebhook,
  getWebhook,
  listWebhooks,
  regenerateWebhookSecret,
  testWebhook,
  updateWebhook,
} from './webhooks.ts';

/** The order of the token and the mailboxes it reaches. */
export function getCurrentAccount({ service, token }: Call): Reply {
  const mailboxes = [...service.store.mailboxes.values()]
    .filter(
      (mailbox) =>
        mailbox.orderId === token.orderId &&
        (token.mailboxes === null || token.mailboxes.includes(mailbox.resourceId)),
    )
    .map(({ resourceId, address }) => ({ resourceId, address }));
  return dataReply({ orderResourceId: token.orderId, mailboxes });
}

export function getQuota(call: Call): Reply {
  const mailbox = mailboxOf(call);
  const { store, settings } = call.service;
  const usage = store.usage(mailbox);
  const storage = {
    resourceName: 'STORAGE',
    usage: usage.bytes,
    limit: settings.storageQuotaBytes,
    percentage: percentage(usage.bytes, settings.storageQuotaBytes),
  };
  const messages = {
    resourceName: 'MESSAGE',
    usage: usage.messages,
    limit: settings.messageQuota,
    percentage: percentage(usage.messages, settings.messageQuota),
  };
  return dataReply({
    quotas: [storage, messages],
    totalUsage: storage.usage,
    totalLimit: storage.limit,
    totalPercentage: storage.percentage,
    supported: true,
  });
}

/** A whole number: 0 to 100, and more where a mailbox holds more than it may. */
function percentage(usage: number, limit: number): number {
  return limit === 0 ? 100 : Math.round((usage / limit) * 100);
}

/** The rendered text and HTML; marks the message as read. */
export async function getMessageText(call: Call): Promise<Reply> {
  const entry = entryOf(call);
  const rendered = await renderText(call.service.store.read(entry.source));
  // The message may have gone while it was rendered: then there is nothing to mark.
  call.service.store.changeFlags(folderOf(call).folder, uidOf(call), ['\\Seen'], []);
  return dataReply(rendered);
}

/** The decoded bytes of one attachment. */
export function getMessageAttachment(call: Call): Reply {
  const entry = entryOf(call);
  const attachmentId = call.params.attachment ?? '';
  const bytes = readAttachment(call.service.store.read(entry.source), attachmentId);
  if (bytes === null) {
    throw missing(call, 'ERR_ATTACHMENT_NOT_FOUND', 'The attachment does not exist', {
      uid: entry.uid,
      attachmentId,
    });
  }
  return { kind: 'bytes', type: 'application/octet-stream', bytes };
}

const M = '/api/v1/mailboxes/:mailbox';
const F = `${M}/folders/:folder`;
const U = `${F}/messages/:uid`;
const W = `${M}/webhooks/:webhook`;

const BODY_METHODS: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH']);
const BODILESS: ReadonlySet<string> = new Set(['regenerateWebhookSecret', 'testWebhook']);

function operation(
  id: string,
  route: string,
  declared: string,
  handle: Operation['handle'],
): Operation {
  const [method = '', path = ''] = route.split(' ');
  const takesBody = BODY_METHODS.has(method) && !BODILESS.has(id);
  return { id, method, path, takesBody, declared: declared.split(' ').map(Number), handle };
}

/** The 28 operations of the mailbox surface, with the error statuses the interface declares for each. */
export const MAILBOX_OPERATIONS: readonly Operation[] = [
  operation('getCurrentAccount', 'GET /api/v1/me', '401 500 502', getCurrentAccount),
  operation('submitFeedback', `POST ${M}/feedback`, '401 403 422 429 500 502 504', submitFeedback),
  operation('getQuota', `GET ${M}/quota`, '401 403 500 502', getQuota),
  operation('listFolders', `GET ${M}/folders`, '401 403 422 500 502', listFolders),
  operation('createFolder', `POST ${M}/folders`, '401 403 409 422 500 502', createFolder),
  operation('updateFolder', `PUT ${F}`, '401 403 409 422 500 502', updateFolder),
  operation('deleteFolder', `DELETE ${F}`, '401 403 404 409 422 500 502', deleteFolder),
  operation('listMessages', `GET ${F}/messages`, '401 403 422 500 502', listMessages),
  operation(
    'deleteAllMessages',
    `DELETE ${F}/messages`,
    '401 403 404 422 500 502',
    deleteAllMessages,
  ),
  operation('searchMessages', `POST ${F}/messages/search`, '401 403 422 500 502', searchMessages),
  operation(
    'updateMessageFlags',
    `POST ${F}/messages/flags`,
    '401 403 422 500 502',
    updateMessageFlags,
  ),
  operation('moveMessages', `POST ${F}/messages/move`, '401 403 422 500 502', moveMessages),
  operation('deleteMessages', `POST ${F}/messages/delete`, '401 403 422 500 502', deleteMessages),
  operation('getMessage', `GET ${U}`, '401 403 404 422 500 502', getMessage),
  operation('patchMessage', `PATCH ${U}`, '401 403 404 422 500 502', patchMessage),
  operation('deleteMessage', `DELETE ${U}`, '401 403 422 500 502', deleteMessage),
  operation('getMessageSource', `GET ${U}/source`, '401 403 404 422 500 502', getMessageSource),
  operation('getMessageText', `GET ${U}/text`, '401 403 404 422 500 502', getMessageText),
  operation(
    'getMessageAttachment',
    `GET ${U}/attachments/:attachment`,
    '401 403 404 422 500 502',
    getMessageAttachment,
  ),
  operation('moveMessage', `POST ${U}/move`, '401 403 422 500 502', moveMessage),
  operation('sendEmail', `POST ${M}/send`, '401 403 422 500 502', sendEmail),
  operation('listWebhooks', `GET ${M}/webhooks`, '401 403 422 500 502', listWebhooks),
  operation('createWebhook', `POST ${M}/webhooks`, '401 403 422 500 502', createWebhook),
  operation('getWebhook', `GET ${W}`, '401 403 404 500 502', getWebhook),
  operation('updateWebhook', `PATCH ${W}`, '401 403 404 422 500 502', updateWebhook),
  operation('deleteWebhook', `DELETE ${W}`, '401 403 404 500 502', deleteWebhook),
  operation(
    'regenerateWebhookSecret',
    `POST ${W}/regenerate-secret`,
    '401 403 404 500 502',
    regenerateWebhookSecret,
  ),
  operation('testWebhook', `POST ${W}/test`, '401 403 404 500 502', testWebhook),
];
