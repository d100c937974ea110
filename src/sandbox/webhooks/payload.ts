import type { DeliveryBody } from '../../wire/delivery.ts';
import type { Mailbox } from '../store/mailbox.ts';
import type { Arrival, Store } from '../store/store.ts';

/** The body of a delivery about new mail: the event, the mailbox and the message as a listing shows it. */
export function arrivalPayload(
  store: Store,
  { mailbox, folder, uid }: Arrival,
): Record<keyof DeliveryBody, unknown> {
  const entry = folder.get(uid);
  const data: unknown = entry === null ? {} : JSON.parse(store.records.messageJson(folder, entry));
  return { event: 'message.received', mailbox: mailbox.address, data };
}

/** The body of a test delivery: the same shape about a message that is nowhere. */
export function testPayload(mailbox: Mailbox, nowMs: number): DeliveryBody {
  return {
    event: 'message.received',
    mailbox: mailbox.address,
    data: {
      uid: 1,
      path: 'INBOX',
      date: new Date(nowMs).toISOString(),
      flags: [],
      unseen: true,
      size: 0,
      subject: 'Test delivery',
      from: { name: '', address: mailbox.address },
      to: [{ name: '', address: mailbox.address }],
      cc: [],
      bcc: [],
      messageId: null,
      inReplyTo: null,
      attachments: [],
    },
  };
}
