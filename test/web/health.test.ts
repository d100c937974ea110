import { rmSync } from 'node:fs';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { openReaderAt } from '../../src/catalog/open-reader.ts';
import { loadConfig } from '../../src/core/config.ts';
import { mailboxKey, openState } from '../../src/core/state.ts';
import type { RunRecord } from '../../src/core/state-runs.ts';
import { deliver } from '../../src/sandbox/faults.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { archivePolicy } from '../../src/verify/archive-status.ts';
import { mailkeep, type Workplace, workplace } from '../cli/child.ts';
import { expectHarmless } from './harmless.ts';
import { letter, Served, serve } from './served.ts';

const EVIL = '"><script>pwned()</script>';
const DAY = 86_400_000;
const TABS = ['', '/folders', '/runs', '/quarantine', '/held', '/verification', '/retention'];

const served = new Served();
let sandbox: Sandbox;
let place: Workplace;
let cookie: string;

beforeAll(async () => {
  sandbox = await startSandbox({ seed: 5, mail: { messages: 60 } });
  place = workplace(sandbox, (config) => ({
    ...config,
    retention: {
      endedAfterDays: 1,
      keepAtLeast: 1,
      rules: [{ folder: 'INBOX.Drafts', endedAfterDays: null }],
      hold: [{ query: 'in:INBOX' }, { mailbox: 'nobody@example.org' }],
    },
  }));
  const sync = async (...more: string[]): Promise<void> => {
    const { code, stderr } = await mailkeep(['sync', '--config', place.config, '--quiet', ...more]);
    expect([0, 1, 4], stderr).toContain(code);
  };
  await sync();
  const { service } = sandbox;
  const { store } = service;
  for (const mailbox of store.mailboxes.values()) {
    const inbox = store.folderFor(mailbox, 'INBOX');
    const [first] = inbox.entries();
    store.remove(inbox, first?.uid ?? 0);
    deliver(service, mailbox, inbox, Buffer.from(letter(`New at ${mailbox.address}`, EVIL)));
  }
  // What is new cannot be fetched, now or later.
  sandbox.fault({ kind: 'status', status: 404, operation: 'getMessageSource' });
  await sync('--full', '--accept-endings');
  for (const mailbox of store.mailboxes.values()) {
    store.removeAll(store.folderFor(mailbox, 'INBOX.Sent'));
  }
  await sync('--full');
  served.now = Date.now();
  const { settings } = loadConfig(place.config);
  await served.start(place.data, {
    policy: () =>
      archivePolicy(settings, {
        now: () => served.now,
        globals: { config: place.config, data: undefined },
        environment: { env: {}, cwd: place.folder },
        words: { finding: () => '', error: String },
      }),
  });
  cookie = await served.signIn();
});
afterAll(async () => {
  await served.close();
  await sandbox.close();
  rmSync(place.folder, { recursive: true, force: true });
});
beforeEach(() => {
  expect(served.errors).toEqual([]);
});

const get = async (address: string): Promise<string> => {
  const { status, text } = await served.ask(address, { headers: { cookie } });
  expect([address, status]).toEqual([address, 200]);
  return text;
};

/** What a page says, without its markup and its data. */
const words = (html: string): string =>
  html
    .slice(0, html.indexOf('<script type="application/json"'))
    .replaceAll(/<[^>]+>/g, ' ')
    .replaceAll(/\s+/g, ' ');

test('every tab is a page without a script, and the same as data', async () => {
  for (const tab of TABS) {
    const html = await get(`/health${tab}`);
    expectHarmless(html);
    expect(html).toContain(`href="/health${tab}" aria-current="page"`);
    const { status, text } = await served.ask(`/api/page/health${tab}`, {
      headers: served.own(cookie),
    });
    expect(status).toBe(200);
    expect(JSON.parse(text).data.kind).toBe('health');
  }
  expect((await served.ask('/health/nothing', { headers: { cookie } })).status).toBe(404);
});

test('each number that is a link is what the link finds', async () => {
  let followed = 0;
  for (const tab of TABS) {
    const html = await get(`/health${tab}`);
    const links = html.matchAll(/<a class="link" href="(\/mail[^"]*)">([\d,]+)<\/a>/g);
    for (const [, href = '', number] of links) {
      const found = await get(href.replaceAll('&amp;', '&'));
      expect(found, href).toMatch(new RegExp(`<b>${number}</b> message`));
      followed += 1;
    }
  }
  expect(followed).toBeGreaterThan(10);
});

