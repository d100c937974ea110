import { createHash, hash as digest, hash } from 'node:crypto';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { Address, BlobHash, Listing, MailboxKey, MessageId, Place } from '../core/types.ts';

/** Parses JSON. Returns undefined for invalid text. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Reports whether a value is a JSON object. Does not check its fields. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

const HASH = /^[0-9a-f]{64}$/;

/** Reports whether a value is a lower-case hexadecimal SHA-256. */
export function isHash(value: unknown): value is string {
  return typeof value === 'string' && HASH.test(value);
}

/** Returns canonical JSON: keys sorted by code unit, no whitespace, absent and undefined fields omitted. */
export function canonicalJson(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  // Plain loops, because every message adds a fact, and these loops account for most of its cost.
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

type Check<T> = (value: unknown) => value is T;
export type Checked<C> = C extends Check<infer T> ? T : never;
type Checks = Readonly<Record<string, Check<unknown>>>;
type OptionalNames<C> = {
  [Name in keyof C]: undefined extends Checked<C[Name]> ? Name : never;
}[keyof C];
/** The type of an object whose fields pass these checks. */
type Shape<C> = {
  readonly [Name in Exclude<keyof C, OptionalNames<C>>]: Checked<C[Name]>;
} & {
  readonly [Name in OptionalNames<C>]?: Exclude<Checked<C[Name]>, undefined>;
};

export const isText: Check<string> = (value) => typeof value === 'string';
export const isTextOrNull: Check<string | null> = (value) =>
  value === null || typeof value === 'string';
const isBoolean: Check<boolean> = (value) => typeof value === 'boolean';
const isNumber: Check<number> = (value): value is number =>
  typeof value === 'number' && Number.isFinite(value);
const isInteger: Check<number> = (value): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value);
const isOptional =
  <T>(check: Check<T>): Check<T | undefined> =>
  (value): value is T | undefined =>
    value === undefined || check(value);
export const isOneOf =
  <T extends string>(...values: readonly T[]): Check<T> =>
  (value): value is T =>
    values.some((one) => one === value);
export const isListOf =
  <T>(check: Check<T>): Check<readonly T[]> =>
  (value): value is readonly T[] =>
    Array.isArray(value) && value.every(check);
export const hasFields = <C extends Checks>(checks: C): Check<Shape<C>> => {
  const names = Object.keys(checks);
  const fieldChecks = Object.values(checks);
  return (value): value is Shape<C> => {
    if (!isObject(value)) return false;
    // A plain loop, because a message adds a fact with about forty fields.
    for (let i = 0; i < names.length; i += 1) {
      if (fieldChecks[i]?.(value[names[i] ?? '']) !== true) return false;
    }
    return true;
  };
};

const isTexts = isListOf(isText);
const mailbox = { host: isText, mailbox: isText };
const folder = { ...mailbox, folder: isText };
const placeFields = { ...folder, generation: isInteger, uid: isCount };
const place: Check<Place> = hasFields(placeFields);
const address: Check<Address> = hasFields({ name: isText, address: isText });
const listing: Check<Listing> = hasFields({
  uid: isNumber,
  date: isText,
  flags: isTexts,
  size: isNumber,
  subject: isTextOrNull,
  from: (value): value is Address | null => value === null || address(value),
  to: isListOf(address),
  cc: isListOf(address),
  bcc: isListOf(address),
  messageId: isTextOrNull,
  inReplyTo: isTextOrNull,
  attachments: isListOf(
    hasFields({
      id: isText,
      contentType: isText,
      sizeBytes: isNumber,
      inline: isBoolean,
      filename: isTextOrNull,
      contentId: isTextOrNull,
    }),
  ),
  extra: isObject,
});

/** Accepts unknown reasons, because newer versions may add some. */
const quarantineReason = (value: unknown): value is QuarantineReason => isText(value);
export type QuarantineReason =
  | 'short'
  | 'size-disagrees'
  | 'not-mail'
  | 'refused'
  | 'too-large'
  | 'missing';

