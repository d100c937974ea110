import type {
  BlobHash,
  FlagSet,
  FolderKey,
  Listing,
  MailboxKey,
  MessageId,
  Place,
} from '../../mail/words.ts';
import { isCount, isHash, isObject } from './json-shape.ts';

/**
 * Everything the archive knows apart from bytes is a fact: one canonical JSON object per record, one place per fact,
 * so that forgetting a place means forgetting its facts. Facts hold no times: the commit that closes the
 * batch carries the time.
 */
export type Fact =
  /** A mailbox was met for the first time, or its address changed. */
  | ({ readonly fact: 'mailbox'; readonly address: string } & MailboxKey)
  /** A folder came, came back, or shows another special use; `generation` is the one its uids belong to. */
  | ({
      readonly fact: 'folder';
      readonly name: string;
      readonly delimiter: string;
      readonly specialUse: string | null;
      readonly generation: number;
    } & FolderKey)
  /** A folder was renamed: its places and generations continue under the new path. */
  | ({ readonly fact: 'folder-renamed'; readonly to: string } & FolderKey)
  /** A folder was removed: separate facts have ended its open places. */
  | ({ readonly fact: 'folder-gone' } & FolderKey)
  /** The origin reassigned the folder's uids: from here on they belong to `generation`. */
  | ({
      readonly fact: 'generation';
      readonly generation: number;
      readonly reason: string;
    } & FolderKey)
  /** A message appeared at a place: its listing record, its docid and the hash of its raw source. */
  | ({
      readonly fact: 'appeared';
      readonly listing: Listing;
      readonly docid: number;
      readonly message: MessageId;
      /** Bytes of the raw source as stored. */
      readonly size: number;
      /** Why the source was accepted although its size differs from the listing's; absent when it agrees. */
      readonly accepted?: 'shorter-twice' | 'longer-twice' | 'host-rule';
      /** Present when the bytes were assumed from another place and not fetched. */
      readonly assumedFrom?: Place;
    } & Place)
  /** The flags of an open place changed to this set. */
  | ({ readonly fact: 'flags'; readonly flags: FlagSet } & Place)
  /** An open place ended: the origin does not have the message there any more. */
  | ({ readonly fact: 'ended'; readonly reason: string } & Place)
  /** An ended place was ended wrongly, or its uid answers again with the same fingerprint. */
  | ({ readonly fact: 'reopened'; readonly flags: FlagSet; readonly reason: string } & Place)
  /** A place that seems gone is held open by the brake, or let go of. */
  | ({ readonly fact: 'held'; readonly held: boolean } & Place)
  /** An assumed place was fetched and hashed: `message` is what it really holds (same as assumed, or a correction). */
  | ({
      readonly fact: 'verified';
      readonly message: MessageId;
      readonly docid: number;
      readonly size: number;
      readonly corrected: boolean;
    } & Place)
  /** A message could not be fetched whole. Bytes that came, if any, are kept aside in the blob `kept`. */
  | ({
      readonly fact: 'quarantined';
      readonly listing: Listing;
      readonly reason: QuarantineReason;
      readonly detail: string;
      readonly kept?: string;
    } & Place)
  /** A quarantined place was stored (an `appeared` follows), ended, or acknowledged by the user. */
  | ({ readonly fact: 'released'; readonly reason: 'stored' | 'ended' | 'forgotten' } & Place)
  | ({ readonly fact: 'acknowledged' } & Place)
  /** What the intervals of a folder prove, at most one a folder and day. */
  | ({
      readonly fact: 'certificate';
      readonly generation: number;
      readonly originTotal: number;
      readonly stored: number;
      readonly assumed: number;
      readonly quarantined: number;
      readonly held: number;
      readonly forgotten: number;
      readonly complete: boolean;
      /** Every uid was answered for since this time, ISO 8601. */
      readonly since: string;
    } & FolderKey)
  /**
   * Bytes that a repair found nowhere any more: damaged here, and neither at the origin nor in another copy. Whoever
   * finds them stores them again, and a record behind this fact has them then.
   */
  | {
      readonly fact: 'missing';
      readonly kind: 'message' | 'blob';
      /** SHA-256 of the message's source, or of the blob. */
      readonly hash: string;
      /** Bytes of it; 0 where nobody knows. */
      readonly size: number;
    }
  /**
   * The bytes of a message were removed on purpose. Its own facts go with it, so the places at which the origin
   * still shows it are named here: they are counted as forgotten, not as missing, and are not fetched again. What is
   * forgotten from quarantine never became a message: `message` is a number that stands for it then.
   */
  | {
      readonly fact: 'purged';
      readonly message: MessageId;
      readonly reason: 'forgotten' | 'pruned';
      readonly places?: readonly Place[];
      /** Places at which it stood before. */
      readonly ended?: readonly Place[];
      /** Blobs that go with it: no other message has them. */
      readonly blobs?: readonly BlobHash[];
      /** Parts of mailboxes that were removed. `message` is then a number that names nothing. */
      readonly removed?: readonly RemovedPart[];
      /** Nothing was removed: bytes that had been forgotten before came from `places`, and were not stored. */
      readonly again?: true;
    };

/** What was removed of a mailbox: all of it where no commits are given. */
export interface RemovedPart extends MailboxKey {
  /** The places that appeared from the first of these commits to the last. */
  readonly commits?: readonly [first: number, last: number];
  /** Paths of folders in which nothing else is left: they go too. */
  readonly folders?: readonly string[];
}

