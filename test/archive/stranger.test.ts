import { execFile, spawnSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { constants, deflateSync, zstdCompressSync } from 'node:zlib';
import { afterAll, describe, expect, test } from 'vitest';
import { canonicalJson, readRecordHeader, writeRecordHeader } from '../../src/archive/format.ts';
import { sealSegment } from '../../src/archive/seal.ts';
import { repairLog } from '../../src/verify/repair-archive.ts';
import { absent } from '../peers/programs.ts';
import { type PythonWithZstd, pythonsWithZstd, pythonWithoutZstd } from '../peers/python-zstd.ts';
import { mailWithAttachment, noise } from './generated-mail.ts';
import { Positions } from './positions.ts';
import { appeared, DIR, fill, hotPath, newLog, writeBatches } from './sample-log.ts';
import type { SimulatedDisk } from './simulated-disk.ts';

const reader = fileURLToPath(new URL('../../docs/read_archive.py', import.meta.url));

const top = mkdtempSync(join(tmpdir(), 'mailkeep-stranger-'));
afterAll(() => rmSync(top, { recursive: true }));

const without = pythonWithoutZstd(top);
const zstdWays = [...pythonsWithZstd(top)].map(([name, way]) => ({ name, ...way }));
const ways = [
  { name: 'nothing but the standard library', codec: 'zlib' as const, ...without },
  ...zstdWays.map((way) => ({ codec: 'zstd' as const, ...way })),
];

/** Copies a simulated archive to the real disk. */
function copyOf(disk: SimulatedDisk, name: string): string {
  for (const path of disk.paths()) {
    const copy = join(top, name, path.slice(DIR.length));
    mkdirSync(dirname(copy), { recursive: true });
    writeFileSync(copy, disk.read(path));
  }
  return join(top, name);
}

async function readByStranger(disk: SimulatedDisk, name: string, { python, env }: PythonWithZstd) {
  const { stdout } = await promisify(execFile)(
    python,
    [reader, copyOf(disk, name), join(top, `${name} out`)],
    { env, maxBuffer: 1 << 26 },
  );
  const lines: unknown[] = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  return { said: lines.slice(0, -1), whole: lines.at(-1) };
}

describe.skipIf(absent('python3')).each(ways)('a stranger with $name reads, of $codec,', (way) => {
  const { codec } = way;
  test('hot and sealed segments alike, down to purged records and a torn tail', async () => {
    const { disk, writer, known } = await newLog();
    const raws = await writeBatches(writer, known, 10);
    const large = [
      mailWithAttachment(noise(7_000_000)),
      Buffer.from(`Subject: long\n\n${'a long text runs on\n'.repeat(100_000)}`),
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
    const hot = await readByStranger(disk, `${way.name} hot`, way);
    expect(hot.whole).toEqual(expected.whole);
    expect(hot.said.filter((line) => 'message' in Object(line))).toEqual(expected.messages);
    expect(hot.said).toContainEqual({ fact: appeared(1, raws[0] ?? Buffer.alloc(0)) });

    await sealSegment({ dir: DIR, segment: 1, files: disk.files, codec });
    disk.delete(hotPath(1));
    expect(await readByStranger(disk, `${way.name} sealed`, way)).toEqual(hot);
    for (const raw of raws) {
      const extracted = readFileSync(
        join(top, `${way.name} sealed out`, `${hash('sha256', raw)}.eml`),
      );
      expect(extracted.equals(raw)).toBe(true);
    }

    const fact = hash('sha256', canonicalJson(appeared(1, raws[0] ?? Buffer.alloc(0))));
    await sealSegment({
      dir: DIR,
      segment: 1,
      files: disk.files,
      codec,
      purge: (record) => record.hash.toString('hex') === fact,
    });
    const purged = await readByStranger(disk, `${way.name} purged`, way);
    expect(purged.whole).toEqual({ ...expected.whole, purged: 1 });
    expect(purged.said).toHaveLength(hot.said.length - 1);
  });

  test('mended segments, and messages whose bytes came back in a later record', async () => {
    const { disk, writer, known } = await newLog();
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
      codec,
      purge: (record) => record.hash.toString('hex') === gone,
    });
    disk.delete(hotPath(1));
    const without = await readByStranger(disk, `${way.name} without`, way);
    expect(without.said).toContainEqual({ gone: hash('sha256', large) });

    const batch = writer.newBatch();
    batch.addSource(large, hash('sha256', large));
    known.fold(await writer.commit(batch));
    await writer.close();
    const sealed = `${DIR}/log/0000000001.2.seg`;
    const bytes = disk.read(sealed);
    bytes[200] = (bytes[200] ?? 0) ^ 2;
    disk.put(sealed, bytes);
    const [mended] = await repairLog({
      dir: DIR,
      files: disk.files,
      copies: [],
      damaged: [1],
      expected: known.reached,
    });
    expect(mended).toMatchObject({ segment: 1, generation: 3 });
    const repaired = await readByStranger(disk, `${way.name} repaired`, way);
    const messages = [...raws, large].map((raw) => ({
      message: hash('sha256', raw),
      size: raw.length,
    }));
    for (const message of messages) expect(repaired.said).toContainEqual(message);
    expect(repaired.said.filter((line) => 'gone' in Object(line))).toEqual([]);
  });
});

