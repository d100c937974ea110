import addressparser from 'nodemailer/lib/addressparser';
import { parseHeaderDate } from '../mail/header-date.ts';
import { type Address, flagSet, type Listing } from '../mail/words.ts';
import { charsetHint, fieldText, rawText, readHeaderBlock } from '../mime/header-block.ts';

/** As much of a source as is read for its header. */
export const HEAD_BYTES = 256 * 1024;
const FIELD_CHARS = 64 * 1024;
const MOST_ADDRESSES = 1000;

/**
 * Returns the listing that a service would show for a source, as far as its header allows. Never throws on malformed
 * mail.
 *
 * @param head the source, or its beginning
 * @param known what its place shows: its received date (milliseconds since the epoch, or null) and flags
 */
export function listingOf(
  head: Buffer,
  known: {
    readonly uid: number;
    readonly size: number;
    readonly received: number | null;
    /** When the file was written: for sources without any date. */
    readonly modified: number;
    readonly flags: readonly string[];
  },
): Listing {
  const { fields } = readHeaderBlock(head, HEAD_BYTES);
  const hint = charsetHint(fields);
  const raw = (name: string): string => fields.find((field) => field.name === name)?.value ?? '';
  const text = (name: string): string =>
    fieldText(raw(name), FIELD_CHARS, hint).replace(/\s+/g, ' ').trim();
  const addresses = (name: string): Address[] =>
    fields
      .filter((field) => field.name === name)
      .flatMap(({ value }) =>
        addressparser(rawText(value.slice(0, FIELD_CHARS), hint), { flatten: true }),
      )
      .slice(0, MOST_ADDRESSES)
      .map(({ name: shown, address }) => ({
        name: fieldText(shown ?? '', FIELD_CHARS, hint),
        address: address ?? '',
      }))
      .filter(({ name: shown, address }) => shown !== '' || address !== '');
  const received = raw('received');
  const date =
    known.received ??
    parseHeaderDate(received.slice(received.lastIndexOf(';') + 1)) ??
    parseHeaderDate(raw('date')) ??
    known.modified;
  return {
    uid: known.uid,
    date: new Date(date).toISOString(),
    flags: flagSet(known.flags),
    size: known.size,
    subject: fields.some((field) => field.name === 'subject') ? text('subject') : null,
    from: addresses('from')[0] ?? null,
    to: addresses('to'),
    cc: addresses('cc'),
    bcc: addresses('bcc'),
    messageId: text('message-id') || null,
    inReplyTo: text('in-reply-to') || null,
    attachments: [],
    extra: {},
  };
}

/** Flags from Status, X-Status and X-Keywords, as mbox programs keep them in the messages. */
export function flagsFromStatus(head: Buffer): string[] {
  const { fields } = readHeaderBlock(head, HEAD_BYTES);
  const value = (name: string): string => fields.find((field) => field.name === name)?.value ?? '';
  const letters: Readonly<Record<string, string>> = {
    R: '\\Seen',
    A: '\\Answered',
    F: '\\Flagged',
    T: '\\Draft',
    D: '\\Deleted',
  };
  const found = [...`${value('status')}${value('x-status')}`.slice(0, 32)];
  const keywords = value('x-keywords')
    .split(/[\s,]+/)
    .filter((word) => /^[!-[\]-~]{1,100}$/.test(word));
  return [...found.flatMap((letter) => letters[letter] ?? []), ...keywords.slice(0, 100)];
}
