import { type FlagSet, type Listing, sameFlags } from '../../mail/words.ts';
import { weighPage } from './answer.ts';
import {
  type AwaitedListing,
  addInterval,
  Coverage,
  covers,
  type DeferredListing,
  gapsOf,
  type PageTicket,
  type UidInterval,
  type UidIntervals,
} from './coverage.ts';
import { accountedFor, expectedAtOrigin, type FolderSums } from './folder-sums.ts';
import { PAGE_SIZE } from './forecast.ts';

/** Every uid a folder has or will have. */
export const ALL_UIDS: UidInterval = { lo: 1, hi: Number.POSITIVE_INFINITY };

/** What is known of a folder before the first answer of a pass. */
export interface EarlierEvidence {
  /** Messages that the folder listing counts. */
  readonly listed: number;
  /** The highest uid that any earlier pass met; 0 when none did. */
  readonly highestUid: number;
  /** Uids that earlier passes covered. */
  readonly covered: UidIntervals;
  /** When the pass began, milliseconds since the epoch. */
  readonly startedAt: number;
}

/** A page, compared with what the archive knows of its interval. */
export interface ComparedPage {
  readonly interval: UidInterval;
  readonly items: readonly Listing[];
  /** Uids that the archive expects in the interval and the page lacks. */
  readonly missing: readonly number[];
  /** Listings that differ from the one their place appeared with. */
  readonly contradicted: readonly Listing[];
}

/**
 * What the answers of one pass say about a folder: what was listed, what is missing, what still has to be decided.
 * Pure: it asks nothing and writes nothing. Whoever learns something calls the method that says what happened.
 */
export class FolderEvidence {
  readonly coverage: Coverage;
  readonly #mark: number;
  readonly #coveredBefore: UidIntervals;
  #total: number;
  #highestUid = 0;
  #askedAt: number;
  /** The lowest uid that the newest page covers. */
  #headLo = 1;
  #answered: UidIntervals = [];
  #flagsChanged = false;
  /** Changed flags that wait to be durable: another answer that shows them adds nothing. */
  readonly #flagsQueued = new Map<number, FlagSet>();
  readonly #missing = new Set<number>();
  readonly #contradicted = new Map<number, Listing>();
  readonly #reappeared = new Map<number, Listing>();
  readonly #replaced = new Set<number>();
  readonly #deferred = new Map<number, DeferredListing>();
  #postponed: AwaitedListing[] = [];
  /** Uids whose source is being fetched, or waits to be: a second answer that shows them asks for nothing. */
  readonly #underWay = new Set<number>();
  /** Uids that this pass quarantined, or whose mail was forgotten: they are not fetched again in this pass. */
  readonly #setAside = new Set<number>();

  constructor({ listed, highestUid, covered, startedAt }: EarlierEvidence) {
    this.#total = listed;
    this.#mark = highestUid;
    this.#coveredBefore = covered;
    this.#askedAt = startedAt;
    this.coverage = new Coverage(covered);
  }

  /** The origin's own count, from the latest answer about the complete folder. */
  get total(): number {
    return this.#total;
  }

  /** The highest uid seen in this pass; 0 when none was. */
  get highestUid(): number {
    return this.#highestUid;
  }

  /** When the newest page was last requested, milliseconds since the epoch; the start of the pass before that. */
  get askedAt(): number {
    return this.#askedAt;
  }

  /** True when no earlier pass met a message here: this pass answers for everything. */
  get isFirst(): boolean {
    return this.#mark === 0;
  }

  /** The uids that the newest page does not cover. */
  get belowHead(): UidInterval {
    return { lo: 1, hi: this.#headLo - 1 };
  }

  /** True when a page showed other flags than the archive had. */
  get flagsChanged(): boolean {
    return this.#flagsChanged;
  }

  /** Uids that an answered interval lacked although the archive knows a message there; not decided yet. */
  get missing(): ReadonlySet<number> {
    return this.#missing;
  }

  /** Open places, by uid, that answered with another listing than the one they appeared with. */
  get contradicted(): ReadonlyMap<number, Listing> {
    return this.#contradicted;
  }

  /** Uids that answer although earlier passes found them empty, or saw their message deleted. */
  get reappeared(): ReadonlyMap<number, Listing> {
    return this.#reappeared;
  }

  /** Uids that certainly show another message than their open place has. */
  get replaced(): ReadonlySet<number> {
    return this.#replaced;
  }

  /** New uids with a message that the mailbox has open elsewhere: moves or copies. Decided with the deletions. */
  get deferred(): ReadonlyMap<number, DeferredListing> {
    return this.#deferred;
  }

  /** True when every uid up to the newest is durably covered. */
  get everyUidCovered(): boolean {
    return this.#reachesTop(this.coverage.durable);
  }

  /** True when the answers of this pass, and of the sweep it continues, showed the flags of every message. */
  get everyFlagAnswered(): boolean {
    return this.#reachesTop(this.#answered);
  }

  #reachesTop(uids: UidIntervals): boolean {
    return this.#highestUid === 0 || covers(uids, { lo: 1, hi: this.#highestUid });
  }

