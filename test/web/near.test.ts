import { createHash } from 'node:crypto';
import { afterAll, expect, test } from 'vitest';
import { canonicalZone } from '../../src/web/served-archive.ts';
import { archiveOf, letter, Served } from './served.ts';

const served = new Served();
afterAll(() => served.close());

test('an address that no query can name takes nothing from the page of its message', async () => {
  const senders = ['a{b@evil.example', 'a“b@evil.example', `${'*'.repeat(12)}@evil.example`];
  const letters = Object.fromEntries(
    senders.map((sender, i) => [
      `letter${i}`,
      letter(`Letter ${i}`, 'Hello.').replace('Anna Berg <anna@example.org>', `<${sender}>`),
    ]),
  );
  await served.start(await archiveOf(letters));
  const headers = { cookie: await served.signIn() };
  for (const source of Object.values(letters)) {
    const id = createHash('sha256').update(source).digest('hex');
    const page = await served.ask(`/m/${id}`, { headers });
    expect(page.status).toBe(200);
    expect(page.text).toContain('That day');
  }
  expect(served.errors).toEqual([]);
});

test('each spelling of a zone is the same zone', () => {
  expect(['eUrOpE/bErLiN', 'Europe/Berlin'].map(canonicalZone)).toEqual([
    'Europe/Berlin',
    'Europe/Berlin',
  ]);
  for (const unknown of [undefined, '', 'Nowhere/Land', 'x'.repeat(10_000)])
    expect(canonicalZone(unknown)).toBeUndefined();
});