export type QuarantineReason =
  | 'short'
  | 'size-disagrees'
  | 'not-mail'
  | 'refused'
  | 'too-large'
  | 'missing';

/** The names of facts, for exhaustive switches and documentation. */
export type FactName = Fact['fact'];

/**
 * Canonical JSON: keys sorted by code unit, no white space, absent and undefined fields left out. The same
 * fact always gives the same bytes, so that a batch's hash is a statement about its content.
 */
export function canonicalJson(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  // Plain loops: every message brings a fact, and this is most of what a fact costs.
  let text = '';
  if (Array.isArray(value)) {
    for (const item of value) text += `${text === '' ? '' : ','}${canonicalJson(item ?? null)}`;
    return `[${text}]`;
  }
  const fields: Readonly<Record<string, unknown>> = { ...value };
  for (const key of Object.keys(fields).sort()) {
    const field = fields[key];
    if (field === undefined) continue;
    text += `${text === '' ? '' : ','}${JSON.stringify(key)}:${canonicalJson(field)}`;
  }
  return `{${text}}`;
}

type Check = (value: unknown) => boolean;

const text: Check = (value) => typeof value === 'string';
const textOrNull: Check = (value) => value === null || typeof value === 'string';
const truth: Check = (value) => typeof value === 'boolean';
const texts: Check = (value) => Array.isArray(value) && value.every(text);
const number: Check = (value) => typeof value === 'number' && Number.isFinite(value);
const wholeNumber: Check = (value) => typeof value === 'number' && Number.isSafeInteger(value);
const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);
const oneOf =
  (...values: readonly string[]): Check =>
  (value) =>
    typeof value === 'string' && values.includes(value);
const fields = (checks: Readonly<Record<string, Check>>): Check => {
  const names = Object.keys(checks);
  const own = Object.values(checks);
  return (value) => {
    if (!isObject(value)) return false;
    // A plain loop: a fact has some forty fields, and each message brings one.
    for (let i = 0; i < names.length; i += 1) {
      if (own[i]?.(value[names[i] ?? '']) !== true) return false;
    }
    return true;
  };
};
const listOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);

const mailbox = { host: text, mailbox: text };
const folder = { ...mailbox, folder: text };
const place = { ...folder, generation: wholeNumber, uid: isCount };

const address = fields({ name: text, address: text });
const listing = fields({
  uid: number,
  date: text,
  flags: texts,
  size: number,
  subject: textOrNull,
  from: (value) => value === null || address(value),
  to: listOf(address),
  cc: listOf(address),
  bcc: listOf(address),
  messageId: textOrNull,
  inReplyTo: textOrNull,
  attachments: listOf(
    fields({
      id: text,
      contentType: text,
      sizeBytes: number,
      inline: truth,
      filename: textOrNull,
      contentId: textOrNull,
    }),
  ),
  extra: isObject,
});

/** The fields of each fact. `satisfies` keeps the list complete; a test holds it against the type. */
const FACTS = {
  mailbox: { ...mailbox, address: text },
  folder: {
    ...folder,
    name: text,
    delimiter: text,
    specialUse: textOrNull,
    generation: wholeNumber,
  },
  'folder-renamed': { ...folder, to: text },
  'folder-gone': folder,
  generation: { ...folder, generation: wholeNumber, reason: text },
  appeared: {
    ...place,
    listing,
    docid: wholeNumber,
    message: isHash,
    size: isCount,
    accepted: optional(oneOf('shorter-twice', 'longer-twice', 'host-rule')),
    assumedFrom: optional(fields(place)),
  },
  flags: { ...place, flags: texts },
  ended: { ...place, reason: text },
  reopened: { ...place, flags: texts, reason: text },
  held: { ...place, held: truth },
  verified: { ...place, message: isHash, docid: wholeNumber, size: isCount, corrected: truth },
  quarantined: { ...place, listing, reason: text, detail: text, kept: optional(isHash) },
  released: { ...place, reason: oneOf('stored', 'ended', 'forgotten') },
  acknowledged: place,
  certificate: {
    ...folder,
    generation: wholeNumber,
    originTotal: number,
    stored: number,
    assumed: number,
    quarantined: number,
    held: number,
    forgotten: number,
    complete: truth,
    since: text,
  },
  missing: { kind: oneOf('message', 'blob'), hash: isHash, size: isCount },
  purged: {
    message: isHash,
    reason: oneOf('forgotten', 'pruned'),
    places: optional(listOf(fields(place))),
    ended: optional(listOf(fields(place))),
    blobs: optional(listOf(isHash)),
    removed: optional(
      listOf(
        fields({
          ...mailbox,
          commits: optional(
            (value) => Array.isArray(value) && value.length === 2 && value.every(isCount),
          ),
          folders: optional(texts),
        }),
      ),
    ),
    again: optional(truth),
  },
} satisfies Record<FactName, Readonly<Record<string, Check>>>;

const CHECKS: ReadonlyMap<string, Check> = new Map(
  Object.entries(FACTS).map(([name, checks]) => [name, fields(checks)]),
);

/**
 * True for a fact that has every field its name asks for. Names and fields that only a newer version knows are let
 * through: whoever switches over names has to count the unknown ones.
 */
export function isFact(value: unknown): value is Fact {
  if (!isObject(value) || typeof value.fact !== 'string') return false;
  return CHECKS.get(value.fact)?.(value) ?? true;
}
