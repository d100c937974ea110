import type { MailboxClient } from '../../api/mailbox-client.ts';
import type { PlatformClient } from '../../api/platform-client.ts';
import type { Lane } from '../../limiter/lanes.ts';
import type { ListedFolder } from '../../mail/words.ts';
import { MAILBOXES_A_REQUEST } from '../plan/usage-listing.ts';
import type { ListedUsage, Origin, QuotaResource, UidOrder, UsageListing } from './ports.ts';

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

/** No mailbox has as many; each costs memory for the complete pass. The listing is incomplete beyond it. */
const MOST_FOLDERS = 20_000;

/**
 * Returns the origin behind a client of the mailbox surface. It only reads: six operations and the quota.
 *
 * @param lane the lane that all requests wait in; while it returns undefined, each request has its own
 * @param onOrder called with the mail order after every listing of mailboxes
 */
export function apiOrigin(
  client: MailboxClient,
  spoolDir: string,
  lane: () => Lane | undefined = () => undefined,
  onOrder: (orderId: string) => void = () => {},
): Origin {
  return {
    // Without the port: the same service on another port is the same host, and an archive belongs to hosts.
    host: client.host.replace(/:\d+$/, ''),
    async mailboxes(signal) {
      const asked = { signal, lane: lane() };
      const { mailboxes, orderResourceId } = await client.getCurrentAccount(asked);
      if (orderResourceId !== null) onOrder(orderResourceId);
      const byId = new Map(mailboxes.map(({ resourceId, address }) => [resourceId, address]));
      return [...byId].map(([resourceId, address]) => ({ resourceId, address }));
    },
    async folders(mailbox, signal) {
      // A folder that is created or renamed between two pages shifts the rest: one may come twice, or not at all.
      const byPath = new Map<string, ListedFolder>();
      let withoutPath = 0;
      for (let page = 1; ; page += 1) {
        const options = { page, signal, lane: lane() };
        const { items, perPage, total } = await client.listFolders(mailbox, options);
        const before = byPath.size;
        for (const folder of items) {
          if (folder.path === '') withoutPath += 1;
          else byPath.set(wellFormed(folder.path), named(folder));
        }
        // A page without new folders would be followed by more of the same.
        const more = page * perPage < total && byPath.size > before;
        if (more && byPath.size < MOST_FOLDERS) continue;
        return { folders: [...byPath.values()], complete: byPath.size >= total, withoutPath };
      }
    },
    async list(at, { page, perPage, order }, signal) {
      const own: Lane = page === 1 && order === 'descending' ? 'new-mail' : 'backlog';
      const options = { page, perPage, sort: sortBy(order), signal, lane: lane() ?? own };
      return client.listMessages(at, options);
    },
    async search(at, { uids, perPage, order, flag, since }, signal) {
      const options = {
        page: 1,
        perPage,
        sort: sortBy(order),
        signal,
        lane: lane() ?? 'backlog',
      };
      const criteria = {
        uid: uids,
        ...(flag === undefined ? {} : { flags: [flag] }),
        ...(since === undefined ? {} : { since }),
      };
      return client.searchMessages(at, criteria, options);
    },
    async quota(mailbox, signal) {
      const { quotas } = await client.getQuota(mailbox, { signal, lane: 'sweep' });
      return quotas.map(({ resourceName, usage, limit }) => ({ name: resourceName, usage, limit }));
    },
    async source(at, uid, signal) {
      const options = { signal, spoolDir, lane: lane() ?? 'backlog' };
      return client.getMessageSource({ ...at, uid }, options);
    },
  };
}

/** Makes names well-formed, as they are stored: half a surrogate pair is no text, and names that differ in nothing else are one. */
function named(folder: ListedFolder): ListedFolder {
  return { ...folder, path: wellFormed(folder.path), name: wellFormed(folder.name) };
}

function wellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, '\ufffd');
}

function sortBy(order: UidOrder): 'uid' | '-uid' {
  return order === 'ascending' ? 'uid' : '-uid';
}
