import { fingerprint } from '../../mail/fingerprint.ts';
import type { FolderKey, ListedFolder, Listing, Place } from '../../mail/words.ts';
import { PAGE_SIZE } from '../plan/forecast.ts';
import { observe } from '../plan/observe.ts';
import { weighPage } from '../plan/page-answer.ts';
import { gapsOf, type UidInterval } from '../plan/uid-intervals.ts';
import { Coverage, type PageTicket, recalledCoverage, rememberCoverage } from './coverage.ts';
import { fetchAndStore } from './fetch-source.ts';
import type { PassContext } from './pass-context.ts';
import type { OriginPage } from './ports.ts';
import { walkRange } from './walk.ts';

/** Every uid a folder has or will have. */
const ALL_UIDS: UidInterval = { lo: 1, hi: Number.POSITIVE_INFINITY };

/** How many fetches may wait in the queue before a walk pauses: enough that fetching never waits for a listing. */
const QUEUE_AHEAD = 2 * PAGE_SIZE;

/** One folder in one pass: what is known of it, what was asked, and what its answers proved. */
export class FolderPass {
  readonly at: FolderKey;
  readonly listed: ListedFolder;
  readonly address: string;
  readonly generation: number;
  readonly coverage: Coverage;
  /** Uids whose source is being fetched: a second answer that shows them asks for nothing again. */
  readonly underWay = new Set<number>();
  /** The origin's own count, from the latest answer about the whole folder. */
  total: number;
  /** The highest uid seen in this pass; 0 when none. */
  highestUid = 0;
  /** When the newest page was asked for last, milliseconds since the epoch; the start of the pass before that. */
  lookedAt: number;
  /** Open places that an answer lacked, and uids that answered with another message: seen, not yet decided on. */
  missing = 0;
  contradicted = 0;
  /** Messages that were listed, and gone when their source was asked for. */
  vanished = 0;
  /** Set when an act on this folder failed by itself: nothing more is asked of it in this pass. */
  failed = false;
  #head: OriginPage | undefined;
  /** The highest uid that any earlier pass met: above it nothing is known, and nothing need be looked up. */
  readonly #mark: number;

  constructor(
    ctx: PassContext,
    at: FolderKey,
    listed: ListedFolder,
    address: string,
    generation: number,
  ) {
    this.at = at;
    this.listed = listed;
    this.address = address;
    this.generation = generation;
    this.total = listed.messageCount;
    this.lookedAt = ctx.now();
    this.#mark = ctx.mirror.highestUid(at, generation);
    this.coverage = new Coverage(recalledCoverage(ctx.memory, at, generation));
  }

