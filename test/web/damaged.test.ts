import { createHash } from 'node:crypto';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { archiveOf, letter, Served } from './served.ts';

const idOf = (source: string) => createHash('sha256').update(source).digest('hex');

/** Text that hardly compresses, the same each time. */
function noise(lines: number): string {
  const hash = (i: number) => createHash('sha512').update(String(i)).digest('base64url');
  return Array.from({ length: lines }, (_, i) => hash(i)).join('\r\n');
}

/** A server over an archive of one message, with one byte of its log flipped at a share of its length. */
async function withFlippedByte(
  source: string,
  share: number,
  act: (broken: Served, headers: Record<string, string>, flip: () => void) => Promise<void>,
): Promise<void> {
  const data = await archiveOf({ source });
  const broken = await new Served().start(data);
  try {
    const flip = (): void => {
      const [segment = ''] = globSync('log/*.seg', { cwd: data });
      const file = path.join(data, segment);
      const bytes = readFileSync(file);
      const at = Math.floor(bytes.length * share);
      bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
      writeFileSync(file, bytes);
    };
    await act(broken, { cookie: await broken.signIn() }, flip);
  } finally {
    await broken.close();
  }
}

test('a message whose bytes changed is reported, and its source is not sent', async () => {
  const long = letter('Long', noise(3_000));
  await withFlippedByte(long, 0.5, async (broken, headers, flip) => {
    const whole = await broken.ask(`/m/${idOf(long)}`, { headers });
    expect(whole.text).toContain('Checked when it was opened');
    flip();
    const { status, text: html } = await broken.ask(`/m/${idOf(long)}`, { headers });
    expect(status).toBe(200);
    expect(html).toContain('These bytes are not what was stored');
    expect(html).toContain('mailkeep verify --repair');
    expect(html).not.toContain('Checked when it was opened');
    expect(html).toContain('Long');
    expect(broken.errors).toEqual([]);
    const source = await broken.ask(`/m/${idOf(long)}/source`, { headers });
    expect(source.status).toBe(500);
    expect(source.headers['content-security-policy']).toContain("default-src 'none'");
    expect(source.text).toContain('This page could not be made');
    expect(source.text).not.toMatch(/blob|damaged|[0-9a-f]{32}/);
    expect(broken.errors).toHaveLength(1);
  });
});

test('a source whose end changed breaks off, so that nobody takes it for complete', async () => {
  const huge = letter('Huge', noise(120_000));
  await withFlippedByte(huge, 0.9, async (broken, headers, flip) => {
    flip();
    await expect(broken.ask(`/m/${idOf(huge)}/source`, { headers })).rejects.toThrow();
    expect(broken.errors).toHaveLength(1);
    expect((await broken.ask('/mail', { headers })).status).toBe(200);
  });
});
