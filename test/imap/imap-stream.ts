/** A line, with its end, or a part of a literal (RFC 9051, section 4.3), as they follow each other in one direction. */
export type Piece =
  | {
      readonly kind: 'line';
      readonly bytes: Buffer;
      /** The literal that follows. */
      readonly literal?: { readonly size: number; readonly waits: boolean };
    }
  | { readonly kind: 'literal'; readonly bytes: Buffer; readonly remaining: number };

const LITERAL = /~?\{(\d{1,15})([+-]?)\}\r\n$/;
/** The end of a line that can announce a literal has at most as many bytes. */
const ANNOUNCEMENT = 24;

/** Divides what one side sends into lines and literals, without changing it. */
export class ImapStream {
  #line: Buffer[] = [];
  #literal = 0;

  *push(bytes: Buffer): Generator<Piece> {
    let rest = bytes;
    while (rest.length > 0) {
      if (this.#literal > 0) {
        const part = rest.subarray(0, this.#literal);
        this.#literal -= part.length;
        rest = rest.subarray(part.length);
        yield { kind: 'literal', bytes: part, remaining: this.#literal };
        continue;
      }
      const end = rest.indexOf(0x0a);
      this.#line.push(end < 0 ? rest : rest.subarray(0, end + 1));
      if (end < 0) return;
      rest = rest.subarray(end + 1);
      yield this.#endLine();
    }
  }

  /** The announced literal does not come: the other side refused it. */
  abandonLiteral(): void {
    this.#literal = 0;
  }

  #endLine(): Piece {
    const bytes = Buffer.concat(this.#line);
    this.#line = [];
    const announced = LITERAL.exec(bytes.subarray(-ANNOUNCEMENT).toString('latin1'));
    if (announced === null) return { kind: 'line', bytes };
    this.#literal = Number(announced[1]);
    return { kind: 'line', bytes, literal: { size: this.#literal, waits: announced[2] === '' } };
  }
}
