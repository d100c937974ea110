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
