import { expect, test } from 'vitest';
import { expectHarmless } from './harmless.ts';
import { archiveOf, idOf, letter, serve, serveForAll } from './served.ts';

/** What a sender may write wherever a sender writes. */
const EVIL = `"><script>window.pwned=1</script><img src=x onerror=pwned()>'&lt;`;
const encoded = (text: string) => `=?utf-8?B?${Buffer.from(text).toString('base64')}?=`;

const HTML = [
  '<p>Hello</p><script>pwned()</script><img src="https://tracker.example/a.png">',
  '<img src="http://tracker.example/b.png"><img src="//other.example/c.png">',
  '<a href="https://bücher.example/?q=1&amp;r=2">a link</a>',
  '<a href="javascript:pwned()">another</a><a href="/m/secret">inside</a>',
  '<form action="https://evil.example"><input name="x"></form><iframe src="/mail"></iframe>',
  '<svg onload="pwned()"></svg><style>@import "https://evil.example/x.css"</style>',
  '<p style="background:url(https://evil.example/y.png)" onclick="pwned()">styled</p>',
].join('\n');

function mixed(): string {
  return [
    'Message-ID: <mixed@example.org>',
    'Date: Tue, 03 Feb 2026 10:00:00 +0000',
    `From: ${encoded(`Eve ${EVIL}`)} <eve@example.org>`,
    `To: ${encoded(EVIL)} <bob@example.org>`,
    `Subject: ${encoded(`Mixed ${EVIL}`)}`,
    `X-Evil: ${EVIL}`,
    'MIME-Version: 1.0',
    'Content-Type: multipart/mixed; boundary="b"',
    '',
    '--b',
    'Content-Type: text/html; charset=utf-8',
    '',
    HTML,
    '--b',
    'Content-Type: text/html; name="page.html"',
    `Content-Disposition: attachment; filename*=utf-8''${encodeURIComponent(`../../etc/${EVIL}\u202Egnp.html`)}`,
    'Content-Transfer-Encoding: base64',
    '',
    Buffer.from('<script>pwned()</script>').toString('base64'),
    '--b--',
    '',
  ].join('\r\n');
}

const ferry = letter(
  'Ferry',
  `When does it leave?\r\n${EVIL}\r\n> one\r\n> two\r\n> three\r\n> four\r\n-- \r\nAnna`,
);
const answer = letter('Re: Ferry', 'At noon.', ['In-Reply-To: <ferry@example.org>']);

const served = serveForAll(() => archiveOf({ ferry, answer, mixed: mixed() }));
const get = (address: string) => served.get(address);
const VIEWS = ['', '?view=plain', '?view=html', '?view=headers', '?view=source', '?view=history'];

test('the parser waits for a sheet once it has read the bar, and before what follows', async () => {
  for (const address of ['/mail', '/health', '/files', `/m/${idOf(ferry)}`]) {
    const { text } = await get(address);
    const order = [
      /<link rel="stylesheet" href="[^"]*\/style-/,
      /<body/,
      /<input name="q"/,
      /<\/header><link rel="stylesheet" href="[^"]*\/without-script-/,
      /<nav class="side"/,
    ].map((part) => text.search(part));
    expect([address, order]).toEqual([address, order.toSorted((a, b) => a - b)]);
    expect(order).not.toContain(-1);
  }
});

test('the list shows what was imported, newest first, with senders, places and counts', async () => {
  const { status, text: html } = await get('/mail');
  expect(status).toBe(200);
  expect(html.indexOf('Mixed')).toBeLessThan(html.indexOf('Ferry'));
  expect(html).toContain('<b>3</b> messages');
  expect(html).toContain('Anna Berg');
  expect(html).toContain('<time datetime="2026-02-02T10:00:00.000Z">');
});

test('filters that are on come first: on a phone, the others may lie outside of the window', async () => {
  const { text: html } = await get('/mail?q=is%3Adeleted+asof%3A2026-02-01');
  const chips = [...html.matchAll(/<a class="(chip[^"]*)"/g)].map(([, name]) => name);
  expect(chips).toEqual(['chip past', 'chip on', 'chip', 'chip', 'chip', 'chip']);
});

test('words that were found are marked, and only they', async () => {
  const { text: html } = await get('/mail?q=noon');
  expect(html).toContain('<b>1</b> message');
  expect(html).toContain('<mark>noon</mark>');
});

