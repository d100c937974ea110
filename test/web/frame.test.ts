import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { h } from 'preact';
import { renderToString } from 'preact-render-to-string';
import { describe, expect, test } from 'vitest';
import { openReaderAt } from '../../src/catalog/open-reader.ts';
import { openWriter } from '../../src/catalog/open-writer.ts';
import { folderKey, mailboxKey, openState } from '../../src/core/state.ts';
import type { RunRecord } from '../../src/core/state-runs.ts';
import { count } from '../../src/core/text.ts';
import { accountKey } from '../../src/core/types.ts';
import { daemonError } from '../../src/daemon/errors.ts';
import { archiveStatus } from '../../src/verify/archive-status.ts';
import { summariseState } from '../../src/web/issues.ts';
import { FirstSyncNote } from '../../src/web/pages/mail-page.tsx';
import { stateText } from '../../src/web/pages/shell.tsx';
import { folderLabels } from '../../src/web/side-tree.ts';
import { type PastArchive, pastArchive } from './browser/archives.ts';
import { expectHarmless } from './harmless.ts';
import { archiveOf, letter, serve, serveForAll, tokenIn } from './served.ts';

const MINUTE = 60_000;
const DAY = 1_440 * MINUTE;

const run: RunRecord = {
  ...{ kind: 'sync', account: 'main', outcome: 'done', mailboxes: 1, mailbox: null },
  ...{ startedAt: 0, endedAt: 0, added: 0, ended: 0, flagsChanged: 0, relinked: 0 },
  ...{ quarantined: 0, held: 0, bytes: 0, requests: 3, messages: null, sum: null, folders: [] },
  ...{ failures: 0, troubles: [] },
};

/** What a page shows without a script, apart from its data. */
function shown(html: string): string {
  return html.slice(0, html.indexOf('<script type="application/json"'));
}

function sideOf(html: string): string {
  return html.slice(html.indexOf('<nav class="side"'), html.indexOf('</nav>'));
}

const words = (html: string): string => html.replaceAll(/<[^>]+>/g, ' ').replaceAll(/\s+/g, ' ');

/** Each number of the side: of a folder, or of what is unread in it. */
function* numbersIn(side: string) {
  for (const [link, href = ''] of side.matchAll(/<a [^>]*href="(\/mail[^"]*)"[\s\S]*?<\/a>/g)) {
    const number =
      /<span class="n">([\d,]+)<\/span>/.exec(link)?.[1] ??
      /class="unread".*?>([\d,]+)</.exec(link)?.[1];
    if (number !== undefined)
      yield {
        href: href.replaceAll('&amp;', '&'),
        number,
        isUnread: link.includes('class="unread"'),
      };
  }
}

let archive: PastArchive;
let looks: (() => Promise<boolean>) | undefined;

async function serveAlone(data: string) {
  const own = await serve(data);
  const get = async (address: string): Promise<string> => {
    const { status, text } = await own.get(address);
    expect([address, status]).toEqual([address, 200]);
    return text;
  };
  return { own, get };
}

const served = serveForAll(
  async () => {
    archive = await pastArchive(60);
    served.now = archive.now;
    return archive.data;
  },
  { look: () => looks?.() ?? Promise.resolve(false) },
);
const get = async (address: string) => (await served.get(address)).text;

