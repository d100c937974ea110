import { crc32, deflateSync } from 'node:zlib';

/** Pictures as files, small and complete, or with headers that promise more. */

function chunk(kind: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(kind, 'latin1'), data]);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(data.length);
  const check = Buffer.alloc(4);
  check.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, check]);
}

/** A grey PNG; only its header knows of a size other than the data's. */
export function png(width: number, height: number, more: readonly Buffer[] = []): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.writeUInt8(8, 8);
  const rows = Math.min(height, 64);
  const pixels = Buffer.alloc(rows * (Math.min(width, 64) + 1), 0x80);
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    chunk('IHDR', header),
    ...more,
    chunk('IDAT', deflateSync(pixels)),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

/** The same with two frames. */
export function movingPng(): Buffer {
  return png(8, 8, [chunk('acTL', Buffer.from([0, 0, 0, 2, 0, 0, 0, 0]))]);
}

/** A GIF with frames of these places and sizes on a screen of eight by eight. */
export function gif(
  frames: readonly (readonly [x: number, y: number, w: number, h: number])[],
): Buffer {
  const head = Buffer.from('GIF89a\x08\0\x08\0\x80\0\0\0\0\0\xff\xff\xff', 'latin1');
  const parts = frames.map((sizes) => {
    const frame = Buffer.alloc(10);
    frame.writeUInt8(0x2c, 0);
    for (const [i, size] of sizes.entries()) frame.writeUInt16LE(size, 1 + 2 * i);
    return Buffer.concat([
      Buffer.from([0x21, 0xf9, 4, 0, 0, 0, 0, 0]),
      frame,
      Buffer.from([2, 2, 0x4c, 0x01, 0]),
    ]);
  });
  return Buffer.concat([head, ...parts, Buffer.from(';')]);
}

/** The beginning of a JPEG: an APP0, some fill bytes, and a frame header. */
export function jpeg(width: number, height: number, marker = 0xc0): Buffer {
  const frame = Buffer.from([0xff, 0xff, marker, 0, 11, 8, 0, 0, 0, 0, 1, 1, 0x11, 0]);
  frame.writeUInt16BE(height, 6);
  frame.writeUInt16BE(width, 8);
  return Buffer.concat([
    Buffer.from([0xff, 0xd8, 0xff, 0xe0, 0, 6, 1, 2, 3, 4]),
    frame,
    Buffer.from([0xff, 0xda, 0, 2, 0xff, 0xd9]),
  ]);
}

function riff(kind: string, data: Buffer): Buffer {
  const size = Buffer.alloc(4);
  size.writeUInt32LE(data.length);
  const body = Buffer.concat([Buffer.from(`WEBP${kind}`, 'latin1'), size, data]);
  const whole = Buffer.alloc(4);
  whole.writeUInt32LE(body.length);
  return Buffer.concat([Buffer.from('RIFF'), whole, body]);
}

export function webp(
  kind: 'VP8 ' | 'VP8L' | 'VP8X',
  width: number,
  height: number,
  flags = 0,
): Buffer {
  const data = Buffer.alloc(16);
  if (kind === 'VP8 ') {
    data.writeUIntBE(0x9d012a, 3, 3);
    data.writeUInt16LE(width, 6);
    data.writeUInt16LE(height, 8);
  } else if (kind === 'VP8L') {
    data.writeUInt8(0x2f, 0);
    data.writeUInt32LE(width - 1 + (height - 1) * 2 ** 14, 1);
  } else {
    data.writeUInt8(flags, 0);
    data.writeUIntLE(width - 1, 4, 3);
    data.writeUIntLE(height - 1, 7, 3);
  }
  return riff(kind, data);
}

export function bmp(width: number, height: number, header = 40, compression = 0): Buffer {
  const bytes = Buffer.alloc(14 + Math.max(header, 40));
  bytes.write('BM', 'latin1');
  bytes.writeUInt32LE(header, 14);
  if (header === 12) {
    bytes.writeUInt16LE(width, 18);
    bytes.writeUInt16LE(height, 20);
  } else {
    bytes.writeInt32LE(width, 18);
    bytes.writeInt32LE(height, 22);
    bytes.writeUInt32LE(compression, 30);
  }
  return bytes;
}
