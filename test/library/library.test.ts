import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Archive, hasCode, openArchive } from '../../src/index.ts';
import { mailkeep } from '../cli/child.ts';

const root = new URL('../../', import.meta.url);
const work = mkdtempSync(path.join(tmpdir(), 'mailkeep-library-'));
const data = path.join(work, 'data');
const COUNT = 5;

beforeAll(async () => {
  const mail = path.join(work, 'mail', 'INBOX');
  mkdirSync(mail, { recursive: true });
  for (let n = 1; n <= COUNT; n += 1) writeFileSync(path.join(mail, `${n}.eml`), source(n));
  const { code } = await mailkeep(['import', path.dirname(mail), '--data', data]);
  expect(code).toBe(0);
});
afterAll(() => rmSync(work, { recursive: true, force: true }));

function source(n: number): string {
  const day = `0${n}`;
  return `From: Ada <ada@example.org>\r\nSubject: report ${n}\r\nDate: Mon, ${day} Jun 2026 10:00:00 +0000\r\n\r\nnumber ${n} of the reports\r\n`;
}

async function bytesOf(archive: Archive, id: string): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of archive.read(id)) pieces.push(piece);
  return Buffer.concat(pieces);
}

async function reading(dir: string, act: (archive: Archive) => unknown): Promise<void> {
  const archive = await openArchive(dir);
  try {
    await act(archive);
  } finally {
    archive.close();
  }
}

const subjects = (found: Iterable<{ readonly subject: string | null }>) =>
  [...found].map(({ subject }) => subject);

test('an archive is listed, with every option', () =>
  reading(data, (archive) => {
    const [{ address, folders } = { address: '', folders: [] }] = archive.mailboxes();
    expect(folders).toEqual([{ path: 'INBOX', specialUse: null, messages: COUNT, gone: false }]);
    expect(archive.commitsBehind()).toBe(0);
    const all = Array.from({ length: COUNT }, (_, at) => `report ${at + 1}`);
    expect(subjects(archive.list())).toEqual(all.toReversed());
    expect(subjects(archive.list({ sort: 'oldest', mailbox: address, folder: 'INBOX' }))).toEqual(
      all,
    );
    const after = new Date('2026-06-02T10:00:00Z');
    const before = new Date('2026-06-04T10:00:00Z');
    expect(subjects(archive.list({ after, before }))).toEqual(['report 3', 'report 2']);
    expect(subjects(archive.list({ deleted: true }))).toEqual([]);
    expect(subjects(archive.list({ asOf: new Date('2020-01-01') }))).toEqual([]);
  }));

test('an archive is searched page by page, and what is found is read', () =>
  reading(data, async (archive) => {
    const [found, ...others] = archive.search('subject:"report 3"');
    expect(others).toEqual([]);
    expect(found).toMatchObject({ subject: 'report 3', from: { address: 'ada@example.org' } });
    expect(found?.attachments).toEqual([]);
    const bytes = await bytesOf(archive, found?.id.slice(0, 16) ?? '');
    expect(bytes.toString('latin1')).toBe(source(3));
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(found?.id);
    const page = archive.search('reports', { limit: 2, sort: 'oldest' });
    expect(subjects(page)).toEqual(['report 1', 'report 2']);
    const after = page.at(-1)?.id;
    expect(subjects(archive.search('reports', { limit: 2, sort: 'oldest', after }))).toEqual([
      'report 3',
      'report 4',
    ]);
    expect(archive.search('reports', { asOf: new Date('2020-01-01') })).toEqual([]);
  }));

test('a sound archive is verified, and damage is reported and never thrown', async () => {
  await reading(data, async (archive) => {
    const report = await archive.verify();
    expect(report).toMatchObject({ sound: true, found: 0, rebuilt: COUNT, catalog: 'equal' });
    expect(await archive.verify({ full: false })).toMatchObject({ sound: true, rebuilt: 0 });
  });
  const copy = path.join(work, 'damaged');
  const copied = await mailkeep(['copy', '--to', copy, '--rebuild', '--data', data]);
  expect(copied.code).toBe(0);
  const log = path.join(copy, 'log');
  const [segment = ''] = readdirSync(log).filter((name) => name.endsWith('.seg'));
  const bytes = readFileSync(path.join(log, segment));
  const at = bytes.indexOf('number 3 of');
  expect(at).toBeGreaterThan(0);
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  writeFileSync(path.join(log, segment), bytes);
  await reading(copy, async (archive) => {
    const { sound, found, problems } = await archive.verify();
    expect(sound).toBe(false);
    expect(problems).toHaveLength(found);
    const [damaged] = archive.search('subject:"report 3"');
    expect(problems.flatMap(({ messages }) => messages)).toContain(damaged?.id);
    expect(problems.map(({ sentence }) => sentence).join('\n')).toContain('report 3');
    const read = [...archive.list()].map(({ id }) => bytesOf(archive, id ?? ''));
    const outcomes = await Promise.allSettled(read);
    expect(outcomes.filter(({ status }) => status === 'rejected')).toHaveLength(1);
  });
});

