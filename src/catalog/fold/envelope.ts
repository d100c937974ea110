import type { Listing } from '../../mail/words.ts';
import type { Row } from '../query.ts';

/** What a messages row keeps of a listing. */
export type Envelope = Pick<
  Row<'messages'>,
  'date' | 'subject' | 'sender_name' | 'sender_address' | 'message_id'
>;

export function envelopeOf(listing: Listing): Envelope {
  return {
    date: moment(listing.date),
    subject: listing.subject,
    sender_name: listing.from?.name ?? null,
    sender_address: listing.from?.address ?? null,
    message_id: listing.messageId,
  };
}

/** Milliseconds since the epoch, or null for a date that does not parse. */
export function moment(date: string): number | null {
  const parsed = Date.parse(date);
  return Number.isNaN(parsed) ? null : parsed;
}
