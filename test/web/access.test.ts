import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { CODE_MS, SESSION_MS, SessionStore } from '../../src/web/sessions.ts';
import { startWebServer } from '../../src/web/web-server.ts';
import { archiveOf, cookiesOf, letter, Served, tokenIn } from './served.ts';

let data: string;
const served = new Served();

beforeAll(async () => {
  data = await archiveOf({ ferry: letter('Ferry', 'When does it leave?') });
  await served.start(data);
});
afterAll(() => served.close());
beforeEach(() => {
  expect(served.errors).toEqual([]);
});

/** Sends bytes as they are; returns all that comes back. */
function raw(bytes: string): Promise<string> {
  const { host, port } = served.web.address;
  const socket = connect(port, host);
  socket.end(bytes);
  return text(socket);
}

/** What a stranger might ask for. */
const ADDRESSES = [
  '/',
  '/mail',
  '/mail?q=ferry',
  '/m/3f2a91c4',
  '/m/0000000000',
  '/m/3f2a91c4/source',
  '/health',
  '/you',
  '/nothing',
  '/..%2f..%2fetc%2fpasswd',
];

test('without a session every address gives the same answer', async () => {
  const answers = await Promise.all(ADDRESSES.map((address) => served.ask(address)));
  for (const { status, headers, text: body } of answers) {
    expect([status, headers.location, body]).toEqual([303, '/enter', '']);
  }
  const lengths = new Set(answers.map(({ headers }) => JSON.stringify({ ...headers, date: '' })));
  expect(lengths.size).toBe(1);
});

test('without a session the API refuses each address alike', async () => {
  const headers = served.own('');
  for (const address of ['/api/session', '/api/mail', '/api/nothing']) {
    const answer = await served.ask(address, { headers });
    expect([answer.status, answer.text]).toEqual([401, '{"error":{"code":"signed-out"}}']);
  }
});

test('a Host that is not the server’s is answered with nothing', async () => {
  const cookie = await served.signIn();
  for (const host of ['evil.example', `evil.example:${served.web.address.port}`, '127.0.0.1']) {
    const answer = await served.ask('/mail', { headers: { host, cookie } });
    expect([host, answer.status, answer.text]).toEqual([host, 421, '']);
  }
  expect(await raw(`GET /enter HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n`)).toMatch(
    /^HTTP\/1\.1 400 /,
  );
  expect(await raw(`GET /enter HTTP/1.1\r\nConnection: close\r\n\r\n`)).toMatch(/^HTTP\/1\.1 400 /);
  for (const name of ['localhost', '127.0.0.1', '[::1]', 'LOCALHOST']) {
    const host = `${name}:${served.web.address.port}`;
    expect((await served.ask('/enter', { headers: { host } })).status).toBe(200);
  }
});

test('every answer carries the headers that confine it', async () => {
  const cookie = await served.signIn();
  const answers = await Promise.all([
    served.ask('/enter'),
    served.ask('/mail'),
    served.ask('/you', { headers: { cookie } }),
    served.ask('/nothing', { headers: { cookie } }),
    served.ask('/api/session', { headers: served.own(cookie) }),
    served.ask('/enter', { headers: { host: 'evil.example' } }),
    served.ask('/enter', { method: 'PUT' }),
    served.ask('/away?to=javascript:alert(1)'),
  ]);
  for (const { headers } of answers) {
    expect(headers).toMatchObject({
      'content-security-policy':
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; manifest-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'",
      'referrer-policy': 'no-referrer',
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
    });
    expect(headers).not.toHaveProperty('access-control-allow-origin');
  }
});

test('assets are kept by browsers, by names that change with their content', async () => {
  const { text: html } = await served.ask('/enter');
  const names = [...html.matchAll(/"(\/assets\/[^"]+)"/g)].map(([, name = '']) => name);
  expect(names.length).toBeGreaterThanOrEqual(3);
  for (const name of names) {
    expect(name).toMatch(/-[A-Z0-9]{8}\.(?:css|js|png|svg|webmanifest)$/);
    const { status, headers } = await served.ask(name);
    expect([status, headers['cache-control']]).toEqual([
      200,
      'public, max-age=31536000, immutable',
    ]);
  }
  for (const name of [
    '/assets/..%2fassets.json',
    '/assets/assets.json',
    '/assets/%2e%2e%2f%2e%2e%2fpackage.json',
  ])
    expect((await served.ask(name)).status).toBe(404);
});

test('pages hold no inline script and no inline style', async () => {
  const cookie = await served.signIn();
  for (const address of ['/enter', '/you', '/away?to=https://example.org/']) {
    const { text: html } = await served.ask(address, { headers: { cookie } });
    expect(html).toMatch(/^<!doctype html><html/);
    expect(html).not.toMatch(/<script(?![^>]* src=)|<style|\sstyle=|\son\w+=/);
  }
});

