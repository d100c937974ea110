import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { archiveOf, flipBit, idOf, letter, serve } from './served.ts';

/** Text that hardly compresses, the same each time. */
function noise(lines: number): string {
  const hash = (i: number) => createHash('sha512').update(String(i)).digest('base64url');
  return Array.from({ length: lines }, (_, i) => hash(i)).join('\r\n');
}

test('a message whose bytes changed is reported, and its source is not sent', async () => {
  const long = letter('Long', noise(3_000));
  const broken = await serve(await archiveOf({ long }));
  const whole = await broken.get(`/m/${idOf(long)}`);
  expect(whole.text).toContain('Checked when it was opened');
  flipBit(broken.dataDir, 0.5);
  const { status, text: html } = await broken.get(`/m/${idOf(long)}`);
  expect(status).toBe(200);
  expect(html).toContain('These bytes are not what was stored');
  expect(html).toContain('mailkeep verify --repair');
  expect(html).not.toContain('Checked when it was opened');
  expect(html).toContain('Long');
  expect(broken.errors).toEqual([]);
  const source = await broken.get(`/m/${idOf(long)}/source`);
  expect(source.status).toBe(500);
  expect(source.headers['content-security-policy']).toContain("default-src 'none'");
  expect(source.text).toContain('This page could not be made');
  expect(source.text).not.toMatch(/blob|damaged|[0-9a-f]{32}/);
  expect(broken.errors).toHaveLength(1);
});

test('a source whose end changed breaks off, so that nobody takes it for complete', async () => {
  const huge = letter('Huge', noise(120_000));
  const broken = await serve(await archiveOf({ huge }));
  flipBit(broken.dataDir, 0.9);
  await expect(broken.get(`/m/${idOf(huge)}/source`)).rejects.toThrow();
  expect(broken.errors).toHaveLength(1);
  expect((await broken.get('/mail')).status).toBe(200);
});
