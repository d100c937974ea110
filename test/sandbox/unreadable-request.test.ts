import { once } from 'node:events';
import { connect } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Served, serveEmpty } from './client.ts';

let served: Served;
beforeEach(async () => {
  served = await serveEmpty();
});
afterEach(() => served.close());

/** What the service answers to bytes that no HTTP client would send. */
async function answerTo(sent: string) {
  const { hostname, port } = new URL(served.sandbox.mailboxUrl);
  const socket = connect(Number(port), hostname);
  socket.end(sent);
  let text = '';
  socket.setEncoding('utf8');
  socket.on('data', (chunk) => {
    text += chunk;
  });
  await once(socket, 'close');
  const [head = '', body = ''] = text.split('\r\n\r\n');
  expect(head).toContain(`content-length: ${Buffer.byteLength(body)}`);
  const json: unknown = JSON.parse(body);
  return { status: Number(head.split(' ')[1]), head, json };
}

test('a method that nobody knows is 400 in the envelope of its surface', async () => {
  const mailbox = await answerTo('BREW /api/v1/me HTTP/1.1\r\nHost: x\r\n\r\n');
  expect(mailbox).toMatchObject({
    status: 400,
    json: { error: expect.any(String), code: 'ERR_BAD_REQUEST', params: {} },
  });
  const platform = await answerTo('BREW /api/mail/v1/webhooks/w HTTP/1.1\r\nHost: x\r\n\r\n');
  const id = /x-correlation-id: (\S+)/.exec(platform.head)?.[1];
  expect(platform).toMatchObject({
    status: 400,
    json: { message: expect.any(String), correlation_id: id },
  });
  expect(id).toMatch(/^[0-9a-f-]{36}$/);
});

test('the platform surface counts it and shows its limit, and knows 400 for it only', async () => {
  const long = 'x'.repeat(100_000);
  const answer = await answerTo(`GET /api/mail/v1/webhooks/w HTTP/1.1\r\nX: ${long}\r\n\r\n`);
  expect(answer.status).toBe(400);
  for (const [name, value] of [
    ['X-RateLimit-Limit', '90'],
    ['X-RateLimit-Remaining', '89'],
    ['Retry-After', '0'],
  ]) {
    expect(answer.head).toContain(`\r\n${name}: ${value}\r\n`);
  }
  for (let n = 0; n < 89; n += 1) await answerTo('BREW /api/mail/v1/x HTTP/1.1\r\nHost: x\r\n\r\n');
  const refused = await answerTo('BREW /api/mail/v1/x HTTP/1.1\r\nHost: x\r\n\r\n');
  expect(refused).toMatchObject({ status: 429, json: { message: 'Too many requests.' } });
});

test('a request without a host or with an expectation is answered like any other', async () => {
  for (const line of ['X: y', 'Host: x\r\nExpect: the-best']) {
    const request = `GET /api/v1/me HTTP/1.1\r\n${line}\r\nConnection: close\r\n\r\n`;
    expect(await answerTo(request)).toMatchObject({
      status: 401,
      json: { code: 'ERR_UNAUTHORIZED' },
    });
  }
});

test('bytes that are no request are 400, and too long a header is 431', async () => {
  expect(await answerTo('hello\r\n\r\n')).toMatchObject({
    status: 400,
    json: { code: 'ERR_BAD_REQUEST' },
  });
  const long = 'x'.repeat(100_000);
  expect(await answerTo(`GET /api/v1/me HTTP/1.1\r\nX: ${long}\r\n\r\n`)).toMatchObject({
    status: 431,
    json: { code: 'ERR_HEADER_TOO_LARGE' },
  });
});

test('the sandbox keeps answering', async () => {
  await answerTo('hello\r\n\r\n');
  expect((await served.call('GET /api/v1/me')).status).toBe(200);
});