describe('the side', () => {
  test('each number is what its link finds, and so is each number of unread ones, now and then', async () => {
    const asOf = archive.moments.map((at) => `asof:${new Date(at + DAY).toISOString()}`);
    for (const query of ['', ...asOf]) {
      const page = await get(`/mail?q=${encodeURIComponent(query)}`);
      expectHarmless(page);
      const side = sideOf(page);
      const numbers = [...numbersIn(side)];
      expect([query, numbers.some(({ isUnread }) => isUnread)]).toEqual([query, true]);
      expect(numbers.length).toBeGreaterThan(10);
      for (const { href, number, isUnread } of numbers) {
        const found = await get(href);
        const all = /<b>([\d,]+)<\/b> message/.exec(found)?.[1];
        expect([href, all]).toEqual([href, number]);
        expect(isUnread).toBe(decodeURIComponent(href).includes('is:unread'));
      }
    }
  });

  test('the tree of a moment has the folders of then, and folders that are gone have the span of their life', async () => {
    const [, second = 0] = archive.moments;
    const now = sideOf(await get('/mail'));
    const then = sideOf(
      await get(`/mail?q=${encodeURIComponent(`asof:${new Date(second + DAY).toISOString()}`)}`),
    );
    const [before = '', ...earlier] = now.split('<details class="earlier">');
    expect(before).not.toContain('Passing');
    expect(earlier).toHaveLength(2);
    for (const part of earlier)
      expect(words(part)).toMatch(/Earlier folders Passing 20 Oct 2026 – 6 Nov 2026/);
    expect(then).toContain('INBOX.Passing');
    expect(then).not.toContain('Earlier folders');
    const [first = 0] = archive.moments;
    const old = sideOf(
      await get(`/mail?q=${encodeURIComponent(`asof:${new Date(first - DAY).toISOString()}`)}`),
    );
    expect(old).not.toContain('INBOX');
  });

  test('mailboxes fold without a script', async () => {
    const side = sideOf(await get('/mail'));
    expect(side.match(/<details data-fold="\d" open/g)).toHaveLength(2);
    expect(side).toContain('<summary aria-label="Folders of ada@example.org">');
    // A screen reader would not find a link within it.
    expect(side).not.toMatch(/<summary[^>]*>(?:(?!<\/summary>).)*<a /s);
  });

  test('what is imported, unwatched or incomplete says so in a word', async () => {
    const imported = await serveAlone(await archiveOf({ ferry: letter('Ferry', 'text') }));
    expect(sideOf(await imported.get('/mail'))).toContain('<span class="tag">imported</span>');
    const before = sideOf(await get('/mail'));
    expect(before).not.toContain('class="tag"');
    const state = openState(archive.data);
    const reader = openReaderAt(archive.data);
    const [ada, office] = reader.catalog.folders.mailboxes();
    reader.close();
    if (ada === undefined || office === undefined) throw new Error('two were mirrored');
    const inbox = folderKey({ ...ada, folder: 'INBOX' });
    const proof = state.get('proof', inbox);
    state.set('proof', inbox, { ...proof, complete: false });
    state.set('unwatched', mailboxKey(office), true);
    served.now += MINUTE;
    const side = sideOf(await get('/mail'));
    expect(words(side)).toMatch(/ada@example\.org\s+incomplete/);
    expect(words(side)).toMatch(/INBOX\s+incomplete/);
    expect(words(side)).toMatch(/office@example\.org\s+unwatched/);
    expect(side.match(/>incomplete</g)).toHaveLength(2);
    expect(side.match(/>unwatched</g)).toHaveLength(1);
    state.set('proof', inbox, proof);
    state.set('unwatched', mailboxKey(office), null);
    state.close();
    served.now += MINUTE;
    expect(sideOf(await get('/mail'))).toBe(before);
  });
});

test('a page explains its numbers, and says when the archive was written and what was found gone when', async () => {
  const page = await get('/mail?q=is%3Adeleted');
  expect(words(sideOf(page))).toMatch(/Mailboxes\s+unread, all/);
  expect(words(page)).toContain('found gone 6 Nov 2026');
  expect(words(page)).toContain('last written 6 Nov 2026');
});