test('what is wrong with a call is named, in a sentence', async () => {
  const open: (dir: unknown) => Promise<Archive> = Object(openArchive);
  await expect(open(undefined)).rejects.toMatchObject({ code: 'argument-invalid' });
  await expect(openArchive(work)).rejects.toMatchObject({
    code: 'usage-no-archive',
    message: `There is no archive in ${work}.`,
  });
  await reading(data, async (archive) => {
    const refused = async (act: () => unknown) => {
      const trying = (async () => act())();
      const error: unknown = await trying.catch((thrown: unknown) => thrown);
      return error instanceof Error && 'code' in error ? `${error.code}: ${error.message}` : error;
    };
    const wrong: Record<string, unknown> = { folder: 7 };
    expect(await refused(() => archive.list(wrong))).toMatch(
      /^argument-invalid: options\.folder: /,
    );
    const misspelt: Record<string, unknown> = { limt: 3 };
    expect(await refused(() => archive.search('x', misspelt))).toMatch(/limt/);
    expect(await refused(() => archive.list({ asOf: new Date('never') }))).toMatch(
      /^argument-invalid: options\.asOf: /,
    );
    expect(await refused(() => archive.list({ folder: 'INBOXES' }))).toBe(
      'usage-unknown-name: The archive has no folder "INBOXES".',
    );
    expect(await refused(() => archive.list({ mailbox: 'eve@example.org' }))).toMatch(
      /^usage-unknown-name: The archive has no mailbox/,
    );
    expect(await refused(() => archive.search('in:INBOXES x'))).toMatch(/^usage-unknown-name: /);
    expect(await refused(() => archive.search('subject:('))).toMatch(/^search-[a-z-]+: /);
    expect(await refused(() => archive.search('x', { sort: 'relevance', after: 'abcd' }))).toMatch(
      /^argument-invalid: options\.after: /,
    );
    expect(await refused(() => bytesOf(archive, '0'.repeat(64)))).toMatch(
      /^usage-unknown-message: /,
    );
    expect(await refused(() => bytesOf(archive, '../../etc'))).toMatch(/^argument-invalid: id: /);
    const aborted = await archive.verify({ signal: AbortSignal.abort() }).catch((e: unknown) => e);
    expect(aborted).toMatchObject({ name: 'AbortError' });
    expect(hasCode(aborted, 'argument-invalid')).toBe(false);
  });
});

test('a program that imports only the clients loads no database', () => {
  const library = new URL('src/index.ts', root).href;
  const program = `import { MailboxClient } from '${library}';
    const { createRequire } = await import('node:module');
    new MailboxClient({ baseUrl: 'https://mail.example', token: 'none' });
    const loaded = Object.keys(createRequire(import.meta.url).cache);
    console.log(JSON.stringify(loaded.filter((file) => file.includes('better-sqlite3'))));`;
  const args = ['--import', 'tsx', '--input-type=module', '-e', program];
  const { stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: fileURLToPath(root),
    encoding: 'utf8',
  });
  expect(stderr).toBe('');
  expect(JSON.parse(stdout)).toEqual([]);
});

test('the example of docs/library.md runs as it stands', async () => {
  const page = readFileSync(new URL('docs/library.md', root), 'utf8');
  const [, program = ''] = /^```js\n([\s\S]*?)^```$/m.exec(page) ?? [];
  const library = new URL('src/index.ts', root).href;
  const file = path.join(work, 'example.mjs');
  writeFileSync(file, program.replaceAll("from 'mailkeep'", `from '${library}'`));
  const child = spawn(process.execPath, ['--import', 'tsx', file], {
    cwd: fileURLToPath(root),
    env: { PATH: process.env.PATH, MAILKEEP_DATA: data },
  });
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  expect(errors).toBe('');
  expect(output).toContain(`INBOX: ${COUNT} messages`);
  expect(output).toContain('report 5 has');
  expect(output).toContain('every byte is as it was written');
});
