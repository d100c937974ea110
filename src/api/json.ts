export type JsonReading = { readonly ok: true; readonly value: unknown } | { readonly ok: false };

/**
 * Reads JSON. Bytes that are no UTF-8 become replacement characters: one subject written wrongly must not make
 * a whole page unreadable.
 */
export function readJson(bytes: Buffer): JsonReading {
  const text = bytes.toString('utf8');
  try {
    const value: unknown = JSON.parse(text.charCodeAt(0) === 0xfeff ? text.slice(1) : text);
    return { ok: true, value };
  } catch {
    return { ok: false };
  }
}