  /** Answered messages that the archive does not count, because their decision is open. */
  get #waiting(): number {
    return this.#deferred.size + this.#reappeared.size;
  }

  /**
   * Returns whether the folder is complete: every uid was answered for, every answer is explained, and the sums of
   * the archive add up to the origin's count.
   */
  isComplete(sums: FolderSums): boolean {
    const unresolved = this.#contradicted.size + this.#waiting;
    return this.everyUidCovered && accountedFor(sums) === this.#total && unresolved === 0;
  }

  /** Returns how many messages the archive has or waits to decide about: the origin's count if nothing is gone. */
  accountedFor(sums: FolderSums): number {
    return accountedFor(sums) + this.#waiting;
  }

  /**
   * Returns whether the archive accounts for as many messages as the origin counts. The newest page agrees uid by
   * uid, and uids only grow: then nothing below it differs, and nothing there need be read.
   */
  addsUp(sums: FolderSums, total: number): boolean {
    return expectedAtOrigin(sums) + this.#waiting - this.#missing.size === total;
  }

  /** Returns the uids that the origin should answer for, ascending. @param known those of the archive, ascending */
  expectedUids(known: readonly number[]): readonly number[] {
    if (this.#waiting === 0) return known;
    const uids = new Set([...known, ...this.#deferred.keys(), ...this.#reappeared.keys()]);
    return [...uids].sort((a, b) => a - b);
  }

  /** Returns the part of a range that no answer has covered, ascending. */
  notWalked(within: UidInterval): UidIntervals {
    return gapsOf(this.coverage.walked, within);
  }

  /** Returns whether a uid waits for its source or for a decision. */
  isAwaited(uid: number): boolean {
    return this.#underWay.has(uid) || this.#deferred.has(uid);
  }

  isUnderWay(uid: number): boolean {
    return this.#underWay.has(uid);
  }

  isSetAside(uid: number): boolean {
    return this.#setAside.has(uid);
  }

  /** Returns whether a uid may be known from an earlier pass: above the highest one nothing is. */
  mayBeKnown(uid: number): boolean {
    return uid <= this.#mark;
  }

  /** Returns whether an earlier pass covered a uid: without a place, it was empty then, or its message is gone. */
  wasCovered(uid: number): boolean {
    return uid <= this.#mark && covers(this.#coveredBefore, { lo: uid, hi: uid });
  }

  /** Records that the newest page is requested now. */
  requestNewestPage(now: number): void {
    this.#askedAt = now;
  }

  /** Records the newest page. Returns the uids it covers, or null when it proves nothing. */
  readNewestPage(page: {
    readonly items: readonly Listing[];
    readonly total: number;
  }): UidInterval | null {
    this.#total = page.total;
    const { interval } = weighPage(
      { range: ALL_UIDS, order: 'descending', perPage: PAGE_SIZE },
      { uids: page.items.map(({ uid }) => uid), total: page.total },
    );
    // The page is sorted: its first message is the newest.
    this.sawUids(page.items.slice(0, 1));
    if (interval !== null) this.#headLo = interval.lo;
    return interval;
  }

  /** Records a page. Returns its ticket and the uids it covers: an open end reaches up to the highest uid seen. */
  readPage(page: ComparedPage): { readonly ticket: PageTicket; readonly answered: UidInterval } {
    const { interval, items, missing, contradicted } = page;
    for (const uid of missing) if (!this.#underWay.has(uid)) this.#missing.add(uid);
    for (const listing of contradicted) this.#contradicted.set(listing.uid, listing);
    for (const { uid } of items) this.#missing.delete(uid);
    // Uids that the origin has not assigned yet have no messages: they are not covered.
    const hi = interval.hi === Number.POSITIVE_INFINITY ? this.#highestUid : interval.hi;
    const answered = { lo: interval.lo, hi };
    this.#answered = addInterval(this.#answered, answered);
    return { ticket: this.coverage.ticket(answered), answered };
  }

  /** Raises the highest uid to that of these messages. */
  sawUids(items: readonly Listing[]): void {
    for (const { uid } of items) this.#highestUid = Math.max(this.#highestUid, uid);
  }

  /** Returns whether nothing that a page showed is left to decide. */
  isExplained({ missing, contradicted }: ComparedPage): boolean {
    const lacks = missing.some((uid) => this.#missing.has(uid));
    return !lacks && contradicted.length === 0 && this.#reappeared.size === 0;
  }

  /** Records uids that an earlier pass of the same sweep has read. */
  resumeSweep(uids: UidIntervals): void {
    for (const interval of uids) this.#answered = addInterval(this.#answered, interval);
  }

  /** Records flags that differ from the archive's. Returns false when an earlier answer showed the same ones. */
  changeFlags(uid: number, flags: FlagSet): boolean {
    const queued = this.#flagsQueued.get(uid);
    if (queued !== undefined && sameFlags(queued, flags)) return false;
    this.#flagsQueued.set(uid, flags);
    this.#flagsChanged = true;
    return true;
  }

  /** Records that a uid answers which earlier passes covered and left without a place. */
  reappear(listing: Listing): void {
    this.#reappeared.set(listing.uid, listing);
  }

  /** Defers a message until it is decided whether it was moved. Its page expects it from now on. */
  defer(message: DeferredListing): void {
    message.ticket.expect();
    this.#deferred.set(message.listing.uid, message);
  }

  /** Removes a message from the deferred ones and returns it; undefined when it is none. */
  takeDeferred(uid: number): DeferredListing | undefined {
    const deferred = this.#deferred.get(uid);
    this.#deferred.delete(uid);
    return deferred;
  }

  /** Lets a message wait until others are fetched. Its page stays open; another answer that shows it adds nothing. */
  postpone(message: AwaitedListing): void {
    this.#underWay.add(message.listing.uid);
    this.#postponed.push(message);
  }

  /** Removes and returns the messages that were postponed. */
  takePostponed(): readonly AwaitedListing[] {
    const postponed = this.#postponed;
    this.#postponed = [];
    return postponed;
  }

  startFetch(uid: number): void {
    this.#underWay.add(uid);
  }

  finishFetch(uid: number): void {
    this.#underWay.delete(uid);
  }

  /** Records that a source is not stored, and is not to be fetched again in this pass. */
  setAside(uid: number): void {
    this.#setAside.add(uid);
  }

  /** Adds uids to the missing ones, to be checked with them. */
  suspectMissing(uids: readonly number[]): void {
    for (const uid of uids) this.#missing.add(uid);
  }

  /** Records that a uid is not missing: it answers, or its end is recorded. */
  clearMissing(uid: number): void {
    this.#missing.delete(uid);
  }

  /** Records that it is decided why a place answered with another listing. */
  resolveContradicted(uid: number): void {
    this.#contradicted.delete(uid);
  }

  /** Records that a uid shows another message than its place: it waits with the messages that may have moved. */
  replace(listing: Listing, fingerprint: string): void {
    this.#replaced.add(listing.uid);
    this.#deferred.set(listing.uid, { listing, fingerprint, ticket: NO_PAGE });
  }

  /** Lets a uid that answers again wait with the messages that may have moved. */
  deferReappeared(listing: Listing, fingerprint: string): void {
    this.#reappeared.delete(listing.uid);
    this.#deferred.set(listing.uid, { listing, fingerprint, ticket: NO_PAGE });
  }

  /** Drops what waits for a decision: what the answers showed belongs to a new generation of the folder. */
  abandon(): void {
    for (const { ticket } of this.#deferred.values()) ticket.settle();
    this.#deferred.clear();
    this.#missing.clear();
    this.#contradicted.clear();
    this.#reappeared.clear();
    this.#replaced.clear();
  }
}

/** For messages of uids that earlier passes covered: no page waits for them. */
const NO_PAGE: PageTicket = { expect: () => {}, settle: () => {}, seal: () => {} };
