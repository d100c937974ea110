import { folderPages, type MailboxClient, tooManyFolders } from '../../api/mailbox-client.ts';
import type { PlatformClient } from '../../api/platform-client.ts';
import { hasCode, type MailkeepError } from '../../errors/mailkeep-error.ts';
import type { Lane } from '../../limiter/lanes.ts';
import type { ListedFolder } from '../../mail/words.ts';
import { MAILBOXES_A_REQUEST } from '../plan/usage-listing.ts';
import type {
  FolderListing,
  ListedUsage,
  Origin,
  QuotaResource,
  UidOrder,
  UsageListing,
} from './ports.ts';

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
    if (page >= pages) return { mailboxes, pages, complete: mailboxes.length >= total };
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
/** Characters of all paths and names of a mailbox's folders. */
const MOST_NAME_CHARS = 16 * 1024 * 1024;

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
): Omit<Origin, 'requestsPerMinute'> {
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
      let nameChars = 0;
      let counted = 0;
      const listing = (problem?: MailkeepError): FolderListing => ({
        folders: [...byPath.values()],
        complete: problem === undefined && byPath.size >= counted,
        withoutPath,
        ...(problem === undefined ? {} : { problem }),
      });
      try {
        for await (const page of folderPages(client, mailbox, { signal, lane: lane() })) {
          counted = page.total;
          for (const folder of page.items) {
            nameChars += folder.path.length + folder.name.length;
            if (nameChars > MOST_NAME_CHARS) {
              throw tooManyFolders(client, 'folder names', MOST_NAME_CHARS);
            }
            if (folder.path === '') withoutPath += 1;
            else byPath.set(wellFormed(folder.path), named(folder));
            if (byPath.size > MOST_FOLDERS) throw tooManyFolders(client, 'folders', MOST_FOLDERS);
          }
        }
        return listing();
      } catch (error) {
        const isEndless = hasCode(error, 'origin.paging') || hasCode(error, 'origin.too-large');
        if (!isEndless || byPath.size === 0) throw error;
        return listing(error);
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
