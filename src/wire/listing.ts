import { hasCode } from '../errors/mailkeep-error.ts';
import { originError } from '../errors/origin.ts';
import { type Address, flagSet, type ListedAttachment, type Listing } from '../mail/words.ts';
import { typeName } from './codec.ts';

/**
 * Message records are decoded by hand: pages of 100 are the bulk of what is read, and this is several times
 * faster than the schema (`messageRecord`), which a test holds it against.
 */

/** Fields of the record that a listing has names for, or that only repeat the place (`path`) and the flags (`unseen`). */
const NAMED = new Set([
  'uid',
  'path',
  'date',
  'flags',
  'unseen',
  'size',
  'subject',
  'from',
  'to',
  'cc',
  'bcc',
  'messageId',
  'inReplyTo',
  'attachments',
]);

/** Without them a record says nothing, or something false: no flags would be taken for flags that are gone. */
const FIRM = new Set(['uid', 'flags']);

const NOTHING: Readonly<Record<string, unknown>> = Object.freeze({});
/** What is nested deeper is no field of mail; whoever walks it by calling itself runs out of stack. */
const MOST_NESTED = 100;
const TOO_DEEP = `left out: nested more than ${MOST_NESTED} deep`;

const NO_ADDRESSES: readonly Address[] = Object.freeze([]);
const NO_ATTACHMENTS: readonly ListedAttachment[] = Object.freeze([]);

/**
 * Decodes one message record leniently: only `uid` is required; a field that is missing or null is null or
 * empty; an unknown field goes to `extra`. So does, unchanged, one of a wrong type, which counts as missing:
 * a message that is listed oddly must not hide the others of its page.
 *
 * @param path where the record stands in the answer, such as `data[3]`, for the error
 * @throws origin.shape where it is no record, without a uid, or its flags cannot be read
 */
export function decodeListing(record: unknown, operation: string, path = 'data'): Listing {
  const at: At = { operation, path };
  try {
    return decodeSound(at, record);
  } catch (error) {
    if (!hasCode(error, 'origin.shape') || !isObject(record)) throw error;
    return decodeSalvaged(at, record);
  }
}

/** Leaves out the fields that are of a wrong type, and keeps them in `extra`. */
function decodeSalvaged(at: At, record: Readonly<Record<string, unknown>>): Listing {
  const sound: Record<string, unknown> = { ...record };
  const odd: Record<string, unknown> = {};
  for (const field of NAMED) {
    if (FIRM.has(field) || !(field in sound)) continue;
    try {
      decodeSound(at, { uid: 1, [field]: sound[field] });
    } catch {
      odd[field] = shallow(sound[field]);
      delete sound[field];
    }
  }
  const listing = decodeSound(at, sound);
  return { ...listing, extra: { ...listing.extra, ...odd } };
}

function decodeSound(at: At, record: unknown): Listing {
  if (!isObject(record)) throw wrong(at, '', record, 'object');
  const { uid, from } = record;
  if (typeof uid !== 'number' || !Number.isSafeInteger(uid) || uid < 1) {
    throw wrong(at, 'uid', uid, 'integer at least 1');
  }
  return {
    uid,
    date: stringOrNull(at, 'date', record.date) ?? '',
    flags: flags(at, record.flags),
    size: whole(at, 'size', record.size),
    subject: stringOrNull(at, 'subject', record.subject),
    from: from === null || from === undefined ? null : address(at, 'from', from),
    to: addresses(at, 'to', record.to),
    cc: addresses(at, 'cc', record.cc),
    bcc: addresses(at, 'bcc', record.bcc),
    messageId: stringOrNull(at, 'messageId', record.messageId),
    inReplyTo: stringOrNull(at, 'inReplyTo', record.inReplyTo),
    attachments: attachments(at, record.attachments),
    extra: unnamed(record),
  };
}

interface At {
  readonly operation: string;
  readonly path: string;
}

function wrong({ operation, path }: At, field: string, found: unknown, expected: string): Error {
  const full = field === '' ? path : `${path}.${field}`;
  return originError('origin.shape', { operation, path: full, found: typeName(found), expected });
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function stringOrNull(at: At, field: string, value: unknown): string | null {
  if (typeof value === 'string') return value;
  if (value === null || value === undefined) return null;
  throw wrong(at, field, value, 'string or null');
}

function whole(at: At, field: string, value: unknown): number {
  if (value === null || value === undefined) return 0;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw wrong(at, field, value, 'integer at least 0');
}

function items(at: At, field: string, value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  if (value === null || value === undefined) return [];
  throw wrong(at, field, value, 'array');
}

function flags(at: At, value: unknown): readonly string[] {
  const given = items(at, 'flags', value);
  if (given.length === 0) return [];
  const texts = given.map((flag, i) => {
    if (typeof flag === 'string') return flag;
    throw wrong(at, `flags[${i}]`, flag, 'string');
  });
  return texts.length === 1 ? texts : flagSet(texts);
}

function address(at: At, field: string, value: unknown): Address {
  if (!isObject(value)) throw wrong(at, field, value, 'object');
  return {
    name: stringOrNull(at, `${field}.name`, value.name) ?? '',
    address: stringOrNull(at, `${field}.address`, value.address) ?? '',
  };
}

function addresses(at: At, field: string, value: unknown): readonly Address[] {
  const given = items(at, field, value);
  if (given.length === 0) return NO_ADDRESSES;
  return given.map((item, i) => address(at, `${field}[${i}]`, item));
}

function attachments(at: At, value: unknown): readonly ListedAttachment[] {
  const given = items(at, 'attachments', value);
  if (given.length === 0) return NO_ATTACHMENTS;
  return given.map((item, i) => {
    const field = `attachments[${i}]`;
    if (!isObject(item)) throw wrong(at, field, item, 'object');
    const { inline } = item;
    if (inline !== null && inline !== undefined && typeof inline !== 'boolean') {
      throw wrong(at, `${field}.inline`, inline, 'boolean');
    }
    return {
      // The interface calls it attachmentId where it names the parameter, and id in the record.
      id: stringOrNull(at, `${field}.id`, item.id ?? item.attachmentId) ?? '',
      contentType: stringOrNull(at, `${field}.contentType`, item.contentType) ?? '',
      sizeBytes: whole(at, `${field}.sizeBytes`, item.sizeBytes),
      inline: inline ?? false,
      filename: stringOrNull(at, `${field}.filename`, item.filename),
      contentId: stringOrNull(at, `${field}.contentId`, item.contentId),
    };
  });
}

/** Returns the unknown fields. `defineProperty` because a field may be called `__proto__`. */
function unnamed(record: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  let extra: Record<string, unknown> | undefined;
  for (const name in record) {
    if (NAMED.has(name)) continue;
    extra ??= {};
    Object.defineProperty(extra, name, {
      value: shallow(record[name]),
      enumerable: true,
      writable: true,
      configurable: true,
    });
  }
  return extra ?? NOTHING;
}

/** The value, or a word in its place where it is nested too deep. */
function shallow(value: unknown): unknown {
  let level = [value];
  for (let depth = 0; depth <= MOST_NESTED; depth += 1) {
    level = level.flatMap((item) =>
      typeof item === 'object' && item !== null ? Object.values(item) : [],
    );
    if (level.length === 0) return value;
  }
  return TOO_DEEP;
}
