import type { Lane } from '../core/concurrency.ts';
import { hasCode, type MailkeepError } from '../core/errors.ts';
import type { ListedFolder, Listing } from '../core/types.ts';
import {
  folderPages,
  type MailboxClient,
  type PlatformClient,
  tooManyFolders,
} from '../service/client.ts';
import { MAILBOXES_A_REQUEST } from './plan/plan-folder.ts';
import type {
  FolderListing,
  ListedUsage,
  Memory,
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

/** No real mailbox has more. Each folder costs memory for the whole run, so a longer listing counts as incomplete. */
const MAX_FOLDERS = 20_000;
const MAX_NAME_CHARS = 16 * 1024 * 1024;

/**
 * Returns the origin of a Mailbox API client. It only reads: it uses six operations and the quota.
 *
 * @param lane returns the lane for all requests, or undefined to let each request choose its own
 * @param onOrder called with the mail order after every listing of mailboxes
 */
export function apiOrigin(
  client: MailboxClient,
  spoolDir: string,
  lane: () => Lane | undefined = () => undefined,
  onOrder: (orderId: string) => void = () => {},
): Omit<Origin, 'requestsPerMinute'> {
  return {
    // Without the port: another port of a host is the same service, and archives identify services by host.
    host: client.host.replace(/:\d+$/, ''),
    async mailboxes(signal) {
      const asked = { signal, lane: lane() };
      const { mailboxes, orderResourceId } = await client.getCurrentAccount(asked);
      if (orderResourceId !== null) onOrder(orderResourceId);
      const byId = new Map(mailboxes.map(({ resourceId, address }) => [resourceId, address]));
      return [...byId].map(([resourceId, address]) => ({ resourceId, address }));
    },
    async folders(mailbox, signal) {
      // Creating or renaming a folder between two pages shifts the rest, so a folder may appear twice or not at all.
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
            if (nameChars > MAX_NAME_CHARS) {
              throw tooManyFolders(client, 'folder names', MAX_NAME_CHARS);
            }
            if (folder.path === '') withoutPath += 1;
            else byPath.set(wellFormed(folder.path), named(folder));
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

/** Replaces unpaired surrogates, as stored names do. Names that differ only in surrogates are therefore equal. */
function named(folder: ListedFolder): ListedFolder {
  return { ...folder, path: wellFormed(folder.path), name: wellFormed(folder.name) };
}

function wellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, '\ufffd');
}

function sortBy(order: UidOrder): 'uid' | '-uid' {
  return order === 'ascending' ? 'uid' : '-uid';
}

/** Fetches per sync run of a source that is shorter than listed, before the message counts as incomplete. */
export const FETCHES_IN_A_RUN = 3;
/** Only a sync run at least 10 minutes later can confirm a short source. */
export const CONFIRM_AFTER_MS = 600_000;
/** Consecutive messages that a size rule must explain before it is trusted. */
export const MESSAGES_TO_LEARN = 20;

export interface FetchedFacts {
  readonly size: number;
  readonly sha256: string;
  /** The Message-ID header without angle brackets, or null. */
  readonly messageId: string | null;
  /** False for a web page, such as a portal or a maintenance notice. */
  readonly looksLikeMail: boolean;
  /** Numbers of CRLF line ends and of lone LFs. */
  readonly crlf: number;
  readonly bareLf: number;
}

export interface EarlierFetch {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly sha256: string;
}

/** A host's systematic size error: `lf` counts a CRLF as one byte, `crlf` counts an LF as two, `offset` adds bytes. */
export type SizeRule =
  | { readonly kind: 'lf' }
  | { readonly kind: 'crlf' }
  | { readonly kind: 'offset'; readonly bytes: number };

export type Judgement =
  | { readonly verdict: 'accept'; readonly mark?: 'shorter-twice' | 'longer-twice' | 'host-rule' }
  | { readonly verdict: 'again' }
  | { readonly verdict: 'quarantine'; readonly reason: 'short' | 'size-disagrees' | 'not-mail' };

/**
 * Decides about a source by its fetches in this sync run (at least one, latest last) and earlier ones.
 *
 * A source of the listed size is complete. Any other size requires the listed Message-ID. Then the host's learned rule
 * accepts it at once. Otherwise, a longer source needs two equal fetches. A shorter one needs the same bytes from
 * another sync run, at least ten minutes later.
 */
export function judgeSource(input: {
  readonly listing: Pick<Listing, 'size' | 'messageId'>;
  readonly fetches: readonly [FetchedFacts, ...FetchedFacts[]];
  readonly earlier: readonly EarlierFetch[];
  readonly rule: SizeRule | null;
  readonly now: number;
}): Judgement {
  const { listing, fetches, earlier, rule, now } = input;
  const latest = fetches[fetches.length - 1] ?? fetches[0];
  const mayRetry = fetches.length < FETCHES_IN_A_RUN;
  const carries = carriesListedId(listing, latest);
  if (!latest.looksLikeMail && !isMailWithoutHeaders(listing, latest)) {
    return mayRetry ? { verdict: 'again' } : { verdict: 'quarantine', reason: 'not-mail' };
  }
  if (latest.size === listing.size) return { verdict: 'accept' };
  if (carries && rule !== null && sizeByRule(rule, latest) === listing.size) {
    return { verdict: 'accept', mark: 'host-rule' };
  }
  const shorter = latest.size < listing.size;
  if (carries && !shorter) {
    const agrees = fetches.slice(0, -1).some(({ sha256 }) => sha256 === latest.sha256);
    if (agrees) return { verdict: 'accept', mark: 'longer-twice' };
  }
  if (mayRetry) return { verdict: 'again' };
  if (carries && shorter) {
    const confirmed = earlier.some(
      ({ at, sha256 }) => sha256 === latest.sha256 && now - at >= CONFIRM_AFTER_MS,
    );
    if (confirmed) return { verdict: 'accept', mark: 'shorter-twice' };
  }
  return { verdict: 'quarantine', reason: shorter ? 'short' : 'size-disagrees' };
}

/**
 * Returns whether an apparent web page is mail without headers: a portal's page has neither the listed Message-ID nor,
 * if none is listed, exactly the listed size.
 */
function isMailWithoutHeaders(
  listing: Pick<Listing, 'size' | 'messageId'>,
  fetched: FetchedFacts,
): boolean {
  if (!carriesListedId(listing, fetched)) return false;
  return bareId(listing.messageId) !== null || fetched.size === listing.size;
}

export function carriesListedId(
  listing: Pick<Listing, 'messageId'>,
  fetched: Pick<FetchedFacts, 'messageId'>,
): boolean {
  return bareId(listing.messageId) === bareId(fetched.messageId);
}

function bareId(id: string | null): string | null {
  const bare = id?.trim().replace(/^<|>$/g, '').trim() ?? '';
  return bare === '' ? null : bare;
}

function sizeByRule(rule: SizeRule, fetched: FetchedFacts): number {
  switch (rule.kind) {
    case 'lf':
      return fetched.size - fetched.crlf;
    case 'crlf':
      return fetched.size + fetched.bareLf;
    case 'offset':
      return fetched.size + rule.bytes;
  }
}

/** How many messages in a row each rule explained on one host. Stored between runs. */
export interface SizeLessons {
  readonly lf: number;
  readonly crlf: number;
  readonly offset: { readonly bytes: number; readonly count: number };
}

export const NO_LESSONS: SizeLessons = { lf: 0, crlf: 0, offset: { bytes: 0, count: 0 } };

/** Returns the lessons after one more message. If the size matched (`fetched` is undefined), every rule is refuted. */
export function learnSizes(
  lessons: SizeLessons,
  listing: Pick<Listing, 'size' | 'messageId'>,
  fetched: FetchedFacts | undefined,
): SizeLessons {
  if (fetched === undefined || fetched.size === listing.size) {
    const isBlank = lessons.lf === 0 && lessons.crlf === 0 && lessons.offset.count === 0;
    return isBlank ? lessons : NO_LESSONS;
  }
  if (!carriesListedId(listing, fetched)) return lessons;
  const fits = (rule: SizeRule): boolean => sizeByRule(rule, fetched) === listing.size;
  const bytes = listing.size - fetched.size;
  return {
    lf: fits({ kind: 'lf' }) ? lessons.lf + 1 : 0,
    crlf: fits({ kind: 'crlf' }) ? lessons.crlf + 1 : 0,
    offset: { bytes, count: lessons.offset.bytes === bytes ? lessons.offset.count + 1 : 1 },
  };
}

export function ruleOf({ lf, crlf, offset }: SizeLessons): SizeRule | null {
  if (lf >= MESSAGES_TO_LEARN) return { kind: 'lf' };
  if (crlf >= MESSAGES_TO_LEARN) return { kind: 'crlf' };
  if (offset.count >= MESSAGES_TO_LEARN) return { kind: 'offset', bytes: offset.bytes };
  return null;
}

const SIZE_LESSONS = 'size-lessons';

/** Scope of memory: how many sources in a row had another Message-ID than their unchanged listing. */
const ODD_IDS = 'odd-ids';

/** Learns how each host's listed sizes differ from those of the sources. */
export class HostRules {
  #lessons: SizeLessons;
  #oddIds: number;

  constructor(
    private readonly memory: Memory,
    private readonly host: string,
  ) {
    this.#lessons = memory.get(SIZE_LESSONS, host) ?? NO_LESSONS;
    this.#oddIds = memory.get(ODD_IDS, host) ?? 0;
  }

  get rule(): SizeRule | null {
    return ruleOf(this.#lessons);
  }

  /** True for a host whose listed Message-IDs keep differing from those in its sources. */
  get altersMessageIds(): boolean {
    return this.#oddIds >= MESSAGES_TO_LEARN;
  }

  /** Records a source with another Message-ID than listed. @param listedStill true if the listing is unchanged */
  learnIds(listedStill: boolean): void {
    this.#oddIds = listedStill ? this.#oddIds + 1 : 0;
    this.memory.set(ODD_IDS, this.host, this.#oddIds);
  }

  learn(listing: Listing, fetched: FetchedFacts | undefined): void {
    const lessons = learnSizes(this.#lessons, listing, fetched);
    if (lessons === this.#lessons) return;
    this.#lessons = lessons;
    this.memory.set(SIZE_LESSONS, this.host, lessons);
  }
}

/** After this many failures in a row, the host is failing rather than single messages. */
const FAILURES_OF_A_HOST = 20;

/** Counts failed requests in a row, whatever the error. */
export class Trouble {
  #inARow = 0;

  /** @throws the error itself, after too many failures in a row */
  failed(error: MailkeepError): void {
    this.#inARow += 1;
    if (this.#inARow >= FAILURES_OF_A_HOST) throw error;
  }

  over(): void {
    this.#inARow = 0;
  }
}
