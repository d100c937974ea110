import type { DeliveryLogRecord } from '../../wire/platform-records.ts';
import type { Reply } from '../http/reply.ts';
import { collection, mailboxIdsOf, type PlatformCall } from './call.ts';

/** What became of deliveries, newest first: one entry for each, changed by every attempt. */
export function listDeliveryLogs(call: PlatformCall): Reply {
  const { deliveries, store } = call.service;
  return collection(
    call,
    deliveries.list(mailboxIdsOf(call)),
    (delivery): DeliveryLogRecord => ({
      created_at: new Date(delivery.createdAt).toISOString(),
      mailbox_address: store.mailboxes.get(delivery.mailbox)?.address ?? '',
      webhook_url: delivery.url,
      is_successful: delivery.state === 'delivered',
      duration: delivery.durationMs,
      // The first attempt is no retry; a delivery that was never tried has none either.
      retry_count: Math.max(0, delivery.attempts - 1),
      max_retry_count: delivery.maxAttempts - 1,
    }),
  );
}