describe('the state in the bar', () => {
  const at = Date.UTC(2026, 10, 20, 12);
  const fine = { level: 'fine', provenAt: at, isMirror: true } as const;

  test.each([
    [fine, 0, at, 'Healthy, backed up just now'],
    [fine, 0, at + 61_000, 'Healthy, backed up 1 min ago'],
    [fine, 0, at + 4 * MINUTE, 'Healthy, backed up 4 min ago'],
    [fine, 0, at + 119 * MINUTE, 'Healthy, backed up 1 h ago'],
    [fine, 0, at + 47 * 60 * MINUTE, 'Healthy, backed up 47 h ago'],
    [fine, 0, at + 3 * DAY, 'Healthy, backed up 72 h ago'],
    [{ ...fine, level: 'warn' }, 1, at, '1 issue'],
    [{ ...fine, level: 'warn' }, 2, at, '2 issues'],
    [{ ...fine, level: 'bad' }, 3, at, 'Damage'],
    [{ ...fine, provenAt: null }, 0, at, 'Not backed up yet'],
    [{ ...fine, provenAt: null, isMirror: false }, 0, at, 'Healthy'],
  ] as const)('%j with %i matters at %i is %s', (state, matters, now, expected) => {
    expect(stateText(state, matters, now)).toBe(expected);
  });

  test('is a link to health with its shape and its moment on every page', async () => {
    const { own, get: page } = await serveAlone(archive.data);
    const compared = Math.max(...archive.moments) + DAY;
    own.now = compared + MINUTE;
    for (const address of [
      '/mail',
      '/mail?q=asof%3A2026-10-10',
      '/dashboard',
      '/files',
      '/export',
      '/health',
    ]) {
      const html = shown(await page(address));
      // The archive was never verified, and nothing else is the matter.
      const [link] = /<a class="stat wide state".*?<\/a>/s.exec(html) ?? [];
      expect([address, link]).toEqual([
        address,
        expect.stringMatching(
          /href="\/health" title="Each folder was compared on 6 Nov 2026 [^"]*"><span class="dot warn"><\/span>1 issue</,
        ),
      ]);
    }
    // A day and some hours after the comparison, the folders of each mailbox are a matter as well.
    own.now = compared + DAY + 3 * 60 * MINUTE;
    expect(shown(await page('/mail'))).toMatch(
      /<a class="stat wide state"[^>]*><span class="dot warn"><\/span>3 issues</,
    );
  });
});

describe('a look', () => {
  const form = async () => tokenIn(shown(await get('/health')));
  const send = (token: string) => served.post('/look', { token }, { cookie: served.cookie });

  test('is asked for by a form, and the page says what became of it', async () => {
    const html = shown(await get('/health/folders'));
    expect(html).toMatch(/<form class="look" method="post" action="\/look"/);
    looks = async () => true;
    const asked = await send(await form());
    expect([asked.status, asked.headers.location]).toEqual([303, '/health?look=asked']);
    expect(words(shown(await get('/health?look=asked')))).toContain(
      'The daemon was asked for a pass.',
    );
    looks = async () => false;
    const nobody = await send(await form());
    expect(nobody.headers.location).toBe('/health?look=nobody');
    const text = words(shown(await get('/health?look=nobody')));
    expect(text).toContain('No daemon runs for this archive.');
    expect(text).toContain('mailkeep daemon');
    looks = async () => {
      throw daemonError('daemon-version', { found: '9', own: '1' });
    };
    const other = await send(await form());
    expect(other.headers.location).toBe('/health?look=version');
    expect(words(shown(await get('/health?look=version')))).toContain(
      'another version of mailkeep',
    );
    expectHarmless(await get('/health?look=%3Cscript%3E'));
  });

  test('needs the token of its session', async () => {
    let asked = 0;
    looks = async () => {
      asked += 1;
      return true;
    };
    const other = await served.signIn();
    const foreign = await served.ask('/health', { headers: { cookie: other } });
    for (const token of ['', 'x', tokenIn(foreign.text)])
      expect((await send(token)).status).toBe(403);
    expect(asked).toBe(0);
    expect((await served.get('/look')).status).toBe(404);
  });

  test('is neither shown nor granted to who may read some mailboxes', async () => {
    let asked = 0;
    looks = async () => {
      asked += 1;
      return true;
    };
    const reader = openReaderAt(archive.data);
    const [ada] = reader.catalog.folders.mailboxes();
    reader.close();
    if (ada === undefined) throw new Error('two were mirrored');
    const limited = await served.signIn([mailboxKey(ada)]);
    const page = await served.ask('/health', { headers: { cookie: limited } });
    expect(page.status).toBe(200);
    expect(page.text).not.toContain('Check for new mail');
    expect(page.text).toContain('"whole":false');
    expect((await served.post('/look', { token: '' }, { cookie: limited })).status).toBe(403);
    const api = await served.ask('/api/look', {
      method: 'POST',
      headers: { ...served.own(limited), 'x-mailkeep': '1' },
    });
    expect([api.status, asked]).toEqual([403, 0]);
  });
});

