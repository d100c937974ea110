/** Image types that browsers display natively and that contain nothing else. */
export type ImageType = 'image/png' | 'image/jpeg' | 'image/gif' | 'image/webp' | 'image/bmp';

interface PictureHeader {
  readonly type: ImageType;
  readonly width: number;
  readonly height: number;
  /** True if the image has more than one frame. */
  readonly moves: boolean;
}

/** Limits for a displayed image: bytes, and pixels per frame. */
export const MAX_IMAGE_BYTES = 2 * 1024 * 1024;
export const MAX_POINTS = 24_000_000;

/**
 * Returns the type of a displayable image, based on its headers. Returns undefined for other formats, and for images
 * that are truncated, animated or too large.
 *
 * @param bytes the whole file
 */
export function displayableImageType(bytes: Uint8Array): ImageType | undefined {
  if (bytes.byteLength > MAX_IMAGE_BYTES) return undefined;
  const header = readImageHeader(bytes);
  if (header === undefined || header.moves) return undefined;
  const points = header.width * header.height;
  return points > 0 && points <= MAX_POINTS ? header.type : undefined;
}

/** Returns undefined for other formats, or if the bytes end before the dimensions. */
export function readImageHeader(bytes: Uint8Array): PictureHeader | undefined {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  try {
    for (const read of [png, jpeg, gif, webp, bmp]) {
      const header = read(view);
      if (header !== undefined) return header;
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  return undefined;
}

/** W3C PNG, 5.2 and 11.2.1. An animation has an acTL chunk before the first IDAT. */
function png(bytes: Buffer): PictureHeader | undefined {
  if (!startsWith(bytes, '\x89PNG\r\n\x1a\n') || ascii(bytes, 12, 4) !== 'IHDR') return undefined;
  const header = { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) };
  let moves = false;
  for (let at = 8; at < bytes.length; at += 12 + bytes.readUInt32BE(at)) {
    const kind = ascii(bytes, at + 4, 4);
    if (kind === 'acTL') moves = true;
    if (kind === 'IDAT') break;
  }
  return { type: 'image/png', ...header, moves };
}

/** ITU T.81, B.1.1 and B.2.2. Reads segments up to the only frame header. */
function jpeg(bytes: Buffer): PictureHeader | undefined {
  if (!startsWith(bytes, '\xff\xd8\xff')) return undefined;
  for (let at = 2; ; ) {
    // Like libjpeg, skip stray bytes, fill bytes and stuffed zeros between segments.
    while (bytes.readUInt8(at) !== 0xff) at += 1;
    while (bytes.readUInt8(at) === 0xff) at += 1;
    const marker = bytes.readUInt8(at);
    at += 1;
    // A stuffed zero, or a marker without a length.
    if (marker === 0 || marker === 0x01 || (marker >= 0xd0 && marker <= 0xd7)) continue;
    if (marker === 0xd8 || marker === 0xd9 || marker === 0xda) return undefined;
    if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) {
      const [height, width] = [bytes.readUInt16BE(at + 3), bytes.readUInt16BE(at + 5)];
      return { type: 'image/jpeg', width, height, moves: false };
    }
    at += Math.max(2, bytes.readUInt16BE(at));
  }
}

/** GIF 89a. Each frame has a position, which can be outside the screen. */
function gif(bytes: Buffer): PictureHeader | undefined {
  if (!startsWith(bytes, 'GIF87a') && !startsWith(bytes, 'GIF89a')) return undefined;
  let width = bytes.readUInt16LE(6);
  let height = bytes.readUInt16LE(8);
  let frames = 0;
  let at = 13 + tableBytes(bytes.readUInt8(10));
  // Browsers show the available part of a truncated file.
  while (at < bytes.length && bytes.readUInt8(at) !== 0x3b) {
    const block = bytes.readUInt8(at);
    if (block === 0x2c) {
      frames += 1;
      width = Math.max(width, bytes.readUInt16LE(at + 1) + bytes.readUInt16LE(at + 5));
      height = Math.max(height, bytes.readUInt16LE(at + 3) + bytes.readUInt16LE(at + 7));
      at += 11 + tableBytes(bytes.readUInt8(at + 9));
    } else if (block === 0x21) at += 2;
    else return undefined;
    while (at < bytes.length && bytes.readUInt8(at) !== 0) at += 1 + bytes.readUInt8(at);
    at += 1;
  }
  return frames === 0 ? undefined : { type: 'image/gif', width, height, moves: frames > 1 };
}

function tableBytes(flags: number): number {
  return (flags & 0x80) === 0 ? 0 : 3 * 2 ** ((flags & 7) + 1);
}

/** RFC 9649, 2.3 to 2.7. */
function webp(bytes: Buffer): PictureHeader | undefined {
  if (!startsWith(bytes, 'RIFF') || ascii(bytes, 8, 4) !== 'WEBP') return undefined;
  const type = 'image/webp';
  switch (ascii(bytes, 12, 4)) {
    case 'VP8 ': {
      if (bytes.readUIntBE(23, 3) !== 0x9d012a) return undefined;
      const [width, height] = [bytes.readUInt16LE(26) & 0x3fff, bytes.readUInt16LE(28) & 0x3fff];
      return { type, width, height, moves: false };
    }
    case 'VP8L': {
      if (bytes.readUInt8(20) !== 0x2f) return undefined;
      const bits = bytes.readUInt32LE(21);
      const [width, height] = [(bits & 0x3fff) + 1, ((bits >>> 14) & 0x3fff) + 1];
      return { type, width, height, moves: false };
    }
    case 'VP8X': {
      const [width, height] = [bytes.readUIntLE(24, 3) + 1, bytes.readUIntLE(27, 3) + 1];
      return { type, width, height, moves: (bytes.readUInt8(20) & 2) !== 0 };
    }
    default:
      return undefined;
  }
}

/** An OS/2 1.x header has 12 bytes, a Windows header at least 40. A negative height means top to bottom. */
function bmp(bytes: Buffer): PictureHeader | undefined {
  if (!startsWith(bytes, 'BM')) return undefined;
  const type = 'image/bmp';
  const header = bytes.readUInt32LE(14);
  if (header === 12)
    return { type, width: bytes.readUInt16LE(18), height: bytes.readUInt16LE(20), moves: false };
  if (![40, 52, 56, 108, 124].includes(header)) return undefined;
  // Types 4 and 5 embed a JPEG or PNG with its own dimensions.
  if ([4, 5].includes(bytes.readUInt32LE(30))) return undefined;
  const [width, height] = [bytes.readInt32LE(18), Math.abs(bytes.readInt32LE(22))];
  return { type, width, height, moves: false };
}

function startsWith(bytes: Buffer, magic: string): boolean {
  return ascii(bytes, 0, magic.length) === magic;
}

function ascii(bytes: Buffer, at: number, length: number): string {
  return bytes.toString('latin1', at, at + length);
}
