import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { MailkeepError } from '../../src/core/errors.ts';
import { decodeListing, messageRecord } from '../../src/service/mailbox-wire.ts';
import { findOperation, OPERATIONS, readDelivery } from '../../src/service/platform-wire.ts';
import {
  decode,
  describeParam,
  encodeBody,
  inUidSet,
  list,
  type Operation,
  parseUidSet,
  readParam,
} from '../../src/service/wire.ts';
import { fixture, samples } from './sample.ts';

const MAILBOX = samples('mailbox');
const PLATFORM = samples('platform');

test('there are 28 operations on the mailbox surface and 9 on the platform surface, each with a sample', () => {
  const named = (surface: string) =>
    OPERATIONS.filter((operation) => operation.surface === surface).map(({ name }) => name);
  expect(named('mailbox')).toEqual([...MAILBOX.keys()]);
  expect(named('platform')).toEqual([...PLATFORM.keys()].map((name) => `platform.${name}`));
  expect([MAILBOX.size, PLATFORM.size]).toEqual([28, 9]);
});

test.each(OPERATIONS)('$name: method, path and status are those of the sample', (operation) => {
  const from = operation.surface === 'mailbox' ? MAILBOX : PLATFORM;
  const sample = from.get(operation.name.replace('platform.', ''));
  expect(sample?.request.method).toBe(operation.method);
  const pattern = operation.path.replace(/[.]/g, '\\.').replace(/\{\w+\}/g, '[^/?]+');
  expect(sample?.request.path.split('?')[0]).toMatch(new RegExp(`^${pattern}$`));
  expect(operation.success).toContain(sample?.response.status);
  const inPath = [...operation.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
  expect(operation.params.filter((param) => param.in === 'path').map(({ name }) => name)).toEqual(
    inPath,
  );
});

test('what removes something for good is marked, and no read is', () => {
  expect(OPERATIONS.filter(({ destructive }) => destructive).map(({ name }) => name)).toEqual([
    'deleteFolder',
    'deleteAllMessages',
    'deleteMessages',
    'deleteMessage',
    'deleteWebhook',
    'regenerateWebhookSecret',
    'platform.deleteWebhook',
    'platform.regenerateWebhookSecret',
  ]);
  const reads = OPERATIONS.filter(({ read }) => read);
  expect(reads.filter(({ method }) => method !== 'GET').map(({ name }) => name)).toEqual([
    'searchMessages',
  ]);
});

test('an operation is found by its name, one of the platform surface also by its bare name', () => {
  expect(findOperation('getWebhook')?.surface).toBe('mailbox');
  expect(findOperation('platform.getWebhook')?.surface).toBe('platform');
  expect(findOperation('listDeliveryLogs')?.surface).toBe('platform');
  expect(findOperation('getEverything')).toBeNull();
});

test.each([
  ['perPage', '100', 100],
  ['perPage', 1, 1],
  ['perPage', '101', null],
  ['perPage', 0, null],
  ['perPage', '1e1', null],
  ['perPage', '', null],
  ['perPage', 1.5, null],
  ['sort', '-date', '-date'],
  ['sort', 'subject', null],
  ['folder', '', null],
  ['folder', 'INBOX', 'INBOX'],
  ['uid', 7, null],
])('listMessages takes %s = %j as %j', (name, given, read) => {
  const param = findOperation('listMessages')?.params.find((each) => each.name === name);
  if (param === undefined) {
    expect(read).toBeNull();
    return;
  }
  const reading = readParam(param, given);
  expect(reading.ok ? reading.value : null).toBe(read);
});

test('parameters say what they take', () => {
  const params = findOperation('listMessages')?.params ?? [];
  expect(params.map((param) => `${param.name}: ${describeParam(param)}`)).toEqual([
    'mailboxResourceId: non-empty string',
    'folder: non-empty string',
    'page: integer 1..',
    'perPage: integer 1..100',
    'sort: one of uid, -uid, date, -date, size, -size',
  ]);
});

const field = z.record(z.string(), z.unknown());

/** The records of a sample's body. */
function recordsOf(operation: Operation, body: unknown): unknown[] {
  const { kind } = operation.response;
  if (kind === 'bare') return [body];
  if (kind === 'data') return [field.parse(body).data];
  return kind === 'page' ? z.array(z.unknown()).parse(field.parse(body).data) : [];
}

const withRecords = OPERATIONS.flatMap((operation) => {
  const sample = samples(operation.surface).get(operation.name.replace('platform.', ''));
  const { response } = operation;
  if (!('record' in response)) return [];
  return recordsOf(operation, sample?.response.body).map((record, i) => ({
    name: `${operation.name} ${i}`,
    schema: response.record,
    record,
  }));
});

describe('a full record', () => {
  test.each(withRecords)('$name is decoded without loss', ({ schema, record }) => {
    expect(decode(schema, record, 'x')).toEqual(record);
  });

  test.each(withRecords)('$name keeps a field nobody knows', ({ schema, record }) => {
    const more = { ...field.parse(record), newField: { a: [1] } };
    expect(decode(schema, more, 'x')).toEqual(more);
  });

  test.each(withRecords)(
    '$name with a field of a wrong type is refused by its path',
    ({ schema, record }) => {
      for (const name of Object.keys(field.parse(record))) {
        const wrong = { ...field.parse(record), [name]: () => 'secret content' };
        const error = failure(() => decode(schema, wrong, 'x'));
        expect(error.code).toBe('origin.shape');
        expect(error.facts).toMatchObject({ operation: 'x', path: name, found: 'function' });
      }
    },
  );
});

describe('a message record', () => {
  const messages = withRecords.filter(({ schema }) => schema === messageRecord);

  test.each(messages)('$name: the fast decoder agrees with the schema', ({ record }) => {
    const { path, unseen, ...bySchema } = messageRecord.parse(record);
    const { extra, flags, ...listing } = decodeListing(record, 'listMessages');
    expect({ ...listing, ...extra, flags: [...flags] }).toEqual({
      ...bySchema,
      flags: [...bySchema.flags].sort(),
    });
    expect([path, unseen]).not.toContain(undefined);
  });

  const lenient = z
    .array(z.object({ why: z.string(), body: field, decoded: z.unknown() }))
    .parse(fixture('lenient'));
  test.each(lenient)('$why', ({ body, decoded }) => {
    expect(decodeListing(body.data, 'getMessage')).toEqual(decoded);
  });

  test('a field called __proto__ is kept as a field', () => {
    const record: unknown = JSON.parse('{"uid": 3, "__proto__": {"polluted": true}}');
    const { extra } = decodeListing(record, 'getMessage');
    expect(Object.keys(extra)).toEqual(['__proto__']);
    expect(Object.getPrototypeOf(extra)).toBe(Object.prototype);
  });

  test.each([
    [null, 'data[3]', 'null', 'object'],
    [[], 'data[3]', 'array', 'object'],
    [{}, 'data[3].uid', 'nothing', 'integer at least 1'],
    [{ uid: 0 }, 'data[3].uid', 'number', 'integer at least 1'],
    [{ uid: '7' }, 'data[3].uid', 'string', 'integer at least 1'],
    [{ uid: 1, flags: 'x' }, 'data[3].flags', 'string', 'array'],
    [{ uid: 1, flags: [1] }, 'data[3].flags[0]', 'number', 'string'],
  ])('%j is refused', (record, path, found, expected) => {
    const error = failure(() => decodeListing(record, 'listMessages', 'data[3]'));
    expect(error.code).toBe('origin.shape');
    expect(error.facts).toEqual({ operation: 'listMessages', path, found, expected });
  });
});

test.each([
  { size: -1 },
  { size: '10' },
  { date: 7 },
  { from: 'a@b' },
  { cc: [{}, { name: 1 }] },
  { attachments: [null] },
  { attachments: [{ inline: 1 }], subject: [], odd: true },
])('%j next to readable fields is kept as it came', (odd) => {
  const record = { uid: 7, flags: ['\\Seen'], messageId: '<a@b>', ...odd };
  const listing = decodeListing(record, 'listMessages', 'data[3]');
  const nothing = decodeListing({ uid: 7 }, 'listMessages');
  expect(listing).toEqual({
    ...nothing,
    flags: ['\\Seen'],
    messageId: '<a@b>',
    extra: odd,
  });
});

test('a folder without a count is refused: a missing count must not read as an emptied folder', () => {
  const operation = OPERATIONS.find(({ name }) => name === 'listFolders');
  const schema =
    operation !== undefined && 'record' in operation.response
      ? operation.response.record
      : z.never();
  expect(failure(() => decode(schema, { path: 'INBOX' }, 'x')).facts.path).toBe('messageCount');
  expect(decode(schema, { path: 'INBOX.a.b', messageCount: 1 }, 'x')).toEqual({
    path: 'INBOX.a.b',
    name: 'b',
    delimiter: '.',
    specialUse: null,
    messageCount: 1,
    unreadCount: 0,
  });
});

const deliveries = z
  .array(z.object({ body: z.unknown(), hint: z.unknown() }))
  .parse(fixture('deliveries'));
test.each(deliveries)('a delivery is read as a hint: $body', ({ body, hint }) => {
  expect(readDelivery(body)).toEqual(hint);
});

function failure(act: () => unknown): MailkeepError {
  try {
    act();
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    expect(error.family).toBe('origin');
    expect(String(error)).not.toContain('secret content');
    return error;
  }
  throw new Error('did not fail');
}

test('a list with many bad items is one problem', () => {
  const read = list(z.string()).safeParse(Array.from({ length: 1_000 }, () => 1));
  expect(read.error?.issues).toMatchObject([{ path: [0], expected: 'string' }]);
});

function encode(operation: string, body: unknown): unknown {
  return encodeBody(findOperation(operation)?.body ?? z.never(), body, operation);
}

/** The field that is refused, and what it takes. */
function refused(operation: string, body: unknown): string {
  try {
    encode(operation, body);
  } catch (error) {
    expect(error).toMatchObject({ family: 'usage', code: 'request-invalid' });
    const facts = z
      .object({ facts: z.object({ field: z.string(), expected: z.string() }) })
      .parse(error).facts;
    return `${facts.field}: ${facts.expected}`;
  }
  return 'nothing';
}

const withBody = OPERATIONS.filter(({ body }) => body !== null);

test.each(withBody)('$name: the sample is encoded as it stands', ({ name, surface }) => {
  const body = samples(surface).get(name.replace('platform.', ''))?.request.body;
  expect(encode(name, body)).toEqual(body);
});

test.each(withBody)('$name refuses a field it does not know', ({ name, surface }) => {
  const body = samples(surface).get(name.replace('platform.', ''))?.request.body;
  expect(refused(name, { ...z.looseObject({}).parse(body), sbject: 'x' })).toBe(
    'sbject: no such field',
  );
});

describe('bounds', () => {
  const uids = Array.from({ length: 101 }, (_, i) => i + 1);
  const webhook = { name: 'n', url: 'https://x.example', events: ['message.received'] };
  test.each([
    ['submitFeedback', { score: 0, message: 'x' }, 'score: at least 1'],
    ['submitFeedback', { score: 11, message: 'x' }, 'score: at most 10'],
    ['submitFeedback', { score: 5, message: 'x'.repeat(2001) }, 'message: at most 2000'],
    ['submitFeedback', { score: 5 }, 'message: string'],
    ['createFolder', { name: '   ' }, 'name: at least 1'],
    ['createFolder', { name: 'x'.repeat(101) }, 'name: at most 100'],
    ['patchMessage', {}, 'addFlags: needs addFlags or removeFlags'],
    ['patchMessage', { addFlags: [], removeFlags: [] }, 'addFlags: needs addFlags or removeFlags'],
    ['patchMessage', { addFlags: [''] }, 'addFlags[0]: at least 1'],
    ['patchMessage', { addFlags: ['x'.repeat(256)] }, 'addFlags[0]: at most 255'],
    ['updateMessageFlags', { uids: [1] }, 'addFlags: needs addFlags or removeFlags'],
    ['updateMessageFlags', { uids: [], addFlags: ['a'] }, 'uids: at least 1'],
    ['deleteMessages', { uids }, 'uids: at most 100'],
    ['deleteMessages', { uids: [1, 0] }, 'uids[1]: at least 1'],
    ['moveMessages', { uids: [1], targetFolder: '' }, 'targetFolder: at least 1'],
    ['moveMessage', { targetFolder: 'x'.repeat(101) }, 'targetFolder: at most 100'],
    ['searchMessages', { since: '2026-02-30' }, 'since: date'],
    ['searchMessages', { before: '1.3.2026' }, 'before: date'],
    ['searchMessages', { uid: '1:' }, 'uid: not an IMAP uid set'],
    ['searchMessages', { header: 'no colon' }, 'header: not of the form Name:value'],
    ['searchMessages', { larger: -1 }, 'larger: at least 0'],
    ['searchMessages', { from: 'x'.repeat(321) }, 'from: at most 320'],
    ['searchMessages', { text: 'x'.repeat(1025) }, 'text: at most 1024'],
    ['sendEmail', { subject: 'x' }, 'to: needs at least one of to, cc and bcc'],
    ['sendEmail', { to: ['Ana <ana@example.org>'] }, 'to[0]: not a plain address'],
    [
      'sendEmail',
      { to: ['a@b.c'], inReplyTo: { uid: 1, folder: 'x' }, forwardOf: { uid: 1, folder: 'x' } },
      'forwardOf: cannot be a reply and a forward at once',
    ],
    ['createWebhook', { ...webhook, url: 'ftp://x' }, 'url: url'],
    ['createWebhook', { ...webhook, url: `https://x/${'y'.repeat(2048)}` }, 'url: at most 2048'],
    ['createWebhook', { ...webhook, events: [] }, 'events: at least 1'],
    ['createWebhook', { ...webhook, events: ['x'] }, 'events[0]: one of message.received'],
    ['createWebhook', { ...webhook, name: '' }, 'name: at least 1'],
    ['platform.createWebhook', { url: webhook.url, events: webhook.events }, 'name: string'],
    ['updateWebhook', { status: 'gone' }, 'status: one of active, paused, disabled'],
  ])('%s %j', (operation, body, says) => {
    expect(refused(operation, body)).toBe(says);
  });

  test('what lies on the bounds passes', () => {
    expect(encode('createFolder', { name: `  ${'x'.repeat(100)}  ` })).toEqual({
      name: 'x'.repeat(100),
    });
    expect(refused('deleteMessages', { uids: uids.slice(0, 100) })).toBe('nothing');
    expect(refused('searchMessages', {})).toBe('nothing');
    expect(refused('submitFeedback', { score: 10, message: 'x'.repeat(2000) })).toBe('nothing');
  });
});

test.each([
  ['7', [{ from: 7, to: 7 }]],
  ['1:100', [{ from: 1, to: 100 }]],
  ['100:*', [{ from: 100, to: '*' }]],
  ['*', [{ from: '*', to: '*' }]],
  [
    '3,9:12',
    [
      { from: 3, to: 3 },
      { from: 9, to: 12 },
    ],
  ],
  ['4294967295', [{ from: 4294967295, to: 4294967295 }]],
])('%s is read', (text, ranges) => {
  expect(parseUidSet(text)).toEqual(ranges);
});

test.each(['', ',', '1,', '0', '1:0', '1:2:3', '-1', 'a', '1 ', '4294967296', '1;2', '٣'])(
  '%j is no uid set',
  (text) => {
    expect(parseUidSet(text)).toBeNull();
  },
);

test.each([
  ['5:*', 3, 3, true],
  ['5:*', 2, 3, false],
  ['10:5', 7, 100, true],
  ['*', 9, 9, true],
  ['*', 8, 9, false],
])('in %s, uid %i of a folder up to %i: %j', (text, uid, highest, inside) => {
  expect(inUidSet(parseUidSet(text) ?? [], uid, highest)).toBe(inside);
});
