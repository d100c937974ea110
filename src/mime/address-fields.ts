import { domainToUnicode } from 'node:url';
import addressparser from 'nodemailer/lib/addressparser';
import { cutText } from './charsets.ts';
import type { RawField } from './header-block.ts';
import { decodeWords, rawText } from './header-block.ts';

/**
 * Names and addresses of all fields with one of these names, as one searchable line: `Name <address>, …`,
 * in the order of the names and then of the message. Raw 8-bit text is in the charset `hint`. An internationalized domain is given in both spellings.
 */
export function addressText(
  fields: readonly RawField[],
  names: readonly string[],
  hint: string | null,
  limits: { readonly fieldChars: number; readonly addressChars: number },
): string {
  const seen = new Set<string>();
  let length = 0;
  for (const name of names) {
    for (const field of fields) {
      if (field.name !== name) continue;
      if (length >= limits.addressChars) break;
      for (const entry of addressesOf(cutText(field.value, limits.fieldChars), hint)) {
        length += entry.length + 2;
        seen.add(entry);
      }
    }
  }
  return cutText([...seen].join(', '), limits.addressChars);
}

function addressesOf(value: string, hint: string | null): string[] {
  const text = rawText(value, hint);
  if (text === '') return [];
  return addressparser(text, { flatten: true })
    .map(({ name, address }) => {
      const readable = decodeWords(name).replace(/\s+/g, ' ').trim();
      const mailbox = withUnicodeDomain(decodeWords(address).trim());
      if (mailbox === '') return readable;
      return readable === '' || readable === mailbox ? mailbox : `${readable} <${mailbox}>`;
    })
    .filter((entry) => entry !== '');
}

function withUnicodeDomain(address: string): string {
  const at = address.lastIndexOf('@');
  if (at < 0 || !/(^|\.)xn--/i.test(address.slice(at + 1))) return address;
  const domain = domainToUnicode(address.slice(at + 1));
  return domain === '' ? address : `${address} ${address.slice(0, at + 1)}${domain}`;
}
