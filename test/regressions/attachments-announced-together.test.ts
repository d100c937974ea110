import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { seeded } from '../bench/seeded.ts';
import { jsonLines, mailkeep } from '../cli/child.ts';
import { attached, html, multipart, type PartSpec, parts, text } from '../mime/compose.ts';

/** The parser announces all attachments of a piece of the source before it hands out the bytes of the first. */

interface Sample {
  readonly source: Buffer;
  readonly files: ReadonlyMap<string, Buffer>;
}

const seed = Number(process.env.MAILKEEP_SEED ?? 17);

async function imported(source: Buffer) {
  const work = mkdtempSync(path.join(tmpdir(), 'mailkeep-together-'));
  const file = path.join(work, 'letter.eml');
  writeFileSync(file, source);
  const data = path.join(work, 'data');
  expect((await mailkeep(['import', file, '--mailbox', 't', '--data', data])).code).toBe(0);
  const { stdout } = await mailkeep(['list', '--json', '--data', data]);
  const [line] = jsonLines(stdout);
  return { data, id: String(Object(line).id), target: path.join(work, 'saved') };
}

const contentsOf = (folder: string) =>
  new Map(readdirSync(folder).map((name) => [name, readFileSync(path.join(folder, name))]));

/** A message with so many files: some empty, some large, some within a multipart of their own, text between them. */
function sample(count: number, number: number): Sample {
  const random = seeded(seed, 'attachments', number).next;
  const files = new Map<string, Buffer>();
  const specs: PartSpec[] = [text('A letter.')];
  let nested: PartSpec[] = [];
  for (let i = 0; i < count; i++) {
    const large = random() < 0.05;
    const bytes = Buffer.alloc(Math.floor(random() ** 3 * (large ? 400_000 : 3000)));
    for (let at = 0; at < bytes.length; at += 7) bytes[at] = Math.floor(random() * 256);
    const name = `file-${i}.bin`;
    files.set(name, bytes);
    const spec = attached(bytes, name, 'application/octet-stream');
    if (random() < 0.3) nested.push(spec);
    else specs.push(spec);
    if (random() < 0.1) specs.push(html('<p>between</p>'));
    if (nested.length > 4) {
      specs.push({
        headers: { 'Content-Type': `multipart/mixed; boundary="in-${i}"` },
        body: parts(`in-${i}`, nested),
      });
      nested = [];
    }
  }
  return { source: multipart('mixed', [...specs, ...nested]), files };
}

test.each([
  [1, 1],
  [16, 2],
  [17, 3],
  [33, 4],
  [120, 5],
  [200, 6],
])('a message with %i attachments is saved whole', async (count, number) => {
  const { source, files } = sample(count, number);
  const { data, id, target } = await imported(source);
  const { code, stderr } = await mailkeep(['attachments', id, '--save', target, '--data', data]);
  expect([code, stderr], `seed ${seed}`).toEqual([0, '']);
  expect(contentsOf(target), `seed ${seed}`).toEqual(files);
});

test('forty files of one name are saved under forty names', async () => {
  const contents = Array.from({ length: 40 }, (_, i) => Buffer.from(`content ${i}`));
  const { data, id, target } = await imported(
    multipart(
      'mixed',
      contents.map((bytes, i) => attached(bytes, i % 2 ? 'SCAN.PDF' : 'scan.pdf', 'image/x-scan')),
    ),
  );
  const { code } = await mailkeep(['attachments', id, '--save', target, '--data', data]);
  expect(code).toBe(0);
  const saved = [...contentsOf(target).values()].map(String).sort();
  expect(saved).toEqual(contents.map(String).sort());
});

test('a file that cannot be written takes no other file with it', async () => {
  const small = Array.from({ length: 20 }, (_, i) => Buffer.from(`small ${i}`));
  const files = [...small.slice(0, 3), Buffer.alloc(3_000_000, 'large'), ...small.slice(3)];
  const { data, id, target } = await imported(
    multipart(
      'mixed',
      files.map((bytes, i) => attached(bytes, `${i}.bin`, 'application/octet-stream')),
    ),
  );
  const { code, stderr } = await mailkeep(['attachments', id, '--save', target, '--data', data], {
    // No file may become larger than one megabyte.
    under: ['sh', '-c', 'ulimit -f 2048; exec "$@"', 'sh'],
  });
  expect(code).toBe(1);
  expect(stderr).toContain('Not saved: 4 3.bin.');
  expect(stderr).toMatch(/3\.bin cannot be written: /);
  const saved = [...contentsOf(target).values()].map(String).sort();
  expect(saved).toEqual(small.map(String).sort());
});

test('a message that breaks off keeps the files before, and says which are missing', async () => {
  const files = Array.from({ length: 30 }, (_, i) => Buffer.alloc(i * 1000, `${i} `));
  const { data, id, target } = await imported(
    multipart('mixed', [
      ...files.map((bytes, i) => attached(bytes, `${i}.bin`, 'application/octet-stream')),
      ...Array.from({ length: 2100 }, () => text('y')),
      attached(Buffer.from('late'), 'late.bin', 'application/octet-stream'),
    ]),
  );
  const { code, stderr } = await mailkeep(['attachments', id, '--save', target, '--data', data]);
  expect(code).toBe(1);
  expect(stderr).toContain('cannot be read as mail (parts)');
  expect(contentsOf(target)).toEqual(new Map(files.map((bytes, i) => [`${i}.bin`, bytes])));
});
