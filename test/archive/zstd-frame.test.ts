import { randomBytes } from 'node:crypto';
import { constants, crc32, deflateSync, zstdCompressSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { CODEC, type RecordHeader, STORED_KIND } from '../../src/archive/format.ts';
import { compressPayload, inflatePayload, isSingleFrame } from '../../src/archive/payload.ts';
import { noise } from './generated-mail.ts';

const TEXT = Buffer.from('When does the ferry leave? At noon, says the harbour. '.repeat(4000));
/** Part of it compresses, so that frames have raw, run-length and compressed blocks. */
const MIXED = Buffer.concat([noise(300_000), TEXT, Buffer.alloc(400_000, 'z'), noise(5_000, 2)]);

function frame(raw: Buffer, params: Readonly<Record<number, number>> = {}, pledged = true): Buffer {
  const size = pledged ? { pledgedSrcSize: raw.length } : {};
  return zstdCompressSync(raw, { params, ...size });
}

function inflated(
  stored: Buffer,
  rawLength: number,
  codec: number = CODEC.zstd,
  kind: number = STORED_KIND.message,
) {
  const header: RecordHeader = {
    ...{ kind, codec, flags: 0, rawLength, storedLength: stored.length },
    ...{ hash: Buffer.alloc(32), crc: crc32(stored) },
  };
  return inflatePayload(header, stored);
}

function skippable(length: number): Buffer {
  const bytes = Buffer.alloc(8 + length);
  bytes.writeUInt32LE(0x184d2a50, 0);
  bytes.writeUInt32LE(length, 4);
  return bytes;
}

test.each([
  ['nothing', Buffer.alloc(0)],
  ['a byte', Buffer.from('a')],
  ['255 bytes', Buffer.alloc(255, 'ab')],
  ['256 bytes', Buffer.alloc(256, 'ab')],
  ['65,791 bytes', Buffer.alloc(65_791, 'abc')],
  ['65,792 bytes', Buffer.alloc(65_792, 'abc')],
  ['text', TEXT],
  ['blocks of every type', MIXED],
  ['4 MiB', Buffer.alloc(4 * 1024 * 1024, TEXT)],
  ['5 MiB', Buffer.alloc(5 * 1024 * 1024, TEXT)],
])('a frame of %s gives it back', (_, raw) => {
  for (const level of [1, 3, 6, 12, 19]) {
    const stored = frame(raw, { [constants.ZSTD_c_compressionLevel]: level });
    expect(inflated(stored, raw.length)?.equals(raw)).toBe(true);
  }
});

test('what the archive writes is a single frame, without a checksum', async () => {
  for (const raw of [TEXT, MIXED, Buffer.alloc(4 * 1024 * 1024, TEXT)]) {
    const { codec, stored } = await compressPayload('zstd', raw);
    expect(codec).toBe(CODEC.zstd);
    expect(isSingleFrame(stored, raw.length)).toBe(true);
    expect((stored[4] ?? 0) & 0x04).toBe(0);
    expect(inflated(stored, raw.length)?.equals(raw)).toBe(true);
  }
  expect(await compressPayload('zstd', MIXED.subarray(0, 100_000))).toMatchObject({ codec: 0 });
});

test('a frame with a checksum is read, and the checksum compared', () => {
  const stored = frame(TEXT, { [constants.ZSTD_c_checksumFlag]: 1 });
  expect(inflated(stored, TEXT.length)?.equals(TEXT)).toBe(true);
  stored[stored.length - 1] = (stored.at(-1) ?? 0) ^ 1;
  expect(inflated(stored, TEXT.length)).toBeUndefined();
});

const sound = frame(MIXED);

test.each([
  ['nothing at all', Buffer.alloc(0)],
  ['bytes behind it', Buffer.concat([sound, Buffer.from('x')])],
  ['zeros behind it', Buffer.concat([sound, Buffer.alloc(9)])],
  ['a second frame', Buffer.concat([sound, sound])],
  ['an empty second frame', Buffer.concat([sound, frame(Buffer.alloc(0))])],
  ['a skippable frame before it', Buffer.concat([skippable(4), sound])],
  ['a skippable frame behind it', Buffer.concat([sound, skippable(0)])],
  ['a skippable frame alone', skippable(MIXED.length)],
  ['bytes before it', Buffer.concat([Buffer.from('x'), sound])],
  ['zlib', deflateSync(MIXED)],
  ['another content', frame(MIXED.subarray(1))],
  ['no content size', frame(MIXED, { [constants.ZSTD_c_contentSizeFlag]: 0 })],
])('refused: %s', (_, stored) => {
  expect(inflated(stored, MIXED.length)).toBeUndefined();
});

test('a frame that was cut anywhere is refused', () => {
  for (let length = 0; length < sound.length; length += length < 64 ? 1 : 997) {
    expect(inflated(sound.subarray(0, length), MIXED.length), `${length}`).toBeUndefined();
  }
});

test('a window of more than 8 MiB is refused, whatever the content', () => {
  const raw = Buffer.alloc(9 * 1024 * 1024, 'window ');
  const withWindow = (log: number) => frame(raw, { [constants.ZSTD_c_windowLog]: log });
  expect(inflated(withWindow(23), raw.length)?.equals(raw)).toBe(true);
  // As one segment the window is the content.
  const single = withWindow(24);
  expect((single[4] ?? 0) & 0x20).toBe(0x20);
  expect(inflated(single, raw.length)).toBeUndefined();
  const large = Buffer.alloc(20 * 1024 * 1024, 'window ');
  const wide = zstdCompressSync(large, {
    params: { [constants.ZSTD_c_windowLog]: 24 },
    pledgedSrcSize: large.length,
  });
  expect(inflated(wide, large.length)).toBeUndefined();
});

test('a frame that needs a dictionary, or has reserved bits, is refused', () => {
  for (const bits of [0x01, 0x02, 0x03, 0x08]) {
    const stored = Buffer.from(sound);
    stored[4] = (stored[4] ?? 0) | bits;
    expect(inflated(stored, MIXED.length), `${bits}`).toBeUndefined();
  }
});

test('a few bytes that claim gigabytes are refused before memory is asked for', () => {
  for (const rawLength of [0xffff_ffff, 0x8000_0000, 3 * 1024 ** 3]) {
    const stored = Buffer.alloc(13);
    stored.writeUInt32LE(0xfd2fb528, 0);
    // One segment with a content size of 4 bytes, then a last block of one repeated byte.
    stored[4] = 0xa0;
    stored.writeUInt32LE(rawLength, 5);
    stored.writeUIntLE((1000 << 3) | 3, 9, 3);
    const before = process.memoryUsage().rss;
    expect(inflated(stored, rawLength)).toBeUndefined();
    expect(process.memoryUsage().rss - before).toBeLessThan(64 * 1024 * 1024);
  }
});

/** A frame of run-length blocks: 4 stored bytes for each 128 KiB. */
function bomb(rawLength: number): Buffer {
  const blocks = Math.ceil(rawLength / 131_072);
  const bytes = Buffer.alloc(10 + blocks * 4);
  bytes.writeUInt32LE(0xfd2fb528, 0);
  // A content size of 4 bytes, and a window of 1 MiB.
  bytes[4] = 0x80;
  bytes[5] = 10 << 3;
  bytes.writeUInt32LE(rawLength, 6);
  for (let i = 0; i < blocks; i += 1) {
    const length = Math.min(131_072, rawLength - i * 131_072);
    bytes.writeUIntLE((length << 3) | 2 | (i === blocks - 1 ? 1 : 0), 10 + i * 4, 3);
  }
  return bytes;
}

test.each([
  ['blob', 4 * 1024 * 1024],
  ['commit', 64 * 1024],
  ['block', 4 * 1024 * 1024],
  ['footer', 64 * 1024 * 1024],
] as const)('a %s inflates to no more than its kind can have', (name, most) => {
  const kind = STORED_KIND[name];
  for (const [codec, shrink] of [
    [CODEC.zstd, bomb],
    [CODEC.zlib, (length: number) => deflateSync(Buffer.alloc(length))],
  ] as const) {
    expect(inflated(shrink(most), most, codec, kind)?.length).toBe(most);
    expect(inflated(shrink(most + 1), most + 1, codec, kind)).toBeUndefined();
  }
});

test('run-length blocks for 629 MB are refused, whatever the kind', () => {
  const stored = bomb(629_000_000);
  expect(stored.length).toBeLessThan(20_000);
  expect(isSingleFrame(stored, 629_000_000)).toBe(true);
  const before = process.memoryUsage().rss;
  for (const kind of [1, 2, 3, 4, 5, 6, 7]) {
    expect(inflated(stored, 629_000_000, CODEC.zstd, kind), `kind ${kind}`).toBeUndefined();
  }
  expect(process.memoryUsage().rss - before).toBeLessThan(64 * 1024 * 1024);
});

test('what the archive writes is read again: the largest payloads of each kind', async () => {
  const text = (length: number) => Buffer.alloc(length, TEXT);
  for (const [kind, length] of [
    [STORED_KIND.blob, 4 * 1024 * 1024],
    // A record just too small to stand alone, put into a block that is just not full yet.
    [STORED_KIND.block, (512 + 256) * 1024 + 16],
    [STORED_KIND.message, 20 * 1024 * 1024],
    [STORED_KIND.fact, 20 * 1024 * 1024],
    // 12 million records.
    [STORED_KIND.footer, 60_000_000],
  ] as const) {
    const raw = text(length);
    for (const codec of ['zstd', 'zlib'] as const) {
      const packed = await compressPayload(codec, raw);
      expect(packed.codec).toBe(CODEC[codec]);
      const back = inflated(packed.stored, length, packed.codec, kind);
      expect(back?.equals(raw), `kind ${kind}, ${codec}`).toBe(true);
    }
  }
});

test('random damage never throws, and never gives another length', () => {
  const seed = randomBytes(4).readUInt32LE();
  let state = seed;
  const random = (below: number): number => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fff_ffff;
    return (state >> 8) % below;
  };
  const frames = [
    frame(MIXED),
    frame(TEXT, { [constants.ZSTD_c_checksumFlag]: 1 }),
    frame(TEXT.subarray(0, 900), { [constants.ZSTD_c_compressionLevel]: 19 }),
  ];
  const lengths = [MIXED.length, TEXT.length, 900];
  let refused = 0;
  for (let round = 0; round < 3_000; round += 1) {
    const which = round % frames.length;
    const rawLength = lengths[which] ?? 0;
    const bytes = Buffer.from(frames[which] ?? '');
    // Headers are where decoders decide how much to trust: every other hit is there.
    const near = random(2) === 0 ? Math.min(32, bytes.length) : bytes.length;
    for (let hits = 1 + random(3); hits > 0; hits -= 1) {
      const at = random(near);
      bytes[at] = (bytes[at] ?? 0) ^ (1 << random(8));
    }
    const cut = random(4) === 0 ? bytes.subarray(0, random(bytes.length)) : bytes;
    const raw = inflated(cut, rawLength);
    if (raw === undefined) refused += 1;
    else expect(raw.length, `seed ${seed}, round ${round}`).toBe(rawLength);
  }
  expect(refused, `seed ${seed}`).toBeGreaterThan(500);
});

test('random bytes behind the magic never throw', () => {
  for (let round = 0; round < 3_000; round += 1) {
    const bytes = randomBytes(5 + (round % 200));
    bytes.writeUInt32LE(0xfd2fb528, 0);
    const raw = inflated(bytes, round % 5_000);
    expect(raw === undefined || raw.length === round % 5_000, bytes.toString('hex')).toBe(true);
  }
});
