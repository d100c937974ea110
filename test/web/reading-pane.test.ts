import { expect, test } from 'vitest';
import { archiveOf, idOf, letter, serve, serveForAll } from './served.ts';

const lease = letter('Lease', 'Here is the draft.\r\nClause 7 & clause 12 need a look.', [
  'Received: from a.example by mx.example with ESMTPS; Mon, 02 Feb 2026 10:00:05 +0000',
  'Received: by a.example; Mon, 02 Feb 2026 10:00:00 +0000',
]);
const answer = letter('Re: Lease', 'The deposit is three months.', [
  'In-Reply-To: <lease@example.org>',
]);
const html = letter('Offer', '<p>A <b>deposit</b></p>').replace('text/plain', 'text/html');
const news = letter('News', '<table><tr><td>Much to <b>read</b></td></tr></table>').replace(
  'text/plain',
  'text/html',
);
const long = letter('Long', `${'line of the source\r\n'.repeat(20_000)}the needle\r\n`);

const served = serveForAll(() => archiveOf({ lease, answer, html, long, news }));
const get = async (address: string) => (await served.get(address)).text;

test('of a conversation, what the query finds is unfolded with its matches, and the rest is folded', async () => {
  const found = await get(`/m/${idOf(lease)}?q=deposit`);
  expect(found).toContain('2 messages of 1 person');
  expect(found.match(/<article class="msg"/g)).toHaveLength(2);
  expect(found).toContain('The <mark>deposit</mark> is three months.');
  const other = await get(`/m/${idOf(lease)}?q=draft`);
  expect(other.match(/<article class="msg"/g)).toHaveLength(1);
  expect(other).toContain('Here is the <mark>draft</mark>.');
  expect(other).toContain(`data-fold="${idOf(answer)}"`);
});

test('a script gets the opened message first, and the ids of those that the query finds', async () => {
  const message = await served.data(`/api/message?m=${idOf(lease)}&q=deposit`);
  expect(message.content).toEqual({ view: 'thread', others: [] });
  expect(message.conversation.found).toEqual([idOf(answer)]);
  const { message: whole } = await served.data(`/api/page/m/${idOf(lease)}?q=deposit`);
  expect(whole.content.others).toEqual([]);
});

test('a folder or a date unfolds nothing, since it finds every message of a conversation', async () => {
  const page = await get(`/m/${idOf(lease)}?q=after%3A2026-01`);
  expect(page.match(/<article class="msg"/g)).toHaveLength(1);
  expect(page).not.toContain('<mark');
});

test('a message that has only HTML is read as text, with a way to the HTML', async () => {
  const page = await get(`/m/${idOf(html)}`);
  expect(page).toContain('This message is HTML only');
  expect(page).toContain(`href="/m/${idOf(html)}?view=html"`);
  expect(page).not.toContain('<b>deposit</b>');
  expect(await get(`/m/${idOf(lease)}`)).not.toContain('HTML only');
});

test('HTML with a layout opens by itself until the user chooses the text, and again after HTML', async () => {
  const at = `/m/${idOf(news)}`;
  const open = async (view: string, cookie = '') => {
    const answer = await served.ask(`${at}${view}`, {
      headers: { cookie: `${served.cookie}${cookie}` },
    });
    const isHtml = answer.text.includes(`<iframe class="html"`);
    const set = [answer.headers['set-cookie'] ?? []].flat().map((one) => one.split(';')[0]);
    return { isHtml, set, text: answer.text };
  };
  const first = await open('');
  expect(first).toMatchObject({ isHtml: true, set: [] });
  expect(first.text).toContain(`href="${at}?view=thread"`);
  expect(await open('?view=thread')).toMatchObject({ isHtml: false, set: ['mailkeep-text=first'] });
  expect(await open('?view=plain')).toMatchObject({ isHtml: false, set: ['mailkeep-text=first'] });
  const text = '; mailkeep-text=first';
  expect(await open('', text)).toMatchObject({ isHtml: false, set: [] });
  expect(await open('?view=html', text)).toMatchObject({ isHtml: true, set: ['mailkeep-text='] });
  expect(await open('?view=source')).toMatchObject({ isHtml: false, set: [] });
  // The text shows what was found, and a conversation all of its messages.
  expect(await open('?q=read')).toMatchObject({ isHtml: false, set: [] });
  expect(await open('?q=in%3AINBOX')).toMatchObject({ isHtml: true });
});