const commitRange = (value: unknown): value is readonly [first: number, last: number] =>
  Array.isArray(value) && value.length === 2 && value.every(isCount);
const removedPart = hasFields({
  ...mailbox,
  /** First and last commits of the range in which the places appeared. Absent if all places are removed. */
  commits: isOptional(commitRange),
  /** Paths of folders that became empty and are also removed. */
  folders: isOptional(isTexts),
});
const loss = hasFields({
  ...mailbox,
  message: isHash,
  /** No other mailbox had the message, so its bytes were removed as well. */
  last: isOptional((value): value is true => isBoolean(value)),
});
/** A removed part of a mailbox. */
export type RemovedRange = Checked<typeof removedPart>;

/**
 * The fields of each type of fact. Facts record everything in the archive except bytes. Each record holds one fact as
 * canonical JSON. A fact concerns a single place, so forgetting the place removes its facts. Facts have no timestamps,
 * because their batch's commit has one.
 */
const FACTS = {
  /**
   * A mailbox was first seen, or its address or account changed. `account` is the account's name in the configuration,
   * for accounts that are one mailbox (IMAP).
   */
  mailbox: { ...mailbox, address: isText, account: isOptional(isText) },
  /**
   * A folder was created or restored, or its special use changed. `generation` is its current UID epoch, and
   * `uidValidity` that epoch's number at an IMAP server.
   */
  folder: {
    ...folder,
    name: isText,
    delimiter: isText,
    specialUse: isTextOrNull,
    generation: isInteger,
    uidValidity: isOptional(isText),
  },
  /** A folder was renamed. Its places and UID epochs continue under the new path. */
  'folder-renamed': { ...folder, to: isText },
  /** A folder was removed. Separate facts end its open places. */
  'folder-gone': folder,
  /** The service reassigned the folder's UIDs, which now belong to `generation`. */
  generation: {
    ...folder,
    generation: isInteger,
    reason: isText,
    uidValidity: isOptional(isText),
  },
  /** A message appeared at a place. `size` is the size of the stored raw source in bytes. */
  appeared: {
    ...placeFields,
    listing,
    docid: isInteger,
    message: isHash,
    size: isCount,
    /** Why a source was accepted even though its size differs from the listing. Absent if the sizes match. */
    accepted: isOptional(isOneOf('shorter-twice', 'longer-twice', 'host-rule')),
    /** The place whose bytes were matched. Absent if the message was downloaded. */
    assumedFrom: isOptional(place),
  },
  /** The flags of an open place changed to this set. */
  flags: { ...placeFields, flags: isTexts },
  /** The message was deleted from the service. */
  ended: { ...placeFields, reason: isText },
  /** A place was reopened. It had been ended by mistake, or its UID returned with the same fingerprint. */
  reopened: { ...placeFields, flags: isTexts, reason: isText },
  /** The deletion guard started or stopped holding a missing place open. */
  held: { ...placeFields, held: isBoolean },
  /** A place that was matched without a download has been verified. `message` is its actual content. */
  verified: {
    ...placeFields,
    message: isHash,
    docid: isInteger,
    size: isCount,
    corrected: isBoolean,
  },
  /** A message could not be fetched in full. `kept` is the blob with the received bytes, if any. */
  quarantined: {
    ...placeFields,
    listing,
    reason: quarantineReason,
    detail: isText,
    kept: isOptional(isHash),
  },
  /** An incomplete message was stored (an `appeared` follows), deleted from the service or forgotten by the user. */
  released: { ...placeFields, reason: isOneOf('stored', 'ended', 'forgotten') },
  /** The user acknowledged an incomplete message. */
  acknowledged: placeFields,
  /** A folder's reconciliation, recorded at most once a day. */
  certificate: {
    ...folder,
    generation: isInteger,
    originTotal: isNumber,
    stored: isNumber,
    assumed: isNumber,
    quarantined: isNumber,
    held: isNumber,
    forgotten: isNumber,
    complete: isBoolean,
    /** Start of the period during which every UID has been accounted for, ISO 8601. */
    since: isText,
  },
  /**
   * A repair could not find these bytes anywhere. `size` is 0 if unknown. If the bytes reappear, they are stored again
   * in a record after this fact.
   */
  missing: { kind: isOneOf('message', 'blob'), hash: isHash, size: isCount },
  /**
   * The bytes of a message were removed on purpose, together with its facts. This fact therefore lists the places where
   * the service still has the message. These places are forgotten rather than missing, and are not fetched again. An
   * incomplete message has no message ID, so if one is forgotten, `message` is a placeholder.
   */
  purged: {
    message: isHash,
    reason: isOneOf('forgotten', 'pruned'),
    places: isOptional(isListOf(place)),
    /** The message's places that had already ended. */
    ended: isOptional(isListOf(place)),
    /** Blobs that were removed with the message because no other message uses them. */
    blobs: isOptional(isListOf(isHash)),
    /** If present, `message` is a number that does not identify a message. */
    removed: isOptional(isListOf(removedPart)),
    /** If present, one mailbox lost a message that others may have. `message` is then `forgottenId` of the two. */
    from: isOptional(loss),
    /** Nothing was removed. Forgotten bytes were received again from `places` and were not stored. */
    again: isOptional((value): value is true => isBoolean(value)),
  },
};

