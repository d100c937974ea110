import type { FolderKey, Listing } from '../../../src/core/types.ts';
import type { FolderListing, Origin, OriginPage, UidOrder } from '../../../src/sync/ports.ts';

export const AT: FolderKey = { host: 'mail.example.org', mailbox: 'AC1', folder: 'INBOX' };
export const ADDRESS = 'ada@example.org';

/** The listing record that the message of a uid has; computed, so that a million of them take no room. */
export function listingOf(uid: number): Listing {
  return {
    uid,
    date: new Date(Date.UTC(2016, 0, 1) + uid * 1000).toISOString(),
    flags: uid % 3 === 0 ? [] : ['\\Seen'],
    size: 8_000,
    subject: `Message ${uid}`,
    from: { name: 'Ada', address: 'ada@example.org' },
    to: [{ name: 'Bo', address: 'bo@example.org' }],
    cc: [],
    bcc: [],
    messageId: `<${uid}@example.org>`,
    inReplyTo: null,
    attachments: [],
    extra: {},
  };
}

/** An origin with one folder of any number of messages that are computed as they are asked for. */
export class ListingOrigin implements Origin {
  readonly host = AT.host;
  readonly requestsPerMinute = (): number => 60;
  readonly #count: number;
  /** Deleted uids, ascending. */
  readonly #deleted: readonly number[];
  requests = 0;

  constructor(count: number, deleted: readonly number[]) {
    this.#count = count;
    this.#deleted = deleted;
  }

  async mailboxes(): ReturnType<Origin['mailboxes']> {
    this.requests += 1;
    return [{ resourceId: AT.mailbox, address: ADDRESS }];
  }

  async folders(): Promise<FolderListing> {
    this.requests += 1;
    const messageCount = this.#count - this.#deleted.length;
    const unreadCount =
      Math.floor(this.#count / 3) - this.#deleted.filter((uid) => uid % 3 === 0).length;
    const folder = { path: 'INBOX', name: 'INBOX', delimiter: '.', specialUse: null };
    return { folders: [{ ...folder, messageCount, unreadCount }], complete: true };
  }

  async list(
    _at: FolderKey,
    { page, perPage, order }: { page: number; perPage: number; order: UidOrder },
  ): Promise<OriginPage> {
    return this.#page(1, this.#count, (page - 1) * perPage, perPage, order);
  }

  async search(
    _at: FolderKey,
    { uids, perPage, order }: { uids: string; perPage: number; order: UidOrder },
  ): Promise<OriginPage> {
    const named = uids.split(',');
    if (named.length > 1 || !uids.includes(':')) {
      const there = named.map(Number).filter((uid) => !this.#deleted.includes(uid));
      this.requests += 1;
      return { items: there.map(listingOf), total: there.length };
    }
    const [from = '1', to = '*'] = uids.split(':');
    const hi = to === '*' ? this.#count : Math.min(this.#count, Number(to));
    return this.#page(Number(from), hi, 0, perPage, order);
  }

  async source(): ReturnType<Origin['source']> {
    throw new Error('nothing is to be fetched');
  }

  async quota(): ReturnType<Origin['quota']> {
    this.requests += 1;
    return [];
  }

  #page(lo: number, hi: number, skip: number, perPage: number, order: UidOrder): OriginPage {
    this.requests += 1;
    const gone = this.#deleted.filter((uid) => uid >= lo && uid <= hi);
    const total = Math.max(0, hi - lo + 1 - gone.length);
    const items: Listing[] = [];
    let skipped = 0;
    const step = order === 'ascending' ? 1 : -1;
    for (let uid = step > 0 ? lo : hi; uid >= lo && uid <= hi; uid += step) {
      if (items.length >= perPage) break;
      if (gone.includes(uid)) continue;
      if (skipped < skip) skipped += 1;
      else items.push(listingOf(uid));
    }
    return { items, total };
  }
}
