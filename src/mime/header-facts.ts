import { domainToUnicode } from 'node:url';
import addressparser from 'nodemailer/lib/addressparser';
import { cutText } from './charsets.ts';
import type { Extraction } from './extraction.ts';
import { charsetHint, decodeWords, fieldText, type RawField, rawText } from './header-block.ts';
import type { MimeLimits } from './limits.ts';

/**
 * Names and addresses of all fields with one of these names, as one searchable line: `Name <address>, …`,
 * in the order of the names and then of the message. Raw 8-bit text is in the charset `hint`. An internationalized domain is given in both spellings.
 */
function addressText(
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

/** What recent address fields say: a mailbox has few correspondents, and its owner is in most of the mail. */
const recent = new Map<string, readonly string[]>();
const RECENT_FIELDS = 1000;
const RECENT_CHARS = 256;

function addressesOf(value: string, hint: string | null): readonly string[] {
  const text = rawText(value, hint);
  if (text.length > RECENT_CHARS) return parseAddresses(text);
  const known = recent.get(text);
  if (known !== undefined) return known;
  if (recent.size >= RECENT_FIELDS) recent.clear();
  // A part of a string keeps all of it in memory: here, the header block.
  const copy = Buffer.from(text, 'utf16le').toString('utf16le');
  const addresses = parseAddresses(copy);
  recent.set(copy, addresses);
  return addresses;
}

function parseAddresses(text: string): string[] {
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

/** What a header block says that can be searched. */
export type HeaderFacts = Pick<
  Extraction,
  'subject' | 'from' | 'to' | 'cc' | 'bcc' | 'deliveredTo' | 'listId' | 'messageId' | 'references'
>;

/** References beyond these are the oldest of a very long thread. */
const MAX_REFERENCES = 200;

/** Reads the searchable fields of a header block; what is missing is empty or null. Never throws. */
export function headerFacts(fields: readonly RawField[], limits: MimeLimits): HeaderFacts {
  const hint = charsetHint(fields);
  const first = (name: string): string => {
    const field = fields.find((f) => f.name === name && f.value !== '');
    return field === undefined ? '' : fieldText(field.value, limits.fieldChars, hint);
  };
  const addresses = (...names: string[]) => addressText(fields, names, hint, limits);
  return {
    subject: first('subject').replace(/\s+/g, ' ').trim(),
    from: addresses('from', 'sender', 'reply-to'),
    to: addresses('to'),
    cc: addresses('cc'),
    bcc: addresses('bcc'),
    deliveredTo: addresses('delivered-to', 'x-original-to'),
    listId: listIdOf(first('list-id')),
    messageId: messageIds(first('message-id'))[0] ?? null,
    references: references(first('references'), first('in-reply-to')),
  };
}

/** `Friends <friends.example.org>` names the list `friends.example.org` (RFC 2919); the name stays searchable. */
function listIdOf(value: string): string | null {
  const text = value.replace(/\s+/g, ' ').trim();
  if (text === '') return null;
  const id = /<([^<>]{1,1000})>/.exec(text)?.[1]?.trim();
  return id === undefined || id === '' ? cutText(text, 1000) : id;
}

/** Thread ancestors, oldest first: References, and In-Reply-To where it adds one (RFC 5322 section 3.6.4). */
function references(field: string, inReplyTo: string): string[] {
  const ids = new Set(messageIds(field));
  // Old programs write prose into In-Reply-To; only what looks like an id counts there.
  for (const id of bracketed(inReplyTo)) ids.add(id);
  return [...ids].slice(-MAX_REFERENCES);
}

function bracketed(value: string): string[] {
  return [...value.matchAll(/<([^<>]{1,998})>/g)].map((match) =>
    (match[1] ?? '').replace(/\s+/g, ''),
  );
}

/** Message ids in a field, without their angle brackets; words without brackets count where no id has any. */
function messageIds(value: string): string[] {
  const ids = bracketed(value);
  const found = ids.length > 0 ? ids : value.split(/[\s,]+/).map((id) => id.replace(/^<|>$/g, ''));
  return found.filter((id) => id !== '' && id.length <= 998);
}
