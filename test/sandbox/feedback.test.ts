import { afterEach, beforeEach, expect, test } from 'vitest';
import { scrubSecrets } from '../../src/sandbox/operations.ts';
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

test('a token of the service is taken out, however short and wherever it stands', async () => {
  const { service, mailboxes } = served.sandbox;
  const orderId = service.store.mailboxes.get(mailboxes[0]?.resourceId ?? '')?.orderId ?? '';
  const token = { orderId, mailboxes: null, expiresAt: null, revokedAt: null };
  service.tokens.put('shorty-1', { surface: 'mailbox', ...token });
  await submit({ score: 3, message: 'I sent (shorty-1), in vain.' });
  const kept = JSON.stringify([...service.store.documents('feedback')]);
  expect(kept).not.toContain('shorty');
  expect(kept).toContain('I sent ([removed]), in vain.');
});

test('long words cost no more than many short ones', () => {
  const words = ['a'.repeat(2000), `${'a1'.repeat(1000)}`, '='.repeat(2000), 'token '.repeat(333)];
  for (const text of words) expect(scrubSecrets(text).length).toBeLessThanOrEqual(4000);
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
  ['my password hunter2 fails', 'my password [removed] fails'],
  ['my password is "correct horse" now', 'my password is [removed] now'],
  ['PIN 4711', 'PIN [removed]'],
  ['pass=x1, please', 'pass=[removed] please'],
  ['Authorization: Bearer abc', 'Authorization: Bearer [removed]'],
  ['mbx_12ab does not work', '[removed] does not work'],
  ['whsec_x and sk-live-1 leaked', '[removed] and [removed] leaked'],
  ['https://ada:geheim@example.org/ fails', 'https://[removed]@example.org/ fails'],
  ['it says Tr0ub4dor when', 'it says [removed] when'],
  ['{"token":"a"}', '{"token":[removed]}'],
  ['The password reset page is slow', 'The password reset page is slow'],
  ['my password is geheim', 'my password is [removed]'],
  ['The token expired', 'The token expired'],
  ['listMessages of INBOX.Work2026 in ISO-8859-1', 'listMessages of INBOX.Work2026 in ISO-8859-1'],
])('%j', (text, scrubbed) => {
  expect(scrubSecrets(text)).toBe(scrubbed);
});
