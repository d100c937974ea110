import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Answer } from '../client.ts';
import {
  badTokens,
  CONFLICTS,
  MISSING,
  NO_MAILBOX,
  type Provocation,
  validRequest,
} from './cases.ts';
import { LIMITS } from './limits.ts';
import { type Row, TABLE } from './table.ts';
import { type Change, callRow, TOKENS, type World, world } from './world.ts';

let w: World;
beforeEach(async () => {
  w = await world();
});
afterEach(() => w.close());

const CORRELATION_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** Every error is in the envelope of its surface, whatever its status. */
function expectEnvelope({ surface }: Row, answer: Answer): void {
  expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
  if (surface === 'mailbox') {
    expect(answer.json).toEqual({
      error: expect.stringMatching(/./),
      code: expect.stringMatching(/^ERR_[A-Z_]+$/),
      params: expect.any(Object),
    });
    return;
  }
  const { status, headers, json } = answer;
  const messages = expect.arrayContaining([expect.stringMatching(/./)]);
  expect(json).toEqual({
    message: expect.stringMatching(/./),
    correlation_id: expect.stringMatching(CORRELATION_ID),
    ...(status === 422 ? { errors: expect.any(Object) } : {}),
  });
  expect(json).toHaveProperty('correlation_id', headers['x-correlation-id']);
  if (status !== 422 || typeof json !== 'object' || json === null || !('errors' in json)) return;
  const lists = Object.values(json.errors ?? {});
  expect(lists.length).toBeGreaterThan(0);
  for (const list of lists) expect(list).toEqual(messages);
  expect(json).toHaveProperty('message', lists[0]?.[0]);
}

async function expectStatus(row: Row, status: number, change: Change): Promise<Answer> {
  const answer = await callRow(w, row, change);
  expect([row.name, change, answer.status]).toEqual([row.name, change, status]);
  if (status >= 400) expectEnvelope(row, answer);
  return answer;
}

const key = (row: Row) => `${row.surface}.${row.name}`;
const declaring = (status: number) => TABLE.filter(({ errors }) => errors.includes(status));

test.each(TABLE)('$surface $name succeeds with its status', async (row) => {
  const [usual = 0] = row.success;
  const answer = await expectStatus(row, usual, validRequest(row));
  if (usual === 204) expect(answer.bytes).toHaveLength(0);
});

test('a bulk change of flags reports with 207 that some are missing', async () => {
  const row = TABLE.find(({ success }) => success.includes(207));
  if (row === undefined) throw new Error('no such row');
  const { json } = await expectStatus(row, 207, { body: { uids: [1, 99], addFlags: ['a'] } });
  expect(json).toMatchObject({ data: { successful: [1], failed: [{ uid: 99 }] } });
});

describe('401', () => {
  test.each(declaring(401))('$surface $name without a token that works', async (row) => {
    const tokens = badTokens(row, w);
    expect(tokens).toHaveLength(6);
    for (const token of tokens) {
      const { json } = await expectStatus(row, 401, { ...validRequest(row), token });
      if (row.surface === 'mailbox') expect(json).toHaveProperty('code', 'ERR_UNAUTHORIZED');
    }
    const headers = { authorization: 'Basic dXNlcjpwYXNz' };
    const answer = await expectStatus(row, 401, { ...validRequest(row), token: null, headers });
    expect(answer.headers['www-authenticate']).toBe('Bearer');
  });

  test('every operation declares it', () => {
    expect(declaring(401)).toEqual(TABLE);
  });
});

describe('403', () => {
  test.each(declaring(403))('$surface $name on a mailbox the token does not reach', async (row) => {
    const narrow = await expectStatus(row, 403, { ...validRequest(row), token: TOKENS.narrow });
    expect(narrow.json).toHaveProperty('code', 'ERR_FORBIDDEN');
    const mailboxResourceId = w.foreign.mailboxId ?? '';
    await expectStatus(row, 403, {
      ...validRequest(row),
      values: { ...validRequest(row).values, mailboxResourceId },
    });
  });

  test('the platform surface does not use it', () => {
    expect(new Set(declaring(403).map(({ surface }) => surface))).toEqual(new Set(['mailbox']));
  });

  const undeclared404 = declaring(403).filter(({ errors }) => !errors.includes(404));
  test.each(undeclared404)('$name on a mailbox that is not there, having no 404', async (row) => {
    const values = { ...validRequest(row).values, mailboxResourceId: 'AC0000' };
    const { json } = await expectStatus(row, 403, { ...validRequest(row), values });
    expect(json).toMatchObject({ code: 'ERR_MAILBOX_NOT_FOUND' });
  });
});

async function expectEach(
  row: Row,
  status: number,
  provocation: Provocation | undefined,
): Promise<void> {
  const changes = provocation?.(w) ?? [];
  expect(changes).not.toEqual([]);
  for (const change of changes) {
    const valid = validRequest(row);
    const values = { ...valid.values, ...change.values };
    const { json } = await expectStatus(row, status, { ...valid, ...change, values });
    if (values.mailboxResourceId === NO_MAILBOX.values.mailboxResourceId)
      expect(json).toHaveProperty('code', 'ERR_MAILBOX_NOT_FOUND');
  }
}

