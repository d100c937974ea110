import type { Fact, FactName } from './facts.ts';
import { isCount, isHash, isObject } from './json-shape.ts';

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
  const named = Object.entries(checks);
  return (value) => isObject(value) && named.every(([name, check]) => check(value[name]));
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
