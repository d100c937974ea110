/** Pictures that browsers show by themselves, and that hold nothing but a picture. */
export type PictureType = 'image/png' | 'image/jpeg' | 'image/gif' | 'image/webp' | 'image/bmp';

/** What a picture says of itself. */
export interface PictureHeader {
  readonly type: PictureType;
  readonly width: number;
  readonly height: number;
  /** It has more than one frame. */
  readonly moves: boolean;
}

/** Bytes of a picture that is shown, and points of each of its frames. */
export const MOST_PICTURE_BYTES = 2 * 1024 * 1024;
export const MOST_POINTS = 24_000_000;

/**
 * Returns the type of a picture that a page may show, by its first bytes and whatever else says how large it is once it
 * is unpacked; undefined for anything else: another format, one that is cut off, moves, or has too many points.
 *
 * @param bytes the whole file
 */
export function shownPicture(bytes: Uint8Array): PictureType | undefined {
  if (bytes.byteLength > MOST_PICTURE_BYTES) return undefined;
  const header = pictureHeader(bytes);
  if (header === undefined || header.moves) return undefined;
  const points = header.width * header.height;
  return points > 0 && points <= MOST_POINTS ? header.type : undefined;
}

/** Returns what a picture says of itself; undefined where the bytes are none of the five types, or cut off before that. */
export function pictureHeader(bytes: Uint8Array): PictureHeader | undefined {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  try {
    for (const read of [png, jpeg, gif, webp, bmp]) {
      const header = read(view);
      if (header !== undefined) return header;
    }
  } catch (error) {
    // It ends before it has said how large it is.
    if (!(error instanceof RangeError)) throw error;
  }
  return undefined;
}

/** W3C PNG, 5.2 and 11.2.1; a chunk acTL before the first IDAT makes it move. */
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

/** ITU T.81, B.1.1 and B.2.2: segments up to the frame header, of which there is one. */
function jpeg(bytes: Buffer): PictureHeader | undefined {
  if (!startsWith(bytes, '\xff\xd8\xff')) return undefined;
  for (let at = 2; ; ) {
    // As libjpeg does: bytes between segments, fill bytes and stuffed zeros are passed over.
    while (bytes.readUInt8(at) !== 0xff) at += 1;
    while (bytes.readUInt8(at) === 0xff) at += 1;
    const marker = bytes.readUInt8(at);
    at += 1;
    // Stuffed, or a marker without a length.
    if (marker === 0 || marker === 0x01 || (marker >= 0xd0 && marker <= 0xd7)) continue;
    if (marker === 0xd8 || marker === 0xd9 || marker === 0xda) return undefined;
    if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) {
      const [height, width] = [bytes.readUInt16BE(at + 3), bytes.readUInt16BE(at + 5)];
      return { type: 'image/jpeg', width, height, moves: false };
    }
    at += Math.max(2, bytes.readUInt16BE(at));
  }
}

/** GIF 89a: each frame says for itself where it lies, and may lie outside of the screen. */
function gif(bytes: Buffer): PictureHeader | undefined {
  if (!startsWith(bytes, 'GIF87a') && !startsWith(bytes, 'GIF89a')) return undefined;
  let width = bytes.readUInt16LE(6);
  let height = bytes.readUInt16LE(8);
  let frames = 0;
  let at = 13 + tableBytes(bytes.readUInt8(10));
  // Until its end, or where it is cut off: what is there is shown all the same.
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

/** Bytes of a colour table, by the flags that announce it. */
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

/** The header of OS/2 1.x has 12 bytes, those of Windows 40 and more; a negative height is a picture from top to bottom. */
function bmp(bytes: Buffer): PictureHeader | undefined {
  if (!startsWith(bytes, 'BM')) return undefined;
  const type = 'image/bmp';
  const header = bytes.readUInt32LE(14);
  if (header === 12)
    return { type, width: bytes.readUInt16LE(18), height: bytes.readUInt16LE(20), moves: false };
  if (![40, 52, 56, 108, 124].includes(header)) return undefined;
  // 4 and 5 are a JPEG or PNG of its own size inside.
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
