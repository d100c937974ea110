import { domainToUnicode } from 'node:url';
import addressparser from 'nodemailer/lib/addressparser';
import { usableId } from '../search/thread-links.ts';
import { cutText } from './charsets.ts';
import { decodeWords } from './encoded-words.ts';
import type { Extraction } from './extraction.ts';
import { charsetHint, fieldText, type RawField, rawText } from './header-block.ts';
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
      for (const { text } of addressesOf(cutText(field.value, limits.fieldChars), hint)) {
        length += text.length + 2;
        seen.add(text);
      }
    }
  }
  return cutText([...seen].join(', '), limits.addressChars);
}

/** One entry of an address field. */
interface AddressEntry {
  /** `Name <address>`, or whichever of both there is. */
  readonly text: string;
  /** In lower case; null where there is none that mail could be sent to. */
  readonly address: string | null;
}

/** What recent address fields say: a mailbox has few correspondents, and its owner is in most of the mail. */
const recent = new Map<string, readonly AddressEntry[]>();
const RECENT_FIELDS = 1000;
const RECENT_CHARS = 256;

function addressesOf(value: string, hint: string | null): readonly AddressEntry[] {
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

function parseAddresses(text: string): AddressEntry[] {
  if (text === '') return [];
  return addressparser(text, { flatten: true })
    .map(({ name, address }) => {
      const readable = decodeWords(name).replace(/\s+/g, ' ').trim();
      const decoded = decodeWords(address).trim();
      const mailbox = withUnicodeDomain(decoded);
      const shown = readable === '' || readable === mailbox ? mailbox : `${readable} <${mailbox}>`;
      return { text: mailbox === '' ? readable : shown, address: usable(decoded) };
    })
    .filter((entry) => entry.text !== '');
}

/** No address is longer (RFC 5321 section 4.5.3.1). */
const ADDRESS_CHARS = 320;

function usable(address: string): string | null {
  const lower = address.toLowerCase();
  return lower.length <= ADDRESS_CHARS && /^[^\s<>@]+@[^\s<>@]+$/.test(lower) ? lower : null;
}

/** People of one message that count, the first ones: lists of recipients may be endless. */
const MAX_PEOPLE = 200;

function peopleIn(
  fields: readonly RawField[],
  names: readonly string[],
  hint: string | null,
  fieldChars: number,
): string[] {
  const found = new Set<string>();
  for (const field of fields) {
    if (!names.includes(field.name) || found.size >= MAX_PEOPLE) continue;
    for (const { address } of addressesOf(cutText(field.value, fieldChars), hint))
      if (address !== null) found.add(address);
  }
  return [...found].slice(0, MAX_PEOPLE);
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
  | 'subject'
  | 'from'
  | 'to'
  | 'cc'
  | 'bcc'
  | 'deliveredTo'
  | 'listId'
  | 'messageId'
  | 'references'
  | 'senders'
  | 'recipients'
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
  const people = (...names: string[]) => peopleIn(fields, names, hint, limits.fieldChars);
  return {
    subject: first('subject').replace(/\s+/g, ' ').trim(),
    from: addresses('from', 'sender', 'reply-to'),
    to: addresses('to'),
    cc: addresses('cc'),
    bcc: addresses('bcc'),
    deliveredTo: addresses('delivered-to', 'x-original-to'),
    listId: listIdOf(first('list-id')),
    messageId: messageIds(first('message-id'))[0] ?? null,
    references: references(first('references'), first('in-reply-to'), (id) =>
      people('from', 'to', 'cc', 'reply-to').includes(id.toLowerCase()),
    ),
    senders: people('from'),
    recipients: people('to', 'cc', 'bcc'),
  };
}

/** `Friends <friends.example.org>` names the list `friends.example.org` (RFC 2919); the name stays searchable. */
function listIdOf(value: string): string | null {
  const text = value.replace(/\s+/g, ' ').trim();
  if (text === '') return null;
  const id = /<([^<>]{1,1000})>/.exec(text)?.[1]?.trim();
  return id === undefined || id === '' ? cutText(text, 1000) : id;
}

/** Thread ancestors, oldest first: References, and In-Reply-To if it adds one (RFC 5322 section 3.6.4). */
function references(
  field: string,
  inReplyTo: string,
  isAddress: (id: string) => boolean,
): string[] {
  const ids = new Set(messageIds(field));
  for (const id of repliedTo(inReplyTo, isAddress)) ids.add(id);
  return [...ids].slice(-MAX_REFERENCES);
}

/**
 * The ids in In-Reply-To. Old programs wrote prose around one, with the name, address and date of the original, as in
 * `<id@host> from Carol <carol@example.org> at "10:00"`: of such, the first that is no address (RFC 5256 section 3).
 */
function repliedTo(value: string, isAddress: (id: string) => boolean): string[] {
  const ids = bracketed(value).filter((id) => usableId(id) !== null);
  if (ids.length === 0) return [];
  if (!/[^\s,;]/.test(value.replace(BRACKETED, ' '))) return ids.filter((id) => !isAddress(id));
  let done = 0;
  for (const match of value.matchAll(BRACKETED)) {
    const id = withoutSpaces(match[1] ?? '');
    const before = value.slice(done, match.index);
    done = match.index + match[0].length;
    if (/^[^@]+@[^@]+$/.test(id) && !SENDER.test(before) && !isAddress(id)) return [id];
  }
  return [];
}

/** Words that end with the name of a person, whose address follows. */
const SENDER = /\b(?:from|by|von|de)\s[^<>\d]{0,200}$/i;
const BRACKETED = /<([^<>]{1,998})>/g;

function withoutSpaces(id: string): string {
  return id.replace(/\s+/g, '');
}

function bracketed(value: string): string[] {
  return [...value.matchAll(BRACKETED)].map((match) => withoutSpaces(match[1] ?? ''));
}

/** Message ids in a field, without their angle brackets; words without brackets count where no id has any. */
function messageIds(value: string): string[] {
  const ids = bracketed(value);
  const found = ids.length > 0 ? ids : value.split(/[\s,]+/).map((id) => id.replace(/^<|>$/g, ''));
  return found.filter((id) => usableId(id) !== null && id.length <= 998);
}
