import { fingerprint } from '../../mail/fingerprint.ts';
import {
  type FlagSet,
  type FolderKey,
  flagSet,
  type ListedFolder,
  type Listing,
  type Place,
} from '../../mail/words.ts';
import { observe } from '../plan/answer.ts';
import { bisect } from '../plan/bisect.ts';
import { gapsOf, type PageTicket, type UidInterval } from '../plan/coverage.ts';
import { ALL_UIDS, FolderEvidence } from '../plan/folder-evidence.ts';
import { accountedFor, type FolderSums, notAccountedFor } from '../plan/folder-sums.ts';
import { PAGE_SIZE } from '../plan/forecast.ts';
import {
  recalledCoverage,
  recalledSweep,
  rememberCoverage,
  rememberSwept,
} from './memory/covered-uids.ts';
import { dueQuarantined, forgetTries, noteTry } from './memory/second-looks.ts';
import { guard, type PassContext } from './pass-context.ts';
import type { OriginPage } from './ports.ts';
import { askByName } from './walk/ask-by-name.ts';
import { FetchJob } from './walk/fetch-job.ts';
import { canSearch, newestPage, walkRange } from './walk/walk.ts';

/** How a backlog is walked. */
interface BacklogOptions {
  /** Newest first, the walk ends with the page that reaches this uid; 1 when left out. */
  readonly downTo?: number;
  /** Returns whether a message waits until others are fetched. */
  readonly postpones?: (listing: Listing) => boolean;
}

/**
 * One folder in one pass: makes the requests, records their answers as evidence and queues fetches. What the
 * evidence means is decided elsewhere.
 */
export class FolderPass {
  readonly evidence: FolderEvidence;
  #head: OriginPage | undefined;
  #failed = false;

  constructor(
    private readonly ctx: PassContext,
    readonly at: FolderKey,
    readonly listed: ListedFolder,
    readonly address: string,
    readonly generation: number,
    head?: OriginPage,
  ) {
    this.#head = head;
    this.evidence = new FolderEvidence({
      listed: listed.messageCount,
      highestUid: ctx.mirror.highestUid(at, generation),
      covered: recalledCoverage(ctx.memory, at, generation, accountedFor(this.sums)),
      startedAt: ctx.now(),
    });
  }

  /** True when an act on this folder failed by itself: nothing more is asked of it in this pass. */
  get failed(): boolean {
    return this.#failed;
  }

  get sums(): FolderSums {
    return this.ctx.mirror.sumsOf(this.at);
  }

  /** Messages that the listing counts and the archive does not account for. */
  get remaining(): number {
    return notAccountedFor(this.listed.messageCount, this.sums);
  }

  /** True when listing and archive agree that the folder is empty: nothing is worth a request. */
  get isEmpty(): boolean {
    return this.listed.messageCount === 0 && accountedFor(this.sums) === 0;
  }

  /** True when a backlog is walked oldest first: the newest page then waits for its turn. */
  get isBackwards(): boolean {
    const isNew = this.evidence.coverage.durable.length === 0;
    return this.ctx.settings.order === 'oldest' && isNew;
  }

  place(uid: number): Place {
    return { ...this.at, generation: this.generation, uid };
  }

  /** Runs an act on the folder unless one has failed before; a failure is recorded. */
  async guarded(act: () => Promise<void>): Promise<void> {
    if (this.#failed) return;
    const at = { mailbox: this.address, folder: this.at.folder };
    this.#failed = !(await guard(this.ctx, at, act));
  }

  /** Requests the newest page, once a pass. */
  async head(): Promise<OriginPage> {
    if (this.#head === undefined) {
      this.evidence.requestNewestPage(this.ctx.now());
      this.#head = await newestPage(this.ctx, this.at, this.listed.messageCount);
    }
    return this.#head;
  }

  /** Forgets the newest page, so that the next `head` requests it again. */
  forgetHead(): void {
    this.#head = undefined;
  }

  /** Reads the newest page: new mail, and flags of recent mail. */
  async readHead(): Promise<void> {
    const page = await this.head();
    const interval = this.evidence.readNewestPage(page);
    if (interval !== null) await this.#read(interval, page.items);
  }

  /** Walks every uid that no answer has covered yet, in the configured order. */
  async walkBacklog({ downTo = 1, postpones }: BacklogOptions = {}): Promise<void> {
    const backwards = this.isBackwards;
    const within = backwards ? ALL_UIDS : { lo: 1, hi: this.evidence.highestUid };
    const gaps = [...this.evidence.notWalked(within)];
    if (!backwards) gaps.reverse();
    for (const gap of gaps) {
      if (gap.hi < downTo) continue;
      const order = backwards ? 'ascending' : 'descending';
      for await (const page of walkRange(this.ctx, this.at, gap, order)) {
        this.evidence.sawUids(page.items);
        await this.#read(page.interval, page.items, postpones);
        if (!backwards && page.interval.lo <= downTo) break;
      }
    }
  }

  /** Reads every page below the newest one, so that every uid and every flag is answered for. */
  async sweep(): Promise<void> {
    const done = recalledSweep(this.ctx, this.at, this.generation);
    this.evidence.resumeSweep(done);
    for (const gap of gapsOf(done, this.evidence.belowHead)) await this.#readRange(gap);
    // What an earlier pass of the same sweep read may have changed since. Costs nothing where counts agree.
    if (done.length > 0) await this.findDifferences();
  }

  async #readRange(range: UidInterval): Promise<void> {
    for await (const page of walkRange(this.ctx, this.at, range, 'ascending')) {
      await this.#read(page.interval, page.items);
    }
  }

