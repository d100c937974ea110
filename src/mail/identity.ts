import { createHash, hash as digest, hash } from 'node:crypto';
import type { Address, FlagSet, Listing, MailboxKey, MessageId } from '../core/types.ts';
import { foldWord } from './normalise.ts';

/** Matches `[list]` prefixes. Reply and forward words come from RFC 5256 and common translations. */
const BLOB = String.raw`\[[^[\]]{0,200}\]\s*`;
const WORDS = [
  're fwd? aw wg sv vs vb antw doorst tr rif rv enc odp pd',
  'ynt ilt отв на пересл 回复 答复 转发 回覆 轉寄 返信 転送 답장 전달',
]
  .join(' ')
  .replaceAll(' ', '|');
const REPLY = new RegExp(
  String.raw`^(?:${BLOB})*(?:${WORDS})\s*(?:${BLOB})?(?:[\[(^]?\d{1,4}[\])]?\s*)?[:：]\s*`,
  'iu',
);
const LEADING_BLOB = new RegExp(`^${BLOB}`, 'u');
const TRAILER = /\s*\(fwd\)$/i;
const WRAPPED = /^\[fwd:(.*)\]$/i;
/** Maximum number of UTF-16 units of a subject to parse. */
const LONGEST = 1_000;

/** Returns a subject on one line without reply and forward prefixes (RFC 5256, section 2.1). */
export function baseSubject(subject: string) {
  let base = subject.slice(0, LONGEST).replace(/\s+/g, ' ').trim();
  let reply = false;
  for (;;) {
    const before = base;
    base = base.replace(TRAILER, '');
    if (base !== before) reply = true;
    const tail = base.replace(REPLY, '');
    if (tail !== base) reply = true;
    base = tail;
    // Keep a blob if nothing follows it.
    const bare = base.replace(LEADING_BLOB, '');
    if (bare !== '') base = bare;
    const inner = WRAPPED.exec(base)?.[1];
    if (inner !== undefined) {
      base = inner.trim();
      reply = true;
    }
    if (base === before) return { base, reply };
  }
}

const ANCESTORS = 20;
/** 48 bits, 47 of which form the hash. */
const HEX_DIGITS = 12;

/** Returns a message's thread links as 47-bit hashes. */
export function threadLinks(headers: {
  readonly messageId: string | null;
  readonly references: readonly string[];
  readonly subject: string;
}) {
  const { messageId, references, subject } = headers;
  const ids =
    references.length <= ANCESTORS
      ? references
      : [...references.slice(0, 1), ...references.slice(1 - ANCESTORS)];
  return {
    node: messageId === null ? null : threadNode(messageId),
    /** Oldest first; can include the message itself. */
    ancestors: [...new Set(ids.map(threadNode))],
    subject: subjectLink(subject),
  };
}

export function threadNode(messageId: string): number {
  return hash47(removeBrackets(messageId));
}

/** Returns a Message-ID without angle brackets, or null if it is not unique, for example `<>` or `<@host>`. */
export function normalizeMessageId(messageId: string): string | null {
  const id = removeBrackets(messageId);
  return id.startsWith('@') || !/[\p{L}\p{N}]/u.test(id) ? null : id;
}

function removeBrackets(messageId: string): string {
  return messageId.trim().replace(/^<|>$/g, '').trim();
}

/** Returns whether a subject belongs to a reply, and the hash of its base (null for an empty base). */
export function subjectLink(subject: string) {
  const { base, reply } = baseSubject(subject);
  return base === '' ? { base: null, reply: false } : { base: hash47(foldWord(base)), reply };
}

/** Returns the first 47 bits of the text's SHA-256, which take up six bytes in a catalog row. */
export function hash47(text: string): number {
  const digest = hash('sha256', text, 'hex');
  return Math.floor(Number.parseInt(digest.slice(0, HEX_DIGITS), 16) / 2);
}

/**
 * Index words for whole addresses. `from:ada@example.org` searches for the words in this order, and also finds
 * `ada@example.org.example`; `from:<ada@example.org>` finds only this address.
 */

/** @param address may be a domain with a leading @ */
export function senderToken(address: string): string {
  return `zf${hash47(address).toString(36)}`;
}

export function recipientToken(address: string): string {
  return `zr${hash47(address).toString(36)}`;
}

export function withDomains(addresses: readonly string[]): string[] {
  return [...new Set([...addresses, ...addresses.map(parseDomain)])];
}

function parseDomain(address: string): string {
  return address.slice(address.lastIndexOf('@'));
}