const FORGOTTEN_DOMAIN = 'mailkeep forgotten 1\n';

/**
 * Returns the id that stands for a message forgotten in one mailbox: the SHA-256 of `mailkeep forgotten 1\n` followed by
 * canonical JSON of the list of host, mailbox and message. Readers that know no `from` take it for another message, and
 * leave the message where it is.
 */
export function forgottenId(message: MessageId, { host, mailbox: id }: MailboxKey): MessageId {
  return hash('sha256', FORGOTTEN_DOMAIN + canonicalJson([host, id, message]));
}

/** Returns the message whose bytes a purge removed, or an id of no message. */
export function removedMessage({ message, from }: Extract<Fact, { fact: 'purged' }>): MessageId {
  return from?.last === true ? from.message : message;
}

export type FactName = keyof typeof FACTS;
export type Fact = {
  [Name in FactName]: { readonly fact: Name } & Shape<(typeof FACTS)[Name]>;
}[FactName];

const CHECKS: ReadonlyMap<string, Check<unknown>> = new Map(
  Object.entries<Checks>(FACTS).map(([name, checks]) => [name, hasFields(checks)]),
);

/** Checks a fact's fields. Accepts unknown names and fields from newer versions, so switches must handle them. */
export function isFact(value: unknown): value is Fact {
  if (!isObject(value) || typeof value.fact !== 'string') return false;
  return CHECKS.get(value.fact)?.(value) ?? true;
}

/** Kinds of record that have content. The numbers are stored on disk as bytes. */
export const RECORD_KIND = { blob: 1, message: 2, fact: 3, commit: 4 } as const;

/**
 * The position of a record. Sealing and purging preserve its segment and its ordinal, which counts from 0. `offset` is
 * valid only in generation 1; a sealed file's footer maps ordinals to offsets.
 */
export interface Position {
  readonly segment: number;
  readonly ordinal: number;
  readonly offset: number;
}

export interface Commit {
  readonly number: number;
  /** Milliseconds since the epoch, never earlier than the previous commit's. */
  readonly time: number;
  /** Lower-case hexadecimal. See `commitHash`. */
  readonly hash: string;
}

/** The part of a record that the catalog needs. The record's bytes remain in the log. */
export type RecordMeaning =
  | { readonly kind: 'blob'; readonly hash: BlobHash; readonly size: number }
  | { readonly kind: 'message'; readonly id: MessageId; readonly size: number }
  | { readonly kind: 'fact'; readonly fact: Fact };

