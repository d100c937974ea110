import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { MailkeepError } from '../../src/core/errors.ts';
import { decodeListing, messageRecord } from '../../src/service/mailbox-wire.ts';
import { OPERATIONS, readDelivery } from '../../src/service/platform-wire.ts';
import type { Operation } from '../../src/service/wire.ts';
import { decode, list } from '../../src/service/wire.ts';
import { fixture, samples } from './sample.ts';

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
