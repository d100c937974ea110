import { connect, type Socket } from 'node:net';
import { Pool } from 'undici';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { mailboxKey } from '../../src/core/state.ts';
import { NOW } from '../web/served.ts';
import { type Ask, asking, type Mirrored, mirrored } from './mirrored.ts';

let all: Mirrored;
let pool: Pool;
/** A token of the second mailbox. */
let narrow: Ask;
let narrowSecret: string;
let mine: string;
let other: string;

beforeAll(async () => {
  all = await mirrored({ seed: 5, mail: { messages: 60 } });
  pool = new Pool(all.served.web.apiUrl);
  const [first, second] = all.sandbox.mailboxes;
  mine = second?.resourceId ?? '';
  other = first?.resourceId ?? '';
  const key = mailboxKey({ host: '127.0.0.1', mailbox: mine });
  const made = all.tokens.create({ name: 'narrow', mailboxes: [key], expiresAt: null }, NOW);
  narrowSecret = made.secret;
  narrow = asking(pool, narrowSecret);
});

afterAll(async () => {
  await pool.close();
  await all.close();
});

const listed = z.object({ data: z.array(z.object({ uid: z.int() })) });

test('without a token there is nothing', async () => {
  const paths = [
    '/api/v1/me',
    `${all.m}/folders`,
    `${all.m}/quota`,
    `${all.m}/folders/INBOX/messages`,
  ];
  for (const authorization of ['', 'Bearer ', 'Bearer nonsense', 'Basic eDp4', narrowSecret])
    for (const path of paths) {
      const { status, text } = await all.served.ask(path, {
        headers: { authorization, host: all.served.host },
      });
      expect([path, authorization.slice(0, 8), status]).toEqual([
        path,
        authorization.slice(0, 8),
        401,
      ]);
      expect(JSON.parse(text)).toMatchObject({ code: 'ERR_UNAUTHORIZED' });
    }
});

test('a cookie of the web interface opens nothing here', async () => {
  const cookie = await all.served.signIn();
  const { status } = await all.served.ask('/api/v1/me', {
    headers: { cookie: String(cookie), host: all.served.host },
  });
  expect(status).toBe(401);
});

test('a token of one mailbox sees it, and cannot tell another from none', async () => {
  const account = await narrow('GET', '/api/v1/me');
  expect(account.body).toMatchObject({ data: { mailboxes: [{ resourceId: mine }] } });
  const { body } = await all.mirror('GET', `/api/v1/mailboxes/${other}/folders/INBOX/messages`);
  const uid = listed.parse(body).data[0]?.uid ?? 1;
  for (const rest of [
    'folders',
    'quota',
    'webhooks',
    'folders/INBOX/messages',
    `folders/INBOX/messages/${uid}`,
    `folders/INBOX/messages/${uid}/source`,
    `folders/INBOX/messages/${uid}/text`,
    `folders/INBOX/messages/${uid}/attachments/part-2`,
    'folders?asOf=2096-01-01',
    `folders/INBOX/messages/${uid}/source?asOf=2096-01-01`,
    'webhooks/01890000-0000-7000-8000-000000000000',
  ]) {
    const foreign = await narrow('GET', `/api/v1/mailboxes/${other}/${rest}`);
    const nothing = await narrow('GET', `/api/v1/mailboxes/ACnothing/${rest}`);
    expect(JSON.stringify(foreign).replaceAll(other, 'ACnothing')).toBe(JSON.stringify(nothing));
    expect([403, 404]).toContain(foreign.status);
  }
  const search = (mailbox: string) =>
    narrow('POST', `/api/v1/mailboxes/${mailbox}/folders/INBOX/messages/search`, { text: 'e' });
  const [foreign, nothing] = [await search(other), await search('ACnothing')];
  expect(JSON.stringify(foreign).replaceAll(other, 'ACnothing')).toBe(JSON.stringify(nothing));
  expect(foreign.status).toBe(403);
});

test('a page of another origin is refused, one of our own and clients without an origin are served', async () => {
  const ask = (origin: string) => all.mirror('GET', '/api/v1/me', undefined, { origin });
  expect((await ask('https://evil.example')).status).toBe(403);
  expect((await ask('null')).status).toBe(403);
  expect((await ask(all.served.web.url)).status).toBe(200);
});

test('under another name than its own the server has no API', async () => {
  const { status } = await all.served.ask('/api/v1/me', {
    headers: { host: 'evil.example', authorization: `Bearer ${narrowSecret}` },
  });
  expect(status).toBe(421);
});

test('a revoked token ends at once', async () => {
  const { secret } = all.tokens.create({ name: 'short', mailboxes: null, expiresAt: null }, NOW);
  const ask = asking(pool, secret);
  expect((await ask('GET', '/api/v1/me')).status).toBe(200);
  all.tokens.revoke('short');
  expect((await ask('GET', '/api/v1/me')).status).toBe(401);
});

test('a hundred clients keep their connections between two requests', async () => {
  const { port } = all.served.web.address;
  const text = `GET /api/v1/me HTTP/1.1\r\nHost: ${all.served.host}\r\nAuthorization: Bearer ${narrowSecret}\r\n\r\n`;
  const sockets = Array.from({ length: 100 }, () => connect(port, '127.0.0.1'));
  const answered = (socket: Socket) =>
    new Promise<string>((resolve, reject) => {
      socket.once('data', (bytes: Buffer) => resolve(String(bytes).slice(0, 15)));
      socket.once('close', () => reject(new Error('closed')));
      if (socket.closed) reject(new Error('closed before'));
      socket.write(text);
    });
  try {
    // All of them rest between the rounds.
    for (let round = 0; round < 3; round += 1)
      expect(new Set(await Promise.all(sockets.map(answered)))).toEqual(
        new Set(['HTTP/1.1 200 OK']),
      );
  } finally {
    for (const socket of sockets) socket.destroy();
  }
});

test('a hundred requests of one token at once are all answered', async () => {
  const answers = await Promise.all(
    Array.from({ length: 100 }, () => all.mirror('GET', `${all.m}/folders/INBOX/messages`)),
  );
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
});
