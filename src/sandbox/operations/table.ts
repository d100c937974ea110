import { routePath } from '../../mailbox-surface/route.ts';
import { MAILBOX_OPERATIONS as INTERFACE } from '../../wire/mailbox-operations.ts';
import type { MailboxOperationName } from '../../wire/operations.ts';
import { getCurrentAccount, getQuota, submitFeedback } from './account.ts';
import type { Handler, Operation } from './call.ts';
import { createFolder, deleteFolder, listFolders, updateFolder } from './folders.ts';
import { getMessageAttachment, getMessageText } from './message-content.ts';
import {
  deleteAllMessages,
  deleteMessage,
  deleteMessages,
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
import {
  createWebhook,
  deleteWebhook,
  getWebhook,
  listWebhooks,
  regenerateWebhookSecret,
  testWebhook,
  updateWebhook,
} from './webhooks.ts';

function operation(id: MailboxOperationName, handle: Handler): Operation {
  const { method, path, body, errors } = INTERFACE[id];
  return { id, method, path: routePath(path), takesBody: body !== null, declared: errors, handle };
}

/** The 28 operations of the mailbox surface, with the error statuses the interface declares for each. */
export const MAILBOX_OPERATIONS: readonly Operation[] = [
  operation('getCurrentAccount', getCurrentAccount),
  operation('submitFeedback', submitFeedback),
  operation('getQuota', getQuota),
  operation('listFolders', listFolders),
  operation('createFolder', createFolder),
  operation('updateFolder', updateFolder),
  operation('deleteFolder', deleteFolder),
  operation('listMessages', listMessages),
  operation('deleteAllMessages', deleteAllMessages),
  operation('searchMessages', searchMessages),
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
