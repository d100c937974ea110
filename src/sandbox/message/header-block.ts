/**
 * A header block read where it lies: names and unfolded values as Latin-1 text (one char per byte), so that
 * nothing is lost before a caller knows which values it wants decoded.
 */
export interface HeaderBlock {
  /** Raw values in order of appearance, by lower-case field name. Only the names asked for. */
  readonly fields: ReadonlyMap<string, readonly string[]>;
  /** Offset of the first byte of the body; equals `end` where there is none. */
  readonly bodyStart: number;
}

const LF = 10;
const CR = 13;
const SPACE = 32;
const TAB = 9;
/** A header block longer than this is cut: nobody lists by what comes after 256 kB of headers. */
const HEADER_CEILING = 262_144;

/** Offset just behind the empty line that ends the header block starting at `start`, or `end`. */
export function headerEnd(source: Buffer, start: number, end: number): number {
  let line = start;
  while (line < end) {
    const first = source[line];
    if (first === LF) return line + 1;
    if (first === CR && line + 1 < end && source[line + 1] === LF) return line + 2;
    const lf = source.indexOf(LF, line);
    if (lf < 0 || lf >= end) return end;
    line = lf + 1;
  }
  return end;
}

/**
 * Reads the wanted fields of the header block at `start`. Lines that are no field (an mbox "From " line, torn
 * text) are passed over, never an error: mail comes in every shape.
 *
 * @param wanted lower-case field names
 */
export function readHeaderBlock(
  source: Buffer,
  start: number,
  end: number,
  wanted: ReadonlySet<string>,
): HeaderBlock {
  const bodyStart = headerEnd(source, start, end);
  const text = source.toString('latin1', start, Math.min(bodyStart, start + HEADER_CEILING));
  const fields = new Map<string, string[]>();
  let at = 0;
  while (at < text.length) {
    let stop = text.indexOf('\n', at);
    if (stop < 0) stop = text.length;
    const lineStart = at;
    // A field continues while the next line begins with white space (RFC 5322, 2.2.3).
    let next = stop + 1;
    while (next < text.length) {
      const first = text.charCodeAt(next);
      if (first !== SPACE && first !== TAB) break;
      stop = text.indexOf('\n', next);
      if (stop < 0) stop = text.length;
      next = stop + 1;
    }
    at = next;
    const colon = text.indexOf(':', lineStart);
    if (colon <= lineStart || colon > stop || colon - lineStart > 64) continue;
    const name = text.slice(lineStart, colon).trimEnd().toLowerCase();
    if (!wanted.has(name)) continue;
    const value = unfold(text.slice(colon + 1, stop));
    const known = fields.get(name);
    if (known === undefined) fields.set(name, [value]);
    else known.push(value);
  }
  return { fields, bodyStart };
}

function unfold(value: string): string {
  return value.includes('\n') ? value.replace(/\r?\n[ \t]*/g, ' ').trim() : value.trim();
}
