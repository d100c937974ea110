import { execFile } from 'node:child_process';
import { hash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, describe, expect, test } from 'vitest';
import { canonicalJson } from '../../src/archive/facts.ts';
import { sealSegment } from '../../src/archive/seal-segment.ts';
import { mendLog } from '../../src/verify/repair/mend-log.ts';
import { absent } from '../peers/programs.ts';
import { mailWithAttachment, noise } from './generated-mail.ts';
import { Positions } from './positions.ts';
import { appeared, DIR, fill, hotPath, openOn, writeBatches } from './sample-log.ts';
import { SimulatedDisk } from './simulated-disk.ts';

const reader = fileURLToPath(new URL('../../docs/read_archive.py', import.meta.url));

const top = mkdtempSync(join(tmpdir(), 'mailkeep-stranger-'));
afterAll(() => rmSync(top, { recursive: true }));

/** Copies a simulated archive to the real disk and has it read there. */
async function readByStranger(disk: SimulatedDisk, name: string) {
  for (const path of disk.paths()) {
    const copy = join(top, name, path.slice(DIR.length));
    mkdirSync(dirname(copy), { recursive: true });
    writeFileSync(copy, disk.read(path));
  }
  const { stdout } = await promisify(execFile)(
    'python3',
    [reader, join(top, name), join(top, `${name} out`)],
    { maxBuffer: 1 << 26 },
  );
  const lines: unknown[] = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  return { said: lines.slice(0, -1), whole: lines.at(-1) };
}

describe.skipIf(absent('python3'))('a stranger with the format document reads', () => {
  test('hot and sealed segments alike, down to purged records and a torn tail', async () => {
    const disk = new SimulatedDisk();
    const writer = await openOn(disk.files);
    const known = new Positions();
    const raws = await writeBatches(writer, known, 10);
    const large = [
      mailWithAttachment(noise(7_000_000)),
      Buffer.from(`Subject: long\n\n${'a long text goes on\n'.repeat(100_000)}`),
    ];
    known.fold(await writer.commit(fill(writer.newBatch(), large, known, 100)));
    await writer.rollIfLarger(0);
    raws.push(...large, ...(await writeBatches(writer, known, 2, 200)));
    const torn = Buffer.concat([disk.read(hotPath(2)), Buffer.from('cut o')]);
    disk.put(hotPath(2), torn);

    const expected = {
      whole: { commits: 13, hash: known.reached?.hash, purged: 0, tail: 0 },
      messages: raws.map((raw) => ({ message: hash('sha256', raw), size: raw.length })),
    };
    const hot = await readByStranger(disk, 'hot');
    expect(hot.whole).toEqual(expected.whole);
    expect(hot.said.filter((line) => 'message' in Object(line))).toEqual(expected.messages);
    expect(hot.said).toContainEqual({ fact: appeared(1, raws[0] ?? Buffer.alloc(0)) });

    await sealSegment({ dir: DIR, segment: 1, files: disk.files, codec: 'zlib' });
    disk.delete(hotPath(1));
    expect(await readByStranger(disk, 'sealed')).toEqual(hot);
    for (const raw of raws) {
      const extracted = readFileSync(join(top, 'sealed out', `${hash('sha256', raw)}.eml`));
      expect(extracted.equals(raw)).toBe(true);
    }

    const fact = hash('sha256', canonicalJson(appeared(1, raws[0] ?? Buffer.alloc(0))));
    await sealSegment({
      dir: DIR,
      segment: 1,
      files: disk.files,
      codec: 'zlib',
      purge: (record) => record.hash.toString('hex') === fact,
    });
    const purged = await readByStranger(disk, 'purged');
    expect(purged.whole).toEqual({ ...expected.whole, purged: 1 });
    expect(purged.said).toHaveLength(hot.said.length - 1);
  });

  test('mended segments, and messages whose bytes came back in a later record', async () => {
    const disk = new SimulatedDisk();
    const writer = await openOn(disk.files);
    const known = new Positions();
    const raws = await writeBatches(writer, known, 3);
    const large = mailWithAttachment(noise(90_000));
    known.fold(await writer.commit(fill(writer.newBatch(), [large], known, 50)));
    await writer.rollIfLarger(0);
    const blob = known.batches[3]?.records.find(({ kind }) => kind === 'blob');
    const gone = blob?.kind === 'blob' ? blob.hash : '';
    await sealSegment({
      dir: DIR,
      segment: 1,
      files: disk.files,
      codec: 'zlib',
      purge: (record) => record.hash.toString('hex') === gone,
    });
    disk.delete(hotPath(1));
    const without = await readByStranger(disk, 'without');
    expect(without.said).toContainEqual({ gone: hash('sha256', large) });

    const batch = writer.newBatch();
    batch.addSource(large, hash('sha256', large));
    known.fold(await writer.commit(batch));
    await writer.close();
    const sealed = `${DIR}/log/0000000001.2.seg`;
    const bytes = disk.read(sealed);
    bytes[200] = (bytes[200] ?? 0) ^ 2;
    disk.put(sealed, bytes);
    const [mended] = await mendLog({
      dir: DIR,
      files: disk.files,
      copies: [],
      damaged: [1],
      expected: known.reached,
    });
    expect(mended).toMatchObject({ segment: 1, generation: 3 });
    const repaired = await readByStranger(disk, 'repaired');
    const messages = [...raws, large].map((raw) => ({
      message: hash('sha256', raw),
      size: raw.length,
    }));
    for (const message of messages) expect(repaired.said).toContainEqual(message);
    expect(repaired.said.filter((line) => 'gone' in Object(line))).toEqual([]);
  });
});
