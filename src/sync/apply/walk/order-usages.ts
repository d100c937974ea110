import type { PlatformClient } from '../../../api/platform-client.ts';
import { MAILBOXES_A_REQUEST } from '../../plan/usage-listing.ts';
import type { ListedUsage, QuotaResource, UsageListing } from '../ports.ts';

type PlatformMailbox = Awaited<ReturnType<PlatformClient['listMailboxes']>>['items'][number];

const BYTES_PER_KILOBYTE = 1024;

/**
 * Lists the mailboxes of an order with their usage, 100 per request.
 *
 * @param mostPages if the order has more pages, only the first is read
 * @throws as `PlatformClient`
 */
export async function orderUsages(
  platform: Pick<PlatformClient, 'listMailboxes'>,
  orderId: string,
  mostPages: number,
  signal: AbortSignal,
): Promise<UsageListing> {
  const mailboxes: ListedUsage[] = [];
  for (let page = 1; ; page += 1) {
    const asked = { page, perPage: MAILBOXES_A_REQUEST, signal };
    const { items, perPage, total } = await platform.listMailboxes(orderId, asked);
    mailboxes.push(...items.map(usageOf));
    const pages = Math.max(1, Math.ceil(total / perPage));
    if (page >= pages) return { mailboxes, pages, complete: true };
    if (pages > mostPages) return { mailboxes, pages, complete: false };
  }
}

function usageOf({ address, status, usage }: PlatformMailbox): ListedUsage {
  const countedAt = Date.parse(usage?.synced_at ?? '');
  return {
    address,
    suspended: status === 'suspended',
    countedAt: Number.isNaN(countedAt) ? null : countedAt,
    resources: [
      ...resource('STORAGE', usage?.storage_used, usage?.storage_quota, BYTES_PER_KILOBYTE),
      ...resource('MESSAGE', usage?.messages_used, usage?.messages_quota, 1),
    ],
  };
}

function resource(
  name: string,
  used: number | null | undefined,
  quota: number | null | undefined,
  unit: number,
): QuotaResource[] {
  if (used === null || used === undefined || used < 0) return [];
  const limit = quota === null || quota === undefined || quota < 0 ? null : quota * unit;
  return [{ name, usage: used * unit, limit }];
}