test('what needs a person comes first, with where to look', async () => {
  const text = words(await get('/health'));
  expect(text).toMatch(/1 incomplete message/);
  expect(text).toMatch(/pending deletion/);
  const html = await get('/health');
  for (const tab of ['quarantine', 'held', 'verification'])
    expect(html).toContain(`href="/health/${tab}"`);
});

test('folders have their sum, and the one proven longest ago can come first', async () => {
  const html = await get('/health/folders');
  const text = words(html);
  expect(text).toMatch(/\d+ messages at the service = \d+ stored \+ \d+ incomplete/);
  expect(text).toContain('INBOX.Sent');
  expect(words(await get('/health/folders?sort=age'))).toContain('compared longest ago first');
  expect(await get('/health/folders?from=99999')).toContain('Health');
});

test('quarantine shows why, how often and when next', async () => {
  const text = words(await get('/health/quarantine'));
  expect(text).toMatch(/2 incomplete messages/);
  expect(text).toContain('mailkeep quarantine ack');
  expect(words(await get('/health/quarantine?from=1'))).toContain('2 to 2 of 2');
});

test('held messages are listed with the time of the second look', async () => {
  const html = await get('/health/held');
  const text = words(html);
  expect(text).toMatch(/INBOX\.Sent/);
  expect(text).toContain('mailkeep sync --accept-endings');
  const [since = '', look = ''] = [...html.matchAll(/<small>.*?<\/small>/gs)]
    .flatMap(([note]) => [...note.matchAll(/datetime="([^"]+)"/g)])
    .map(([, time]) => time ?? '');
  expect(Date.parse(look) - Date.parse(since)).toBe(6 * 3_600_000);
  const listed = html.matchAll(/<a class="link" href="\/m\/([0-9a-f]{64})">/g);
  const ids = [...listed].map(([, id]) => id);
  const { stdout } = await mailkeep(['list', '--held', '--format', 'ids', '--data', place.data]);
  expect(ids.sort()).toEqual(stdout.trim().split('\n').sort());
});

test('retention is told in words, with what is on hold and what would go', async () => {
  const text = words(await get('/health/retention'));
  expect(text).toContain('A message may be removed 1 day after it was deleted at the service.');
  expect(text).toContain('Of the folder INBOX.Drafts, nothing is removed.');
  expect(text).toContain('The newest 1 deleted messages of each folder stay');
  expect(text).toMatch(/nobody@example\.org.*The archive has no mailbox/);
  const { stdout } = await mailkeep(['prune', '--config', place.config]);
  const [, would = '?'] = /Would prune (\d+) message/.exec(stdout) ?? [];
  expect(text).toContain(`Now ${would} message`);
  expect(text).toMatch(/kept: (?:on hold|deleted too recently|among the newest)/);
  const holds = await get('/health/retention');
  expect(holds).toMatch(/href="\/mail\?q=in%3AINBOX">\d+</);
});

test('a session that is limited to mailboxes sees their tabs only', async () => {
  const [box] = openReaderAt(place.data).catalog.folders.mailboxes();
  if (box === undefined) throw new Error('two were mirrored');
  const headers = served.own(await served.signIn([mailboxKey(box)]));
  for (const tab of ['/runs', '/verification', '/retention'])
    for (const address of [`/health${tab}`, `/api/page/health${tab}`])
      expect([address, (await served.ask(address, { headers })).status]).toEqual([address, 403]);
  const [, other] = openReaderAt(place.data).catalog.folders.mailboxes();
  for (const tab of ['', '/folders', '/quarantine', '/held']) {
    const { status, text } = await served.ask(`/health${tab}`, { headers });
    expect([tab, status]).toEqual([tab, 200]);
    expect(text).not.toContain(other?.address);
  }
  const quarantine = await served.ask('/health/quarantine', { headers });
  expect(words(quarantine.text)).toContain('1 incomplete message');
});

test('without a configuration, retention says so', async () => {
  const plain = await serve(place.data, { now: Date.now });
  const { text } = await plain.get('/health/retention');
  expect(text).toContain('No configuration of this archive was found');
});

test('runs are drawn, and open to the sentence of each folder', async () => {
  const html = await get('/health/runs');
  expect(words(html)).toMatch(/3 runs, \d+ requests/);
  expect(html).toMatch(/<svg class="lane-new"[^>]*>.*?<rect /s);
  expect(html.match(/<details>/g)?.length).toBeGreaterThanOrEqual(3);
  const text = words(html);
  expect(text).toContain('by hand');
  expect(text).toMatch(/INBOX : \d+ messages at the service = \d+ stored/);
  expect(text).toMatch(/"kind":"hand"|&quot;kind&quot;:&quot;hand&quot;/);
});

test('runs are paged and filtered by lane, and a name in one is text', async () => {
  const state = openState(place.data);
  const run: RunRecord = {
    ...{ kind: 'hint', account: 'main', outcome: 'done', mailboxes: 1, mailbox: EVIL },
    ...{ startedAt: served.now - 2_000, endedAt: served.now - 1_000 },
    ...{ added: 1, ended: 0, flagsChanged: 0, relinked: 0, quarantined: 0, held: 0 },
    ...{ bytes: 0, requests: 3, messages: null, sum: null, folders: [], failures: 0 },
    troubles: [],
  };
  for (let n = 0; n < 120; n += 1)
    state.runs.keep({ ...run, startedAt: run.startedAt - n * 60_000 });
  const text = `${EVIL} could not be reached`;
  const trouble = { mailbox: EVIL, folder: EVIL, code: 'api.unreachable', text };
  const failed = { outcome: 'failed', failures: 1, troubles: [trouble] } as const;
  state.runs.keep({ ...run, ...failed, kind: 'sync' });
  state.runs.keep({ ...run, kind: 'verify', endedAt: served.now - 2 * DAY, messages: 60 });
  state.close();
  const sizes: number[] = [];
  let address: string | undefined = '/health/runs?lane=hint';
  while (address !== undefined) {
    const html: string = await get(address);
    expectHarmless(html);
    sizes.push(html.match(/<details>/g)?.length ?? 0);
    const next: string | undefined = /href="([^"]+)" rel="next"/.exec(html)?.[1];
    address = next?.replaceAll('&amp;', '&');
  }
  expect(sizes).toEqual([50, 50, 20]);
  const all = words(await get('/health/runs'));
  expect(all).toContain('124 runs');
  expect(all).toMatch(/requests, \d with failures/);
  const health = await get('/health');
  expectHarmless(health);
  expect(words(health)).toContain('main: the last sync failed');
  const verifications = words(await get('/health/verification'));
  expect(verifications).toMatch(/Verifications by the daemon.*60 no damage found/);
  expect(words(await get('/health/runs?lane=verify'))).toContain('60 messages read back');
  expectHarmless(await get('/health/runs?lane=nothing&before=-1'));
});

