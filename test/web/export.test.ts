import { createHash } from 'node:crypto';
import { globSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { openReaderAt } from '../../src/catalog/open-reader.ts';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { mailboxKey } from '../../src/core/state.ts';
import { exportOffer } from '../../src/web/exporting.ts';
import { commandLine } from '../../src/web/pages/export-page.tsx';
import { mailkeep } from '../cli/child.ts';
import { expectHarmless } from './harmless.ts';
import {
  type Answer,
  archiveOf,
  flipBit,
  idOf,
  letter,
  type Served,
  serve,
  serveForAll,
} from './served.ts';

const EVIL = `"><script>pwned()</script>'&lt;`;
const ferry = letter('Ferry', 'When does it leave?');
const answer = letter('Re: Ferry', 'At noon.');
const other = letter('Other', 'Of the other mailbox.');

/** Text that hardly compresses, the same each time. */
function noise(seed: number, lines: number): string {
  const hash = (i: number) => createHash('sha512').update(`${seed} ${i}`).digest('base64url');
  return Array.from({ length: lines }, (_, i) => hash(i)).join('\r\n');
}

const numbered = (count: number, lines: number) =>
  Object.fromEntries(
    Array.from({ length: count }, (_, n) => [`n${n}`, letter(`Number ${n}`, noise(n, lines))]),
  );
let large: Promise<string> | undefined;
/** More than a connection takes at once. */
const largeArchive = () => (large ??= archiveOf(numbered(36, 6_000)));

const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-web-export-'));
const served = serveForAll(async () => {
  const data = await archiveOf({ ferry, answer });
  const file = path.join(folder, 'other.eml');
  writeFileSync(file, other);
  await mailkeep(['import', '--data', data, '--mailbox', 'Other', '--quiet', file]);
  return data;
});

const get = (address: string, more: Readonly<Record<string, string>> = {}) =>
  served.ask(address, { headers: { ...served.own(), ...more } });
const exported = (query: string, format = 'zip') =>
  get(`/api/export?q=${encodeURIComponent(query)}&format=${format}`);

/** What the program says of a zip. */
async function check(answer: Answer): Promise<{ code: number | null; entries: string[] }> {
  const file = path.join(folder, 'download.zip');
  writeFileSync(file, answer.bytes);
  const { code } = await mailkeep(['verify', '--export', file]);
  const names = [...answer.bytes.toString('latin1').matchAll(/[\w@. /-]+\.eml/g)];
  return { code, entries: [...new Set(names.map(([name]) => name))] };
}

test('a query is saved as a zip that the program verifies, named by the query, the day and the commit', async () => {
  const answer = await exported('ferry');
  expect(answer.status).toBe(200);
  const { number } = openReaderAt(served.dataDir).catalog.reached();
  const day = new Intl.DateTimeFormat('sv-SE').format(served.now);
  expect(answer.headers).toMatchObject({
    'content-type': 'application/octet-stream',
    'content-disposition': `attachment; filename="mailkeep ferry ${day} commit ${number}.zip"; filename*=UTF-8''mailkeep%20ferry%20${day}%20commit%20${number}.zip`,
    'content-security-policy': "sandbox; default-src 'none'; frame-ancestors 'none'",
    'cross-origin-resource-policy': 'same-origin',
  });
  const { code, entries } = await check(answer);
  expect(code).toBe(0);
  expect(entries).toHaveLength(2);
  // The manifest is the last entry.
  const names = answer.bytes.toString('latin1');
  expect(names.lastIndexOf('.eml')).toBeLessThan(names.lastIndexOf('mailkeep-export.json'));
});

test('the moment of the query is obeyed', async () => {
  expect((await exported('asof:2020-01-01')).status).toBe(404);
  const { catalog } = openReaderAt(served.dataDir);
  const first = catalog.commitAt(Date.now())?.number ?? 0;
  expect(first).toBeGreaterThan(0);
  const now = await exported(`asof:@${Math.ceil(Date.now() / 1000) + 1}`);
  expect((await check(now)).entries).toHaveLength(3);
});

test('an mbox and a single message are the exact bytes', async () => {
  const mbox = await exported('subject:"Re: Ferry"', 'mbox');
  expect(mbox.text).toMatch(/^From anna@example\.org Mon Feb {2}2 10:00:00 2026\n/);
  expect(mbox.text.slice(mbox.text.indexOf('\n') + 1)).toBe(`${answer}\n`);
  const eml = await exported('subject:"Re: Ferry"', 'eml');
  expect(idOf(eml.bytes)).toBe(idOf(answer));
});

test('what cannot be exported is refused with a code, and in words to whoever follows a link', async () => {
  for (const [query, format, status, code] of [
    ['ferry', 'eml', 400, 'not-one'],
    ['nowhere-to-be-found', 'zip', 404, 'nothing-found'],
    ['in:Nowhere', 'zip', 400, 'bad-query'],
    ['ferry', 'tar', 400, 'unknown-format'],
  ] as const) {
    const refused = await exported(query, format);
    expect([refused.status, JSON.parse(refused.text)]).toEqual([status, { error: { code } }]);
    const address = `/api/export?q=${encodeURIComponent(query)}&format=${format}`;
    const page = await get(address, { 'sec-fetch-mode': 'navigate' });
    expect(page.status).toBe(303);
    expect(page.headers.location).toContain(`refused=${code}`);
  }
  const words = await get('/export?q=ferry&format=eml&refused=not-one');
  expect(words.text).toContain('A single .eml holds one message');
  expect((await get('/export?q=ferry&refused=%3Cscript%3E')).text).not.toContain('<script>"');
});

test('no other site and nobody without a session gets anything', async () => {
  for (const headers of [
    { cookie: served.cookie },
    { cookie: served.cookie, 'sec-fetch-site': 'cross-site' },
    { cookie: served.cookie, 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'same-origin' },
  ]) {
    const { status, text } = await served.ask('/api/export?q=ferry', { headers });
    expect([401, 403]).toContain(status);
    expect(text).not.toMatch(/Ferry|noon/);
  }
});

test('a session that is limited to mailboxes saves theirs only', async () => {
  const box = openReaderAt(served.dataDir)
    .catalog.folders.mailboxes()
    .find(({ address }) => address === 'Other');
  if (box === undefined) throw new Error('it was imported');
  const limited = served.own(await served.signIn([mailboxKey(box)]));
  const all = await served.ask('/api/export?q=', { headers: limited });
  const { code, entries } = await check(all);
  expect([code, entries.length]).toEqual([0, 1]);
  expect(all.bytes.includes('Ferry')).toBe(false);
  const foreign = await served.ask('/api/export?q=ferry', { headers: limited });
  expect(foreign.status).toBe(404);
  const nothing = served.own(await served.signIn(['["nowhere","x"]']));
  expect((await served.ask('/api/export?q=', { headers: nothing })).status).toBe(404);
});

test('the page says what is in a download, and how the command line makes the same', async () => {
  const { status, text } = await get('/export?q=ferry');
  expect(status).toBe(200);
  expectHarmless(text);
  expect(text).toMatch(/<a class="link" href="\/mail\?q=ferry">2<\/a>/);
  expect(text).toContain('action="/api/export"');
  expect(text).toContain("mailkeep export --query 'ferry' --with-deleted --format zip");
  expect((await get(`/export?q=${encodeURIComponent(EVIL)}`)).text).not.toContain('<script>pwned');
  expect((await get('/export?q=froom:x')).status).toBe(400);
});

test('the line for the command line exports the same messages', async () => {
  const line = commandLine("subject:ferry OR subject:it's", 'eml');
  expect(line).toContain(`'subject:ferry OR subject:it'\\''s'`);
  const to = path.join(folder, 'by-command');
  const args = ['export', '--query', 'subject:ferry', '--with-deleted', '--format', 'eml'];
  const { code, stderr } = await mailkeep([...args, '--to', to, '--data', served.dataDir]);
  expect([code, stderr]).toEqual([0, '']);
  const files = globSync('**/*.eml', { cwd: to }).map((name) => readFileSync(path.join(to, name)));
  expect(files.map(idOf).sort()).toEqual([idOf(ferry), idOf(answer)].sort());
});

test('more than a browser should save is offered as a command line only', () => {
  const reader = openReaderAt(served.dataDir);
  const { node } = parseQuery('ferry', { now: served.now });
  const limits = { messages: 1, bytes: 1_000_000 };
  expect(exportOffer(reader, { node }, limits)).toMatchObject({ isTooLarge: true, bytes: null });
  const { bytes } = exportOffer(reader, { node });
  expect(bytes).toBe(ferry.length + answer.length);
  expect(exportOffer(reader, { node }, { messages: 2, bytes: 100 })).toEqual({
    messages: 2,
    isCounted: true,
    bytes,
    isTooLarge: true,
  });
  reader.close();
});

/** A download of which only the beginning is taken. */
function begin(from: Served, headers: Record<string, string>): Promise<IncomingMessage> {
  const { host, port } = from.web.address;
  return new Promise((resolve, reject) => {
    const address = { host, port, path: '/api/export?q=', headers, agent: false };
    const asked = httpRequest(address, (response) => {
      response.once('readable', () => resolve(response));
    });
    asked.on('error', reject);
    asked.end();
  });
}

test('at most two downloads are made at a time, and one that a client leaves ends', async () => {
  const large = await serve(await largeArchive());
  const headers = large.own();
  for (let round = 0; round < 2; round += 1) {
    const both = [await begin(large, headers), await begin(large, headers)];
    const third = await large.ask('/api/export?q=', { headers });
    expect([third.status, third.text]).toEqual([503, '{"error":{"code":"busy"}}']);
    for (const one of both) one.destroy();
    // The server notices the end of a connection in its own time.
    let status = 503;
    while (status === 503)
      status = (await large.ask('/api/export?q=subject:"Number+7"', { headers })).status;
    expect(status).toBe(200);
  }
  expect(large.errors).toEqual([]);
});

test('a download breaks off when its session is ended', async () => {
  const large = await serve(await largeArchive());
  const begun = await begin(large, large.own());
  for (const { key } of large.store.list()) large.store.set(key, undefined);
  await expect(buffer(begun)).rejects.toThrow();
  // Nothing of it continues.
  let status = 503;
  const again = large.own(await large.signIn());
  while (status === 503)
    status = (await large.ask('/api/export?q=subject:"Number+7"', { headers: again })).status;
  expect(status).toBe(200);
  expect(large.errors).toEqual([]);
});

test('why an export was refused is said in words that are ours, whatever the address has', async () => {
  for (const code of ['constructor', '__proto__', 'toString', 'anything']) {
    const { status, text } = await served.ask(`/export?q=ferry&refused=${code}`, {
      headers: { cookie: served.cookie },
    });
    expect([code, status, text.includes('The export was refused.')]).toEqual([code, 200, true]);
  }
});

test('an mbox of which a message is damaged breaks off; a zip names the message', async () => {
  const broken = await serve(await archiveOf(numbered(8, 8_000)));
  const headers = broken.own();
  flipBit(broken.dataDir, 0.5);
  await expect(broken.ask('/api/export?q=&format=mbox', { headers })).rejects.toThrow();
  expect(broken.errors).toHaveLength(1);
  const zip = await broken.ask('/api/export?q=', { headers });
  expect((await check(zip)).entries).toHaveLength(7);
});
