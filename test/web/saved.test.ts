import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { readSavedSearches } from '../../src/catalog/saved-searches.ts';
import { mailkeep } from '../cli/child.ts';
import { archiveOf, letter, serve, serveForAll } from './served.ts';

const SAVING = z.object({
  data: z.object({
    saved: z.array(z.object({ name: z.string(), query: z.string() })),
    problem: z
      .object({
        message: z.string(),
        hint: z.string().nullable(),
        taken: z.object({ name: z.string(), query: z.string() }).nullable(),
      })
      .nullable(),
  }),
});

const served = serveForAll(() =>
  archiveOf({ lease: letter('Lease', 'The deposit of the lease.') }),
);

const OWN = { 'sec-fetch-site': 'same-origin', 'x-mailkeep': '1' };

async function send(target: string, fields: Readonly<Record<string, string>>, as = served.cookie) {
  const { status, text } = await served.post(target, fields, { cookie: as, ...OWN });
  expect(status).toBe(200);
  return SAVING.parse(JSON.parse(text)).data;
}

test('a search that a browser saves is one of the command line, and of the side', async () => {
  const { saved, problem } = await send('/api/saved', { name: '@lease', query: 'deposit lease' });
  expect(problem).toBeNull();
  expect(saved).toEqual([{ name: 'lease', query: 'deposit lease' }]);
  const { stdout } = await mailkeep(['search', '--data', served.dataDir, '--count', '@lease']);
  expect(stdout.trim()).toBe('1');
  expect(await served.data('/api/saved')).toEqual(saved);
  const page = await served.get('/mail?q=%40lease');
  expect(page.text).toContain('href="/mail?q=%40lease"');
  expect(page.text).toContain('<b>1</b> message');
});

test('a name may have blanks, and is then written in quotation marks', async () => {
  const { saved, problem } = await send('/api/saved', {
    name: '@rent due',
    query: 'deposit lease',
  });
  expect(problem).toBeNull();
  expect(saved).toContainEqual({ name: 'rent due', query: 'deposit lease' });
  const search = (...args: string[]) => mailkeep(['search', '--data', served.dataDir, ...args]);
  expect((await search('--saved')).stdout).toContain('@"rent due"  deposit lease');
  for (const used of ['@"rent due"', '-zebra @“rent due”', '(zebra OR @"rent due")'])
    expect([used, (await search('--count', used)).stdout]).toEqual([used, '1\n']);
  // As text, it is a phrase.
  expect((await search('--count', '"@rent due"')).stdout).toBe('0\n');
  expect((await search('@rent due')).stderr).toContain('@"rent due"');
  const offered = await served.data('/api/complete?q=%40%22rent+d&at=8');
  expect(offered).toMatchObject([{ insert: '@"rent due"', from: 0, to: 8 }]);
  const { text } = await served.get('/mail?q=lease');
  expect(text).toContain('href="/mail?q=%40%22rent+due%22"');
  expect((await search('--forget', '@"rent due"')).stderr).toContain('Forgot @"rent due".');
});

test('a saved search that names a moment shows the archive as of then', async () => {
  await send('/api/saved', { name: 'then', query: 'lease asof:2020-01-01' });
  const { frame } = await served.data('/api/page/mail?q=%40then');
  expect(frame.past.messages).toBe(0);
  const { all, mailboxes } = frame.tree;
  // Then there was no mailbox.
  expect([all.count, mailboxes]).toEqual([0, []]);
  expect(all.query).toMatch(/^asof:2020-01-01T|^asof:2019-12-31T/);
  await send('/api/saved/forget', { name: 'then' });
});

test('a name that another search has is refused until it is to be replaced', async () => {
  await send('/api/saved', { name: 'taken', query: 'lease' });
  const { problem, saved } = await send('/api/saved', { name: 'taken', query: 'deposit' });
  expect(problem).toEqual({
    message: '@taken is already saved: lease',
    hint: null,
    taken: { name: 'taken', query: 'lease' },
  });
  expect(saved).toContainEqual({ name: 'taken', query: 'lease' });
  const after = await send('/api/saved', { name: 'taken', query: 'deposit', replace: '1' });
  expect(after.saved).toContainEqual({ name: 'taken', query: 'deposit' });
});

