import { isUtf8 } from 'node:buffer';
import libmime from 'libmime';
import addressparser from 'nodemailer/lib/addressparser';
import type { Address } from '../../mail/words.ts';

// biome-ignore lint/suspicious/noControlCharactersInRegex: bytes above ASCII are what is looked for
const NOT_ASCII = /[^\x00-\x7f]/;

/**
 * Raw header bytes (one char per byte) as text: encoded words decoded, and bytes above ASCII read as UTF-8
 * (RFC 6532) or, where they are none, as windows-1252, which is what such senders used.
 */
export function decodeHeader(raw: string): string {
  const text = decodeBytes(raw);
  if (!text.includes('=?')) return text;
  try {
    return libmime.decodeWords(text);
  } catch {
    // An unknown charset label: the encoded form is still something to show.
    return text;
  }
}

function decodeBytes(raw: string): string {
  if (!NOT_ASCII.test(raw)) return raw;
  const bytes = Buffer.from(raw, 'latin1');
  return isUtf8(bytes) ? bytes.toString('utf8') : new TextDecoder('windows-1252').decode(bytes);
}

/** Addresses of one field's values, groups flattened. Names are decoded after the split: a decoded name may hold a comma. */
export function decodeAddresses(values: readonly string[] | undefined): Address[] {
  if (values === undefined) return [];
  const out: Address[] = [];
  for (const value of values) {
    const plain = SIMPLE_ADDRESS.exec(value);
    if (plain?.[2] !== undefined) {
      out.push({ name: plain[1] ?? '', address: plain[2] });
      continue;
    }
    for (const entry of addressparser(decodeBytes(value), { flatten: true })) {
      const address = entry.address ?? '';
      const name = entry.name ?? '';
      if (address === '' && name === '') continue;
      out.push({ name: decodeHeader(name), address });
    }
  }
  return out;
}

/** `Name <local@domain>` or a bare address with nothing to decode or unquote: most of all mail. */
const SIMPLE_ADDRESS =
  /^(?:([A-Za-z0-9][A-Za-z0-9 .'-]*[A-Za-z0-9.]) )?<?([A-Za-z0-9._+-]+@[A-Za-z0-9.-]+)>?$/;
