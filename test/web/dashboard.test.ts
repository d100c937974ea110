import { Parser } from 'htmlparser2';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openReaderAt } from '../../src/catalog/open-reader.ts';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { openState } from '../../src/core/state.ts';
import type { PageOf } from '../../src/web/pages/page.ts';
import { mailkeep } from '../cli/child.ts';
import { StoredArchive } from '../export/stored-archive.ts';
import { archiveOf, letter, NOW, serve, serveForAll } from './served.ts';

const HOSTILE = '<img src=x onerror=alert(1)>"\'&\u202e';

/** Sends a page's links that count something, with the numbers that they show. */
function countsOf(html: string): [query: string, count: number][] {
  const links = html.matchAll(/<a class="link" href="\/mail\?q=([^"]*)">([\d,]+)<\/a>/g);
  return [...links].map(([, query = '', count = '']) => [
    new URLSearchParams(`q=${query.replaceAll('&amp;', '&')}`).get('q') ?? '',
    Number(count.replaceAll(',', '')),
  ]);
}

/** Nothing of an archive is markup, and nothing that is drawn is no number. */
function expectHarmless(html: string): void {
  const wrong: string[] = [];
  const parser = new Parser({
    onopentag(name, attributes) {
      if (/^(?:style|iframe|img|object|foreignobject|base)$/.test(name)) wrong.push(name);
      if (name === 'script' && !('src' in attributes) && attributes.type !== 'application/json')
        wrong.push('script');
      for (const [attribute, value] of Object.entries(attributes)) {
        if (/^on|^style$|^srcdoc$/.test(attribute)) wrong.push(`${name} ${attribute}`);
        if (/^(?:href|src|action)$/.test(attribute) && !/^(?:\/(?!\/)|#)/.test(value))
          wrong.push(`${name} ${attribute}=${value}`);
        if (/NaN|Infinity|undefined/.test(value)) wrong.push(`${name} ${attribute}=${value}`);
      }
    },
    ontext(text) {
      if (/NaN|Infinity|undefined|\[object/.test(text)) wrong.push(text.slice(0, 80));
    },
  });
  parser.end(html);
  expect(wrong).toEqual([]);
}

describe('the dashboard of some mail', () => {
  const served = serveForAll(() =>
    archiveOf({
      ferry: letter('Ferry', 'When does it leave?'),
      old: letter('Old', 'Long ago').replace('02 Feb 2026 10:00', '31 Dec 2024 23:30'),
      odd: letter('Odd', 'From somebody odd').replace(
        'anna@example.org',
        'o"><script>alert(1)</script>@example.org',
      ),
    }),
  );
  const get = (query: string) => served.get(`/dashboard${query}`);
  const page = (query: string): Promise<PageOf<'dashboard'>> =>
    served.data(`/api/page/dashboard${query}`);

  test.each(['', '?range=30d', '?range=90d', '?range=1y', '?range=all'])(
    'is a document, and each number in it what its link finds: %s',
    async (query) => {
      for (const zone of ['UTC', 'Pacific/Kiritimati', 'America/St_Johns']) {
        const { status, text } = await get(`${query === '' ? '?' : `${query}&`}tz=${zone}`);
        expect(status).toBe(200);
        expectHarmless(text);
        const counted = countsOf(text);
        expect(counted.length).toBeGreaterThan(5);
        for (const [asked, count] of counted.filter(([, n]) => n > 0)) {
          const { all } = await served.data(`/api/counts?q=${encodeURIComponent(asked)}`);
          expect([asked, all], zone).toEqual([asked, { count, complete: true }]);
        }
      }
    },
  );

  test('has a name for itself, for each chart, and for the commit that its numbers are of', async () => {
    const { text } = await get('?tz=Asia/Tokyo');
    expect([
      '<title>Dashboard · mailkeep</title>',
      text.includes('<title>Dashboard · mailkeep</title>'),
    ]).toEqual(['<title>Dashboard · mailkeep</title>', true]);
    for (const name of ['Messages kept', 'Bytes', 'Verification', 'When mail comes', 'Quarantine'])
      expect([`aria-label="${name}"`, text.includes(`aria-label="${name}"`)]).toEqual([
        `aria-label="${name}"`,
        true,
      ]);
    expect(/Numbers as of commit [\d,]+, \d+ \w{3} \d{4} \d\d:\d\d/.test(text)).toBe(true);
    expect(['Asia/Tokyo', text.includes('Asia/Tokyo')]).toEqual(['Asia/Tokyo', true]);
    expect(text.match(/as table/g)?.length).toBeGreaterThan(6);
  });

  test('obeys mailbox:, and leads to the mail for any other query', async () => {
    const { data: all, mailboxes } = await page('?tz=UTC');
    expect(all?.kept.total).toMatchObject({ count: 3, query: '' });
    const [box] = mailboxes;
    const own = await page(`?q=${encodeURIComponent(box?.query ?? '')}`);
    expect(own.data?.kept.total).toMatchObject({ count: 3, query: box?.query });
    const none = await page(`?q=${encodeURIComponent(`-${box?.query}`)}`);
    expect(none.data?.kept.total.count).toBe(0);
    for (const query of ['ferry', 'is:deleted', `${box?.query} asof:2026-01-01`]) {
      const { status, text } = await get(`?q=${encodeURIComponent(query)}`);
      expect(status).toBe(200);
      expect([
        'counts mailboxes and accounts',
        text.includes('counts mailboxes and accounts'),
      ]).toEqual(['counts mailboxes and accounts', true]);
      expect([
        `href="/mail?q=${new URLSearchParams({ q: query }).toString().slice(2)}"`,
        text.includes(`href="/mail?q=${new URLSearchParams({ q: query }).toString().slice(2)}"`),
      ]).toEqual([`href="/mail?q=${new URLSearchParams({ q: query }).toString().slice(2)}"`, true]);
    }
    const wrong = await get('?q=mailbx:ada');
    expect(wrong.status).toBe(400);
    expect(wrong.text.includes('Did you mean')).toBe(true);
  });

  test('says so where nobody knows the zone', async () => {
    const { status, text } = await get(`?tz=${encodeURIComponent(HOSTILE)}`);
    expect(status).toBe(200);
    expectHarmless(text);
    expect(['nobody knows the zone', text.includes('nobody knows the zone')]).toEqual([
      'nobody knows the zone',
      true,
    ]);
    expect((await get('?range=7d&tz=')).status).toBe(200);
  });

  test('shows a session that is limited to other mailboxes nothing of these', async () => {
    const limited = await served.signIn(['["nowhere","nobody"]']);
    const { status, text } = await served.ask('/dashboard', { headers: { cookie: limited } });
    expect(status).toBe(200);
    expectHarmless(text);
    expect(text.includes('Nothing is archived yet')).toBe(true);
    expect(/anna@example|mailbox(?:%3A|:)imported|segment 1/.test(text)).toBe(false);
  });

  test('shows what the state remembers, and since when', async () => {
    const state = openState(served.dataDir);
    state.set('requests', '2026-11-19 mail.example main', {
      perMinute: 60,
      hours: [
        { hour: 3, status: 200, requests: 40 },
        { hour: 3, status: 429, requests: 2 },
        { hour: 4, status: 0, requests: 1 },
      ],
    });
    state.set('disk-sample', '2026-11-19', {
      at: NOW - 86_400_000,
      log: 700,
      catalog: 300,
      mail: 500,
    });
    state.set('verified', '1', { at: NOW - 3_600_000, covered: 5, next: 0, end: 5 });
    state.close();
    const { data: shown } = await page('?tz=UTC');
    const { periods, since, perMinute, gates } = shown?.requests ?? {};
    expect(since).toBe(Date.UTC(2026, 10, 19));
    expect(perMinute).toBe(60);
    expect(gates).toEqual([{ gate: 'mail.example main', requests: 43, refused: 2 }]);
    expect(periods).toHaveLength(48);
    const first = periods?.findIndex(({ requests }) => requests !== null) ?? -1;
    // Before the first day that is remembered nothing is known, and that is not zero.
    expect(periods?.slice(0, first).every(({ requests }) => requests === null)).toBe(true);
    expect(periods?.filter(({ requests }) => (requests ?? 0) > 0)).toEqual([
      expect.objectContaining({ label: '19 Nov 2026 03:00', requests: 42, refused: 2, failed: 0 }),
      expect.objectContaining({ label: '19 Nov 2026 04:00', requests: 1, refused: 0, failed: 1 }),
    ]);
    expect(shown?.gigabytes.disk).toEqual([{ at: NOW - 86_400_000, bytes: 1_000 }]);
    const { text } = await get('?tz=UTC');
    expect(['Known since 19 Nov 2026.', text.includes('Known since 19 Nov 2026.')]).toEqual([
      'Known since 19 Nov 2026.',
      true,
    ]);
    expect(['since 19 Nov 2026.', text.includes('since 19 Nov 2026.')]).toEqual([
      'since 19 Nov 2026.',
      true,
    ]);
    // An IMAP server has no budget of requests, so the sum has none either.
    const changed = openState(served.dataDir);
    const hours = [{ hour: 3, status: 200, requests: 5 }];
    changed.set('requests', '2026-11-19 imap.example home', { perMinute: 0, hours });
    changed.close();
    const { data: mixed } = await page('?tz=UTC');
    expect(mixed?.requests.perMinute).toBe(null);
    expect(mixed?.requests.gates).toContainEqual({
      ...{ gate: 'imap.example home', requests: 5, refused: 0 },
    });
    expect((await get('?tz=UTC')).text.includes('of the budget')).toBe(false);
  });
});

/** Serves a dashboard for one test. */
async function dashboardOf(archive: StoredArchive) {
  onTestFinished(() => archive.remove());
  const served = await serve(archive.dir);
  onTestFinished(() => expect(served.errors).toEqual([]));
  return (query: string) => served.get(`/dashboard${query}`);
}

test('an archive without a message is said to be empty, in every range', async () => {
  const archive = await StoredArchive.create();
  await archive.store([]);
  const get = await dashboardOf(archive);
  for (const range of ['', '30d', '1y', 'all']) {
    const { status, text } = await get(`?range=${range}`);
    expect(status).toBe(200);
    expectHarmless(text);
    expect(['Nothing is archived yet', text.includes('Nothing is archived yet')]).toEqual([
      'Nothing is archived yet',
      true,
    ]);
  }
});

test('names of folders and mailboxes are text, whatever they hold, and their numbers can be followed', async () => {
  const archive = await StoredArchive.create();
  const letters = [
    HOSTILE,
    'in:INBOX OR is:deleted',
    'a(b)c',
    'Größe / Maß',
    '日本',
    'anywhere',
    ' ',
  ].map((folder) => ({ folder, source: Buffer.from(letter('Odd', folder)) }));
  await archive.store(letters);
  await archive.store(letters.slice(1), { mailbox: "o<b>'&@example.org" });
  await archive.store([], { ended: [{ folder: 'a(b)c', uid: 1 }] });
  await archive.store([], { quarantined: [{ folder: HOSTILE, uid: 7 }] });
  // What is not indexed is found by no mailbox.
  const { code, stderr } = await mailkeep(['rebuild', '--data', archive.dir, '--quiet']);
  expect([code, stderr]).toEqual([0, '']);
  const get = await dashboardOf(archive);
  const { status, text } = await get('?tz=Pacific/Kiritimati');
  expect(status).toBe(200);
  expectHarmless(text);
  const counted = countsOf(text).filter(([, count]) => count > 0);
  expect(counted.length).toBeGreaterThan(7);
  const { catalog } = openReaderAt(archive.dir);
  for (const [query, count] of counted) {
    const { node, asOf } = parseQuery(query === '' ? '*' : query, { now: NOW });
    const found = catalog.prepare({ node, ...(asOf === null ? {} : { asOf }) }).count();
    expect([query, found]).toEqual([query, count]);
  }
  catalog.close();
  expect(['uid 7', text.includes('uid 7')]).toEqual(['uid 7', true]);
});