test('saved searches in a query are saved with what they stand for', async () => {
  await send('/api/saved', { name: 'inner', query: 'lease OR rent' });
  const { saved } = await send('/api/saved', { name: 'outer', query: '@inner has:attachment' });
  expect(saved).toContainEqual({ name: 'outer', query: '(lease OR rent) has:attachment' });
});

test.each([
  [{ name: 'a/b', query: 'lease' }, 'Name: expected a name of letters, digits, blanks, - and _'],
  [{ name: '"', query: 'lease' }, 'Name: expected a name of letters, digits, blanks, - and _'],
  [{ name: '', query: 'lease' }, 'Name: expected a name'],
  [{ name: 'empty', query: '  ' }, 'There is nothing to search for'],
  [{ name: 'wrong', query: 'froom:anna' }, 'froom:'],
])('%j is refused with the sentence of the command line', async (fields, sentence) => {
  const before = readSavedSearches(served.dataDir);
  const { problem } = await send('/api/saved', fields);
  expect(problem?.message).toContain(sentence);
  expect(readSavedSearches(served.dataDir)).toEqual(before);
});

test('a saved search is removed by its name, and one that is not there is an error', async () => {
  await send('/api/saved', { name: 'gone', query: 'lease' });
  const { saved, problem } = await send('/api/saved/forget', { name: 'gone' });
  expect(problem).toBeNull();
  expect(saved.map(({ name }) => name)).not.toContain('gone');
  const again = await send('/api/saved/forget', { name: 'gone' });
  expect(again.problem?.message).toBe('No search is saved as @gone.');
});

test('a query of any length that can be searched for can be saved', async () => {
  const query = Array.from({ length: 40 }, (_, i) => `${i}${'敷'.repeat(90)}`).join(' OR ');
  expect(encodeURIComponent(query).length).toBeGreaterThan(32_000);
  const { problem } = await send('/api/saved', { name: 'long', query });
  expect(problem).toBeNull();
  expect(readSavedSearches(served.dataDir)).toContainEqual({ name: 'long', query });
});

test('only a page of this server may save, and only a form that is one', async () => {
  const fields = { name: 'foreign', query: 'lease' };
  const without = await served.post('/api/saved', fields, {
    cookie: served.cookie,
    'sec-fetch-site': 'same-origin',
  });
  expect(without.status).toBe(403);
  const foreign = await served.post('/api/saved', fields, {
    cookie: served.cookie,
    ...OWN,
    'sec-fetch-site': 'cross-site',
  });
  expect(foreign.status).toBe(403);
  const nobody = await served.post('/api/saved', fields, OWN);
  expect(nobody.status).toBe(401);
  const json = await served.ask('/api/saved', {
    ...{ method: 'POST', body: JSON.stringify(fields) },
    headers: { cookie: served.cookie, ...OWN, 'content-type': 'application/json' },
  });
  expect(json.status).toBe(400);
  expect(readSavedSearches(served.dataDir).map(({ name }) => name)).not.toContain('foreign');
});

test('a browser that is limited to mailboxes neither sees nor changes saved searches', async () => {
  const limited = await served.signIn([]);
  const list = await served.ask('/api/saved', { headers: served.own(limited) });
  expect(list.status).toBe(403);
  expect(list.text).not.toContain('deposit');
  const saved = await served.post(
    '/api/saved',
    { name: 'l', query: 'a' },
    { cookie: limited, ...OWN },
  );
  expect(saved.status).toBe(403);
});

test('a state that cannot be read is reported, and not put aside', async () => {
  const other = await archiveOf({ lease: letter('Lease', 'text') });
  const file = path.join(other, 'state.sqlite');
  writeFileSync(file, 'no database');
  const web = await serve(other);
  const { status, text } = await web.post(
    '/api/saved',
    { name: 'lease', query: 'lease' },
    { cookie: web.cookie, ...OWN },
  );
  expect(status).toBe(200);
  const { problem } = SAVING.parse(JSON.parse(text)).data;
  expect(problem?.message).toMatch(/cannot be (?:read or )?written/);
  expect(web.errors).toEqual([]);
  expect(readFileSync(file, 'utf8')).toBe('no database');
});
