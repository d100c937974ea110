import type { Address, FlagSet } from '../core/types.ts';
import { flagSet } from '../core/types.ts';
import { fieldText, rawText } from '../mail/headers.ts';
import { astring, decimal, isList, objectId, type Value } from './response.ts';

/** Longest text kept of a listed field, in characters, and most addresses kept per field. */
const MAX_FIELD = 10_000;
const MAX_ADDRESSES = 1_000;

export function stableIds(items: ReadonlyMap<string, Value>): Record<string, string> {
  const emailId = objectId(items.get('EMAILID'));
  const gmailId = decimal(items.get('X-GM-MSGID'));
  return {
    ...(emailId === null ? {} : { emailId }),
    ...(gmailId === null ? {} : { gmailMessageId: gmailId }),
  };
}

const SYSTEM_FLAGS: ReadonlyMap<string, string> = new Map(
  ['\\Seen', '\\Answered', '\\Flagged', '\\Deleted', '\\Draft'].map((flag) => [
    flag.toLowerCase(),
    flag,
  ]),
);

/** Returns the flags without `\Recent`, which belongs to a session. Null if they are not a list of atoms. */
export function readFlags(value: Value | undefined): FlagSet | null {
  if (!isList(value)) return null;
  const flags: string[] = [];
  for (const flag of value) {
    // A keyword can be called NIL.
    const text = flag === null ? 'NIL' : flag;
    if (typeof text !== 'string') return null;
    const lower = text.toLowerCase();
    if (lower !== '\\recent') flags.push(SYSTEM_FLAGS.get(lower) ?? text);
  }
  return flagSet(flags);
}

/** Reads an ENVELOPE (RFC 9051, section 7.5.2) leniently: what is missing or of another type is null or empty. */
export function readEnvelope(value: Value | undefined) {
  const [, subject, from, , , to, cc, bcc, inReplyTo, messageId] = isList(value) ? value : [];
  return {
    subject: fieldOf(subject),
    from: addresses(from)[0] ?? null,
    to: addresses(to),
    cc: addresses(cc),
    bcc: addresses(bcc),
    messageId: fieldOf(messageId),
    inReplyTo: fieldOf(inReplyTo),
  };
}

function fieldOf(value: Value | undefined): string | null {
  const bytes = astring(value);
  return bytes === null ? null : fieldText(bytes.toString('latin1'), MAX_FIELD, null);
}

/** Leaves out the markers of groups, which have no host. */
function addresses(value: Value | undefined): Address[] {
  if (!isList(value)) return [];
  return value.slice(0, MAX_ADDRESSES).flatMap((one) => {
    const [name, , mailbox, host] = isList(one) ? one : [];
    const local = astring(mailbox)?.toString('latin1');
    const domain = astring(host)?.toString('latin1');
    if (local === undefined || domain === undefined) return [];
    const address = rawText(`${local}@${domain}`.slice(0, MAX_FIELD), null);
    return [{ name: fieldOf(name) ?? '', address }];
  });
}
