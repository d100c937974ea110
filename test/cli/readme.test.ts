import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { mailkeep, synced, type Workplace } from './child.ts';
import { ran } from './surface.ts';

const text = readFileSync(fileURLToPath(new URL('../../README.md', import.meta.url)), 'utf8');

/** Searches in its sentences. */
const searches = [...text.matchAll(/`mailkeep search ([^`]*[:" ][^`]*)`/g)].map(
  ([, words = '']) => words,
);

let sandbox: Sandbox;
let work: Workplace;

// As `npm start` does.
beforeAll(async () => {
  ({ sandbox, work } = await synced({ seed: 1 }));
});
afterAll(() => sandbox.close());

test('there are searches in its sentences', () => {
  expect(searches.length).toBeGreaterThan(0);
});

test.each(searches)('README.md: mailkeep search %s finds something', async (query) => {
  const { stdout } = await mailkeep(['search', '--count', ...words(query), '--data', work.data]);
  expect(Number(stdout)).toBeGreaterThan(0);
});

test('README.md: a sync without changes costs a request per account, mailbox and folder with mail', async () => {
  const before = sandbox.requests();
  const { code, stderr } = await mailkeep(['sync', '--config', work.config]);
  expect(code, stderr).toBe(0);
  const after = sandbox.requests();
  const { store } = sandbox.service;
  const withMail = sandbox.mailboxes.flatMap(({ address }) =>
    [...(store.mailboxByAddress(address)?.folders.values() ?? [])].filter(({ count }) => count > 0),
  );
  expect(withMail.length).toBeGreaterThan(10);
  expect(after.total - before.total).toBe(1 + sandbox.mailboxes.length + withMail.length);
});

test('README.md: status --max-age 26h exits with 1 once a mailbox was compared too long ago', async () => {
  const [first, second] = sandbox.mailboxes.map(({ address }) => address);
  const status = (now: number) =>
    ran(['status', '--max-age', '26h', '--data', work.data], { now: () => now });
  expect((await status(Date.now())).code).toBe(0);
  const late = await status(Date.now() + 27 * 3_600_000);
  expect(late.code).toBe(1);
  expect(late.stdout).toContain(first);
  expect(late.stdout).toContain(second);
});

test('README.md: init without a terminal takes everything as options', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-init-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const [, line = ''] = /`mailkeep (init --base-url URL [^`]*) <token\.txt`/.exec(text) ?? [];
  const args = line.replace('URL', sandbox.mailboxUrl).split(' ');
  const input = `${sandbox.tokens.mailbox}\n`;
  expect(await mailkeep(args, { cwd: folder, input })).toMatchObject({ code: 0 });
  expect(await mailkeep(['config', 'check'], { cwd: folder })).toMatchObject({ code: 0 });
});

/** As a shell takes them. */
function words(line: string): string[] {
  return [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
}
