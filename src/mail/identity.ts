import { createHash, hash as digest, hash } from 'node:crypto';
import type { Address, FlagSet, Listing, MailboxKey, MessageId } from '../core/types.ts';
import { foldWord } from './normalise.ts';

/** A subject without what replying and forwarding adds (RFC 5256, section 2.1). */
interface BaseSubject {
  /** On one line, without prefixes; case and accents as they were. */
  readonly base: string;
  /** Something was taken off that marks a reply or a forward. */
  readonly reply: boolean;
}

/** Blobs such as `[list]`, and the words for reply and forward: those of RFC 5256 and of widely used translations. */
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
/** A longer subject is cut before it is parsed. Code units. */
const LONGEST = 1_000;

export function baseSubject(subject: string): BaseSubject {
  let base = subject.slice(0, LONGEST).replace(/\s+/g, ' ').trim();
  let reply = false;
  for (;;) {
    const before = base;
    base = base.replace(TRAILER, '');
    if (base !== before) reply = true;
    const led = base.replace(REPLY, '');
    if (led !== base) reply = true;
    base = led;
    // A blob goes only when something is left behind it.
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

/** What a message says about its thread; nodes and subjects are 47-bit hashes. */
interface ThreadLinks {
  /** The node of its Message-ID; null where the message has none. */
  readonly node: number | null;
  /** Nodes of the messages it names, oldest first, each once; its own may be among them. */
  readonly ancestors: readonly number[];
  readonly subject: SubjectLink;
}

/** What a subject says about the thread of a message. */
export interface SubjectLink {
  /** The hash of the base subject; null where that is empty. */
  readonly base: number | null;
  readonly reply: boolean;
}

/** References that count: the first, which is the thread's, and the last. */
const ANCESTORS = 20;
/** Hex digits of the 48 bits of which a hash keeps 47. */
const HEX_DIGITS = 12;

export function threadLinks(headers: {
  readonly messageId: string | null;
  readonly references: readonly string[];
  readonly subject: string;
}): ThreadLinks {
  const { messageId, references, subject } = headers;
  const named =
    references.length <= ANCESTORS
      ? references
      : [...references.slice(0, 1), ...references.slice(1 - ANCESTORS)];
  return {
    node: messageId === null ? null : threadNode(messageId),
    ancestors: [...new Set(named.map(threadNode))],
    subject: subjectLink(subject),
  };
}

/** Returns the node of a Message-ID; angle brackets do not count. */
export function threadNode(messageId: string): number {
  return hash47(withoutBrackets(messageId));
}

/** Returns a Message-ID without angle brackets; null for one that tells no messages apart, such as `<>` or `<@host>`. */
export function usableId(messageId: string): string | null {
  const id = withoutBrackets(messageId);
  return id.startsWith('@') || !/[\p{L}\p{N}]/u.test(id) ? null : id;
}

function withoutBrackets(messageId: string): string {
  return messageId.trim().replace(/^<|>$/g, '').trim();
}

/** Returns what a subject says, without the prefixes of replies and forwards. */
export function subjectLink(subject: string): SubjectLink {
  const { base, reply } = baseSubject(subject);
  return base === '' ? { base: null, reply: false } : { base: hash47(foldWord(base)), reply };
}

/** Returns the first 47 bits of the text's SHA-256: six bytes in a row of the catalog. */
export function hash47(text: string): number {
  const digest = hash('sha256', text, 'hex');
  return Math.floor(Number.parseInt(digest.slice(0, HEX_DIGITS), 16) / 2);
}

/*
 * Exact addresses, apart from the words they are made of: `from:ada@example.org` finds the words in this order, also
 * in `ada@example.org.example`, `from:<ada@example.org>` finds this address.
 */

/** What recent addresses are hashed to: a mailbox has few correspondents. */
const recent = new Map<string, string>();
const RECENT = 2_000;

function hashed(address: string): string {
  let known = recent.get(address);
  if (known === undefined) {
    if (recent.size >= RECENT) recent.clear();
    known = hash47(address).toString(36);
    recent.set(address, known);
  }
  return known;
}

/** The word of the index for a message whose From has an address; or, after an @, a domain. */
export function senderToken(address: string): string {
  return `zf${hashed(address)}`;
}

/** The word of the index for a message whose To, Cc or Bcc has an address. */
export function recipientToken(address: string): string {
  return `zr${hashed(address)}`;
}

/** Returns addresses, and their domains with an @ before them, each once. */
export function withDomains(addresses: readonly string[]): string[] {
  return [...new Set([...addresses, ...addresses.map(domainOf)])];
}

function domainOf(address: string): string {
  return address.slice(address.lastIndexOf('@'));
}

/** Returns the address that a value in angle brackets names exactly, in lower case; undefined for any other value. */
export function exactAddress(value: string): string | undefined {
  const [, address] = /^<([^\s<>@]*@[^\s<>@]+)>$/.exec(value.trim().toLowerCase()) ?? [];
  return address;
}

/**
 * 16 bytes, as 32 lower-case hex digits, over every field of a listing record that cannot change while the
 * message lives: date, size, subject, addresses, Message-ID, In-Reply-To and attachments. Left out are the uid
 * and the flags, the ids of attachments (opaque, and allowed to differ from folder to folder) and fields
 * unknown to us (the folder's path is one of them). Equal bytes give equal fingerprints; the reverse is a
 * guess: in real mail 20 of 50,997 messages share every listed field with another of different bytes.
 */
export function fingerprint(listing: Listing): string {
  // Parsed where possible, so that another spelling of the same moment is no change.
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

function pair(address: Address): readonly [string, string] {
  return [address.name, address.address];
}

/**
 * The host of mailboxes that no service has. `.invalid` names nothing for ever (RFC 2606), so no account can have it,
 * and no pass ever takes such a mailbox for one of its own.
 */
export const IMPORT_HOST = 'import.invalid';

/** True for a mailbox whose mail came from files: nothing there can be compared with a service. */
export function isImported({ host }: Pick<MailboxKey, 'host'>): boolean {
  return host === IMPORT_HOST;
}

/** The mailbox that imports under this name go to: the same name, in any case, is the same mailbox. */
export function importedMailbox(name: string): MailboxKey {
  const digest = createHash('sha256').update(name.normalize('NFC').toLowerCase()).digest('hex');
  return { host: IMPORT_HOST, mailbox: `import-${digest.slice(0, 16)}` };
}

/** One place of a message, with the fields of the contract's `list` lines. */
export interface PlaceLine {
  /** Null while quarantined. */
  readonly id: MessageId | null;
  readonly mailbox: string;
  /** The full path; as of a time, the path it had then. */
  readonly folder: string;
  readonly uid: number;
  readonly flags: FlagSet;
  /** Bytes of the raw source; of a quarantined message, what the service lists. */
  readonly size: number;
  /** Received date of the listing, ISO 8601 in UTC; null if the service gave none that parses. */
  readonly date: string | null;
  readonly subject: string | null;
  readonly from: Address | null;
  readonly messageId: string | null;
  readonly firstSeen: string | null;
  readonly endedAt: string | null;
}

/** A place of a message that a search found. */
export type HitPlace = Pick<
  PlaceLine,
  'mailbox' | 'folder' | 'uid' | 'flags' | 'date' | 'firstSeen' | 'endedAt'
>;

/** An attachment as search results list it: as `mailkeep attachments` numbers and names it. */
export interface AttachmentLine {
  /** Position among the message's attachments, from 1, in the order of the source. */
  readonly number: number;
  readonly filename: string | null;
  readonly contentType: string;
  /** Decoded bytes. */
  readonly size: number;
  readonly inline: boolean;
}

/** A line of `search`: the message with its first current place, else its last, and all its places. */
export interface SearchLine extends PlaceLine {
  readonly id: MessageId;
  readonly places: readonly HitPlace[];
  /** A piece of the text around what matched, else its beginning. On one line, and not made safe for terminals. */
  readonly snippet: string;
  /** All attachments, inline ones too; null for a message that is not indexed yet. */
  readonly attachments: readonly AttachmentLine[] | null;
  /** The attachments in whose text something sought stands, with a piece of it. */
  readonly matchedAttachments: readonly {
    readonly number: number;
    readonly filename: string | null;
    readonly snippet: string;
  }[];
}
