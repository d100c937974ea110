import type { Row } from './table.ts';
import type { Change, World } from './world.ts';

const ADD_SEEN = { addFlags: ['\\Seen'] };
const HOOK = { name: 'n', url: 'https://example.net/hook', events: ['message.received'] };

/** A body each operation takes, where it takes one. Keys are `surface.operation`. */
const BODIES: Readonly<Record<string, object>> = {
  'mailbox.submitFeedback': { score: 9, message: 'Clear paging.' },
  'mailbox.createFolder': { name: 'INBOX.New' },
  'mailbox.updateFolder': { name: 'INBOX.Renamed' },
  'mailbox.searchMessages': { subject: 'one' },
  'mailbox.updateMessageFlags': { uids: [1, 3], ...ADD_SEEN },
  'mailbox.moveMessages': { uids: [1, 3], targetFolder: 'INBOX.Trash' },
  'mailbox.deleteMessages': { uids: [1, 3] },
  'mailbox.patchMessage': ADD_SEEN,
  'mailbox.moveMessage': { targetFolder: 'INBOX.Trash' },
  'mailbox.sendEmail': { to: ['a@example.net'], subject: 's', text: 't' },
  'mailbox.createWebhook': HOOK,
  'mailbox.updateWebhook': { name: 'm' },
  'platform.createWebhook': HOOK,
  'platform.updateWebhook': { name: 'm' },
};

/** Where the world's usual values would not do. */
const ELSEWHERE: Readonly<Record<string, Change['values']>> = {
  'mailbox.updateFolder': { folder: 'INBOX.Work' },
  'mailbox.deleteFolder': { folder: 'INBOX.Work' },
};

/** A request that succeeds. */
export function validRequest(row: Row): Change {
  const key = `${row.surface}.${row.name}`;
  const body = BODIES[key];
  const values = ELSEWHERE[key];
  return {
    ...(body === undefined ? {} : { body }),
    ...(values === undefined ? {} : { values }),
  };
}

/** Several ways to the same status. */
export type Provocation = (world: World) => readonly Change[];

const NO_FOLDER: Change = { values: { folder: 'INBOX.None' } };
const NO_MESSAGE: Change = { values: { uid: 99 } };
const NO_WEBHOOK: Change = { values: { webhookId: '01900000-0000-7000-8000-000000000000' } };
export const NO_MAILBOX = { values: { mailboxResourceId: 'AC0000' } };

/** What is not there: 404, for the operations that declare it. */
export const MISSING: Readonly<Record<string, Provocation>> = {
  'mailbox.deleteFolder': () => [NO_FOLDER, NO_MAILBOX],
  'mailbox.deleteAllMessages': () => [NO_FOLDER, NO_MAILBOX],
  'mailbox.getMessage': () => [NO_FOLDER, NO_MESSAGE, NO_MAILBOX],
  'mailbox.patchMessage': () => [NO_FOLDER, NO_MESSAGE, NO_MAILBOX],
  'mailbox.getMessageSource': () => [NO_FOLDER, NO_MESSAGE, NO_MAILBOX],
  'mailbox.getMessageText': () => [NO_FOLDER, NO_MESSAGE, NO_MAILBOX],
  'mailbox.getMessageAttachment': () => [
    NO_FOLDER,
    NO_MESSAGE,
    NO_MAILBOX,
    { values: { attachmentId: 'none' } },
    { values: { uid: 1 } },
  ],
  'mailbox.getWebhook': () => [NO_WEBHOOK, NO_MAILBOX],
  'mailbox.updateWebhook': () => [NO_WEBHOOK, NO_MAILBOX],
  'mailbox.deleteWebhook': () => [NO_WEBHOOK, NO_MAILBOX],
  'mailbox.regenerateWebhookSecret': () => [NO_WEBHOOK, NO_MAILBOX],
  'mailbox.testWebhook': () => [NO_WEBHOOK, NO_MAILBOX],
  'platform.listWebhooks': ({ foreign }) => [{ values: { orderId: 'OR0' } }, { values: foreign }],
  'platform.createWebhook': ({ foreign }) => [
    { values: { mailboxId: 'AC0000' } },
    { values: foreign },
  ],
  'platform.getWebhook': ({ foreign }) => [NO_WEBHOOK, { values: foreign }],
  'platform.updateWebhook': ({ foreign }) => [NO_WEBHOOK, { values: foreign }],
  'platform.deleteWebhook': ({ foreign }) => [NO_WEBHOOK, { values: foreign }],
  'platform.regenerateWebhookSecret': ({ foreign }) => [NO_WEBHOOK, { values: foreign }],
  'platform.testWebhook': ({ foreign }) => [NO_WEBHOOK, { values: foreign }],
  'platform.listDeliveryLogs': ({ foreign }) => [
    { values: { orderId: 'OR0' } },
    { values: foreign },
  ],
  'platform.listMailboxes': ({ foreign }) => [{ values: { orderId: 'OR0' } }, { values: foreign }],
};

/** What the state forbids: 409. */
export const CONFLICTS: Readonly<Record<string, Provocation>> = {
  'mailbox.createFolder': () => [
    { body: { name: 'INBOX.Work' } },
    { body: { name: ' INBOX.Work ' } },
    { body: { name: 'inbox' } },
  ],
  'mailbox.updateFolder': () => [
    { body: { name: 'INBOX.Trash' } },
    { values: { folder: 'INBOX' }, body: { name: 'INBOX.Moved' } },
  ],
  'mailbox.deleteFolder': () => [
    { values: { folder: 'INBOX' } },
    { values: { folder: 'INBOX.Sent' } },
  ],
};

/** Values of a token that nobody takes. */
export function badTokens(row: Row, { served }: World): readonly (string | null)[] {
  const { tokens } = served.sandbox;
  const other = row.surface === 'mailbox' ? tokens.platform : tokens.mailbox;
  return [null, 'unknown', 'two words', 'expired-token', 'revoked-token', other];
}
