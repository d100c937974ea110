import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { docx, pdf, zip } from '../attachments/documents.ts';
import { mailkeep } from '../cli/child.ts';
import { EVIL, mail } from './attached-mail.ts';
import { expectHarmless } from './harmless.ts';
import { bmp, gif, jpeg, png, webp } from './pictures.ts';
import { archiveOf, flipBit, letter, serve, serveForAll } from './served.ts';

const hashOf = (bytes: Buffer | string) => createHash('sha256').update(bytes).digest('hex');

const PICTURES = {
  'image/png': png(16, 8),
  'image/jpeg': jpeg(16, 8),
  'image/gif': gif([[0, 0, 8, 8]]),
  'image/webp': webp('VP8L', 16, 8),
  'image/bmp': bmp(16, 8),
};
const svg =
  '<svg xmlns="http://www.w3.org/2000/svg" onload="pwned()"><script>pwned()</script></svg>';
const html = `<!doctype html><script>pwned()</script><p>${EVIL}</p>`;
const contract = pdf([`Lease of Unit 4 ${'and so on '.repeat(30)}`, 'The lease ends.']);
const logo = png(4, 4);
const shared = Buffer.from('Name,Amount\r\nlease,100\r\n');

describe('the page of attachments', () => {
  const served = serveForAll(async () => {
    const letters: Record<string, string> = {
      pictures: mail(
        0,
        'Pictures',
        Object.entries(PICTURES).map(([type, bytes], i) => ({ name: `${i}.img`, type, bytes })),
      ),
      hostile: mail(1, `Hostile ${EVIL}`, [
        { name: `../../${EVIL}\u202Egnp.svg`, type: 'image/svg+xml', bytes: svg },
        { name: 'svg.png', type: 'image/png', bytes: svg.replace('svg ', 'svg  ') },
        { name: 'html.png', type: 'image/png', bytes: html },
        { name: 'page.html', type: 'text/html', bytes: `${html}<p>lease</p>` },
        { name: 'bomb.png', type: 'image/png', bytes: png(100_000, 100_000) },
        { name: 'other.png', type: 'image/png', bytes: jpeg(24, 24) },
        { name: 'type', type: `image/png; ${'x'.repeat(50)}`, bytes: 'GIF89a' },
      ]),
      papers: mail(2, 'Papers', [
        { name: 'lease.pdf', type: 'application/pdf', bytes: contract },
        { name: 'scan.pdf', type: 'application/pdf', bytes: pdf(['']) },
        { name: 'broken.pdf', type: 'application/pdf', bytes: 'no PDF' },
        { name: 'all.zip', type: 'application/zip', bytes: await zip({ a: 'lease' }) },
        { name: 'letter.docx', type: 'application/octet-stream', bytes: await docx('A lease') },
        { name: 'rows.csv', type: 'text/csv', bytes: shared },
        { name: 'logo.png', type: 'image/png', bytes: logo, inline: true },
        { name: 'other.bin', type: 'application/x-thing', bytes: 'x' },
      ]),
      plain: letter('Plain', 'Without an attachment.'),
      again: mail(3, 'Again', [{ name: 'again.csv', type: 'text/csv', bytes: shared }]),
    };
    for (let n = 10; n < 150; n += 1)
      letters[`n${n}`] = mail(n, `Number ${n}`, [
        { name: `${n}.txt`, type: 'text/plain', bytes: `Paper number ${n}` },
        { name: 'logo.png', type: 'image/png', bytes: logo, inline: true },
      ]);
    const data = await archiveOf(letters);
    // Reads the text of attachments, as the first sync would.
    expect((await mailkeep(['rebuild', '--data', data, '--quiet'])).code).toBe(0);
    return data;
  });

  const get = (address: string) => served.get(address);
  /** The page's data, as a script asks for it. */
  const pageData = (address: string) => served.data(`/api/page${address}`);
  /** All tiles of an address, over all pages. */
  const tilesOf = async (address: string): Promise<{ hash: string; month: string }[]> => {
    const tiles: { hash: string; month: string }[] = [];
    for (let next: string | null = ''; next !== null; ) {
      const joint = address.includes('?') ? '&' : '?';
      const page = await pageData(next === '' ? address : `${address}${joint}after=${next}`);
      tiles.push(...page.list.tiles);
      next = page.list.next;
    }
    return tiles;
  };

  test('each content is one tile, and each number is what its link shows', async () => {
    const { list } = await pageData('/files');
    const groups: Record<string, number> = list.sums.groups;
    expect(groups).toEqual({
      pdf: 3,
      pictures: 5 + 6,
      documents: 1 + 1 + 140,
      tables: 1,
      archives: 1,
      other: 1,
    });
    const all = await tilesOf('/files');
    expect(new Set(all.map(({ hash }) => hash)).size).toBe(all.length);
    expect(all.length).toBe(Object.values(groups).reduce((sum, one) => sum + one, 0));
    for (const [group, number] of Object.entries(groups))
      expect(await tilesOf(`/files?type=${group}`), group).toHaveLength(number);
    for (const { key, after, count } of list.months) {
      expect(all.filter(({ month }) => month === key)).toHaveLength(count);
      const page = await pageData(`/files?after=${after}`);
      expect(page.list.tiles[0].month).toBe(key);
    }
    expect((await pageData('/files?inline=1')).list.sums.groups.pictures).toBe(12);
  });

  test('messages and exports are those that have what is listed, as many as the link says', async () => {
    const counted = async (q: string): Promise<number> =>
      (await served.data(`/api/counts?${new URLSearchParams({ q })}`)).all.count;
    const messages = { pdf: 1, documents: 141 + 1, tables: 2, archives: 1 };
    /** The queries of both links of a page, and the number that stands in the one to the messages. */
    const linked = async (address: string) => {
      const { text } = await get(address);
      const queries = ['mail', 'export'].map((path) => {
        const link = new RegExp(`class="chip" href="/${path}\\?q=([^"]+)"`).exec(text)?.[1] ?? '';
        return new URLSearchParams(`q=${link.replaceAll('&amp;', '&')}`).get('q') ?? '';
      });
      expect(queries[1]).toBe(queries[0]);
      return {
        query: queries[0] ?? '',
        number: /Messages(?: of all types)? <b>([\d,]+)<\/b>/.exec(text)?.[1],
        text,
      };
    };
    for (const [group, number] of Object.entries(messages)) {
      const { query, ...chip } = await linked(`/files?type=${group}`);
      expect([group, await counted(query), chip.number]).toEqual([group, number, String(number)]);
    }
    // One message has no attachment.
    expect(await counted('')).toBe(145);
    const all = {
      '/files': 144,
      '/files?inline=1': 144,
      '/files?type=pictures&inline=1': 142 + 1,
      '/files?q=paper': 140,
    };
    for (const [address, number] of Object.entries(all)) {
      const { query, ...chip } = await linked(address);
      expect([address, await counted(query), chip.number]).toEqual([
        address,
        number,
        String(number),
      ]);
    }
    // A query that asks for attachments is not asked for them again.
    for (const query of ['has:attachment', (await linked('/files?q=paper')).query])
      expect((await linked(`/files?q=${encodeURIComponent(query)}`)).query).toBe(query);
    // No query names the rest, nor the pictures that are attached.
    for (const group of ['other', 'pictures']) {
      const { text, query, number } = await linked(`/files?type=${group}`);
      expect(text).toContain('Export all types');
      expect(text).toContain('Messages of all types');
      expect([await counted(query), number]).toEqual([144, '144']);
    }
  });

  test('without a script, pages follow each other by links', async () => {
    const seen = new Set<string>();
    let pages = 0;
    for (let address: string | undefined = '/files'; address !== undefined; pages += 1) {
      const { text } = await get(address);
      for (const [, hash = ''] of text.matchAll(/[?;]a=([0-9a-f]{64})"/g)) seen.add(hash);
      const next: string | undefined = /rel="next" href="([^"]+)"|href="([^"]+)" rel="next"/
        .exec(text)
        ?.slice(1)
        .find((found) => found !== undefined);
      address = next?.replaceAll('&amp;', '&');
    }
    expect(pages).toBe(3);
    expect(seen.size).toBe(159);
  });

  test('what has a text shows it with what was found; what has none says why', async () => {
    const { text } = await get('/files?q=lease');
    expect(text).toMatch(/<mark>Lease<\/mark> of Unit 4/);
    const { text: page } = await get('/files');
    for (const why of [
      'scan without text',
      'archive, not opened',
      'its format could not be read',
      'a kind without text',
    ])
      expect(page, why).toContain(why);
    const { text: detail } = await get(`/files?q=lease&a=${hashOf(contract)}`);
    expect(detail).toContain('Its text, 2 hits');
    expect(detail).toContain('In 1 message, stored once');
    expect(detail).toContain('Checked when it was opened, every byte is as stored: SHA-256');
    expect(detail).toMatch(/href="\/m\/[0-9a-f]{64}\/attachments\/1" download/);
  });

  test('a content of two messages is stored once, and names both', async () => {
    const { detail } = await pageData(`/files?a=${hashOf(shared)}`);
    expect(detail.messages).toEqual({ count: 2, complete: true });
    expect(detail.holders).toHaveLength(2);
    const { text } = await get(`/m/${detail.message}?q=lease`);
    expect(text).toContain('Also in 1 other message');
    expect(text).toContain(`href="/files?a=${hashOf(shared)}"`);
    expect(text).toMatch(/class="hitline"[\s\S]*<mark>lease<\/mark>/);
    // The query finds it by one of them only.
    expect((await pageData(`/files?q=subject%3AAgain&a=${hashOf(shared)}`)).detail).toMatchObject({
      filename: 'again.csv',
      messages: { count: 2 },
      isFound: true,
    });
    expect((await pageData(`/files?q=subject%3APictures&a=${hashOf(shared)}`)).detail.isFound).toBe(
      false,
    );
  });

  test('a picture is shown as what it is, and can do nothing', async () => {
    for (const [type, bytes] of Object.entries(PICTURES)) {
      const answer = await get(`/files/${hashOf(bytes)}/preview`);
      expect(answer.status, type).toBe(200);
      expect(answer.bytes.equals(bytes)).toBe(true);
      expect(answer.headers).toMatchObject({
        'content-type': type,
        'x-content-type-options': 'nosniff',
        'content-security-policy': "sandbox; default-src 'none'; frame-ancestors 'none'",
        'cross-origin-resource-policy': 'same-origin',
        'cache-control': 'no-store',
      });
    }
    // Its bytes decide, not what the mail calls it.
    const other = await get(`/files/${hashOf(jpeg(24, 24))}/preview`);
    expect(other.headers['content-type']).toBe('image/jpeg');
  });

  test('what is no picture is never sent as one', async () => {
    const refused = [
      svg,
      svg.replace('svg ', 'svg  '),
      html,
      png(100_000, 100_000),
      'GIF89a',
      contract,
      shared,
      'never there',
    ];
    for (const bytes of refused) {
      const answer = await get(`/files/${hashOf(bytes)}/preview`);
      expect(answer.status).toBe(404);
      expect(answer.headers['content-type']).toContain('text/html');
      expect(answer.text).not.toContain('pwned');
    }
    for (const address of [
      '/files/x/preview',
      `/files/${'A'.repeat(64)}/preview`,
      '/files/preview',
    ])
      expect((await get(address)).status).toBe(404);
  });

  test('whatever a sender wrote, the page takes none of it for markup', async () => {
    const evil = encodeURIComponent(EVIL);
    const addresses = [
      '/files',
      '/files?type=pictures',
      '/files?type=documents&q=lease',
      `/files?q=${evil}`,
      `/files?q=in%3A${evil}`,
      `/files?type=${evil}&after=${evil}&a=${evil}`,
      ...[svg, html, `${html}<p>lease</p>`].map((bytes) => `/files?q=lease&a=${hashOf(bytes)}`),
      `/files?a=${'0'.repeat(64)}`,
    ];
    for (const address of addresses) expectHarmless((await get(address)).text);
    expect((await get(`/files?q=in%3A${evil}`)).status).toBe(400);
    expect((await get(`/files?a=${'0'.repeat(64)}`)).text).toContain(
      'No message has this attachment',
    );
  });

  test('before the archive knew it, there is nothing of it', async () => {
    const q = 'q=asof%3A2020-01-01';
    const hash = hashOf(PICTURES['image/png']);
    const page = await pageData(`/files?${q}&a=${hash}`);
    expect(page.list.tiles).toEqual([]);
    expect(page.detail).toBeNull();
    expect((await get(`/files/${hash}/preview?${q}`)).status).toBe(404);
    expect((await get(`/files/${hash}/preview?q=asof%3Anonsense`)).status).toBe(404);
  });

  test('without a session, or with one for some mailboxes, it is as if there were nothing', async () => {
    const hash = hashOf(PICTURES['image/png']);
    const unknown = await served.ask('/nothing');
    for (const address of ['/files', `/files?a=${hash}`, `/files/${hash}/preview`]) {
      const answer = await served.ask(address);
      expect([answer.status, answer.headers.location, answer.text]).toEqual([
        unknown.status,
        unknown.headers.location,
        unknown.text,
      ]);
    }
    const own = { 'sec-fetch-site': 'same-origin' };
    expect((await served.ask('/api/page/files', { headers: own })).status).toBe(401);
    const limited = { cookie: await served.signIn(['["elsewhere.example","x"]']), ...own };
    const page = await served.ask(`/api/page/files?a=${hash}`, { headers: limited });
    const { list, detail } = JSON.parse(page.text).data;
    expect([list.tiles, list.months, detail]).toEqual([[], [], null]);
    expect(new Set(Object.values(list.sums.groups))).toEqual(new Set([0]));
    expect((await served.ask(`/files/${hash}/preview`, { headers: limited })).status).toBe(404);
  });
});

test('damaged bytes are reported, and are shown as no picture', async () => {
  // Nothing in a picture but its header: what is random behind it is not compressed.
  const noise = Buffer.concat(
    Array.from({ length: 3_000 }, (_, i) => createHash('sha512').update(String(i)).digest()),
  );
  const picture = Buffer.concat([png(16, 8), noise]);
  const data = await archiveOf({
    one: mail(1, 'One', [{ name: 'one.png', type: 'image/png', bytes: picture }]),
  });
  const broken = await serve(data);
  const address = `/files?a=${hashOf(picture)}`;
  const preview = `/files/${hashOf(picture)}/preview`;
  expect((await broken.get(address)).text).toContain('Checked when it was opened');
  expect((await broken.get(preview)).status).toBe(200);
  flipBit(data, 0.5);
  const { status, text } = await broken.get(address);
  expect(status).toBe(200);
  expect(text).toContain('These bytes are not what was stored');
  expect(text).not.toContain('Checked when it was opened');
  expect((await broken.get(preview)).status).toBe(404);
  expect(broken.errors).toEqual([]);
});

test('a message whose PDF stands in the text with a logo is one of those with attachments', async () => {
  const inText = [
    { name: 'logo.png', type: 'image/png', bytes: png(4, 4), inline: true },
    { name: 'scan.pdf', type: 'application/pdf', bytes: pdf(['The lease ends.']), inline: true },
  ];
  const letters = { both: mail(1, 'Both', inText), logo: mail(2, 'Logo', inText.slice(0, 1)) };
  const { text } = await (await serve(await archiveOf(letters))).get('/files');
  expect(text).toContain('scan.pdf');
  expect(/Messages <b>(\d+)<\/b>/.exec(text)?.[1]).toBe('1');
});
