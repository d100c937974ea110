import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import { Hono } from 'hono';
import { expect, test } from 'vitest';
import { FILE_GROUPS } from '../../src/core/types.ts';
import { ZipReader } from '../../src/transfer/read-zip.ts';
import { mailRoutes } from '../../src/web/mail-routes.tsx';
import { attachedFiles, exceedsDownloadLimit } from '../../src/web/pages/message-props.ts';
import type { ArchiveParts, WebApp } from '../../src/web/request-context.ts';
import type { Session } from '../../src/web/sessions.ts';
import { mailkeep } from '../cli/child.ts';
import { archiveOf, idOf, letter, serveForAll } from './served.ts';

interface Attached {
  readonly name: string | null;
  readonly text: string;
  readonly inline?: boolean;
}

function mail(subject: string, headers: readonly string[], files: readonly Attached[]): string {
  return [
    `Message-ID: <${subject.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')}@example.org>`,
    'Date: Mon, 02 Feb 2026 10:00:00 +0000',
    'From: Anna Berg <anna@example.org>',
    `Subject: ${subject}`,
    ...headers,
    'MIME-Version: 1.0',
    'Content-Type: multipart/mixed; boundary="b"',
    '',
    '--b',
    'Content-Type: text/plain',
    '',
    'See below.',
    ...files.flatMap(({ name, text, inline = false }) => [
      '--b',
      'Content-Type: application/octet-stream',
      `Content-Disposition: ${inline ? 'inline' : 'attachment'}${
        name === null ? '' : `; filename*=utf-8''${encodeURIComponent(name)}`
      }`,
      'Content-Transfer-Encoding: base64',
      '',
      Buffer.from(text).toString('base64'),
    ]),
    '--b--',
    '',
  ].join('\r\n');
}

const reply = ['In-Reply-To: <plans-and-lists@example.org>'];
const first = mail(
  'Plans/and lists',
  [],
  [
    { name: 'plan.txt', text: 'the first plan' },
    { name: '../../etc/passwd', text: 'no path' },
    { name: null, text: 'nameless' },
  ],
);
const second = mail('Re: Plans/and lists', reply, [
  { name: 'PLAN.txt', text: 'another plan' },
  { name: 'plan.txt', text: 'a third plan' },
  { name: 'logo.png', text: 'a logo', inline: true },
]);
const bare = letter('Alone', 'Without anything.');

const served = serveForAll(async () => {
  const data = await archiveOf({ first, second, bare });
  expect((await mailkeep(['rebuild', '--data', data, '--quiet'])).code).toBe(0);
  return data;
});

const get = (address: string, method = 'GET') => served.get(address, { method });

async function unzipped(bytes: Buffer): Promise<Record<string, string>> {
  const file = path.join(mkdtempSync(path.join(tmpdir(), 'together-')), 'a.zip');
  writeFileSync(file, bytes);
  const zip = await ZipReader.open(file);
  const found: Record<string, string> = {};
  for (const name of zip.names()) {
    const pieces = await zip.pieces(name);
    if (pieces !== undefined) found[name] = (await buffer(pieces)).toString();
  }
  return found;
}

test('the attachments of a conversation are saved as one file, whichever message is open', async () => {
  for (const source of [first, second]) {
    const { status, headers, bytes } = await get(`/m/${idOf(source)}/attachments/all.zip`);
    expect(status).toBe(200);
    expect(await unzipped(bytes)).toEqual({
      'plan.txt': 'the first plan',
      passwd: 'no path',
      'attachment-3': 'nameless',
      'PLAN (2).txt': 'another plan',
      'plan (3).txt': 'a third plan',
    });
    expect(headers).toMatchObject({
      'content-type': 'application/octet-stream',
      'x-content-type-options': 'nosniff',
      'cross-origin-resource-policy': 'same-origin',
    });
    expect(headers['content-disposition']).toMatch(/^attachment; filename="Plans and lists\.zip"/);
    expect(headers['content-security-policy']).toContain('sandbox');
  }
});

test('the page says how many that are, and links to them', async () => {
  const { text } = await get(`/m/${idOf(second)}`);
  expect(text).toMatch(
    new RegExp(`href="/m/${idOf(second)}/attachments/all\\.zip" download[^>]*>Save all 5<`),
  );
  expect((await get(`/m/${idOf(bare)}`)).text).not.toContain('all.zip');
  expect((await get(`/m/${idOf(bare)}/attachments/all.zip`)).status).toBe(404);
  expect((await get('/m/0000000000/attachments/all.zip')).status).toBe(404);
});