test.each(declaring(404))('404: $surface $name on what is not there', (row) =>
  expectEach(row, 404, MISSING[key(row)]),
);

test.each(declaring(409))('409: $surface $name on what the state forbids', (row) =>
  expectEach(row, 409, CONFLICTS[key(row)]),
);

test.each(declaring(422))('422: $surface $name has limits', async (row) => {
  if (row.name === 'deleteAllMessages' || row.name === 'deleteFolder') {
    // They have no parameter with a bound: a folder that is not there is 404.
    return;
  }
  const limits = LIMITS.filter(({ operation }) => operation === key(row));
  expect(limits).not.toEqual([]);
});

describe('429', () => {
  const row = (name: string) => {
    const found = declaring(429).find((each) => key(each) === name);
    if (found === undefined) throw new Error(`no row ${name}`);
    return found;
  };

  test('feedback within ten seconds of another', async () => {
    const feedback = row('mailbox.submitFeedback');
    await expectStatus(feedback, 204, validRequest(feedback));
    w.pass(9_000);
    const { json, headers } = await expectStatus(feedback, 429, validRequest(feedback));
    expect(json).toMatchObject({ code: 'ERR_FEEDBACK_RATE_LIMIT' });
    expect(headers['retry-after']).toBe('1');
    w.pass(1_000);
    await expectStatus(feedback, 204, validRequest(feedback));
  });

  test('more test deliveries than a webhook may have', async () => {
    const testing = row('platform.testWebhook');
    for (let n = 0; n < 10; n += 1) await expectStatus(testing, 200, {});
    const { headers } = await expectStatus(testing, 429, {});
    expect(headers['retry-after']).toBe('60');
    w.pass(60_000);
    await expectStatus(testing, 200, {});
  });

  test('nothing else declares it', () => {
    expect(declaring(429).map(key)).toEqual(['mailbox.submitFeedback', 'platform.testWebhook']);
  });
});

describe.each([500, 502, 504])('%i', (status) => {
  const rows = declaring(status);
  if (rows.length === 0) return;
  test.each(rows)('$surface $name when it is asked for', async (row) => {
    const operation = row.surface === 'mailbox' ? row.name : `platform.${row.name}`;
    w.served.sandbox.fault({ kind: 'status', status: asFault(status), operation, times: 1 });
    await expectStatus(row, status, validRequest(row));
    expect((await callRow(w, row, validRequest(row))).status).toBeLessThan(300);
  });
});

function asFault(status: number): 500 | 502 | 504 {
  if (status === 500 || status === 502 || status === 504) return status;
  throw new Error(`no fault ${status}`);
}

test.each(TABLE)('$surface $name answers nothing it does not declare', async (row) => {
  const valid = validRequest(row);
  const hostile: Change[] = [
    { values: { mailboxResourceId: '../..', mailboxId: '../..', orderId: '../..' } },
    { values: { folder: '../../x' } },
    { values: { folder: 'INBOX\u0000' } },
    { values: { uid: '9'.repeat(30), attachmentId: '\u0000', webhookId: '%' } },
    { query: '?page=999999999999999&perPage=7&per_page=7' },
    { query: '?page=1&page=2&sort=&status=' },
    ...(valid.body === undefined
      ? []
      : [{ body: {} }, { body: { ...valid.body, surprise: [{ deep: true }] } }, { raw: '' }]),
  ];
  for (const change of hostile) {
    const { raw, ...rest } = { ...valid, ...change, values: { ...valid.values, ...change.values } };
    const request = raw === undefined ? rest : { ...rest, body: undefined, raw };
    const answer = await callRow(w, row, request);
    expect([...row.success, ...row.errors]).toContain(answer.status);
    if (answer.status >= 400) expectEnvelope(row, answer);
  }
});

/** `encodeURIComponent` writes no such thing: the path is sent as it stands. */
const BAD_ENCODING = '%E0%A4%A';

const named = TABLE.flatMap((row) =>
  [...row.path.matchAll(/\{(\w+)\}/g)].map(([, parameter = '']) => ({ ...row, parameter })),
);
test.each(named)(
  '$surface $name answers bad percent-encoding of $parameter as it declares',
  async ({ parameter, ...row }) => {
    const path = row.path.replace(`{${parameter}}`, BAD_ENCODING);
    const answer = await callRow(w, { ...row, path }, validRequest(row));
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(row.errors).toContain(answer.status);
    expectEnvelope(row, answer);
  },
);

const bodiless = TABLE.filter(
  (row) => row.method === 'POST' && validRequest(row).body === undefined,
);
test.each(bodiless)('$surface $name does not read a body, since it has none', async (row) => {
  for (const raw of ['{', '[]', 'x'.repeat(100_000)]) {
    const answer = await callRow(w, row, { raw, headers: { 'content-type': 'text/plain' } });
    expect(row.success).toContain(answer.status);
  }
});

test('those are all that take none', () => {
  expect(bodiless.map(key)).toEqual([
    'mailbox.regenerateWebhookSecret',
    'mailbox.testWebhook',
    'platform.regenerateWebhookSecret',
    'platform.testWebhook',
  ]);
});
