import type { Change } from './world.ts';

/** A value at a limit of the interface, which is taken, and the ones beyond it, which are 422. */
export interface Limit {
  readonly operation: string;
  readonly limit: string;
  readonly taken: readonly Change[];
  readonly refused: readonly Change[];
}

const text = (length: number) => 'x'.repeat(length);
const uids = (length: number) => Array.from({ length }, (_, index) => index + 1);
const bodies = (...all: readonly object[]): Change[] => all.map((body) => ({ body }));
const queries = (...all: readonly string[]): Change[] =>
  all.map((query) => ({ query: `?${query}` }));

function pages(operation: string, perPage: string, most: number): Limit[] {
  return [
    {
      operation,
      limit: 'page is at least 1',
      taken: queries('page=1', 'page=1000'),
      refused: queries('page=0', 'page=-1', 'page=1.5', 'page=x'),
    },
    {
      operation,
      limit: `${perPage} is 1 to ${most}`,
      taken: queries(`${perPage}=1`, `${perPage}=${most}`),
      refused: queries(`${perPage}=0`, `${perPage}=${most + 1}`, `${perPage}=many`),
    },
  ];
}

function sorts(operation: string): Limit {
  return {
    operation,
    limit: 'sort is by uid, date or size',
    taken: queries(...['uid', '-uid', 'date', '-date', 'size', '-size'].map((by) => `sort=${by}`)),
    refused: queries('sort=subject', 'sort=--uid', 'sort=%2Buid'),
  };
}

function uid(operation: string): Limit {
  return {
    operation,
    limit: 'uid is an integer of at least 1',
    taken: [{ values: { uid: 2 } }],
    refused: [0, -1, '1.5', 'x', '2x'].map((value) => ({ values: { uid: value } })),
  };
}

function uidLists(operation: string, more: object): Limit {
  return {
    operation,
    limit: 'uids are 1 to 100 entries of at least 1',
    taken: bodies({ uids: uids(1), ...more }, { uids: uids(100), ...more }),
    refused: bodies(
      { uids: [], ...more },
      { uids: uids(101), ...more },
      { uids: [0], ...more },
      { uids: ['1'], ...more },
      { ...more },
    ),
  };
}

function flags(operation: string, more: object): Limit {
  return {
    operation,
    limit: 'a flag has 1 to 255 characters, and at least one list is set',
    taken: bodies({ addFlags: [text(255)], ...more }, { removeFlags: ['\\Seen'], ...more }),
    refused: bodies(
      { addFlags: [''], ...more },
      { addFlags: [text(256)], ...more },
      { removeFlags: [text(256)], ...more },
      { addFlags: '\\Seen', ...more },
      { ...more },
      { addFlags: [], removeFlags: [], ...more },
    ),
  };
}

function folderNames(operation: string): Limit {
  return {
    operation,
    limit: 'a folder name has 1 to 100 characters after trimming',
    taken: bodies({ name: ' N ' }, { name: `  INBOX.${text(94)}  ` }),
    refused: bodies({ name: '' }, { name: '   ' }, { name: `INBOX.${text(95)}` }, { name: 7 }, {}),
  };
}

function target(operation: string, more: object): Limit {
  return {
    operation,
    limit: 'the target folder has 1 to 100 characters and is there',
    taken: bodies({ targetFolder: 'INBOX.Trash', ...more }),
    refused: bodies(
      { targetFolder: '', ...more },
      { targetFolder: text(101), ...more },
      { targetFolder: 'INBOX.None', ...more },
      { ...more },
    ),
  };
}

const HOOK = { name: 'n', url: 'https://example.net/h', events: ['message.received'] };
const URL_START = 'https://example.net/';

function hookFields(operation: string, base: object): Limit[] {
  return [
    {
      operation,
      limit: 'a name has 1 to 255 characters',
      taken: bodies({ ...base, name: text(255) }),
      refused: bodies({ ...base, name: '' }, { ...base, name: text(256) }),
    },
    {
      operation,
      limit: 'a url has at most 2048 characters',
      taken: bodies({ ...base, url: URL_START + text(2048 - URL_START.length) }),
      refused: bodies(
        { ...base, url: URL_START + text(2049 - URL_START.length) },
        { ...base, url: 'example.net' },
        { ...base, url: 'ftp://example.net/' },
      ),
    },
    {
      operation,
      limit: 'events are at least one of those that exist',
      taken: bodies({ ...base, events: ['message.received'] }),
      refused: bodies({ ...base, events: [] }, { ...base, events: ['message.sent'] }),
    },
    {
      operation,
      limit: 'a status is active, paused or disabled',
      taken: bodies(...['active', 'paused', 'disabled'].map((status) => ({ ...base, status }))),
      refused: bodies({ ...base, status: 'on' }, { ...base, status: null }),
    },
  ];
}

function requiredHookFields(operation: string): Limit {
  const { name, url, events } = HOOK;
  return {
    operation,
    limit: 'name, url and events are required',
    taken: [],
    refused: bodies({}, { url, events }, { name, events }, { name, url }),
  };
}

const TO = ['a@example.net'];