test('an error of the query shows where it is and a query to try', async () => {
  const { status, text: html } = await get('/mail?q=ferry+froom%3Aanna');
  expect(status).toBe(400);
  expect(html).toContain('<u>froom:</u>');
  expect(html).toContain('href="/mail?q=ferry+from%3Aanna"');
  expect(html).toContain('aria-invalid="true"');
});

test('a folder that never was is an error like the others', async () => {
  const { status, text: html } = await get('/mail?q=in%3ANowhere');
  expect(status).toBe(400);
  expect(html).toContain('<u>Nowhere</u>');
  expect(html).toContain('Choose one from the list of folders.');
  // Where it stands twice, no query is suggested, and the sentence still says what was meant.
  const twice = await get(`/mail?q=${encodeURIComponent('in:INBOXX OR -in:INBOXX')}`);
  expect(twice.text).toContain('Did you mean');
  expect(twice.text).not.toContain('Choose one from');
});

test('pages of a list follow each other without a gap', async () => {
  const letters = Object.fromEntries(
    Array.from({ length: 230 }, (_, i) => [`n${i}`, letter(`Number ${i}`, `text ${i}`)]),
  );
  const many = await serve(await archiveOf(letters));
  const pageAt = async (address: string) => {
    const { text: html } = await many.get(address);
    const linked = (rel: string): string | undefined =>
      new RegExp(`rel="${rel}" href="([^"]+)"|href="([^"]+)" rel="${rel}"`)
        .exec(html)
        ?.slice(1)
        .find((found) => found !== undefined)
        ?.replaceAll('&amp;', '&');
    const ids = [...html.matchAll(/[?;&]m=([0-9a-f]{16})"/g)].map(([, id = '']) => id);
    return { ids, next: linked('next'), prev: linked('prev') };
  };
  for (const first of ['/mail?q=text', '/mail?q=text&sort=oldest']) {
    const there: string[][] = [];
    let last: string = first;
    for (let address: string | undefined = first; address !== undefined; ) {
      const { ids, next }: Awaited<ReturnType<typeof pageAt>> = await pageAt(address);
      there.push(ids);
      last = address;
      address = next;
    }
    expect(there.map(({ length }) => length)).toEqual([...Array(7).fill(30), 20]);
    expect(new Set(there.flat()).size).toBe(230);
    const back: string[][] = [];
    for (let address: string | undefined = last; address !== undefined; ) {
      const { ids, prev }: Awaited<ReturnType<typeof pageAt>> = await pageAt(address);
      back.unshift(ids);
      address = prev;
    }
    expect(back).toEqual(there);
  }
  // A page that begins closer to the top than a page has rows leads to the first one.
  const { ids, prev } = await pageAt('/mail?q=text');
  expect(prev).toBeUndefined();
  const near = await pageAt(`/mail?q=text&after=${ids[20]}`);
  expect(near.ids[0]).toBe(ids[21]);
  expect(near.prev).toBe('/mail?q=text');
});

test('whatever a sender wrote, no page takes it for markup', async () => {
  const id = idOf(mixed());
  const addresses = [
    '/mail',
    `/mail?q=${encodeURIComponent(`${EVIL}`)}`,
    `/mail?q=${encodeURIComponent(`in:${EVIL}`)}`,
    ...VIEWS.flatMap((view) => [
      `/m/${id}${view}`,
      `/mail?m=${id}${view.replace('?', '&')}`,
      `/m/${idOf(ferry)}${view}`,
    ]),
    `/m/${id}?q=${encodeURIComponent(EVIL)}`,
  ];
  for (const address of addresses) expectHarmless((await get(address)).text);
  const { text: headers } = await get(`/m/${id}?view=headers`);
  expect(headers).toContain('&lt;script>window.pwned=1');
});

test('the frame of a message’s HTML can run nothing, load nothing and leads nowhere unseen', async () => {
  const { status, headers, text: html } = await get(`/m/${idOf(mixed())}/html`);
  expect(status).toBe(200);
  expect(headers['content-security-policy']).toBe(
    "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
  );
  expect(headers['x-frame-options']).toBeUndefined();
  expect(headers['referrer-policy']).toBe('no-referrer');
  expect(html).not.toMatch(/<script|<form|<iframe|<svg|onload|onclick|pwned|evil\.example|tracker/);
  const links = [...html.matchAll(/href="([^"]*)"/g)].map(([, href = '']) => href);
  expect(links).toEqual([`/away?to=${encodeURIComponent('https://bücher.example/?q=1&r=2')}`]);
  const { text: page } = await get(`/m/${idOf(mixed())}?view=html`);
  expect(page).toContain('<b>4 remote images blocked</b>');
  expect(page).toContain('tracker.example');
  expect(page).toContain('other.example');
  expect(page).toMatch(/<iframe [^>]*sandbox="allow-popups allow-popups-to-escape-sandbox"/);
});

test('the source is saved bit for bit, under one name wherever it is asked for', async () => {
  for (const source of [ferry, mixed()]) {
    const { status, headers, bytes } = await get(`/m/${idOf(source)}/source`);
    expect(status).toBe(200);
    expect(bytes.equals(Buffer.from(source))).toBe(true);
    expect(headers).toMatchObject({
      'content-type': 'application/octet-stream',
      'content-disposition': expect.stringMatching(
        /^attachment; filename="[^"\\]+ \d{4}-\d\d-\d\d\.eml"/,
      ),
      'content-length': String(Buffer.byteLength(source)),
    });
  }
});

test('an attachment can only be saved, under a name that is safe', async () => {
  const { status, headers, text: content } = await get(`/m/${idOf(mixed())}/attachments/1`);
  expect(status).toBe(200);
  expect(content).toBe('<script>pwned()</script>');
  expect(headers).toMatchObject({
    'content-type': 'application/octet-stream',
    'content-security-policy': "sandbox; default-src 'none'; frame-ancestors 'none'",
    'cross-origin-resource-policy': 'same-origin',
    'x-content-type-options': 'nosniff',
  });
  const disposition = headers['content-disposition'] ?? '';
  expect(disposition).toMatch(/^attachment; filename="[^"\\/]*"; filename\*=UTF-8''[\w.!~%-]*$/);
  expect(decodeURIComponent(disposition)).not.toMatch(/\.\.\/|\u202e/);
  expect((await get(`/m/${idOf(mixed())}/attachments/2`)).status).toBe(404);
  expect((await get(`/m/${idOf(mixed())}/attachments/0`)).status).toBe(404);
});

test('a message shows its conversation, its folded quote and that its bytes were read back', async () => {
  const { text: html } = await get(`/m/${idOf(ferry)}`);
  expect(html).toContain('4 quoted lines');
  expect(html).toContain('class="signature"');
  expect(html).toContain(`/m/${idOf(answer)}`);
  expect(html).toContain(`Checked when it was opened, every byte is as stored: SHA-256`);
  expect(html).toContain(`title="${idOf(ferry)}"`);
});

test('an id may be shortened; one that nothing has leads nowhere', async () => {
  expect((await get(`/m/${idOf(ferry).slice(0, 8)}`)).text).toContain('When does it leave?');
  for (const id of ['0000000000', 'nothex', 'ab', `${idOf(ferry)}0`, '..%2f..'])
    expect([id, (await get(`/m/${id}`)).status]).toEqual([id, 404]);
});

test('before the archive knew a message, its page shows none of it', async () => {
  const { status, text: html } = await get(`/m/${idOf(ferry)}?q=asof%3A2020-01-01`);
  expect(status).toBe(404);
  expect(html).not.toContain('When does it leave?');
  expect((await get('/mail?q=asof%3A2020-01-01')).text).toContain('<b>0</b> messages');
});

test('health names what needs a person, and counts it on each page', async () => {
  const { text: html } = await get('/health');
  expect(html).toContain('The archive was never verified');
  expect(html).toContain('mailkeep verify');
  expect(html).toContain('imported from files');
});

test('what is only asked about is not sent, and ends what would send it', async () => {
  for (const address of [`/m/${idOf(mixed())}/attachments/1`, `/m/${idOf(ferry)}/source`]) {
    const answer = await served.get(address, { method: 'HEAD' });
    expect([answer.status, answer.bytes.length]).toEqual([200, 0]);
    expect(answer.headers['content-disposition']).toMatch(/^attachment; /);
  }
});
