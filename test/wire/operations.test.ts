import { expect, test } from 'vitest';
import { findOperation, OPERATIONS } from '../../src/service/platform-wire.ts';
import { describeParam, readParam } from '../../src/service/wire.ts';
import { samples } from './sample.ts';

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