test('the API answers only what a page of this server asks', async () => {
  const cookie = await served.signIn();
  const status = async (headers: Record<string, string>, method = 'GET') =>
    (await served.ask(method === 'GET' ? '/api/session' : '/api/sign-out', { method, headers }))
      .status;
  const own = served.own(cookie);
  expect(await status(own)).toBe(200);
  expect(await status({ cookie })).toBe(403);
  for (const site of ['cross-site', 'same-site', 'none'])
    expect(await status({ cookie, 'sec-fetch-site': site })).toBe(403);
  for (const origin of ['https://evil.example', 'null', `https://${served.host}`])
    expect(await status({ ...own, origin })).toBe(403);
  expect(await status({ ...own, origin: `http://${served.host}` })).toBe(200);
  expect(await status({ ...own, origin: `http://${served.host}` }, 'POST')).toBe(403);
  expect(await status({ ...own, 'x-mailkeep': '1' }, 'POST')).toBe(200);
  expect(await status(own)).toBe(401);
});

test('a code works once', async () => {
  const code = served.code();
  expect(code).toMatch(/^[2-9A-HJ-NP-Z]{4}-[2-9A-HJ-NP-Z]{4}-[2-9A-HJ-NP-Z]{4}$/);
  const answer = await served.enter(` ${code.toLowerCase()} `);
  expect([answer.status, answer.headers.location]).toEqual([303, '/mail']);
  const again = await served.enter(code);
  expect(again.status).toBe(403);
  expect(again.text).toContain('was used before');
  expect(cookiesOf(again)).toEqual([]);
});

test('a code works for ten minutes', async () => {
  const [early, late] = [served.code(), served.code()];
  const start = served.now;
  served.now = start + CODE_MS - 1;
  expect((await served.enter(early)).status).toBe(303);
  served.now = start + CODE_MS;
  expect((await served.enter(late)).status).toBe(403);
});

test('five wrong codes end every open one', async () => {
  const [kept, ended] = [served.code(), served.code()];
  for (let n = 0; n < 4; n += 1) expect((await served.enter('2222-2222-2222')).status).toBe(403);
  // What no code looks like is a slip, and counts for nothing.
  for (let n = 0; n < 9; n += 1) expect((await served.enter('K7QM-2XWD')).status).toBe(403);
  expect((await served.enter(kept)).status).toBe(303);
  expect((await served.enter('3333-3333-3333')).status).toBe(403);
  expect((await served.enter(ended)).status).toBe(403);
  expect((await served.enter(served.code())).status).toBe(303);
});

test('the session’s cookie is out of reach for scripts and for other sites, and its value is stored nowhere', async () => {
  const answer = await served.enter(served.code());
  const [session = '', form = ''] = answer.headers['set-cookie'] ?? [];
  const { port } = served.web.address;
  expect(session).toMatch(
    new RegExp(`^mailkeep-${port}=[\\w-]{43}; Path=/; HttpOnly; SameSite=Strict; Max-Age=2592000$`),
  );
  expect(form).toMatch(/^mailkeep-form-\d+=; .*Max-Age=0$/);
  const value = session.replace(/^[^=]+=|;.*$/g, '');
  expect(JSON.stringify(served.store.list())).not.toContain(value);
});

test('a session lasts thirty days, and every use is noted to the minute', async () => {
  const cookie = await served.signIn();
  const start = served.now;
  served.now = start + SESSION_MS - 1;
  expect((await served.ask('/you', { headers: { cookie } })).status).toBe(200);
  expect(served.store.list().map(({ usedAt }) => usedAt)).toContain(served.now);
  served.now = start + SESSION_MS;
  expect((await served.ask('/you', { headers: { cookie } })).status).toBe(303);
  await served.signIn();
  expect(served.store.list()).toHaveLength(1);
});

test('signing in makes a session that nobody knew before', async () => {
  const name = `mailkeep-${served.web.address.port}`;
  const planted = `${name}=${'a'.repeat(43)}`;
  const { cookie, token } = await served.form({ cookie: planted });
  const answer = await served.post(
    '/enter',
    { code: served.code(), token },
    { cookie: `${planted}; ${cookie}` },
  );
  expect(answer.status).toBe(303);
  expect(cookiesOf(answer)[0]).not.toBe(planted);
  expect((await served.ask('/you', { headers: { cookie: planted } })).status).toBe(303);
});

test('signing in again ends the session that the browser had', async () => {
  const old = await served.signIn();
  const { cookie, token } = await served.form();
  await served.post('/enter', { code: served.code(), token }, { cookie: `${old}; ${cookie}` });
  expect((await served.ask('/you', { headers: { cookie: old } })).status).toBe(303);
});

