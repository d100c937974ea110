import { addressText } from './address-fields.ts';
import { cutText } from './charsets.ts';
import type { RawField } from './header-block.ts';
import { charsetHint, fieldText } from './header-block.ts';
import type { MimeLimits } from './limits.ts';

/** What a header block says that can be searched. */
export interface HeaderFacts {
  readonly subject: string;
  readonly from: string;
  readonly to: string;
  readonly cc: string;
  readonly bcc: string;
  readonly deliveredTo: string;
  readonly listId: string | null;
  readonly messageId: string | null;
  readonly references: readonly string[];
}

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
