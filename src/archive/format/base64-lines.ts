/** How base64 text is laid out: characters a line, and what ends a line. */
export interface LineShape {
  readonly lineLength: number;
  readonly eol: 'crlf' | 'lf';
}

/** Bytes encoded at a time: keeps strings short, and a multiple of 3, so that no padding comes in between. */
const STEP = 48 * 1024;

/**
 * Encodes bytes as lines of base64. The line end stands between lines: none follows the last one. Chunks of one run go
 * through one instance in order; all but the last must be a multiple of 3 bytes long.
 */
export class LineEncoder {
  readonly #lineLength: number;
  readonly #eol: string;
  /** Characters in the line begun; a full line waits for the next character before its end is written. */
  #column = 0;

  constructor(shape: LineShape) {
    this.#lineLength = shape.lineLength;
    this.#eol = shape.eol === 'crlf' ? '\r\n' : '\n';
  }

  /** How many bytes `write` will put out for a chunk of this length. */
  lengthOf(bytes: number): number {
    const characters = Math.ceil(bytes / 3) * 4;
    if (characters === 0) return 0;
    const breaks = Math.floor((this.#column + characters - 1) / this.#lineLength);
    return characters + breaks * this.#eol.length;
  }

  /** Writes the chunk's lines into `target` from `at`; returns where they end. */
  write(chunk: Buffer, target: Buffer, at: number): number {
    let to = at;
    for (let from = 0; from < chunk.length; from += STEP) {
      const text = chunk.toString('base64', from, Math.min(from + STEP, chunk.length));
      to += target.write(this.#broken(text), to, 'latin1');
    }
    return to;
  }

  /** The chunk's lines in pieces of about 64 KiB. */
  *pieces(chunk: Buffer): Generator<Buffer, void, undefined> {
    for (let from = 0; from < chunk.length; from += STEP) {
      yield Buffer.from(
        this.#broken(chunk.toString('base64', from, Math.min(from + STEP, chunk.length))),
        'latin1',
      );
    }
  }

  #broken(text: string): string {
    const length = this.#lineLength;
    let lines = '';
    let from = 0;
    while (from < text.length) {
      if (this.#column === length) {
        lines += this.#eol;
        this.#column = 0;
      }
      const to = Math.min(from + length - this.#column, text.length);
      lines += text.substring(from, to);
      this.#column += to - from;
      from = to;
    }
    return lines;
  }
}