test('two cookies of one name are none', async () => {
  const cookie = await served.signIn();
  const twice = `${cookie}; ${cookie}`;
  expect((await served.ask('/you', { headers: { cookie: twice } })).status).toBe(303);
});

test('a form without the token of its browser does nothing', async () => {
  const code = served.code();
  const mine = await served.form();
  const others = await served.form();
  const tries = [
    [{ code, token: '' }, mine.cookie],
    [{ code, token: others.token }, mine.cookie],
    [{ code, token: mine.token }, ''],
    [{ code }, mine.cookie],
  ] as const;
  for (const [fields, cookie] of tries) {
    const answer = await served.post('/enter', fields, { cookie });
    expect(answer.status).toBe(403);
    expect(answer.headers.location).toBeUndefined();
  }
  const right = await served.post('/enter', { code, token: mine.token }, { cookie: mine.cookie });
  expect(right.status).toBe(303);
});

test('a form from another origin is refused, whatever it carries', async () => {
  const cookie = await served.signIn();
  const token = tokenIn((await served.ask('/you', { headers: { cookie } })).text);
  const foreign = [
    { origin: 'https://evil.example' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
  ];
  for (const headers of foreign) {
    const answer = await served.post('/sign-out', { token }, { cookie, ...headers });
    expect(answer.status).toBe(403);
  }
  for (const fields of [{}, { token: 'x' }])
    expect((await served.post('/sign-out', fields, { cookie })).status).toBe(403);
  expect((await served.ask('/you', { headers: { cookie } })).status).toBe(200);
  // As Chromium sends the form of a page without a referrer.
  const headers = { cookie, origin: 'null', 'sec-fetch-site': 'same-origin' };
  expect((await served.post('/sign-out', { token }, headers)).status).toBe(303);
  expect((await served.ask('/you', { headers: { cookie } })).status).toBe(303);
});

test('a form of another type or length is refused before it is read', async () => {
  const { cookie, token } = await served.form();
  const body = JSON.stringify({ code: served.code(), token });
  const json = { cookie, 'content-type': 'application/json' };
  expect((await served.ask('/enter', { method: 'POST', headers: json, body })).status).toBe(400);
  const long = await served.post('/enter', { code: 'K'.repeat(5_000), token }, { cookie });
  expect(long.status).toBe(400);
});

test('a signed-in browser sees the others and ends them', async () => {
  const mine = await served.signIn(null, { 'user-agent': 'Mine/1 <b>' });
  const lost = await served.signIn(null, { 'user-agent': 'Lost/2' });
  const { text: html } = await served.ask('/you', { headers: { cookie: mine } });
  expect(html).toContain('Mine/1 &lt;b>');
  expect(html).toContain('Lost/2');
  const row = html.split('<li').find((part) => part.includes('Lost/2')) ?? '';
  const id = /name="id" value="([^"]+)"/.exec(row)?.[1] ?? '';
  const fields = { token: tokenIn(html), id };
  expect((await served.post('/you/end', fields, { cookie: mine })).status).toBe(303);
  expect((await served.ask('/you', { headers: { cookie: lost } })).status).toBe(303);
  expect((await served.ask('/you', { headers: { cookie: mine } })).status).toBe(200);
});

test('a limited session carries its mailboxes, and shows and ends no other browser', async () => {
  const whole = await served.signIn(null, { 'user-agent': 'Whole/1' });
  const limited = await served.signIn(['["imported","x"]'], { 'user-agent': 'Limited/1' });
  const { text: html } = await served.ask('/you', { headers: { cookie: limited } });
  expect(html).toContain('Limited/1');
  expect(html).not.toContain('Whole/1');
  const session = await served.ask('/api/session', { headers: served.own(limited) });
  expect(JSON.parse(session.text)).toMatchObject({ isLimited: true });
  const seen = await served.ask('/you', { headers: { cookie: whole } });
  const ids = [...seen.text.matchAll(/name="id" value="([^"]+)"/g)].map(([, id = '']) => id);
  for (const id of ids)
    await served.post('/you/end', { token: tokenIn(html), id }, { cookie: limited });
  expect((await served.ask('/you', { headers: { cookie: whole } })).status).toBe(200);
});

test('the way out of a message shows where it leads, and leads to web pages and mail only', async () => {
  const away = (to: string) => served.ask(`/away?to=${encodeURIComponent(to)}`);
  const { status, text: html } = await away('https://bücher.example/?a=<b>&c="d"');
  expect(status).toBe(200);
  expect(html).toContain('https://<strong>xn--bcher-kva.example</strong>/?a=%3Cb%3E&amp;c=%22d%22');
  expect(html).toMatch(/<a [^>]*rel="noreferrer noopener nofollow"/);
  expect((await away('mailto:anna@example.org')).status).toBe(200);
  for (const to of ['javascript:alert(1)', 'data:text/html,x', 'file:///etc/passwd', '/mail', ''])
    expect((await away(to)).text).not.toContain('class="button"');
});

