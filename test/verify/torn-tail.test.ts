import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { mailWithAttachment, noise } from '../archive/generated-mail.ts';
import { sampleMail } from '../archive/sample-log.ts';
import { GrownArchive, verified } from './grown-archive.ts';

const PAGE = 4096;
const BYTES = noise(60_000, 1);
const archive = new GrownArchive();
const earlier = `${archive.dir}-earlier`;
beforeAll(async () => {
  await archive.grow(
    [3, 4, 5].map((n) => sampleMail(n)),
    false,
  );
  cpSync(archive.dir, earlier, { recursive: true });
  await archive.grow([mailWithAttachment(BYTES)], false);
});
afterAll(() => {
  archive.remove();
  rmSync(earlier, { recursive: true, force: true });
});

test('a message that was being written when the power went is neither counted nor missed', async () => {
  const name = join('log', '0000000001.1.seg');
  const before = readFileSync(join(earlier, name)).length;
  // Its commit was cut off, and a page of its attachment never came to the disk.
  const torn = readFileSync(join(archive.dir, name)).subarray(0, -8);
  const at = torn.indexOf(BYTES.subarray(0, 100));
  expect(at).toBeGreaterThan(before);
  const page = Math.ceil(at / PAGE) * PAGE;
  torn.fill(0, page, page + PAGE);
  writeFileSync(join(earlier, name), torn);
  expect(await verified(earlier)).toMatchObject({
    ...{ found: 0, findings: [], catalog: 'equal' },
    ...{ messages: 3, rebuilt: 3 },
  });
});
