import { decodeHeader, headerEnd, readHeaderBlock } from './headers.ts';
import { partsOf } from './structure.ts';
import { decodedBody } from './transfer-encoding.ts';

/** Values of one header field, decoded, in lower case. */
export function searchableHeader(source: Buffer, name: string): string[] {
  const { fields } = readHeaderBlock(source, 0, source.length, new Set([name]));
  return (fields.get(name) ?? []).map((value) => decodeHeader(value).toLowerCase());
}

/** The whole header block, encoded words decoded, in lower case. */
export function searchableHeaders(source: Buffer): string {
  const end = headerEnd(source, 0, source.length);
  return decodeHeader(source.toString('latin1', 0, end).replace(/\r?\n[ \t]+/g, ' ')).toLowerCase();
}

/** The text parts of a message, transfer encoding and charset decoded, in lower case; HTML with its tags. */
export function searchableBody(source: Buffer): string {
  return partsOf(source)
    .filter((part) => part.contentType.startsWith('text/'))
    .map((part) => decodeText(decodedBody(source, part), part.charset).toLowerCase())
    .join('\n');
}

/** Text in its charset; an unknown or missing one is UTF-8 where that fits, else windows-1252. */
function decodeText(bytes: Buffer, charset: string | null): string {
  for (const label of [charset, 'utf-8']) {
    if (label === null) continue;
    try {
      return new TextDecoder(label.trim(), { fatal: label === 'utf-8' }).decode(bytes);
    } catch {
      // A label that names no charset, or bytes that are no UTF-8: the next one is tried.
    }
  }
  return new TextDecoder('windows-1252').decode(bytes);
}