test('headers begin with the way of the message', async () => {
  const page = await get(`/m/${idOf(lease)}?view=headers`);
  const way = page.slice(page.indexOf('The way it took'), page.indexOf('<table'));
  expect(way.indexOf('<bdi>a.example</bdi>')).toBeLessThan(way.indexOf('<bdi>mx.example</bdi>'));
  expect(way).toContain('after 5.0 s');
});

test('a source is searched as a whole, and shown where it matches', async () => {
  const page = await get(`/m/${idOf(long)}?view=source&find=NEEDLE`);
  expect(page).toContain('<mark class="current">needle</mark>');
  expect(page).toContain('1 of 1');
  expect(page).toMatch(/bytes 3\d\d,\d\d\d to/);
  const lines = await get(`/m/${idOf(long)}?view=source&find=of+the+source&hit=999999999`);
  // Behind the last match it begins again.
  expect(lines).toContain('1 of 20,000');
  expect(await get(`/m/${idOf(long)}?view=source&find=nowhere`)).toContain('Not found');
  for (const hit of ['-1', '1e99', 'x', '']) {
    const odd = await get(`/m/${idOf(long)}?view=source&find=needle&hit=${hit}&from=${hit}`);
    expect(odd).toContain('1 of 1');
  }
});

test('each number near a message is what its link finds', async () => {
  const page = await get(`/m/${idOf(answer)}`);
  const near = page.slice(page.indexOf('<h2>Near</h2>'));
  const links = [...near.matchAll(/href="([^"]+)"><bdi>[^<]*<\/bdi><\/a>, ([\d,]+) message/g)];
  expect(links).toHaveLength(3);
  for (const [, href = '', number = ''] of links)
    expect([href, await get(href.replaceAll('&amp;', '&'))]).toEqual([
      href,
      expect.stringContaining(`<b>${number}</b> message`),
    ]);
});

test('an address that no query can name takes nothing from the page of its message', async () => {
  const senders = ['a{b@evil.example', 'a“b@evil.example', `${'*'.repeat(12)}@evil.example`];
  const letters = Object.fromEntries(
    senders.map((sender, i) => [
      `letter${i}`,
      letter(`Letter ${i}`, 'Hello.').replace('Anna Berg <anna@example.org>', `<${sender}>`),
    ]),
  );
  const own = await serve(await archiveOf(letters));
  for (const source of Object.values(letters)) {
    const page = await own.get(`/m/${idOf(source)}`);
    expect(page.status).toBe(200);
    expect(page.text).toContain('That day');
  }
  expect(own.errors).toEqual([]);
});

test('an answer sets the cookie of the theme again, which some browsers end after a week', async () => {
  const setBy = async (cookies: string) => {
    const { headers } = await served.ask('/mail', {
      headers: { cookie: `${served.cookie}${cookies}` },
    });
    return [headers['set-cookie'] ?? []].flat().filter((one) => one.startsWith('mailkeep-theme'));
  };
  expect(await setBy('; mailkeep-theme=dark')).toEqual([
    'mailkeep-theme=dark; Path=/; SameSite=Lax; Max-Age=34560000',
  ]);
  for (const none of ['', '; mailkeep-theme=x', '; mailkeep-theme=dark; mailkeep-theme=light'])
    expect(await setBy(none)).toEqual([]);
});

test('the theme is on the document as it comes, and no script delays its first paint', async () => {
  const rootOf = async (address: string, cookies: string) => {
    const { text } = await served.ask(address, { headers: { cookie: cookies } });
    expect(text).not.toMatch(/<script(?![^>]*type="(?:module|application\/json)")/);
    return /<html[^>]*>/.exec(text)?.[0];
  };
  for (const address of ['/mail', '/you', '/nowhere']) {
    for (const theme of ['light', 'dark'])
      expect(await rootOf(address, `${served.cookie}; mailkeep-theme=${theme}`)).toBe(
        `<html lang="en" data-theme="${theme}">`,
      );
    for (const odd of [
      '',
      '; mailkeep-theme=',
      '; mailkeep-theme="><script>',
      '; mailkeep-theme=x',
    ])
      expect(await rootOf(address, `${served.cookie}${odd}`)).toBe('<html lang="en">');
  }
});
