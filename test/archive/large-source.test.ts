import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { afterAll, expect, test } from 'vitest';
import { noise } from './generated-mail.ts';

const top = mkdtempSync(join(tmpdir(), 'mailkeep-large-'));
afterAll(() => rmSync(top, { recursive: true }));

const MIB = 1024 * 1024;

/** A message of about 100 MB: text, then an attachment of 74 MB in lines of 76. Returns its hash and size. */
function writeLargeMail(path: string): { id: string; size: number } {
  const file = openSync(path, 'wx');
  const digest = createHash('sha256');
  let size = 0;
  const put = (bytes: Buffer | string) => {
    const buffer = Buffer.from(bytes);
    writeSync(file, buffer);
    digest.update(buffer);
    size += buffer.length;
  };
  put(
    'From: ada@example.org\r\nSubject: large\r\nContent-Type: multipart/mixed; boundary="b"\r\n\r\n',
  );
  put('--b\r\n\r\n');
  for (let i = 0; i < 20; i += 1) put('It is very large, as you will see.\r\n'.repeat(3000));
  put('--b\r\nContent-Transfer-Encoding: base64\r\n\r\n');
  const lines = 57 * 18_000;
  for (let i = 0; i < 72; i += 1) {
    put(
      noise(lines, i + 1)
        .toString('base64')
        .replace(/.{76}/g, '$&\r\n'),
    );
  }
  put('AAAA\r\n\r\n--b--\r\n');
  closeSync(file);
  return { id: digest.digest('hex'), size };
}

test('a message of 100 MB never lies in memory whole', async () => {
  const source = join(top, 'source');
  const { id, size } = writeLargeMail(source);
  expect(size).toBeGreaterThan(100_000_000);
  // Bundled beforehand, so that the process has nothing in memory but what it needs.
  const script = join(top, 'store-large-source.mjs');
  await build({
    entryPoints: [fileURLToPath(new URL('store-large-source.ts', import.meta.url))],
    bundle: true,
    platform: 'node',
    format: 'esm',
    outfile: script,
  });
  const run = promisify(execFile);
  const { stdout } = await run(process.execPath, [script, join(top, 'archive'), source]);
  const figures: unknown = JSON.parse(stdout);
  expect(figures).toMatchObject({ id, size, streamed: id, blobs: 25 });
  const { baseline, peak, sideCommits } = Object(figures);
  expect(sideCommits).toBeGreaterThan(8);
  // Windows, chunks, a batch on its way to the disk, and what the collector has not come round to: it does not grow
  // with the message. The source alone is more than 98 MiB, its attachment another 70.
  expect(peak - baseline).toBeLessThan(140 * MIB);
});