/** Returns the lower-case address in a value's angle brackets, or undefined for other values. */
export function exactAddress(value: string): string | undefined {
  const [, address] = /^<([^\s<>@]*@[^\s<>@]+)>$/.exec(value.trim().toLowerCase()) ?? [];
  return address;
}

/**
 * Returns a hash of all immutable fields of a listing record, as 32 lower-case hex digits. Covers date, size, subject,
 * addresses, Message-ID, In-Reply-To and attachments. Excludes the uid, flags, attachment ids (opaque, and can differ
 * between folders) and unknown fields, one of which is the folder's path. Identical bytes have identical fingerprints.
 * The converse is a guess: in real mail, 20 of 50,997 messages share every listed field with a different message.
 */
export function fingerprint(listing: Listing): string {
  // A different spelling of the same time is not a change.
  const moment = Date.parse(listing.date);
  const fields = [
    Number.isNaN(moment) ? listing.date : moment,
    listing.size,
    listing.subject,
    listing.from === null ? null : pair(listing.from),
    listing.to.map(pair),
    listing.cc.map(pair),
    listing.bcc.map(pair),
    listing.messageId,
    listing.inReplyTo,
    listing.attachments.map((a) => [a.contentType, a.sizeBytes, a.inline, a.filename, a.contentId]),
  ];
  return digest('sha256', JSON.stringify(fields), 'hex').slice(0, 32);
}

/**
 * Returns the id that an IMAP server gives a message in every folder of an account: EMAILID (RFC 8474), or Gmail's
 * X-GM-MSGID. Null if the server has neither. Other services may use the same field names for something else.
 */
export function stableId({ extra }: Pick<Listing, 'extra'>): string | null {
  const id = extra.emailId ?? extra.gmailMessageId;
  return typeof id === 'string' ? id : null;
}

/** Returns the stable id's hash for the catalog: 47 bits, so a match must be confirmed by other fields. */
export function stableIdKey(listing: Pick<Listing, 'extra'>): number | null {
  const id = stableId(listing);
  return id === null ? null : hash47(id);
}

function pair(address: Address): readonly [string, string] {
  return [address.name, address.address];
}

/** Host of imported mailboxes. `.invalid` is reserved (RFC 2606), so no account or sync run can use it. */
export const IMPORT_HOST = 'import.invalid';

/** Reports whether a mailbox was imported from files, with no service to compare it with. */
export function isImported({ host }: Pick<MailboxKey, 'host'>): boolean {
  return host === IMPORT_HOST;
}

export function importedMailbox(name: string): MailboxKey {
  const digest = createHash('sha256').update(name.normalize('NFC').toLowerCase()).digest('hex');
  return { host: IMPORT_HOST, mailbox: `import-${digest.slice(0, 16)}` };
}

/** One place of a message, with the fields of a `list` line. */
export interface PlaceLine {
  /** Null while the message is incomplete. */
  readonly id: MessageId | null;
  readonly mailbox: string;
  /** Full path. A query about an earlier time gets the path at that time. */
  readonly folder: string;
  readonly uid: number;
  readonly flags: FlagSet;
  /** Size of the raw source in bytes; the listed size while the message is incomplete. */
  readonly size: number;
  /** Received date in the listing, ISO 8601 in UTC; null if missing or invalid. */
  readonly date: string | null;
  readonly subject: string | null;
  readonly from: Address | null;
  readonly messageId: string | null;
  readonly firstSeen: string | null;
  readonly endedAt: string | null;
}

export type HitPlace = Pick<
  PlaceLine,
  'mailbox' | 'folder' | 'uid' | 'flags' | 'date' | 'firstSeen' | 'endedAt'
>;

/** Has the number and name shown by `mailkeep attachments`. */
export interface AttachmentLine {
  /** Starts at 1, in source order. */
  readonly number: number;
  readonly filename: string | null;
  readonly contentType: string;
  /** Decoded size in bytes. */
  readonly size: number;
  readonly inline: boolean;
}

/** A `search` line: a message at its first current place, or its last place if none is current, with all its places. */
export interface SearchLine extends PlaceLine {
  readonly id: MessageId;
  readonly places: readonly HitPlace[];
  /** One line around the match, or the start of the text. Not safe for terminals. */
  readonly snippet: string;
  /** Includes inline attachments; null until the message is indexed. */
  readonly attachments: readonly AttachmentLine[] | null;
  readonly matchedAttachments: readonly {
    readonly number: number;
    readonly filename: string | null;
    readonly snippet: string;
  }[];
}
