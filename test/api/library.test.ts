import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Archive } from '../../src/index.ts';
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

test('an archive is listed, searched, read and verified', async () => {
  const archive = Archive.open(data);
  try {
    const [mailbox] = archive.mailboxes();
    expect(mailbox?.folders.map((folder) => [folder.path, folder.messages])).toEqual([
      ['INBOX', COUNT],
    ]);
    const listed = [...archive.list({ sort: 'oldest' })];
    expect(listed.map(({ subject }) => subject)).toEqual(
      Array.from({ length: COUNT }, (_, at) => `report ${at + 1}`),
    );
    const [found, ...others] = archive.search('subject:"report 3"');
    expect(others).toEqual([]);
    const bytes = await bytesOf(archive, found?.id ?? '');
    expect(bytes.toString('latin1')).toBe(source(3));
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(found?.id);
    expect(archive.search('reports', { limit: 2, sort: 'oldest' })).toHaveLength(2);
    expect(() => archive.search('subject:(')).toThrow(/search-/);
    expect(await archive.verify()).toMatchObject({ found: 0, rebuilt: COUNT, catalog: 'equal' });
  } finally {
    archive.close();
  }
});

test('damage is in the result of a verification, and ends the reading of a message', async () => {
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
  const archive = Archive.open(copy);
  try {
    const { found } = await archive.verify();
    expect(found).toBeGreaterThan(0);
    const read = [...archive.list()].map(({ id }) => bytesOf(archive, id ?? ''));
    const outcomes = await Promise.allSettled(read);
    expect(outcomes.filter(({ status }) => status === 'rejected')).toHaveLength(1);
  } finally {
    archive.close();
  }
});

test('a folder without an archive, and an id that nothing has', async () => {
  expect(() => Archive.open(work)).toThrow(/usage-no-archive/);
  const archive = Archive.open(data);
  try {
    await expect(bytesOf(archive, '0'.repeat(64))).rejects.toMatchObject({ code: 'bytes-unknown' });
  } finally {
    archive.close();
  }
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
  expect(output).toContain('every byte is as it was written');
});