test('a daemon that makes no passes any more is a matter, by its own rhythm', async () => {
  const state = openState(place.data);
  const pass = (minutes: number): RunRecord => ({
    ...{ kind: 'sync', account: 'main', outcome: 'done', mailboxes: 1, mailbox: null },
    ...{ startedAt: served.now - minutes * 60_000, endedAt: served.now - minutes * 60_000 + 900 },
    ...{ added: 0, ended: 0, flagsChanged: 0, relinked: 0, quarantined: 0, held: 0 },
    ...{ bytes: 0, requests: 3, messages: null, folders: [], failures: 0, troubles: [] },
    sum: {
      ...{ originTotal: 1, stored: 1, assumed: 0, quarantined: 0, held: 0, forgotten: 0 },
      ...{ complete: true, folders: 1 },
    },
  });
  for (const minutes of [20, 15, 10, 5]) state.runs.keep(pass(minutes));
  state.close();
  expect(words(await get('/health'))).not.toContain('no pass lately');
  // What an earlier pass failed of is over.
  expect(words(await get('/health'))).not.toContain('the last sync failed');
  served.now += 3_600_000;
  expect(words(await get('/health'))).toContain('The daemon has not synced lately');
  expect(words(await get('/health'))).toContain('usually they are 5 min apart');
});

test('the head has a verdict in words, the age of the last run, and whether a daemon runs', async () => {
  for (const tab of ['', '/folders', '/runs'])
    expect(words(await get(`/health${tab}`))).toMatch(
      /Health Needs attention: .+ , last run .+ ago \. No daemon runs : new mail comes only when/,
    );
  expect(words(await get('/health'))).toMatch(/Needs attention: +\S.+ and \d more/);
});

test('a mailbox that nobody has compared for more than 26 hours is a matter', async () => {
  const page = async () => (await served.ask('/health', { headers: { cookie } })).text;
  expect(await page()).not.toContain('not compared for more than');
  served.now += 27 * 3_600_000;
  try {
    expect(await page()).toMatch(/\d+ folders not compared for more than 26 h/);
  } finally {
    served.now -= 27 * 3_600_000;
  }
});
