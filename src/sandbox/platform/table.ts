import type { Reply } from '../../mailbox-surface/reply.ts';
import { type Routed, routePath } from '../../mailbox-surface/route.ts';
import type { Operation } from '../../wire/operation.ts';
import type { PlatformOperationName } from '../../wire/operations.ts';
import { PLATFORM_OPERATIONS } from '../../wire/platform-operations.ts';
import type { DeliveryLogRecord, PlatformMailboxRecord } from '../../wire/platform-records.ts';
import type { ServiceState } from '../service-state.ts';
import type { Mailbox } from '../store/mailbox.ts';
import {
  collection,
  mailboxIdsOf,
  orderOf,
  type PlatformCall,
  type PlatformHandler,
  refused,
} from './call.ts';
import {
  createWebhook,
  deleteWebhook,
  getWebhook,
  listWebhooks,
  regenerateWebhookSecret,
  testWebhook,
  updateWebhook,
} from './webhooks.ts';

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

/** Mailboxes of an order whose address contains the search text, with what they hold. */
export function listMailboxes(call: PlatformCall): Reply {
  const { service, query } = call;
  const wanted = String(query.get('search') ?? '').toLowerCase();
  const found = service.orders
    .mailboxesOf(orderOf(call))
    .filter(({ address }) => address.toLowerCase().includes(wanted));
  const sorted = sortedBy(String(query.get('sort') ?? 'address'), found, service);
  return collection(call, sorted, (mailbox) => mailboxRecordOf(mailbox, service));
}

type SortKey = (mailbox: Mailbox, service: ServiceState) => string | number;

const SORT_KEYS: Readonly<Record<string, SortKey>> = {
  address: ({ address }) => address.toLowerCase(),
  status: (mailbox, { standings }) => standings.of(mailbox).status,
  created_at: (mailbox, { standings }) => standings.of(mailbox).createdAt,
  updated_at: (mailbox, { standings }) => standings.of(mailbox).updatedAt,
  storage_used: (mailbox, { store }) => store.usage(mailbox).bytes,
  messages_used: (mailbox, { store }) => store.usage(mailbox).messages,
};

/** Ties go by resource id, so that pages do not overlap. */
function sortedBy(sort: string, mailboxes: readonly Mailbox[], service: ServiceState): Mailbox[] {
  const descending = sort.startsWith('-');
  const field = descending ? sort.slice(1) : sort;
  const keyOf = Object.hasOwn(SORT_KEYS, field) ? SORT_KEYS[field] : undefined;
  if (keyOf === undefined) {
    throw refused({
      sort: [
        `The sort must be one of ${Object.keys(SORT_KEYS).join(', ')}; a leading - is descending.`,
      ],
    });
  }
  const keyed = mailboxes.map((mailbox) => ({ mailbox, key: keyOf(mailbox, service) }));
  keyed.sort((a, b) => order(a.key, b.key) || order(a.mailbox.resourceId, b.mailbox.resourceId));
  if (descending) keyed.reverse();
  return keyed.map(({ mailbox }) => mailbox);
}

function order<T extends string | number>(a: T, b: T): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

const BYTES_PER_KILOBYTE = 1024;

function mailboxRecordOf(
  mailbox: Mailbox,
  { store, standings, settings, now }: ServiceState,
): PlatformMailboxRecord {
  const { status, createdAt, updatedAt } = standings.of(mailbox);
  const usage = store.usage(mailbox);
  return {
    id: mailbox.resourceId,
    address: mailbox.address,
    status,
    usage: {
      storage_used: Math.ceil(usage.bytes / BYTES_PER_KILOBYTE),
      storage_quota: Math.floor(settings.storageQuotaBytes / BYTES_PER_KILOBYTE),
      messages_used: usage.messages,
      messages_quota: settings.messageQuota,
      // Counted for this answer.
      synced_at: new Date(now()).toISOString(),
    },
    created_at: new Date(createdAt).toISOString(),
    updated_at: new Date(updatedAt).toISOString(),
  };
}

export interface PlatformRoute extends Routed {
  readonly operation: Operation;
  readonly handle: PlatformHandler;
}

/** The 9 operations of the platform surface. */
export const PLATFORM_ROUTES: readonly PlatformRoute[] = [
  route('listWebhooks', listWebhooks),
  route('createWebhook', createWebhook),
  route('getWebhook', getWebhook),
  route('updateWebhook', updateWebhook),
  route('deleteWebhook', deleteWebhook),
  route('regenerateWebhookSecret', regenerateWebhookSecret),
  route('testWebhook', testWebhook),
  route('listDeliveryLogs', listDeliveryLogs),
  route('listMailboxes', listMailboxes),
];

function route(name: PlatformOperationName, handle: PlatformHandler): PlatformRoute {
  const operation = PLATFORM_OPERATIONS[name];
  return { method: operation.method, path: routePath(operation.path), operation, handle };
}
