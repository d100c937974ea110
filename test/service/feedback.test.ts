import { afterEach, beforeEach, expect, test } from 'vitest';
import { scrubSecrets } from '../../src/service/operations/submit-feedback.ts';
import { type Served, serveEmpty } from './client.ts';

let served: Served;
let now = 0;
beforeEach(async () => {
  now = Date.UTC(2026, 0, 1);
  served = await serveEmpty({ now: () => now });
});
afterEach(() => served.close());

const submit = (body: unknown) => served.call(`POST ${served.m}/feedback`, { body });

test('is taken once in ten seconds, whichever mailbox of the customer it comes from', async () => {
  expect(await submit({ score: 10, message: 'Good' })).toMatchObject({ status: 204 });
  now += 9_001;
  const second = served.sandbox.mailboxes[1]?.resourceId ?? '';
  const early = await served.call(`POST /api/v1/mailboxes/${second}/feedback`, {
    body: { score: 1, message: 'Again' },
  });
  expect(early).toMatchObject({
    status: 429,
    json: { code: 'ERR_FEEDBACK_RATE_LIMIT', params: { retryAfter: 1 } },
    headers: { 'retry-after': '1' },
  });
  now += 999;
  expect(await submit({ score: 1, message: 'x' })).toMatchObject({ status: 204 });
});

test.each([
  [{ score: 0, message: 'x' }],
  [{ score: 11, message: 'x' }],
  [{ score: 5.5, message: 'x' }],
  [{ score: '5', message: 'x' }],
  [{ score: 5 }],
  [{ message: 'x' }],
  [{ score: 5, message: '' }],
  [{ score: 5, message: 'x'.repeat(2001) }],
])('%j is 422 and does not count', async (body) => {
  expect(await submit(body)).toMatchObject({
    status: 422,
    json: { code: 'ERR_VALIDATION_FAILED' },
  });
  expect(await submit({ score: 5, message: 'x'.repeat(2000) })).toMatchObject({ status: 204 });
});

test('secrets are taken out before it is kept', async () => {
  await submit({ score: 3, message: 'My token is mbx_418a921ff7c417493ad2735b and it fails' });
  const kept = JSON.stringify([...served.sandbox.service.store.documents('feedback')]);
  expect(kept).not.toContain('418a921ff7c417493ad2735b');
  expect(kept).toContain('and it fails');
});

test.each([
  ['password: hunter2 please', 'password: [removed] please'],
  ['Authorization: Bearer abc.def-123', 'Authorization: Bearer [removed]'],
  ['api_key=XYZ', 'api_key=[removed]'],
  ['key 0123456789abcdefghij0123 end', 'key [removed] end'],
  ['The list of 25 messages is slow', 'The list of 25 messages is slow'],
])('%j', (text, scrubbed) => {
  expect(scrubSecrets(text)).toBe(scrubbed);
});