  /** Searches below the newest page for the uids that make the counts differ, if they do. */
  async findDifferences(): Promise<void> {
    const head = await this.head();
    const range = this.evidence.belowHead;
    if (range.hi < range.lo || this.evidence.addsUp(this.sums, head.total)) return;
    const { mirror, memory, origin, signal } = this.ctx;
    const known = this.evidence.expectedUids(mirror.expectedUids(this.at, this.generation));
    const below = head.total - head.items.length;
    const steps = bisect(known, range, below, PAGE_SIZE);
    let step = steps.next();
    while (step.done !== true) {
      const { ask, range: part } = step.value;
      if (ask === 'count' && canSearch(memory, this.at.host)) {
        const page = { uids: `${part.lo}:${part.hi}`, perPage: 1, order: 'ascending' } as const;
        step = steps.next((await origin.search(this.at, page, signal)).total);
      } else {
        await this.#readRange(ask === 'count' ? range : part);
        if (ask === 'count') return;
        step = steps.next(0);
      }
    }
  }

  /**
   * Returns whether the origin counts more messages than would be left without `gone` of those that the archive has
   * open. Requests the newest page again where that decides.
   */
  async countsMoreWithout(gone: number): Promise<boolean> {
    const { evidence } = this;
    const left = evidence.accountedFor(this.sums) - gone;
    if (evidence.total <= left) return false;
    // Something may have been deleted since the count was taken. What arrived since is not accounted for.
    const page = await newestPage(this.ctx, this.at, 0);
    const arrived = page.items.filter(({ uid }) => uid > evidence.highestUid).length;
    return page.total - arrived > left;
  }

  /** Retries what could not be fetched before. Each is asked for by name, since it may be gone. */
  async retryQuarantined(): Promise<void> {
    const ctx = this.ctx;
    const due = dueQuarantined(ctx, this.at, this.generation);
    const uids = due.filter((uid) => !this.evidence.isUnderWay(uid));
    const { answered, silent } = await askByName(ctx, this.at, uids);
    const wanted = new Set(uids);
    for (const [uid, listing] of answered) {
      if (!wanted.has(uid)) continue;
      noteTry(ctx, this.place(uid));
      await this.#fetch(listing, undefined, true);
    }
    for (const uid of silent) {
      ctx.committer.addFact({ fact: 'released', ...this.place(uid), reason: 'ended' });
      forgetTries(ctx, this.place(uid));
      this.evidence.clearMissing(uid);
    }
  }

  /** Fetches a deferred message that is no move. One that answers again where its own place ended is there again. */
  async fetchDeferred(uid: number): Promise<void> {
    const deferred = this.evidence.takeDeferred(uid);
    if (deferred === undefined) return;
    const { listing, ticket } = deferred;
    const { committer, mirror } = this.ctx;
    if (mirror.endedFingerprint(this.at, this.generation, uid) !== deferred.fingerprint) {
      // Its page has expected it since it was deferred; expecting it twice would leave the page open for ever.
      await this.fetch(listing, ticket);
      return;
    }
    const reopened = { fact: 'reopened', ...this.place(uid), reason: 'answers-again' } as const;
    committer.addFact({ ...reopened, flags: flagSet(listing.flags) }, () => ticket.settle());
  }

