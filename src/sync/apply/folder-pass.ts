import { fingerprint } from '../../mail/fingerprint.ts';
import {
  type FlagSet,
  type FolderKey,
  type ListedFolder,
  type Listing,
  type Place,
  sameFlags,
} from '../../mail/words.ts';
import { bisect } from '../plan/bisect.ts';
import { accountedFor, expectedAtOrigin } from '../plan/folder-sums.ts';
import { PAGE_SIZE } from '../plan/forecast.ts';
import { observe } from '../plan/observe.ts';
import { weighPage } from '../plan/page-answer.ts';
import {
  addInterval,
  covers,
  gapsOf,
  type UidInterval,
  type UidIntervals,
} from '../plan/uid-intervals.ts';
import { dueQuarantined, forgetTries, noteTry } from './memory/quarantine-retries.ts';
import type { PassContext } from './pass-context.ts';
import type { OriginPage } from './ports.ts';
import { askByName } from './walk/ask-by-name.ts';
import {
  type AwaitedListing,
  Coverage,
  type DeferredListing,
  type PageTicket,
  recalledCoverage,
  rememberCoverage,
} from './walk/coverage.ts';
import { fetchAndStore } from './walk/fetch-source.ts';
import { newestPage } from './walk/newest-page.ts';
import { recalledSweep, rememberSwept } from './walk/sweep-progress.ts';
import { canSearch, walkRange } from './walk/walk.ts';

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
  readonly setAside = new Set<number>();
  /** Uids whose flags an answer has shown: of this pass, or of the sweep it goes on with. */
  answered: UidIntervals = [];
  /** Set when a page showed other flags than the archive had. */
  flagsMoved = false;
  /** Uids that an answered interval lacked although the archive knows of a message there: not yet decided on. */
  readonly missing = new Set<number>();
  /** Open places whose uid answered with another listing than the one they appeared with. */
  readonly contradicted = new Map<number, Listing>();
  /** Uids that answer although earlier passes had proved them empty, or had seen their message end. */
  readonly odd = new Map<number, Listing>();
  /** Decides, where it is set, which messages of the backlog wait for others; it keeps them in `postponed`. */
  postpones: ((listing: Listing, ticket: PageTicket) => boolean) | undefined;
  /** Messages that wait for others to be fetched first. Their pages are not covered before. */
  readonly postponed: AwaitedListing[] = [];
  /** New uids that show a message the mailbox has open elsewhere: a move or a copy. They wait for the ends. */
  readonly deferred = new Map<number, DeferredListing>();
  /** Messages that were listed, and gone when their source was asked for. */
  vanished = 0;
  /** Set when an act on this folder failed by itself: nothing more is asked of it in this pass. */
  failed = false;
  /** Flags that are on their way into the archive: another answer that shows them tells nothing new. */
  readonly #flagsTold = new Map<number, FlagSet>();
  #head: OriginPage | undefined;
  /** The lowest uid that the newest page speaks for. */
  #headLo = 1;
  /** What was covered when the pass began: a uid in it that is new was not there before. */
  readonly #coveredBefore: UidIntervals;
  /** The highest uid that any earlier pass met: above it nothing is known, and nothing need be looked up. */
  readonly #mark: number;

  constructor(
    ctx: PassContext,
    at: FolderKey,
    listed: ListedFolder,
    address: string,
    generation: number,
    head?: OriginPage,
  ) {
    this.at = at;
    this.listed = listed;
    this.address = address;
    this.generation = generation;
    this.total = listed.messageCount;
    this.lookedAt = ctx.now();
    this.#head = head;
    this.#mark = ctx.mirror.highestUid(at, generation);
    this.#coveredBefore = recalledCoverage(ctx.memory, at, generation);
    this.coverage = new Coverage(this.#coveredBefore);
  }

  /** Answers that no decision has explained: the folder cannot be called complete. */
  get unresolved(): number {
    return this.contradicted.size + this.odd.size + this.deferred.size;
  }

  /** True when everything there is to know of the folder was answered in this pass. */
  get isFirst(): boolean {
    return this.#mark === 0;
  }

  /** The uids that the newest page does not speak for. */
  get belowHead(): UidInterval {
    return { lo: 1, hi: this.#headLo - 1 };
  }

  /** Asks for the newest page, once a pass. */
  async head(ctx: PassContext): Promise<OriginPage> {
    if (this.#head === undefined) {
      this.lookedAt = ctx.now();
      this.#head = await newestPage(ctx, this.at, this.listed.messageCount);
    }
    return this.#head;
  }

  /** Forgets the newest page, so that the next `head` asks again. */
  forgetHead(): void {
    this.#head = undefined;
  }

  /** True when listing and archive agree that the folder is empty: nothing is worth a request. */
  isEmpty(ctx: PassContext): boolean {
    return this.listed.messageCount === 0 && accountedFor(ctx.mirror.sumsOf(this.at)) === 0;
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
    if (evidence.interval === null) return;
    this.#headLo = evidence.interval.lo;
    await this.#take(ctx, evidence.interval, page.items);
  }

  /**
   * Walks every uid that no answer has covered yet, in the configured order. Newest first, it ends with the page that
   * reaches `lo`.
   */
  async takeBacklog(ctx: PassContext, lo = 1): Promise<void> {
    const backwards = this.isBackwards(ctx);
    const within = backwards ? ALL_UIDS : { lo: 1, hi: this.highestUid };
    const gaps = [...gapsOf(this.coverage.walked, within)];
    if (!backwards) gaps.reverse();
    for (const gap of gaps) {
      if (gap.hi < lo) continue;
      const order = backwards ? 'ascending' : 'descending';
      for await (const page of walkRange(ctx, this.at, gap, order)) {
        for (const { uid } of page.items) this.highestUid = Math.max(this.highestUid, uid);
        await this.#take(ctx, page.interval, page.items);
        if (!backwards && page.interval.lo <= lo) break;
      }
    }
  }

  /** Reads every page below the newest one: every uid is answered for, and every flag is fresh. */
  async sweep(ctx: PassContext): Promise<void> {
    const done = recalledSweep(ctx, this.at, this.generation);
    for (const { lo, hi } of done) this.answered = addInterval(this.answered, { lo, hi });
    for (const gap of gapsOf(done, this.belowHead)) await this.takeRange(ctx, gap);
    // What an earlier pass of the same sweep read may have changed since. Costs nothing where counts agree.
    if (done.length > 0) await this.findDifferences(ctx);
  }

  /** Reads the pages of a range, oldest first. */
  async takeRange(ctx: PassContext, range: UidInterval): Promise<void> {
    for await (const page of walkRange(ctx, this.at, range, 'ascending')) {
      await this.#take(ctx, page.interval, page.items);
    }
  }

  /** Looks below the newest page for the uids that make the counts differ, if they do. */
  async findDifferences(ctx: PassContext): Promise<void> {
    const head = await this.head(ctx);
    const range = this.belowHead;
    if (range.hi < range.lo || this.#addsUp(ctx, head.total)) return;
    const known = this.#expectedUids(ctx);
    const below = head.total - head.items.length;
    const steps = bisect(known, range, below, PAGE_SIZE);
    let step = steps.next();
    while (step.done !== true) {
      const { ask, range: part } = step.value;
      if (ask === 'count' && canSearch(ctx.memory, this.at.host)) {
        const uids = `${part.lo}:${part.hi}`;
        const page = { uids, perPage: 1, order: 'ascending' } as const;
        step = steps.next((await ctx.origin.search(this.at, page, ctx.signal)).total);
      } else {
        await this.takeRange(ctx, ask === 'count' ? range : part);
        if (ask === 'count') return;
        step = steps.next(0);
      }
    }
  }

  /**
   * True when the origin, asked anew where needed, counts more messages than there would be without `ending` of
   * those that the archive has open.
   */
  async countsMoreWithout(ctx: PassContext, ending: number): Promise<boolean> {
    const left = this.#accountedFor(ctx) - ending;
    if (this.total <= left) return false;
    // Something may have been deleted since the count was taken. What arrived since is not accounted for.
    const page = await newestPage(ctx, this.at, 0);
    const arrived = page.items.filter(({ uid }) => uid > this.highestUid).length;
    return page.total - arrived > left;
  }

  /** Messages that the archive has, or waits to decide about: what the origin counts when nothing ended. */
  #accountedFor(ctx: PassContext): number {
    return accountedFor(ctx.mirror.sumsOf(this.at)) + this.deferred.size + this.odd.size;
  }

  /** Tries again what could not be fetched before; each is asked for by name, since it may be gone. */
  async takeQuarantined(ctx: PassContext): Promise<void> {
    const due = dueQuarantined(ctx, this.at, this.generation);
    const uids = due.filter((uid) => !this.underWay.has(uid));
    const { answered, silent } = await askByName(ctx, this.at, uids);
    const wanted = new Set(uids);
    for (const [uid, listing] of answered) {
      if (!wanted.has(uid)) continue;
      noteTry(ctx, this.place(uid));
      await this.fetch(ctx, listing, undefined, true);
    }
    for (const uid of silent) {
      ctx.committer.addFact({ fact: 'released', ...this.place(uid), reason: 'ended' });
      forgetTries(ctx, this.place(uid));
      this.missing.delete(uid);
    }
  }

  /** Fetches what was deferred, because it proved to be no move. */
  async fetchDeferred(ctx: PassContext, uid: number): Promise<void> {
    const deferred = this.deferred.get(uid);
    if (deferred === undefined) return;
    this.deferred.delete(uid);
    // Its page has expected it since it was deferred; expecting it twice would leave the page open for ever.
    await this.fetch(ctx, deferred.listing, deferred.ticket, false);
  }

  /** Fetches what has waited for others. */
  async takePostponed(ctx: PassContext): Promise<void> {
    for (const { listing, ticket } of this.postponed.splice(0)) {
      await this.fetch(ctx, listing, ticket, false);
    }
  }

  /** Remembers what is durably covered: with each page, and when the pass certifies the folder. */
  saveCoverage(ctx: PassContext): void {
    rememberCoverage(ctx.memory, this.at, this.generation, this.coverage);
  }

  place(uid: number): Place {
    return { ...this.at, generation: this.generation, uid };
  }

  async #take(ctx: PassContext, interval: UidInterval, items: readonly Listing[]): Promise<void> {
    const open = ctx.mirror.openPlaces(this.at, this.generation, interval);
    const seen = observe(items, { open, settled: (uid) => this.#isSettled(ctx, uid) }, fingerprint);
    const missing = [...seen.missing, ...ctx.mirror.unplaced(this.at, this.generation, interval)];
    for (const uid of missing) if (!this.underWay.has(uid)) this.missing.add(uid);
    for (const listing of seen.contradicted) this.contradicted.set(listing.uid, listing);
    for (const { uid } of items) {
      this.missing.delete(uid);
      if (open.get(uid)?.held === true) {
        ctx.committer.addFact({ fact: 'held', ...this.place(uid), held: false });
      }
    }
    this.#noteFlags(ctx, seen.flagsChanged);
    // The open end of the newest page is not covered: uids that were not handed out yet have no messages.
    const answered = {
      lo: interval.lo,
      hi: interval.hi === Number.POSITIVE_INFINITY ? this.highestUid : interval.hi,
    };
    this.answered = addInterval(this.answered, answered);
    const ticket = this.coverage.ticket(answered);
    for (const listing of seen.appeared) await this.#appeared(ctx, listing, ticket);
    ticket.seal();
    this.saveCoverage(ctx);
    const lacking = missing.filter((uid) => this.missing.has(uid)).length;
    const explained = lacking + seen.contradicted.length + this.odd.size === 0;
    if (explained) await rememberSwept(ctx, this.at, this.generation, answered);
  }

  /** Takes over the flags that answers show of places that are open: they speak for nothing else. */
  takeFlags(ctx: PassContext, items: readonly Listing[]): void {
    for (const item of items) {
      const range = { lo: item.uid, hi: item.uid };
      const open = ctx.mirror.openPlaces(this.at, this.generation, range);
      const known = { open, settled: () => true };
      this.#noteFlags(ctx, observe([item], known, fingerprint).flagsChanged);
    }
  }

  #noteFlags(
    ctx: PassContext,
    changed: readonly { readonly uid: number; readonly flags: FlagSet }[],
  ): void {
    for (const { uid, flags } of changed) {
      const told = this.#flagsTold.get(uid);
      if (told !== undefined && sameFlags(told, flags)) continue;
      this.#flagsTold.set(uid, flags);
      ctx.committer.addFact({ fact: 'flags', ...this.place(uid), flags });
      ctx.ledger.count(this.address, 'flagsChanged', 1);
      this.flagsMoved = true;
    }
  }

  #isSettled(ctx: PassContext, uid: number): boolean {
    if (this.underWay.has(uid) || this.deferred.has(uid) || this.setAside.has(uid)) return true;
    if (uid > this.#mark) return false;
    const state = ctx.mirror.settledAs(this.at, this.generation, uid);
    return state === 'quarantined' || state === 'forgotten';
  }

  async #appeared(ctx: PassContext, listing: Listing, ticket: PageTicket): Promise<void> {
    const { uid } = listing;
    // A page that shows a uid twice.
    if (this.underWay.has(uid) || this.deferred.has(uid)) return;
    if (uid <= this.#mark && covers(this.#coveredBefore, { lo: uid, hi: uid })) {
      this.odd.set(uid, listing);
      return;
    }
    // Only an archive that had something before the pass can have lost it to a move.
    const print = ctx.startedAtCommit === 0 ? '' : fingerprint(listing);
    if (print !== '' && ctx.mirror.isOpenSomewhere(this.at, print, ctx.startedAtCommit)) {
      ticket.expect();
      this.deferred.set(uid, { listing, fingerprint: print, ticket });
      return;
    }
    ticket.expect();
    if (this.postpones?.(listing, ticket) !== true) await this.fetch(ctx, listing, ticket, false);
  }

  /**
   * True when the archive accounts for as many messages as the origin counts: since the newest page agrees uid by
   * uid, and uids only grow, nothing below it differs. Spares reading the uids of a folder where nothing happened.
   */
  #addsUp(ctx: PassContext, total: number): boolean {
    const waiting = this.deferred.size + this.odd.size;
    return expectedAtOrigin(ctx.mirror.sumsOf(this.at)) + waiting - this.missing.size === total;
  }

  /** Uids that the origin should answer for, ascending: what is open and not held, quarantined, or waits. */
  #expectedUids(ctx: PassContext): readonly number[] {
    const uids = ctx.mirror.expectedUids(this.at, this.generation);
    const waiting = [...this.deferred.keys(), ...this.odd.keys()];
    if (waiting.length === 0) return uids;
    return [...new Set([...uids, ...waiting])].sort((a, b) => a - b);
  }

  /** Queues the fetch of one source, which its page expects already; waits only when too many are queued. */
  async fetch(
    ctx: PassContext,
    listing: Listing,
    ticket: PageTicket | undefined,
    again: boolean,
  ): Promise<void> {
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