test('a daemon that is silent is a strip above the list with since when, and the list stays', async () => {
  const imported = await serveAlone(await archiveOf({ ferry: letter('Ferry', 'text') }));
  expect(await imported.get('/mail')).not.toContain('no pass since');
  const data = await archiveOf({ ferry: letter('Ferry', 'text') });
  const { own, get: ask } = await serveAlone(data);
  const state = openState(data);
  for (const minutes of [20, 15, 10, 5])
    state.runs.keep({
      ...run,
      startedAt: own.now - minutes * MINUTE,
      endedAt: own.now - minutes * MINUTE,
    });
  state.close();
  expect(await ask('/mail')).not.toContain('no pass since');
  const last = own.now - 5 * MINUTE;
  own.now += 60 * MINUTE;
  const html = shown(await ask('/mail'));
  expect(html).toContain(`no pass since <time datetime="${new Date(last).toISOString()}">`);
  expect(html).toContain('Ferry');
});

describe('an archive without mail', () => {
  async function emptyArchive(): Promise<string> {
    const data = mkdtempSync(path.join(tmpdir(), 'mailkeep-web-'));
    const writer = await openWriter(
      {
        globals: { config: undefined, data: undefined },
        environment: { cwd: data, env: {} },
        report: () => {},
        signal: new AbortController().signal,
        now: () => Date.UTC(2026, 0, 1),
      },
      data,
    );
    await writer.close();
    return data;
  }

  test('names the command that sets up a mailbox', async () => {
    const { get: ask } = await serveAlone(await emptyArchive());
    const text = words(shown(await ask('/mail')));
    expect(text).toContain('No mailbox yet');
    expect(text).toContain('mailkeep init');
    expect(text).not.toContain('No mail yet');
  });

  test('says during the first sync how far it is', async () => {
    const data = await emptyArchive();
    const state = openState(data);
    state.set('account-mailboxes', accountKey('main', 'mail.example.net'), [
      { resourceId: 'AC1', address: 'ada@example.org', unreachableSince: null },
    ]);
    state.close();
    const { get: ask } = await serveAlone(data);
    const html = shown(await ask('/mail'));
    expect(words(html)).toContain('The newest mail comes first');
    expect(words(html)).toContain('1 mailbox found, 0 messages here so far.');
    expect(html).not.toContain('No mailbox yet');
  });

  test('and with some of it, what is here and what is not', () => {
    const reader = openReaderAt(archive.data);
    const state = openState(archive.data);
    const status = archiveStatus(reader, state, Date.now());
    reader.close();
    state.close();
    const known = { state, lastRuns: [], issues: [] };
    const firstOf = (all: Parameters<typeof summariseState>[0], whole = true) =>
      summariseState(all, whole, archive.now).first;
    expect(firstOf({ ...known, status })).toBeNull();
    const mailboxes = status.mailboxes.map((mailbox, box) => ({
      ...mailbox,
      folders: mailbox.folders.map((folder, i) =>
        box === 0 && i < 2 ? folder : { ...folder, provenAt: null, certifiedAt: null },
      ),
    }));
    const folders = mailboxes.reduce((sum, mailbox) => sum + mailbox.folders.length, 0);
    const partly = { ...known, status: { ...status, mailboxes } };
    const first = { mailboxes: 2, folders, done: 2, messages: status.messages };
    expect(firstOf(partly)).toEqual(first);
    // A pass that has ended was the first; without a memory, and for some mailboxes, nobody knows.
    const sum = { originTotal: 1, stored: 1, assumed: 0, quarantined: 0, held: 0, forgotten: 0 };
    const ended = { ...run, id: 1, sum: { ...sum, complete: true, folders: 1 } };
    for (const more of [{ lastRuns: [ended] }, { state: undefined }])
      expect(firstOf({ ...partly, ...more })).toBeNull();
    expect(firstOf(partly, false)).toBeNull();
    const html = renderToString(h(FirstSyncNote, { first }));
    expect(words(html)).toContain(
      `2 of ${folders} folders compared, ${count(status.messages)} messages here so far.`,
    );
    expect(html).toContain(`<progress value="2" max="${folders}"`);
  });
});

