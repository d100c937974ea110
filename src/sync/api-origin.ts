import type { Lane } from '../core/concurrency.ts';
import { hasCode, type MailkeepError } from '../core/errors.ts';
import type { ListedFolder } from '../core/types.ts';
import {
  folderPages,
  type MailboxClient,
  type PlatformClient,
  tooManyFolders,
} from '../service/client.ts';
import { MAILBOXES_PER_REQUEST } from './plan/plan-folder.ts';
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
 * Lists an order's mailboxes with their usage, 100 per request.
 *
 * @param mostPages if the order has more pages, only the first is read
 * @throws errors from `PlatformClient`
 */
export async function orderUsages(
  platform: Pick<PlatformClient, 'listMailboxes'>,
  orderId: string,
  mostPages: number,
  signal: AbortSignal,
): Promise<UsageListing> {
  const mailboxes: ListedUsage[] = [];
  for (let page = 1; ; page += 1) {
    const request = { page, perPage: MAILBOXES_PER_REQUEST, signal };
    const { items, perPage, total } = await platform.listMailboxes(orderId, request);
    mailboxes.push(...items.map(parseUsage));
    const pages = Math.max(1, Math.ceil(total / perPage));
    if (page >= pages) return { mailboxes, pages, complete: mailboxes.length >= total };
    if (pages > mostPages) return { mailboxes, pages, complete: false };
  }
}

function parseUsage({ address, status, usage }: PlatformMailbox): ListedUsage {
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

/** More than any real mailbox has. Each folder costs memory throughout the run, so a longer listing is cut off. */
const MAX_FOLDERS = 20_000;
const MAX_NAME_CHARS = 16 * 1024 * 1024;

/**
 * Returns a read-only origin for a Mailbox API client. It uses only six operations and the quota.
 *
 * @param lane returns the lane for all requests, or undefined to let each request choose one
 * @param onOrder called with the mail order after every listing of mailboxes
 */
export function apiOrigin(
  client: MailboxClient,
  spoolDir: string,
  lane: () => Lane | undefined = () => undefined,
  onOrder: (orderId: string) => void = () => {},
): Omit<Origin, 'requestsPerMinute'> {
  return {
    // Omit the port: another port on a host is the same service, and archives identify services by host.
    host: client.host.replace(/:\d+$/, ''),
    async mailboxes(signal) {
      const request = { signal, lane: lane() };
      const { mailboxes, orderResourceId } = await client.getCurrentAccount(request);
      if (orderResourceId !== null) onOrder(orderResourceId);
      const byId = new Map(mailboxes.map(({ resourceId, address }) => [resourceId, address]));
      return [...byId].map(([resourceId, address]) => ({ resourceId, address }));
    },
    async folders(mailbox, signal) {
      // A folder created or renamed between two pages shifts the others, so one can appear twice or not at all.
      const byPath = new Map<string, ListedFolder>();
      let withoutPath = 0;
      let nameChars = 0;
      let count = 0;
      const listing = (problem?: MailkeepError): FolderListing => ({
        folders: [...byPath.values()],
        complete: problem === undefined && byPath.size >= count,
        withoutPath,
        ...(problem === undefined ? {} : { problem }),
      });
      try {
        for await (const page of folderPages(client, mailbox, { signal, lane: lane() })) {
          count = page.total;
          for (const folder of page.items) {
            nameChars += folder.path.length + folder.name.length;
            if (nameChars > MAX_NAME_CHARS) {
              throw tooManyFolders(client, 'folder names', MAX_NAME_CHARS);
            }
            if (folder.path === '') withoutPath += 1;
            else byPath.set(wellFormed(folder.path), fixName(folder));
            if (byPath.size > MAX_FOLDERS) throw tooManyFolders(client, 'folders', MAX_FOLDERS);
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
      const fallback: Lane = page === 1 && order === 'descending' ? 'new-mail' : 'backlog';
      const options = { page, perPage, sort: sortBy(order), signal, lane: lane() ?? fallback };
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

/** Replaces unpaired surrogates, as in stored names, so that names differing only in surrogates compare equal. */
function fixName(folder: ListedFolder): ListedFolder {
  return { ...folder, path: wellFormed(folder.path), name: wellFormed(folder.name) };
}

function wellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, '\ufffd');
}

function sortBy(order: UidOrder): 'uid' | '-uid' {
  return order === 'ascending' ? 'uid' : '-uid';
}
