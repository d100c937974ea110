const PAGE_TYPES = new Set(['text/html', 'application/xhtml+xml']);

/**
 * Returns true for a web page, judged by its type or, where the type is inconclusive, by its first bytes: a portal's,
 * or a maintenance notice.
 */
export function looksLikeWebPage(contentType: string, bytes: Buffer): boolean {
  if (PAGE_TYPES.has(contentType)) return true;
  if (contentType === 'application/json') return false;
  return /^\s*<(!doctype\s+html|html|head|body)\b/i.test(bytes.toString('latin1', 0, 256));
}

export type JsonReading = { readonly ok: true; readonly value: unknown } | { readonly ok: false };

/**
 * No answer of the service is nested deeper than a handful of levels. What is, is not its own, and would
 * exhaust the stack of whatever walks the value later.
 */
const DEEPEST = 100;

/**
 * Reads JSON. Bytes that are no UTF-8 become replacement characters: one subject written wrongly must not make
 * a whole page unreadable. What is nested too deep counts as broken.
 */
export function readJson(bytes: Buffer): JsonReading {
  if (isTooDeep(bytes)) return { ok: false };
  const text = bytes.toString('utf8');
  try {
    const value: unknown = JSON.parse(text.charCodeAt(0) === 0xfeff ? text.slice(1) : text);
    return { ok: true, value };
  } catch {
    return { ok: false };
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
/** `[` and `{` differ in this bit only, and so do `]` and `}`. */
const CASE_BIT = 0x20;
const OPENING = 0x7b;
const CLOSING = 0x7d;

/** Counts brackets outside of strings: before parsing, since that alone takes memory many times the size of deep text. */
function isTooDeep(bytes: Buffer): boolean {
  let depth = 0;
  let inText = false;
  for (let i = 0; i < bytes.length; i += 1) {
    const byte = bytes[i] ?? 0;
    if (byte === QUOTE) inText = !inText;
    else if (inText) {
      if (byte === BACKSLASH) i += 1;
    } else if ((byte | CASE_BIT) === OPENING) {
      depth += 1;
      if (depth > DEEPEST) return true;
    } else if ((byte | CASE_BIT) === CLOSING) depth -= 1;
  }
  return false;
}
