type DecodeBytes = (bytes: Buffer, charset: string) => string;

const OPENING = /=\?([^?\s]{1,100})\?([bq])\?/iy;
const CLOSING = '?=';

/**
 * Decodes the encoded words in text (RFC 2047). Adjacent words in one charset are decoded together, because programs
 * split characters between words. Invalid words are left unchanged. Runs in linear time and never throws.
 */
export function decodeEncodedWords(text: string, decode: DecodeBytes): string {
  if (!text.includes('=?')) return text;
  let output = '';
  let position = 0;
  let open: { charset: string; bytes: Buffer[]; base64: string } | null = null;
  const close = () => {
    if (open === null) return;
    output += decode(Buffer.concat([...open.bytes, decodeBEncoding(open.base64)]), open.charset);
    open = null;
  };
  for (let at = text.indexOf('=?'); at >= 0; ) {
    OPENING.lastIndex = at;
    const opening = OPENING.exec(text);
    const from = OPENING.lastIndex;
    const to = opening === null ? -1 : text.indexOf(CLOSING, from);
    if (opening === null || to < 0) {
      // If this word does not end, neither does any later one.
      at = opening === null ? text.indexOf('=?', at + 2) : -1;
      continue;
    }
    const [, charset = '', encoding = ''] = opening;
    const gap = text.slice(position, at);
    if (open?.charset !== charset.toLowerCase() || gap.trim() !== '') {
      const isAdjacent = open !== null && gap.trim() === '';
      close();
      if (!isAdjacent) output += gap;
      open = { charset: charset.toLowerCase(), bytes: [], base64: '' };
    }
    const content = text.slice(from, to);
    if (encoding.toLowerCase() === 'b') open.base64 += content;
    else {
      open.bytes.push(decodeBEncoding(open.base64), decodeQEncoding(content));
      open.base64 = '';
    }
    position = to + CLOSING.length;
    at = text.indexOf('=?', position);
  }
  close();
  return output + text.slice(position);
}

/** Decodes the base64 of one or more words, with or without padding. */
export function decodeBEncoding(text: string): Buffer {
  if (text === '') return NOTHING;
  return Buffer.concat(text.split(/=+/).map((part) => Buffer.from(part, 'base64')));
}

const NOTHING = Buffer.alloc(0);

/** Decodes the Q encoding. Unencoded bytes are UTF-8. */
export function decodeQEncoding(text: string): Buffer {
  const plain = text.replace(/=\s+(?=[\da-f])/gi, '=').replace(/[_\s]/g, ' ');
  const bytes = Buffer.from(plain);
  if (!plain.includes('=')) return bytes;
  return Buffer.from(
    bytes
      .toString('latin1')
      .replace(/=([\da-f]{2})/gi, (_, hex: string) =>
        String.fromCharCode(Number.parseInt(hex, 16)),
      ),
    'latin1',
  );
}

/** Decodes encoded words in a raw listing. Loads no library, so it supports only `TextDecoder`'s charsets. */
export function decodeListedText(text: string): string {
  return text.includes('=?') ? decodeEncodedWords(text, decodeListed) : text;
}

function decodeListed(bytes: Buffer, charset: string): string {
  const labels = [charset.split('*', 1)[0] ?? '', 'utf-8', 'windows-1252'];
  for (const label of labels) {
    try {
      return new TextDecoder(label, { fatal: true }).decode(bytes).replaceAll('\0', '');
    } catch {
      // Unknown label or invalid bytes.
    }
  }
  return bytes.toString('latin1').replaceAll('\0', '');
}