test('only methods that pages use are answered', async () => {
  const cookie = await served.signIn();
  for (const method of ['PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE']) {
    const answer = await served.ask('/mail', { method, headers: { cookie } });
    expect([method, answer.status]).toEqual([method, 405]);
  }
});

test('a client that sends its request too slowly is cut off, and others are answered', async () => {
  const slow = await new Served().start(data, { limits: { headersMs: 50, checkMs: 20 } });
  try {
    const { host, port } = slow.web.address;
    const socket = connect(port, host);
    await once(socket, 'connect');
    socket.write('GET /enter HTTP/1.1\r\nHost: ');
    expect((await slow.ask('/enter')).status).toBe(200);
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 408 /);
  } finally {
    await slow.close();
  }
});

test('other machines reach it only through an address with HTTPS', async () => {
  const options = {
    dataDir: data,
    publicUrl: null,
    sessions: new SessionStore(null),
    accounts: () => new Map<string, string>(),
    look: async () => false,
    hasDaemon: async () => false,
    state: null,
    now: () => 0,
    onError: () => {},
  };
  for (const host of ['0.0.0.0', '::', '192.0.2.1', 'mail.example.org'])
    await expect(startWebServer({ ...options, listen: { host, port: 0 } })).rejects.toMatchObject({
      code: 'web-not-loopback',
    });
});

test('behind a proxy with HTTPS, the cookie is bound to its host and never sent in clear', async () => {
  const proxied = await new Served().start(data, { publicUrl: 'https://mail.example.org/' });
  try {
    expect(proxied.web.link(null)).toMatch(/^https:\/\/mail\.example\.org\/enter#/);
    const host = 'mail.example.org';
    const { cookie, token } = await proxied.form({ host });
    expect(cookie).toMatch(/^__Host-mailkeep-form=/);
    const answer = await proxied.post('/enter', { code: proxied.code(), token }, { host, cookie });
    expect(answer.headers['set-cookie']?.[0]).toMatch(
      /^__Host-mailkeep=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Secure; /,
    );
    const own = { ...proxied.own(cookiesOf(answer)[0] ?? ''), host };
    const asked = (origin: string) =>
      proxied.ask('/api/session', { headers: { ...own, origin } }).then(({ status }) => status);
    expect(await asked('https://mail.example.org')).toBe(200);
    expect(await asked('http://mail.example.org')).toBe(403);
  } finally {
    await proxied.close();
  }
});

const NAVIGATION = { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };

test('what pages of other origins load is refused, whether or not it exists', async () => {
  const cookie = await served.signIn();
  const asset = /"(\/assets\/[^"]+)"/.exec((await served.ask('/enter')).text)?.[1] ?? '';
  for (const site of ['cross-site', 'same-site'])
    for (const [mode, dest] of [
      ['no-cors', 'image'],
      ['no-cors', 'script'],
      ['no-cors', 'empty'],
      ['cors', 'empty'],
      ['navigate', 'iframe'],
      ['navigate', 'object'],
      ['navigate', 'embed'],
    ] as const)
      for (const address of [
        '/mail',
        '/nothing',
        '/enter',
        '/you',
        asset,
        '/away?to=x',
        '/m/00000/html',
      ])
        for (const method of ['GET', 'HEAD']) {
          const headers = {
            ...{ cookie, 'sec-fetch-site': site },
            ...{ 'sec-fetch-mode': mode, 'sec-fetch-dest': dest },
          };
          const answer = await served.ask(address, { method, headers });
          expect([address, mode, dest, answer.status, answer.text]).toEqual([
            address,
            mode,
            dest,
            403,
            '',
          ]);
          expect(answer.headers['set-cookie']).toBeUndefined();
        }
});

test('a link elsewhere brings no session, also where the browser sends its cookie', async () => {
  const cookie = await served.signIn();
  const open = (address: string, site: string) =>
    served.ask(address, { headers: { cookie, 'sec-fetch-site': site, ...NAVIGATION } });
  for (const site of ['cross-site', 'same-site']) {
    for (const address of ['/mail', '/you', '/m/00000', '/nothing']) {
      const answer = await open(address, site);
      expect([site, answer.status, answer.headers.location]).toEqual([site, 303, '/enter']);
    }
    expect((await open('/enter', site)).status).toBe(200);
    expect((await open('/away?to=https://example.org/', site)).status).toBe(200);
  }
  // A bookmark, a terminal, a mail program, and our own pages.
  for (const site of ['none', 'same-origin']) expect((await open('/you', site)).status).toBe(200);
});