  /** Fetches the messages that waited for others. */
  async fetchPostponed(): Promise<void> {
    for (const { listing, ticket } of this.evidence.takePostponed()) {
      await this.fetch(listing, ticket);
    }
  }

  /** Queues the fetch of one source, which its page expects already; waits only when too many are queued. */
  async fetch(listing: Listing, ticket?: PageTicket): Promise<void> {
    await this.#fetch(listing, ticket, false);
  }

  async #fetch(listing: Listing, ticket: PageTicket | undefined, again: boolean): Promise<void> {
    const { queue, signal, stop } = this.ctx;
    this.evidence.startFetch(listing.uid);
    await queue.room();
    signal.throwIfAborted();
    const job = new FetchJob(this.ctx, {
      folder: this,
      listing,
      again,
      onSetAside: () => this.evidence.setAside(listing.uid),
      onSettled: () => {
        this.evidence.finishFetch(listing.uid);
        ticket?.settle();
      },
    });
    queue.add(() => job.run().catch(stop));
  }

  /** Remembers what is durably covered: with each page, and when the pass certifies the folder. */
  saveCoverage(): void {
    rememberCoverage(this.ctx.memory, this.at, this.generation, this.evidence.coverage);
  }

  /** Compares a page with the archive, records what it shows, and queues what is new. */
  async #read(
    interval: UidInterval,
    items: readonly Listing[],
    postpones?: (listing: Listing) => boolean,
  ): Promise<void> {
    const { mirror, committer } = this.ctx;
    const open = mirror.openPlaces(this.at, this.generation, interval);
    const seen = observe(items, { open, settled: (uid) => this.#isSettled(uid) }, fingerprint);
    const missing = [...seen.missing, ...mirror.unplaced(this.at, this.generation, interval)];
    const page = { interval, items, missing, contradicted: seen.contradicted };
    const { ticket, answered } = this.evidence.readPage(page);
    for (const { uid } of items) {
      if (open.get(uid)?.held !== true) continue;
      committer.addFact({ fact: 'held', ...this.place(uid), held: false });
    }
    this.#recordChangedFlags(seen.flagsChanged);
    for (const listing of seen.appeared) await this.#receive(listing, ticket, postpones);
    ticket.seal();
    this.saveCoverage();
    if (this.evidence.isExplained(page)) {
      await rememberSwept(this.ctx, this.at, this.generation, answered);
    }
  }

  /** Decides what a listing without a place is: an earlier uid that answers again, perhaps a move, or new mail. */
  async #receive(
    listing: Listing,
    ticket: PageTicket,
    postpones: ((listing: Listing) => boolean) | undefined,
  ): Promise<void> {
    const { startedAtCommit, mirror } = this.ctx;
    const { evidence } = this;
    // A page may show a uid twice.
    if (evidence.isAwaited(listing.uid)) return;
    if (evidence.wasCovered(listing.uid)) {
      evidence.reappear(listing);
      return;
    }
    // Only an archive that had something before the pass can have lost it to a move.
    const print = startedAtCommit === 0 ? '' : fingerprint(listing);
    if (print !== '' && mirror.isOpenSomewhere(this.at, print, startedAtCommit)) {
      evidence.defer({ listing, fingerprint: print, ticket });
      return;
    }
    ticket.expect();
    if (postpones?.(listing) === true) evidence.postpone({ listing, ticket });
    else await this.fetch(listing, ticket);
  }

  #isSettled(uid: number): boolean {
    if (this.evidence.isAwaited(uid) || this.evidence.isSetAside(uid)) return true;
    if (!this.evidence.mayBeKnown(uid)) return false;
    const state = this.ctx.mirror.settledAs(this.at, this.generation, uid);
    return state === 'quarantined' || state === 'forgotten';
  }

  /** Records the flags that answers show of open places, and draws no other conclusion from these answers. */
  recordFlags(items: readonly Listing[]): void {
    for (const item of items) {
      const range = { lo: item.uid, hi: item.uid };
      const open = this.ctx.mirror.openPlaces(this.at, this.generation, range);
      const known = { open, settled: () => true };
      this.#recordChangedFlags(observe([item], known, fingerprint).flagsChanged);
    }
  }

  #recordChangedFlags(changed: readonly { readonly uid: number; readonly flags: FlagSet }[]): void {
    for (const { uid, flags } of changed) {
      if (!this.evidence.changeFlags(uid, flags)) continue;
      this.ctx.committer.addFact({ fact: 'flags', ...this.place(uid), flags });
      this.ctx.ledger.count(this.address, 'flagsChanged', 1);
    }
  }
}