test('the band says what came and was deleted on the day, and each number is what its link finds', async () => {
  const found: string[] = [];
  for (const day of ['2026-10-20', '2026-11-05', '2026-11-06']) {
    const page = await get(`/mail?q=asof%3A${day}T01%3A00`);
    const [line = ''] = /<b>On .*?<\/b>/s.exec(page) ?? [];
    expect(words(line)).toMatch(/On \d+ (?:Oct|Nov) 2026: [\d,]+ new\s*, [\d,]+ deleted/);
    const links = line.matchAll(/href="([^"]+)">([\d,]+) (\w+)</g);
    for (const [, href = '', number, what = ''] of links) {
      const all = /<b>([\d,]+)<\/b> message/.exec(await get(href.replaceAll('&amp;', '&')))?.[1];
      expect([href, all]).toEqual([href, number]);
      found.push(what);
    }
  }
  expect(found.sort().join(' ')).toBe('deleted deleted deleted new new new');
});

const singular = (words: string): string => words.replace(/^(message|pending deletion)s/, '$1');

/** The terms of a closing sentence by their words, such as `stored`. */
function termsOf(sentence: string): Map<string, number> {
  const terms = new Map<string, number>();
  const found = sentence.matchAll(
    /([\d,]+)\s+(messages? at the service|stored|not yet verified|incomplete|pending deletions?|forgotten)/g,
  );
  for (const [, number = '', words = ''] of found)
    terms.set(
      singular(words),
      (terms.get(singular(words)) ?? 0) + Number(number.replaceAll(',', '')),
    );
  return terms;
}

test('the closing sentence of every page is the sum of those of the folders, and so is that of the dashboard', async () => {
  const textOf = async (address: string, part: RegExp): Promise<string> =>
    (part.exec(await get(address))?.[0] ?? '').replaceAll(/<[^>]+>/g, ' ');
  const folders = termsOf(await textOf('/health/folders', /<main[\s\S]*<\/main>/));
  // Moved messages whose bytes the service has not been asked for again.
  expect(folders.get('not yet verified')).toBeGreaterThan(0);
  expect(folders.get('stored')).toBeGreaterThan(0);
  for (const address of ['/mail', '/health', '/files'])
    expect([address, termsOf(await textOf(address, /<footer[\s\S]*<\/footer>/))]).toEqual([
      address,
      folders,
    ]);
  expect(termsOf(await textOf('/dashboard', /<div class="eq">[\s\S]*?<\/div>/))).toEqual(folders);
});

function labels(delimiter: string, ...paths: readonly string[]): string[] {
  const found = folderLabels(paths.map((path) => ({ path, delimiter })));
  return paths.map((path) => found.get(path) ?? '');
}

test('folders are called by what is below INBOX, part by part', () => {
  expect(labels('.', 'INBOX', 'INBOX.Sent', 'INBOX.Lists.gardening', 'inbox.x', 'Other.y')).toEqual(
    ['INBOX', 'Sent', 'Lists / gardening', 'x', 'Other / y'],
  );
  expect(labels('/', 'INBOX.Sent', 'a/b', 'Inboxes/c')).toEqual([
    'INBOX.Sent',
    'a / b',
    'Inboxes / c',
  ]);
});

test('folders that would be called the same keep their paths', () => {
  expect(labels('.', 'Sent', 'INBOX.Sent', 'INBOX.INBOX', 'INBOX')).toEqual([
    'Sent',
    'INBOX.Sent',
    'INBOX.INBOX',
    'INBOX',
  ]);
  expect(labels('/', 'a/b', 'INBOX/a/b')).toEqual(['a/b', 'INBOX/a/b']);
});

test('odd paths are shown as they are', () => {
  expect(labels('.', 'INBOX.', '.x', 'a..b')).toEqual(['INBOX.', '.x', 'a..b']);
  expect(labels('', 'INBOX.Sent')).toEqual(['INBOX.Sent']);
});
