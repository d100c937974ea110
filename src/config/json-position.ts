/** Anything but a quote, a backslash or a control character, and the escapes (RFC 8259 section 7). */
const STRING = /"(?:[^"\\\p{Cc}]|[\x7f-\x9f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/uy;
const SCALAR = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const SPACE = /[ \t\r\n]*/y;

/**
 * Returns where a text stops being JSON: the offset of the first token that cannot stand there, or undefined when
 * the text is JSON after all. The built-in parser reports this for some errors only, and quotes the text
 * (and with it secrets) for the others.
 */
export function jsonErrorOffset(text: string): number | undefined {
  let at = 0;
  const take = (pattern: RegExp): boolean => {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (match !== null) at += match[0].length;
    return match !== null;
  };
  const sign = (character: string): boolean => {
    take(SPACE);
    if (text[at] !== character) return false;
    at += 1;
    return true;
  };
  const members = (close: string, member: () => boolean): boolean => {
    if (sign(close)) return true;
    do {
      take(SPACE);
      if (!member()) return false;
    } while (sign(','));
    return sign(close);
  };
  const value = (): boolean => {
    if (sign('{')) return members('}', () => take(STRING) && sign(':') && value());
    if (sign('[')) return members(']', value);
    return take(STRING) || take(SCALAR);
  };
  if (!value()) return at;
  take(SPACE);
  return at === text.length ? undefined : at;
}
