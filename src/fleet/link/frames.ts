/**
 * What goes over a link in either direction: a byte for the kind, the length (32 bits, big-endian) and so many bytes. Both
 * ends are the same program; what is not one of these ends the link.
 */
export const FRAME = {
  /** What is asked, as JSON: the first frame of an asker. */
  ask: 1,
  /** Bytes for the reader that was asked for, and their end. */
  input: 2,
  inputEnd: 3,
  /** The reader runs from here on. */
  begun: 4,
  output: 5,
  errors: 6,
  /** Nothing new, but the holder is there. */
  alive: 7,
  /** The reader has ended, with the code that it ended with as JSON. Without this frame, an answer is not complete. */
  end: 8,
  /** Nothing is answered, and why, as JSON. */
  refused: 9,
} as const;

export type FrameKind = (typeof FRAME)[keyof typeof FRAME];

export interface Frame {
  readonly kind: FrameKind;
  readonly bytes: Buffer;
}

const HEADER = 5;
/** A frame is held in memory as a whole. */
export const MOST_FRAME_BYTES = 256 * 1024;

/** The bytes of the other side are no frames, or end within one. */
export class BadFrame extends Error {
  override readonly name = 'BadFrame';
}

/** Returns a frame as it is sent. */
export function frame(kind: FrameKind, content: Uint8Array = Buffer.alloc(0)): Buffer {
  if (content.length > MOST_FRAME_BYTES) throw new RangeError('too much for one frame');
  const bytes = Buffer.alloc(HEADER + content.length);
  bytes[0] = kind;
  bytes.writeUInt32BE(content.length, 1);
  bytes.set(content, HEADER);
  return bytes;
}

/** Returns frames of one kind with these bytes, however many there are. */
export function* framesWith(kind: FrameKind, content: Buffer): Generator<Buffer> {
  for (let at = 0; at < content.length; at += MOST_FRAME_BYTES) {
    yield frame(kind, content.subarray(at, at + MOST_FRAME_BYTES));
  }
}

/** Returns a value as a frame of JSON. */
export function jsonFrame(kind: FrameKind, value: unknown): Buffer {
  return frame(kind, Buffer.from(JSON.stringify(value)));
}

/**
 * Reads frames as their bytes come.
 *
 * @param most bytes of a frame
 * @throws BadFrame; what the stream throws
 */
export async function* framesOf(
  stream: AsyncIterable<unknown>,
  most = MOST_FRAME_BYTES,
): AsyncGenerator<Frame, void, undefined> {
  let pieces: Buffer[] = [];
  let length = 0;
  for await (const piece of stream) {
    if (!Buffer.isBuffer(piece)) throw new BadFrame('no bytes');
    pieces.push(piece);
    length += piece.length;
    if (length < needed(pieces, length, most)) continue;
    let bytes = Buffer.concat(pieces);
    while (bytes.length >= HEADER) {
      const size = needed([bytes], bytes.length, most);
      if (bytes.length < size) break;
      yield { kind: kindOf(bytes[0]), bytes: bytes.subarray(HEADER, size) };
      bytes = bytes.subarray(size);
    }
    pieces = [bytes];
    length = bytes.length;
  }
  if (length > 0) throw new BadFrame('it ends within a frame');
}

/** How many bytes have to be there before anything can be done with them. */
function needed([first]: readonly Buffer[], length: number, most: number): number {
  if (first === undefined || length < HEADER || first.length < HEADER) return HEADER;
  kindOf(first[0]);
  const size = first.readUInt32BE(1);
  if (size > most) throw new BadFrame('a frame is too large');
  return HEADER + size;
}

function kindOf(byte: number | undefined): FrameKind {
  const kind = Object.values(FRAME).find((one) => one === byte);
  if (kind === undefined) throw new BadFrame('an unknown kind of frame');
  return kind;
}