  /** Asks for the newest page, once a pass. */
  async head(ctx: PassContext): Promise<OriginPage> {
    if (this.#head === undefined) {
      this.lookedAt = ctx.now();
      this.#head = await ctx.origin.list(
        this.at,
        { page: 1, perPage: PAGE_SIZE, order: 'descending' },
        ctx.signal,
      );
    }
    return this.#head;
  }

  /** Forgets the newest page, so that the next `head` asks again. */
  forgetHead(): void {
    this.#head = undefined;
  }

  /** True when listing and archive agree that the folder is empty: nothing is worth a request. */
  isEmpty(ctx: PassContext): boolean {
    const { stored, assumed, quarantined, held } = ctx.mirror.counts(this.at, this.generation);
    return this.listed.messageCount === 0 && stored + assumed + quarantined + held === 0;
  }

  /** True when a backlog is to be walked oldest first: then the newest page waits for its turn. */
  isBackwards(ctx: PassContext): boolean {
    return ctx.order === 'oldest' && this.coverage.durable.length === 0;
  }

  /** Looks at the newest page: new mail, and flags of recent mail. */
  async takeHead(ctx: PassContext): Promise<void> {
    const page = await this.head(ctx);
    this.total = page.total;
    const evidence = weighPage(
      { range: ALL_UIDS, order: 'descending', perPage: PAGE_SIZE },
      { uids: page.items.map(({ uid }) => uid), total: page.total },
    );
    this.highestUid = Math.max(this.highestUid, page.items[0]?.uid ?? 0);
    if (evidence.interval !== null) await this.#take(ctx, evidence.interval, page.items);
  }

  /** Walks every uid that no answer has covered yet, in the configured order. */
  async takeBacklog(ctx: PassContext): Promise<void> {
    const backwards = this.isBackwards(ctx);
    const within = backwards ? ALL_UIDS : { lo: 1, hi: this.highestUid };
    const gaps = [...gapsOf(this.coverage.walked, within)];
    if (!backwards) gaps.reverse();
    for (const gap of gaps) {
      const order = backwards ? 'ascending' : 'descending';
      for await (const page of walkRange(ctx, this.at, gap, order)) {
        for (const { uid } of page.items) this.highestUid = Math.max(this.highestUid, uid);
        await this.#take(ctx, page.interval, page.items);
      }
    }
  }

  /** Tries again what could not be fetched before; each is asked for by name, since it may be gone. */
  async takeQuarantined(ctx: PassContext): Promise<void> {
    const uids = ctx.mirror.quarantined(this.at, this.generation);
    for (let from = 0; from < uids.length; from += PAGE_SIZE) {
      const named = uids.slice(from, from + PAGE_SIZE).filter((uid) => !this.underWay.has(uid));
      if (named.length === 0) continue;
      const answer = await ctx.origin.search(
        this.at,
        { uids: named.join(','), perPage: PAGE_SIZE, order: 'ascending' },
        ctx.signal,
      );
      for (const listing of answer.items) {
        if (named.includes(listing.uid)) await this.#fetch(ctx, listing, undefined, true);
      }
    }
  }

  /** Remembers what is durably covered. Called after each batch. */
  saveCoverage(ctx: PassContext): void {
    rememberCoverage(ctx.memory, this.at, this.generation, this.coverage);
  }

  place(uid: number): Place {
    const { host, mailbox, folder } = this.at;
    return { host, mailbox, folder, generation: this.generation, uid };
  }

  async #take(ctx: PassContext, interval: UidInterval, items: readonly Listing[]): Promise<void> {
    const { at, generation } = this;
    const seen = observe(
      items,
      {
        open: ctx.mirror.openPlaces(at, generation, interval),
        settled: (uid) =>
          this.underWay.has(uid) ||
          (uid <= this.#mark && ctx.mirror.settledAs(at, generation, uid) !== undefined),
      },
      fingerprint,
    );
    this.missing += seen.missing.filter((uid) => !this.underWay.has(uid)).length;
    this.contradicted += seen.contradicted.length;
    for (const { uid, flags } of seen.flagsChanged) {
      ctx.committer.addFact({ fact: 'flags', ...this.place(uid), flags });
      ctx.ledger.count(this.address, 'flagsChanged', 1);
    }
    // The open end of the newest page is not covered: uids that were not handed out yet have no messages.
    const ticket = this.coverage.ticket({
      lo: interval.lo,
      hi: interval.hi === Number.POSITIVE_INFINITY ? this.highestUid : interval.hi,
    });
    for (const listing of seen.appeared) await this.#fetch(ctx, listing, ticket, false);
    ticket.seal();
    this.saveCoverage(ctx);
  }

  async #fetch(
    ctx: PassContext,
    listing: Listing,
    ticket: PageTicket | undefined,
    again: boolean,
  ): Promise<void> {
    ticket?.expect();
    this.underWay.add(listing.uid);
    await ctx.queue.onSizeLessThan(QUEUE_AHEAD);
    ctx.signal.throwIfAborted();
    const settle = (): void => {
      this.underWay.delete(listing.uid);
      ticket?.settle();
    };
    void ctx.queue.add(() => fetchAndStore(ctx, this, listing, again, settle)).catch(ctx.stop);
  }
}