/** A frame of run-length blocks with a window of 1 KiB shifted by `window`; one segment when that is undefined. */
function runs(size: number, window: number | undefined): Buffer {
  const bytes = [0x28, 0xb5, 0x2f, 0xfd, window === undefined ? 0xa0 : 0x80];
  if (window !== undefined) bytes.push(window << 3);
  const blocks = Math.ceil(size / 131_072);
  const head = Buffer.alloc(bytes.length + 4 + blocks * 4, Buffer.from(bytes));
  head.writeUInt32LE(size, bytes.length);
  for (let i = 0; i < blocks; i += 1) {
    const length = Math.min(131_072, size - i * 131_072);
    const block = (length << 3) | 2 | (i === blocks - 1 ? 1 : 0);
    head.writeUIntLE(block, bytes.length + 4 + i * 4, 3);
    head[bytes.length + 4 + i * 4 + 3] = 0x7a;
  }
  return head;
}

const INFLATE = `
import sys; sys.path.insert(0, sys.argv[1]); import read_archive
print(len(read_archive.inflate(int(sys.argv[2]), sys.stdin.buffer.read(), int(sys.argv[3]))))`;

describe.skipIf(absent('python3'))('a stranger refuses', () => {
  const text = Buffer.from('a text that repeats '.repeat(20_000));
  const run = (
    { python, env }: PythonWithZstd,
    args: readonly string[],
    input: Buffer = Buffer.alloc(0),
  ) => {
    const { status, stdout, stderr } = spawnSync(python, args, { env, input });
    return { status, stdout: String(stdout), stderr: String(stderr) };
  };
  const inflate = (way: PythonWithZstd, codec: number, stored: Buffer, size = text.length) =>
    run(way, ['-c', INFLATE, dirname(reader), `${codec}`, `${size}`], stored);

  const frame = zstdCompressSync(text);
  const zeros = zstdCompressSync(Buffer.alloc(50_000_000));
  const claiming = Buffer.from(zeros);
  claiming.writeUInt32LE(text.length, (claiming.readUInt8(4) & 0x20) === 0 ? 6 : 5);
  const damages: [string, Buffer<ArrayBuffer>][] = [
    ['bytes behind it', Buffer.concat([frame, Buffer.from('more')])],
    ['a second frame behind it', Buffer.concat([frame, frame])],
    ['a skippable frame before it', Buffer.concat([Buffer.from('502a4d1800000000', 'hex'), frame])],
    ['its end cut off', frame.subarray(0, -1)],
    ['its header cut off', frame.subarray(0, 5)],
    ['no bytes', Buffer.alloc(0)],
    ['another size in its header', zeros],
    ['more bytes than its header states', claiming],
    ['another size in the record', zstdCompressSync(text.subarray(1))],
  ];

  describe.each(zstdWays)('with $name', (way) => {
    test('no intact zstd frame, with a checksum or without', () => {
      const checked = zstdCompressSync(text, { params: { [constants.ZSTD_c_checksumFlag]: 1 } });
      for (const stored of [frame, checked]) {
        const { status, stdout } = inflate(way, 3, stored);
        expect([status, stdout]).toEqual([0, `${text.length}\n`]);
      }
    });

    test('a window above 8 MiB, also of a single segment, and a frame without a content size', () => {
      const size = 400_000;
      const allowed = inflate(way, 3, runs(size, 13), size);
      expect([allowed.status, allowed.stdout]).toEqual([0, `${size}\n`]);
      for (const [stored, length] of [
        [runs(size, 14), size],
        [runs(size, 21), size],
        [runs(9_000_000, undefined), 9_000_000],
        // Magic, a descriptor without a size, a window of 1 KiB, and an empty last block.
        [Buffer.from('28b52ffd0000010000', 'hex'), 0],
      ] as const) {
        expect(inflate(way, 3, stored, length).stderr).toContain('AssertionError: zstd frame');
      }
    });

    test.each(damages)('a zstd frame with %s', (_, stored) => {
      const { status, stdout, stderr } = inflate(way, 3, stored);
      expect([status, stdout]).toEqual([1, '']);
      expect(stderr).toMatch(/AssertionError: zstd|ZstdError/);
    });
  });

  test('a zlib stream with bytes behind it, without its end, or longer than it should be', () => {
    const stream = deflateSync(text);
    expect(inflate(without, 1, stream).stdout).toBe(`${text.length}\n`);
    for (const [stored, size] of [
      [Buffer.concat([stream, Buffer.from('more')]), text.length],
      [stream.subarray(0, -1), text.length],
      [stream, text.length - 1],
    ] as const) {
      expect(inflate(without, 1, stored, size).stderr).toMatch(/AssertionError: (zlib stream|raw)/);
    }
  });

  test('payloads larger than a record of their kind can have', async () => {
    const { disk, writer } = await newLog();
    await writeBatches(writer, new Positions(), 1);
    await writer.rollIfLarger(0);
    await sealSegment({ dir: DIR, segment: 1, files: disk.files, codec: 'zlib' });
    disk.delete(hotPath(1));
    const path = `${DIR}/log/0000000001.2.seg`;
    const bytes = disk.read(path);
    const space = { archiveId: Buffer.from(bytes.subarray(8, 16)), segment: 1 };
    const block = readRecordHeader(bytes, 64, space, 64);
    if (block === undefined) throw new Error('no record');
    writeRecordHeader(bytes, 64, { ...block, rawLength: 5 * 1024 * 1024 }, space, 64);
    disk.put(path, bytes);
    expect(run(without, [reader, copyOf(disk, 'large block')]).stderr).toMatch(
      /assert flags.*\n.*\n?AssertionError: raw length/s,
    );
  });

  test('payloads of another codec', () => {
    expect(inflate(without, 2, text).stderr).toContain('AssertionError: codec');
  });

  test('a zstd archive where nothing decompresses it, with the names of what would', async () => {
    const { disk, writer } = await newLog();
    await writeBatches(writer, new Positions(), 3);
    await writer.rollIfLarger(0);
    await sealSegment({ dir: DIR, segment: 1, files: disk.files, codec: 'zstd' });
    const { status, stderr } = run(without, [reader, copyOf(disk, 'compressed')]);
    expect(status).toBe(1);
    expect(stderr).toMatch(/^This archive is compressed with zstd\. .*python3-zstandard.*\n$/);
  });

  test('an archive of a newer format', () => {
    const dir = join(top, 'newer');
    mkdirSync(join(dir, 'log'), { recursive: true });
    writeFileSync(join(dir, 'FORMAT'), 'mailkeep archive 3\n');
    expect(run(without, [reader, dir]).stderr).toContain('AssertionError: format');
  });
});
