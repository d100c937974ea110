const PAGE_TYPES = new Set(['text/html', 'application/xhtml+xml']);

/** True for what is a web page by its type or, where the type does not tell, by how it begins: a portal's, or a maintenance notice. */
export function looksLikeWebPage(contentType: string, bytes: Buffer): boolean {
  if (PAGE_TYPES.has(contentType)) return true;
  if (contentType === 'application/json') return false;
  return /^\s*<(!doctype\s+html|html|head|body)\b/i.test(bytes.toString('latin1', 0, 256));
}