export const LIMITS: readonly Limit[] = [
  {
    operation: 'mailbox.submitFeedback',
    limit: 'the score is 1 to 10',
    taken: bodies({ score: 1, message: 'm' }, { score: 10, message: 'm' }),
    refused: bodies(
      { score: 0, message: 'm' },
      { score: 11, message: 'm' },
      { score: 5.5, message: 'm' },
      { message: 'm' },
    ),
  },
  {
    operation: 'mailbox.submitFeedback',
    limit: 'the message has at most 2000 characters',
    taken: bodies({ score: 5, message: text(2000) }),
    refused: bodies({ score: 5, message: text(2001) }, { score: 5 }),
  },
  ...pages('mailbox.listFolders', 'perPage', 100),
  folderNames('mailbox.createFolder'),
  folderNames('mailbox.updateFolder'),
  ...pages('mailbox.listMessages', 'perPage', 100),
  sorts('mailbox.listMessages'),
  ...pages('mailbox.searchMessages', 'perPage', 100),
  sorts('mailbox.searchMessages'),
  {
    operation: 'mailbox.searchMessages',
    limit: 'subject, body and text have at most 1024 characters, addresses 320',
    taken: bodies(
      ...['subject', 'body', 'text'].map((field) => ({ [field]: text(1024) })),
      ...['from', 'to', 'cc'].map((field) => ({ [field]: text(320) })),
      { header: `X:${text(1022)}` },
    ),
    refused: bodies(
      ...['subject', 'body', 'text'].map((field) => ({ [field]: text(1025) })),
      ...['from', 'to', 'cc'].map((field) => ({ [field]: text(321) })),
      { header: `X:${text(1023)}` },
      { header: 'no colon' },
    ),
  },
  {
    operation: 'mailbox.searchMessages',
    limit: 'days, sizes and uid sets are what they should be',
    taken: bodies(
      { since: '2026-02-28', before: '2026-03-01' },
      { larger: 0, smaller: 1 },
      ...['7', '1:100', '100:*', '*', '3,9:12,40:*'].map((uid) => ({ uid })),
      { flags: [text(255)] },
      {},
    ),
    refused: bodies(
      { since: '2026-02-30' },
      { before: '01.02.2026' },
      { larger: -1 },
      { smaller: '7' },
      ...['', '0', '1:', 'x', '1;2', '1,,2'].map((uid) => ({ uid })),
      { flags: [text(256)] },
      { flags: [''] },
    ),
  },
  uidLists('mailbox.updateMessageFlags', { addFlags: ['\\Seen'] }),
  flags('mailbox.updateMessageFlags', { uids: [1] }),
  uidLists('mailbox.moveMessages', { targetFolder: 'INBOX.Trash' }),
  target('mailbox.moveMessages', { uids: [1] }),
  uidLists('mailbox.deleteMessages', {}),
  flags('mailbox.patchMessage', {}),
  target('mailbox.moveMessage', {}),
  uid('mailbox.getMessage'),
  uid('mailbox.patchMessage'),
  uid('mailbox.deleteMessage'),
  uid('mailbox.getMessageSource'),
  uid('mailbox.getMessageText'),
  uid('mailbox.getMessageAttachment'),
  uid('mailbox.moveMessage'),
  {
    operation: 'mailbox.sendEmail',
    limit: 'there is at least one recipient',
    taken: bodies({ to: TO }, { cc: TO }, { bcc: TO }),
    refused: bodies({}, { subject: 's' }, { to: [] }, { to: ['nobody'] }, { to: 'a@example.net' }),
  },
  {
    operation: 'mailbox.sendEmail',
    limit: 'it is a reply or a forward of a message that is there, never both',
    taken: bodies(
      { to: TO, inReplyTo: { uid: 1, folder: 'INBOX' } },
      { to: TO, forwardOf: { uid: 1, folder: 'INBOX' } },
    ),
    refused: bodies(
      { to: TO, inReplyTo: { uid: 1, folder: 'INBOX' }, forwardOf: { uid: 1, folder: 'INBOX' } },
      { to: TO, inReplyTo: { uid: 99, folder: 'INBOX' } },
      { to: TO, forwardOf: { uid: 1, folder: 'INBOX.None' } },
      { to: TO, inReplyTo: { uid: 0, folder: 'INBOX' } },
    ),
  },
  {
    operation: 'mailbox.listWebhooks',
    limit: 'status is one that exists',
    taken: queries('status=active', 'status=paused', 'status=disabled'),
    refused: queries('status=on'),
  },
  ...pages('mailbox.listWebhooks', 'perPage', 1000),
  ...hookFields('mailbox.createWebhook', HOOK),
  requiredHookFields('mailbox.createWebhook'),
  ...hookFields('mailbox.updateWebhook', {}),
  {
    operation: 'platform.listWebhooks',
    limit: 'status is one that exists',
    taken: queries('status=active', 'status=paused', 'status=disabled', 'status='),
    refused: queries('status=on'),
  },
  ...pages('platform.listWebhooks', 'per_page', 100),
  ...hookFields('platform.createWebhook', HOOK),
  requiredHookFields('platform.createWebhook'),
  ...hookFields('platform.updateWebhook', {}),
  ...pages('platform.listDeliveryLogs', 'per_page', 100),
  ...pages('platform.listMailboxes', 'per_page', 100),
  {
    operation: 'platform.listMailboxes',
    limit: 'sort is by a field there is',
    taken: queries('sort=address', 'sort=-address', 'sort=created_at', 'sort=-storage_used'),
    refused: queries('sort=secret', 'sort=__proto__', 'sort=-'),
  },
  ...['getWebhook', 'updateWebhook', 'deleteWebhook', 'regenerateWebhookSecret', 'testWebhook'].map(
    (name) => ({
      operation: `platform.${name}`,
      limit: 'an id has at most 255 characters',
      taken: [],
      refused: [{ values: { webhookId: text(256) } }],
    }),
  ),
];