export type FoldedRecord = RecordMeaning & { readonly position: Position };

export interface CommittedBatch {
  readonly commit: Commit;
  readonly previousHash: string;
  readonly records: readonly FoldedRecord[];
}

export interface Locator {
  blob(hash: BlobHash): Position | undefined;
  message(id: MessageId): Position | undefined;
}

/** Kind u8, raw length u32, SHA-256. */
const IDENTITY_BYTES = 37;

const DOMAIN = Buffer.from('mailkeep commit 1\n', 'latin1');

export interface CommitRecord extends Commit {
  readonly previous: string;
  /** Number of records in the batch, excluding the commit. */
  readonly records: number;
  /** The commit's ordinal, so that a reader can resume counting after damage. */
  readonly ordinal: number;
  readonly offset: number;
}

/** Collects the identities of a batch's records, in order. */
export class Identities {
  #bytes = Buffer.allocUnsafe(64 * IDENTITY_BYTES);
  #count = 0;

  get count(): number {
    return this.#count;
  }

  add(kind: number, rawLength: number, hash: Buffer): void {
    const at = this.#count * IDENTITY_BYTES;
    if (at + IDENTITY_BYTES > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(this.#bytes.length * 2);
      this.#bytes.copy(larger);
      this.#bytes = larger;
    }
    this.#bytes[at] = kind;
    this.#bytes.writeUInt32LE(rawLength, at + 1);
    hash.copy(this.#bytes, at + 5);
    this.#count += 1;
  }

  bytes(): Buffer {
    return this.#bytes.subarray(0, this.#count * IDENTITY_BYTES);
  }
}

/**
 * Returns the SHA-256 of `mailkeep commit 1\n` followed by the previous commit's hash (32 bytes), number (u64), time
 * (u64, milliseconds) and the identities of the batch's records in order, little-endian. Excludes codecs and positions,
 * so that recompressing or purging a record keeps the chain valid.
 */
export function commitHash(
  previous: string,
  number: number,
  time: number,
  identities: Identities,
): string {
  const head = Buffer.allocUnsafe(DOMAIN.length + 48);
  DOMAIN.copy(head, 0);
  head.write(previous, DOMAIN.length, 'hex');
  head.writeBigUInt64LE(BigInt(number), DOMAIN.length + 32);
  head.writeBigUInt64LE(BigInt(time), DOMAIN.length + 40);
  return digest('sha256', Buffer.concat([head, identities.bytes()]), 'hex');
}

export function encodeCommit(commit: CommitRecord): Buffer {
  return Buffer.from(canonicalJson(commit), 'utf8');
}

/** Returns undefined if the payload is not a commit. */
export function decodeCommit(payload: Buffer): CommitRecord | undefined {
  const value = parseJson(payload.toString('utf8'));
  if (!isCommit(value)) return undefined;
  const { number, time, hash, previous, records, ordinal, offset } = value;
  return { number, time, hash, previous, records, ordinal, offset };
}

const isCommit = hasFields({
  ...{ number: isCount, time: isCount, hash: isHash, previous: isHash },
  ...{ records: isCount, ordinal: isCount, offset: isCount },
});

/** Version of the segment header, independent of FORMAT. */
const HEADER_VERSION = 1;

export const SEGMENT_HEADER_BYTES = 64;
export const ARCHIVE_ID_BYTES = 8;

const SEGMENT_MAGIC = Buffer.from([0x89, 0x4d, 0x4b, 0x53]); // \x89MKS

export interface SegmentHeader {
  readonly archiveId: Buffer;
  readonly segment: number;
  readonly generation: number;
  /** The commit before the segment's first batch, or number 0 and the genesis hash. */
  readonly previousNumber: number;
  readonly previousHash: string;
}

/** Returns the hash that precedes the first commit and binds the chain to this archive. */
export function genesisHash(archiveId: Buffer): string {
  return createHash('sha256').update('mailkeep genesis 1\n').update(archiveId).digest('hex');
}

/**
 * Encodes a header, little-endian: magic 4, version u16, generation u16, archive ID 8, segment u32, number u64 and hash
 * 32 of the previous commit, CRC-32 of the preceding 60 bytes.
 */
export function encodeSegmentHeader(header: SegmentHeader): Buffer {
  const bytes = Buffer.alloc(SEGMENT_HEADER_BYTES);
  SEGMENT_MAGIC.copy(bytes, 0);
  bytes.writeUInt16LE(HEADER_VERSION, 4);
  bytes.writeUInt16LE(header.generation, 6);
  header.archiveId.copy(bytes, 8);
  bytes.writeUInt32LE(header.segment, 16);
  bytes.writeBigUInt64LE(BigInt(header.previousNumber), 20);
  bytes.write(header.previousHash, 28, 'hex');
  bytes.writeUInt32LE(crc32(bytes.subarray(0, 60)), 60);
  return bytes;
}

/** Returns undefined unless the bytes are an intact header of this version. */
export function decodeSegmentHeader(bytes: Buffer): SegmentHeader | undefined {
  if (bytes.length < SEGMENT_HEADER_BYTES || !bytes.subarray(0, 4).equals(SEGMENT_MAGIC))
    return undefined;
  if (bytes.readUInt32LE(60) !== crc32(bytes.subarray(0, 60))) return undefined;
  if (bytes.readUInt16LE(4) !== HEADER_VERSION) return undefined;
  return {
    archiveId: Buffer.from(bytes.subarray(8, 16)),
    segment: bytes.readUInt32LE(16),
    generation: bytes.readUInt16LE(6),
    previousNumber: Number(bytes.readBigUInt64LE(20)),
    previousHash: bytes.toString('hex', 28, 60),
  };
}

export const RECORD_HEADER_BYTES = 64;

/** All record kinds that a file can contain. Only sealed files have blocks and footers. */
export const STORED_KIND = { ...RECORD_KIND, block: 5, footer: 6 } as const;

/** How a payload is stored. Only FORMAT 2 allows zstd. */
export const CODEC = { none: 0, zlib: 1, reservedForEncryption: 2, zstd: 3 } as const;

/** Marks a record whose payload was removed on purpose. Its identity is kept, so the chain remains valid. */
export const FLAG_PURGED = 1;

const RECORD_MAGIC = Buffer.from([0x89, 0x4d, 0x4b, 0x52]); // \x89MKR
const RECORD_MAGIC_NUMBER = RECORD_MAGIC.readUInt32LE(0);

/** Offset of the archive ID in a record header. A search for lost records scans for this ID. */
export const RECORD_ID_OFFSET = 52;

export interface RecordHeader {
  readonly kind: number;
  readonly codec: number;
  readonly flags: number;
  readonly rawLength: number;
  readonly storedLength: number;
  /** SHA-256 of the payload before compression. */
  readonly hash: Buffer;
  /** CRC-32 of the payload as stored. */
  readonly crc: number;
}

/** The archive and segment that a header belongs to. The header's CRC covers both, as well as its offset. */
export interface RecordSpace {
  readonly archiveId: Buffer;
  readonly segment: number;
}

// 60 bytes of header, then the offset (u64) and the segment (u32), which only the CRC covers. A header is valid at only
// one position in one archive, so message bytes cannot pass for a record, even if they are an attached segment.
const scratch = Buffer.alloc(72);

/** @param offset position of the header in the file */
export function writeRecordHeader(
  target: Buffer,
  at: number,
  header: RecordHeader,
  space: RecordSpace,
  offset: number,
): void {
  RECORD_MAGIC.copy(scratch, 0);
  scratch[4] = header.kind;
  scratch[5] = header.codec;
  scratch.writeUInt16LE(header.flags, 6);
  scratch.writeUInt32LE(header.rawLength, 8);
  scratch.writeUInt32LE(header.storedLength, 12);
  header.hash.copy(scratch, 16);
  scratch.writeUInt32LE(header.crc, 48);
  space.archiveId.copy(scratch, RECORD_ID_OFFSET);
  writePlace(space.segment, offset);
  scratch.copy(target, at, 0, 60);
  target.writeUInt32LE(crc32(scratch), at + 60);
}

/** Returns undefined unless there is an intact header for this archive, segment and offset. The hash is a copy. */
export function readRecordHeader(
  source: Buffer,
  at: number,
  space: RecordSpace,
  offset: number,
): RecordHeader | undefined {
  if (at + RECORD_HEADER_BYTES > source.length || source.readUInt32LE(at) !== RECORD_MAGIC_NUMBER) {
    return undefined;
  }
  source.copy(scratch, 0, at, at + 60);
  writePlace(space.segment, offset);
  if (source.readUInt32LE(at + 60) !== crc32(scratch)) return undefined;
  if (scratch.compare(space.archiveId, 0, 8, RECORD_ID_OFFSET, 60) !== 0) return undefined;
  return {
    kind: scratch.readUInt8(4),
    codec: scratch.readUInt8(5),
    flags: scratch.readUInt16LE(6),
    rawLength: scratch.readUInt32LE(8),
    storedLength: scratch.readUInt32LE(12),
    hash: Buffer.from(scratch.subarray(16, 48)),
    crc: scratch.readUInt32LE(48),
  };
}

function writePlace(segment: number, offset: number): void {
  scratch.writeUInt32LE(offset >>> 0, 60);
  scratch.writeUInt32LE(Math.floor(offset / 0x1_0000_0000), 64);
  scratch.writeUInt32LE(segment, 68);
}

/** Segment size at which the next batch starts a new segment. */
export const SEGMENT_BYTES = 64 * 1024 * 1024;

/** Gives access to the owner only. */
export const FOLDER_MODE = 0o700;
export const FILE_MODE = 0o600;

/** The file `log/<number>.<generation>.seg`. Generation 1 is unsealed; higher generations are sealed. */
export interface SegmentFile {
  readonly segment: number;
  readonly generation: number;
}

export function formatPath(dir: string): string {
  return join(dir, 'FORMAT');
}

export function logFolder(dir: string): string {
  return join(dir, 'log');
}

export function segmentName({ segment, generation }: SegmentFile): string {
  return `${String(segment).padStart(10, '0')}.${generation}.seg`;
}

export function segmentPath(dir: string, file: SegmentFile): string {
  return join(logFolder(dir), segmentName(file));
}

/** Returns the path of an unfinished file. Readers ignore such files, and the next writer removes them. */
export function temporaryPath(path: string): string {
  return `${path}.tmp`;
}

export function isTemporary(name: string): boolean {
  return name.endsWith('.seg.tmp');
}

export function tailPath(dir: string, number: number): string {
  return join(logFolder(dir), `tail-${number}.bin`);
}

const SEGMENT_NAME = /^(\d{10})\.([1-9]\d{0,4})\.seg$/;
const TAIL_NAME = /^tail-([1-9]\d*)\.bin$/;

export function parseSegmentName(name: string): SegmentFile | undefined {
  const match = SEGMENT_NAME.exec(name);
  return match === null ? undefined : { segment: Number(match[1]), generation: Number(match[2]) };
}

/** Returns the number in the name of a torn tail, or undefined for any other name. */
export function parseTailName(name: string): number | undefined {
  const match = TAIL_NAME.exec(name);
  return match === null ? undefined : Number(match[1]);
}

/** Returns 32 pooled bytes. For small records, this is twice as fast as `hash` with the `buffer` encoding. */
export function sha256(bytes: Buffer): Buffer {
  return Buffer.from(hash('sha256', bytes, 'binary'), 'binary');
}
