/**
 * The interface as its document has it, copied by hand: every operation with its route, the statuses of its
 * successes and the errors it declares. Nothing here comes from `src/`.
 */
export interface Row {
  readonly surface: 'mailbox' | 'platform';
  readonly name: string;
  readonly method: string;
  /** With `{parameters}`. */
  readonly path: string;
  readonly success: readonly number[];
  readonly errors: readonly number[];
}

const M = '/api/v1/mailboxes/{mailboxResourceId}';
const F = `${M}/folders/{folder}`;
const U = `${F}/messages/{uid}`;

const MAILBOX = `
getCurrentAccount       | GET    /api/v1/me                          | 200     | 401 500 502
submitFeedback          | POST   ${M}/feedback                       | 204     | 401 403 422 429 500 502 504
getQuota                | GET    ${M}/quota                          | 200     | 401 403 500 502
listFolders             | GET    ${M}/folders                        | 200     | 401 403 422 500 502
createFolder            | POST   ${M}/folders                        | 201     | 401 403 409 422 500 502
updateFolder            | PUT    ${F}                                | 200     | 401 403 409 422 500 502
deleteFolder            | DELETE ${F}                                | 204     | 401 403 404 409 422 500 502
listMessages            | GET    ${F}/messages                       | 200     | 401 403 422 500 502
deleteAllMessages       | DELETE ${F}/messages                       | 204     | 401 403 404 422 500 502
searchMessages          | POST   ${F}/messages/search                | 200     | 401 403 422 500 502
updateMessageFlags      | POST   ${F}/messages/flags                 | 200 207 | 401 403 422 500 502
moveMessages            | POST   ${F}/messages/move                  | 204     | 401 403 422 500 502
deleteMessages          | POST   ${F}/messages/delete                | 204     | 401 403 422 500 502
getMessage              | GET    ${U}                                | 200     | 401 403 404 422 500 502
patchMessage            | PATCH  ${U}                                | 200     | 401 403 404 422 500 502
deleteMessage           | DELETE ${U}                                | 204     | 401 403 422 500 502
getMessageSource        | GET    ${U}/source                         | 200     | 401 403 404 422 500 502
getMessageText          | GET    ${U}/text                           | 200     | 401 403 404 422 500 502
getMessageAttachment    | GET    ${U}/attachments/{attachmentId}     | 200     | 401 403 404 422 500 502
moveMessage             | POST   ${U}/move                           | 204     | 401 403 422 500 502
sendEmail               | POST   ${M}/send                           | 204     | 401 403 422 500 502
listWebhooks            | GET    ${M}/webhooks                       | 200     | 401 403 422 500 502
createWebhook           | POST   ${M}/webhooks                       | 201     | 401 403 422 500 502
getWebhook              | GET    ${M}/webhooks/{webhookId}           | 200     | 401 403 404 500 502
updateWebhook           | PATCH  ${M}/webhooks/{webhookId}           | 200     | 401 403 404 422 500 502
deleteWebhook           | DELETE ${M}/webhooks/{webhookId}           | 204     | 401 403 404 500 502
regenerateWebhookSecret | POST   ${M}/webhooks/{webhookId}/regenerate-secret | 200 | 401 403 404 500 502
testWebhook             | POST   ${M}/webhooks/{webhookId}/test      | 200     | 401 403 404 500 502
`;

const P = '/api/mail/v1';
const O = `${P}/orders/{orderId}`;

/** The document details the errors of three (test, delete, delivery logs); the others share theirs but for the 429 of the test. */
const PLATFORM = `
listWebhooks            | GET    ${O}/webhooks                               | 200 | 401 404 422 500
createWebhook           | POST   ${P}/mailboxes/{mailboxId}/webhooks         | 201 | 401 404 422 500
getWebhook              | GET    ${P}/webhooks/{webhookId}                   | 200 | 401 404 422 500
updateWebhook           | PATCH  ${P}/webhooks/{webhookId}                   | 200 | 401 404 422 500
deleteWebhook           | DELETE ${P}/webhooks/{webhookId}                   | 200 | 401 404 422 500
regenerateWebhookSecret | POST   ${P}/webhooks/{webhookId}/regenerate-secret | 200 | 401 404 422 500
testWebhook             | POST   ${P}/webhooks/{webhookId}/test              | 200 | 401 404 422 429 500
listDeliveryLogs        | GET    ${O}/webhooks/delivery-logs                 | 200 | 401 404 422 500
listMailboxes           | GET    ${O}/mailboxes                              | 200 | 401 404 422 500
`;

/** The 28 operations of the mailbox surface, then the 9 of the platform surface. */
export const TABLE: readonly Row[] = [...rows('mailbox', MAILBOX), ...rows('platform', PLATFORM)];

function rows(surface: Row['surface'], text: string): Row[] {
  return text
    .trim()
    .split('\n')
    .map((line) => {
      const [name = '', route = '', success = '', errors = ''] = line.split('|');
      const [method = '', path = ''] = words(route);
      return {
        surface,
        name: name.trim(),
        method,
        path,
        success: words(success).map(Number),
        errors: words(errors).map(Number),
      };
    });
}

function words(text: string): string[] {
  return text.trim().split(/\s+/);
}
