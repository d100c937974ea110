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
      retry_count: delivery.attempts,
      max_retry_count: delivery.maxAttempts,
    }),
  );
}