test('the attachments that a query finds are saved as one file, of all types or of one', async () => {
  const { headers, bytes } = await get('/files/all.zip?q=plans');
  expect(Object.values(await unzipped(bytes)).sort()).toEqual([
    'a logo',
    'a third plan',
    'another plan',
    'nameless',
    'no path',
    'the first plan',
  ]);
  expect(headers['content-disposition']).toMatch(
    /^attachment; filename="mailkeep attachments plans 2026-11-20\.zip"/,
  );
  let groups = 0;
  for (const group of ['', ...FILE_GROUPS]) {
    const { text } = await get(`/files?q=plans&type=${group}`);
    const [, href, number] =
      /href="([^"]*all\.zip[^"]*)"[^>]*>(?:(?!<a ).)*?Save all <b>(\d+)</s.exec(text) ?? [];
    const asked = `/files/all.zip?q=plans${group === '' ? '' : `&type=${group}`}`;
    const zip = await get(asked);
    if (number === undefined) {
      expect([group, zip.status]).toEqual([group, 404]);
      expect(zip.text).toContain('nothing to save, or more than one file takes');
      continue;
    }
    groups += 1;
    expect([href?.replaceAll('&amp;', '&'), zip.status]).toEqual([asked, 200]);
    expect(Object.keys(await unzipped(zip.bytes))).toHaveLength(Number(number));
  }
  expect(groups).toBeGreaterThan(1);
  expect((await get('/files/all.zip?q=in%3Anowhere')).status).toBe(404);
});

test('as of a moment before the messages, there is nothing to save', async () => {
  const past = encodeURIComponent('asof:2001-01-01');
  expect((await get(`/m/${idOf(first)}/attachments/all.zip?q=${past}`)).status).toBe(404);
});

test('several may be saved one after the other, and what is asked for its header only ends', async () => {
  const address = `/m/${idOf(first)}/attachments/all.zip`;
  for (let i = 0; i < 5; i += 1) {
    const { status, bytes } = await get(address, 'HEAD');
    expect([status, bytes.length]).toEqual([200, 0]);
  }
  const answers = await Promise.all([get(address), get(address), get(address), get(address)]);
  const statuses = answers.map(({ status }) => status);
  // At most two at a time: the others are told to come again.
  expect(statuses.filter((status) => status === 200).length).toBeGreaterThanOrEqual(2);
  expect(statuses.every((status) => status === 200 || status === 503)).toBe(true);
  expect((await get(address)).status).toBe(200);
});

test('who leaves before it is their turn keeps nobody from saving, and nothing open', async () => {
  let open = 0;
  const hold = () => {
    open += 1;
    return { reader: {}, release: () => (open -= 1) };
  };
  const app: WebApp = new Hono();
  app.use(async (context, next) => {
    context.set('session', { mailboxes: null } as unknown as Session);
    await next();
  });
  const pages = () => {
    throw new Error('no message has this id');
  };
  mailRoutes(app, { archive: { hold } } as unknown as ArchiveParts, pages);
  const ask = (signal?: AbortSignal) =>
    app.fetch(new Request('http://here/m/none/attachments/all.zip', signal ? { signal } : {}));
  for (let i = 0; i < 3; i += 1) expect((await ask(AbortSignal.abort())).status).toBe(503);
  expect((await ask()).status).toBe(404);
  expect(open).toBe(0);
});

test('too many, or too large ones together, are not', () => {
  const line = (sizes: readonly number[]) =>
    attachedFiles([
      {
        line: {
          ...{ id: 'a', mailbox: '', folder: '', uid: 1, flags: [], size: 1, date: null },
          ...{ subject: null, from: null, messageId: null, firstSeen: null, endedAt: null },
          ...{ places: [], snippet: '', matchedAttachments: [] },
          attachments: sizes.map((size, i) => ({
            ...{ number: i + 1, filename: null, contentType: '', size, inline: i % 2 === 1 },
          })),
        },
      },
    ]);
  expect(line([1, 2, 3]).map(({ number }) => number)).toEqual([1, 3]);
  expect(exceedsDownloadLimit(line([499_999_999, 9, 1]))).toBe(false);
  expect(exceedsDownloadLimit(line([499_999_999, 9, 2]))).toBe(true);
  expect(exceedsDownloadLimit(line(new Array(999).fill(0)))).toBe(false);
  expect(exceedsDownloadLimit(line(new Array(1_001).fill(0)))).toBe(true);
});
