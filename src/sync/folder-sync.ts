import { rm } from 'node:fs/promises';
import type { QuarantineReason } from '../archive/format.ts';
import type { MailkeepError } from '../core/errors.ts';
import type { FolderTuple } from '../core/state.ts';
import {
  countAccountedFor,
  countMissing,
  type FlagSet,
  type FolderKey,
  type FolderTotals,
  flagSet,
  type ListedFolder,
  type Listing,
  type Place,
  sameFlags,
} from '../core/types.ts';
import { fingerprint } from '../mail/identity.ts';
import { syncError } from './errors.ts';
import { type FetchVerdict, fetchVerified } from './fetch-source.ts';
import type { KnownMessage } from './mirror.ts';
import { ALL_UIDS, FolderEvidence } from './plan/folder-evidence.ts';
import {
  bisect,
  findGaps,
  observe,
  PAGE_SIZE,
  type PageTicket,
  type UidInterval,
  uidsOnPage,
} from './plan/plan-folder.ts';
import {
  concernsOnly,
  type FetchedSource,
  type OriginPage,
  runGuarded,
  type SyncContext,
  type UidOrder,
} from './ports.ts';
import {
  dueIncomplete,
  forgetTries,
  recallCoverage,
  recallFullSync,
  recordTry,
  rememberCoverage,
  rememberFolderId,
  rememberFullSync,
  rememberModSeqs,
} from './sync-memory.ts';
import { canSearch, fetchUids, newestPage, walkRange } from './walk.ts';

/** Larger rejected sources are stored only as a hash. */
const KEEP_ASIDE_BYTES = 4 * 1024 * 1024;

/** Failures of a fetch that say nothing about its message: the folder was renumbered, deleted or renamed meanwhile. */
const ENDS_THE_FOLDER: ReadonlySet<string> = new Set([
  'imap.renumbered',
  'imap.folder-refused',
  'imap.no-uid-epoch',
]);

/** A message whose source has been fetched but may not be durable yet. */
interface FetchedMessage extends KnownMessage {
  readonly fingerprint: string;
}

class FetchJob {
  readonly #place: Place;
  /** Called once the message is in the catalog. */
  #onStored = (): void => {};

  /**
   * @param isRetry true for a message that an earlier sync run quarantined
   * @param onSettled called once the outcome is durable, or the message turns out to be gone
   */
  constructor(
    private readonly ctx: SyncContext,
    private readonly folder: FolderSync,
    private readonly listing: Listing,
    private readonly isRetry: boolean,
    private readonly onSettled: () => void,
  ) {
    this.#place = folder.place(listing.uid);
  }

  /** @throws errors unrelated to this message: a refused token, an unreachable host, a full disk */
  async run(): Promise<void> {
    const { ctx, folder, listing } = this;
    ctx.signal.throwIfAborted();
    const id = folder.stableId(listing);
    if (id === null) {
      await this.#fetch();
      return;
    }
    const { underWay } = ctx.queue;
    const key = JSON.stringify([folder.at.mailbox, id]);
    const other = underWay.get(key);
    // Waits for nothing else: in the meantime, another folder could start to fetch the same message.
    const fetched = other && (await other);
    ctx.signal.throwIfAborted();
    const known =
      fetched?.fingerprint === fingerprint(listing)
        ? fetched
        : ctx.mirror.knownMessage(folder.at, listing);
    if (known !== undefined) {
      await this.#assume(known);
      return;
    }
    const fetching = this.#fetch();
    underWay.set(key, fetching);
    this.#onStored = () => {
      if (underWay.get(key) === fetching) underWay.delete(key);
    };
    if ((await fetching) === undefined) this.#onStored();
  }

  /** Records the message with known bytes. It stays unverified until its own source is compared. */
  async #assume({ place: assumedFrom, id: message, docid, size }: KnownMessage): Promise<void> {
    const { ctx, listing, isRetry } = this;
    if (isRetry) forgetTries(ctx, this.#place);
    const fact = { ...this.#place, listing, docid, message, size, assumedFrom };
    await ctx.committer.addAppearance(fact, isRetry, () => {
      ctx.ledger.count(this.folder.address, 'relinked', 1);
      this.onSettled();
    });
  }

  /** Returns undefined if the message was not stored. */
  async #fetch(): Promise<FetchedMessage | undefined> {
    const { ctx, folder, listing } = this;
    const { host, signal } = ctx;
    let source: FetchedSource | undefined;
    try {
      const result = await fetchVerified(ctx, folder, listing);
      source = result.source;
      await host.readFlagCheck.watch(folder.at, listing, signal);
      const { judgement, detail } = result;
      if (judgement.verdict === 'accept') return await this.#store(source, judgement.mark);
      if (judgement.verdict === 'other') this.#recordGone();
      else this.#quarantine(judgement.reason, detail, source);
    } catch (error) {
      signal.throwIfAborted();
      if (!concernsOnly(error)) throw error;
      await this.#recordFailure(error);
    } finally {
      if (source?.kind === 'file') await rm(source.path, { force: true });
    }
    return undefined;
  }

  async #store(
    source: FetchedSource,
    mark: Extract<FetchVerdict, { verdict: 'accept' }>['mark'],
  ): Promise<FetchedMessage | undefined> {
    const { ctx, listing, isRetry } = this;
    const { address, evidence } = this.folder;
    const place = this.#place;
    if (isRetry) forgetTries(ctx, place);
    const bytes = source.kind === 'buffer' ? source.bytes.length : source.size;
    const options = { accepted: mark, wasQuarantined: isRetry };
    const put = await ctx.committer.storeSource(place, listing, source, options, (is) => {
      if (is === 'stored') ctx.ledger.count(address, 'added', 1);
      ctx.ledger.count(address, 'bytes', bytes);
      this.#onStored();
      this.onSettled();
    });
    if (put.is === 'stored') {
      const { id, docid, size } = put;
      return { place, id, docid, size, fingerprint: fingerprint(listing) };
    }
    evidence.setAside.add(listing.uid);
    if (isRetry) {
      const error = syncError('sync.forgotten-in-quarantine', { id: put.id });
      ctx.ledger.fail(error, { mailbox: address, place });
    }
    return undefined;
  }

  /** Records once why a message is not stored. A failed retry is not recorded again. */
  #quarantine(reason: QuarantineReason, detail: string, source?: FetchedSource): void {
    const { ctx, folder, listing } = this;
    if (!this.#isAcknowledgedRetry()) ctx.ledger.count(folder.address, 'quarantined', 1);
    folder.evidence.setAside.add(listing.uid);
    // A retry writes no fact that could refer to its bytes.
    if (this.isRetry) {
      this.onSettled();
      return;
    }
    const isKept = source?.kind === 'buffer' && source.bytes.length <= KEEP_ASIDE_BYTES;
    const blob = isKept ? { kept: ctx.committer.keepAside(source.bytes) } : {};
    const fact = { fact: 'quarantined', ...this.#place, listing, reason, detail, ...blob } as const;
    ctx.committer.addFact(fact, this.onSettled);
  }

  /** Reports whether this is a retry of a message that the user has acknowledged, whose failure is not reported. */
  #isAcknowledgedRetry(): boolean {
    return this.isRetry && this.ctx.mirror.isAcknowledged(this.folder.at, this.#place);
  }

  /** Handles a failed request: the message is gone, or the service refuses it. */
  async #recordFailure(error: MailkeepError): Promise<void> {
    const isNotFound =
      error.code === 'imap.message-gone' ||
      (error.code === 'origin.status' && error.facts.status === 404);
    if (isNotFound && (await this.#isGone())) {
      this.#recordGone();
      return;
    }
    if (ENDS_THE_FOLDER.has(error.code)) {
      this.folder.fail(error);
      return;
    }
    // A message that fails again says nothing about the host.
    if (!this.isRetry) this.ctx.host.failures.failed(error);
    this.#quarantine(error.code === 'origin.not-mail' ? 'not-mail' : 'refused', error.code);
    if (this.#isAcknowledgedRetry()) return;
    this.ctx.ledger.fail(error, { mailbox: this.folder.address, place: this.#place });
  }

  /** Requests the message individually. If that is also refused, the message is not considered gone. */
  async #isGone(): Promise<boolean> {
    try {
      return (await fetchUids(this.ctx, this.folder.at, [this.listing.uid])).silent.length > 0;
    } catch (error) {
      if (concernsOnly(error)) return false;
      throw error;
    }
  }

  /** Records that the message has left its uid. If it was moved, its new listing leads to it. */
  #recordGone(): void {
    if (this.isRetry) {
      this.ctx.committer.addFact({ fact: 'released', ...this.#place, reason: 'ended' });
      forgetTries(this.ctx, this.#place);
    }
    this.onSettled();
  }
}

interface BacklogOptions {
  /** Lowest uid that a newest-first walk must reach; 1 by default. */
  readonly downTo?: number;
  /** Reports whether to fetch a message after the others. */
  readonly postpones?: (listing: Listing) => boolean;
}

interface ListingEvidence {
  /** The newest page, if it was requested already. */
  readonly head?: OriginPage | undefined;
  /** What the listing of folders reported, if it shows every change. */
  readonly tuple?: FolderTuple | null;
  /** True if the service reports that its uids still mean the same, even if the archive accounts for no message. */
  readonly isSameEpoch?: boolean;
}

/** One folder in one sync run. Makes requests, records evidence and queues fetches, but does not interpret them. */
export class FolderSync {
  readonly evidence: FolderEvidence;
  /** True if only flags can have changed, so no page needs reading. */
  onlyFlags = false;
  /** True if every message must be read, because nothing tells which flags have changed. */
  readsAll = false;
  tuple: FolderTuple | null;
  #head: OriginPage | undefined;
  #failed = false;

  constructor(
    private readonly ctx: SyncContext,
    readonly at: FolderKey,
    readonly listed: ListedFolder,
    readonly address: string,
    readonly generation: number,
    listing: ListingEvidence = {},
  ) {
    const { head, tuple = null, isSameEpoch = false } = listing;
    this.#head = head;
    this.tuple = tuple;
    const accounted = countAccountedFor(this.sums);
    this.evidence = new FolderEvidence({
      listed: listed.messageCount,
      highestUid: ctx.mirror.highestUid(at, generation),
      covered: accounted === 0 && !isSameEpoch ? [] : recallCoverage(ctx.memory, at, generation),
      startedAt: ctx.now(),
    });
  }

  /** True after a failure. The sync run makes no further requests for the folder. */
  get failed(): boolean {
    return this.#failed;
  }

  get sums(): FolderTotals {
    return this.ctx.mirror.sumsOf(this.at);
  }

  get remaining(): number {
    return countMissing(this.listed.messageCount, this.sums);
  }

  /** True if the listing and the archive both show an empty folder, so no request is needed. */
  get isEmpty(): boolean {
    return this.listed.messageCount === 0 && countAccountedFor(this.sums) === 0;
  }

  /** True if the backlog is walked oldest first. The newest page is then read when the walk reaches it. */
  get isBackwards(): boolean {
    const isNew = this.evidence.coverage.durable.length === 0;
    return this.ctx.settings.order === 'oldest' && isNew;
  }

  place(uid: number): Place {
    return { ...this.at, generation: this.generation, uid };
  }

  /** Drafts are rewritten in place, so neither an id nor an equal listing shows that their bytes are known. */
  isDraft({ flags }: Pick<Listing, 'flags'>): boolean {
    return this.listed.specialUse === '\\Drafts' || flags.includes('\\Draft');
  }

  /** Returns the service's id of a message whose bytes cannot change, or null. */
  stableId(listing: Listing): string | null {
    return this.isDraft(listing) ? null : (this.ctx.origin.stableId?.(listing) ?? null);
  }

  /** Runs an action on the folder unless an earlier one failed. Records a failure. */
  async guarded(act: () => Promise<void>): Promise<void> {
    if (this.#failed) return;
    const at = { mailbox: this.address, folder: this.at.folder };
    const succeeded = await runGuarded(this.ctx, at, async () => {
      try {
        await act();
      } catch (error) {
        // A fetch may have failed for the same reason, and has been reported.
        if (!this.#failed || !concernsOnly(error)) throw error;
      }
    });
    if (!succeeded) this.#failed = true;
  }

  /** Ends the folder for this sync run. Only its first failure is reported. */
  fail(error: MailkeepError): void {
    if (this.#failed) return;
    this.#failed = true;
    this.ctx.ledger.fail(error, { mailbox: this.address, folder: this.at.folder });
  }

  /** Returns the newest page, requesting it at most once per sync run. */
  async head(): Promise<OriginPage> {
    if (this.#head === undefined) {
      this.evidence.askedAt = this.ctx.now();
      this.#head = await newestPage(this.ctx, this.at, this.listed.messageCount);
    }
    return this.#head;
  }

  forgetHead(): void {
    this.#head = undefined;
  }

  /** Reads the newest page, which shows new mail and the flags of recent mail. */
  async readHead(): Promise<void> {
    const page = await this.head();
    rememberFolderId(this.ctx.memory, this.at, page.mailboxId);
    this.#noteModSeqs(page);
    const interval = this.evidence.readNewestPage(page);
    if (interval !== null) await this.#read({ ...page, interval });
  }

  /** Stops relying on the folder's listing if the open folder has no modification sequences. */
  #noteModSeqs({ hasModSeqs }: Pick<OriginPage, 'hasModSeqs'>): void {
    if (hasModSeqs === undefined) return;
    rememberModSeqs(this.ctx.memory, this.at, this.generation, hasModSeqs);
    if (hasModSeqs || this.tuple === null) return;
    this.tuple = null;
    this.onlyFlags = false;
    this.readsAll = true;
  }

  /** Walks every uid not yet covered by a response, in the configured order. */
  async walkBacklog({ downTo = 1, postpones }: BacklogOptions = {}): Promise<void> {
    const oldestFirst = this.isBackwards;
    const within = oldestFirst ? ALL_UIDS : { lo: 1, hi: this.evidence.highestUid };
    const gaps = [...this.evidence.notWalked(within)];
    if (!oldestFirst) gaps.reverse();
    for (const gap of gaps) {
      if (gap.hi < downTo) continue;
      const order = oldestFirst ? 'ascending' : 'descending';
      for await (const page of walkRange(this.ctx, this.at, gap, order)) {
        this.#noteModSeqs(page);
        this.evidence.sawUids(uidsOnPage(page, order).map((uid) => ({ uid })));
        await this.#read(page, postpones);
        if (!oldestFirst && page.interval.lo <= downTo) break;
      }
    }
  }

  /** Reads every page below the newest one, to confirm every uid and flag. */
  async sweep(): Promise<void> {
    const previous = this.readsAll ? [] : recallFullSync(this.ctx, this.at, this.generation);
    this.evidence.resumeSweep(previous);
    for (const gap of findGaps(previous, this.evidence.belowHead)) await this.#readRange(gap);
    // Pages read earlier in this full sync may have changed. This costs nothing if the counts agree.
    if (previous.length > 0) await this.findDifferences();
  }

  async #readRange(range: UidInterval): Promise<void> {
    for await (const _items of this.readPages(range, 'ascending'));
  }

  /** Reads a range page by page. Returns each page's messages. */
  async *readPages(range: UidInterval, order: UidOrder): AsyncGenerator<readonly Listing[]> {
    for await (const page of walkRange(this.ctx, this.at, range, order)) {
      await this.#read(page);
      yield page.items;
    }
  }

  /** Compares all uids. Reads those that answer unexpectedly. */
  async #compareUids(list: NonNullable<SyncContext['origin']['uids']>): Promise<void> {
    const { uids } = await list(this.at, this.ctx.signal);
    const expected = this.ctx.mirror.expectedUids(this.at, this.generation);
    const range = this.evidence.readUids(uids, expected);
    if (range !== null) await this.#readRange(range);
  }

  /**
   * Finds the uids below the newest page that differ from the archive's: from a list of all uids, or by searching if the
   * counts differ.
   */
  async findDifferences(): Promise<void> {
    const head = await this.head();
    const { uids: list } = this.ctx.origin;
    if (list !== undefined) return this.#compareUids(list);
    const range = this.evidence.belowHead;
    if (range.hi < range.lo || this.evidence.addsUp(this.sums, head.total)) return;
    const { mirror, memory, origin, signal } = this.ctx;
    const uids = this.evidence.expectedUids(mirror.expectedUids(this.at, this.generation));
    const below = head.total - head.items.length;
    const steps = bisect(uids, range, below, PAGE_SIZE);
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

  /** Reports whether the service counts more than the open messages minus `gone`, confirmed by a second count. */
  async countsMoreWithout(gone: number): Promise<boolean> {
    const { evidence } = this;
    const remaining = evidence.accountedFor(this.sums) - gone;
    if (evidence.total <= remaining) return false;
    // Messages may have been deleted since the count. Exclude any that have arrived since.
    const page = await newestPage(this.ctx, this.at, 0);
    const arrivals = page.items.filter(({ uid }) => uid > evidence.highestUid).length;
    return page.total - arrivals > remaining;
  }

  /** Retries incomplete messages with individual requests, because they may be gone. */
  async retryQuarantined(): Promise<void> {
    const ctx = this.ctx;
    const due = dueIncomplete(ctx, this.at, this.generation);
    const uids = due.filter((uid) => !this.evidence.underWay.has(uid));
    const { answered, silent, omitted } = await fetchUids(ctx, this.at, uids);
    const wanted = new Set(uids);
    for (const [uid, listing] of answered) {
      if (!wanted.has(uid)) continue;
      recordTry(ctx, this.place(uid));
      await this.#fetch(listing, undefined, true);
    }
    for (const uid of omitted) recordTry(ctx, this.place(uid));
    for (const uid of silent) {
      ctx.committer.addFact({ fact: 'released', ...this.place(uid), reason: 'ended' });
      forgetTries(ctx, this.place(uid));
      this.evidence.missing.delete(uid);
    }
  }

  /** Fetches a deferred message that was not moved. Reopens one that reappears at its own deleted place. */
  async fetchDeferred(uid: number): Promise<void> {
    const deferred = this.evidence.takeDeferred(uid);
    if (deferred === undefined) return;
    const { listing, ticket } = deferred;
    const { committer, mirror } = this.ctx;
    if (mirror.endedFingerprint(this.at, this.generation, uid) !== deferred.fingerprint) {
      // Its page has expected it since it was deferred. Expecting it twice would keep the page open for ever.
      await this.fetch(listing, ticket);
      return;
    }
    const fact = { fact: 'reopened', ...this.place(uid), reason: 'answers-again' } as const;
    committer.addFact({ ...fact, flags: flagSet(listing.flags) }, () => ticket.settle());
  }

  async fetchPostponed(): Promise<void> {
    for (const { listing, ticket } of this.evidence.postponed.splice(0)) {
      await this.fetch(listing, ticket);
    }
  }

  /** Queues the fetch of a source that its page already expects. Waits only if too many fetches are queued. */
  async fetch(listing: Listing, ticket?: PageTicket): Promise<void> {
    await this.#fetch(listing, ticket, false);
  }

  async #fetch(listing: Listing, ticket: PageTicket | undefined, isRetry: boolean): Promise<void> {
    const { queue, signal, stop } = this.ctx;
    this.evidence.underWay.add(listing.uid);
    await queue.room();
    signal.throwIfAborted();
    const job = new FetchJob(this.ctx, this, listing, isRetry, () => {
      this.evidence.underWay.delete(listing.uid);
      ticket?.settle();
    });
    queue.add(() => job.run().catch(stop));
  }

  /** Stores the durable coverage. */
  saveCoverage(): void {
    rememberCoverage(this.ctx.memory, this.at, this.generation, this.evidence.coverage);
  }

  /** Compares a page with the archive, records the differences, and queues new messages. */
  async #read(
    {
      interval,
      items,
      omitted = [],
    }: Pick<OriginPage, 'items' | 'omitted'> & { readonly interval: UidInterval },
    postpones?: (listing: Listing) => boolean,
  ): Promise<void> {
    const { mirror, committer } = this.ctx;
    const open = mirror.openPlaces(this.at, this.generation, interval);
    const result = observe(items, { open, settled: (uid) => this.#isSettled(uid) }, fingerprint);
    const gaps = [...result.missing, ...mirror.unplaced(this.at, this.generation, interval)];
    const page = { interval, items, omitted, missing: gaps, contradicted: result.contradicted };
    const { ticket, answered } = this.evidence.readPage(page);
    for (const { uid } of items) {
      if (open.get(uid)?.held !== true) continue;
      committer.addFact({ fact: 'held', ...this.place(uid), held: false });
    }
    this.#recordChangedFlags(result.flagsChanged);
    for (const listing of result.appeared) await this.#receive(listing, ticket, postpones);
    ticket.seal();
    this.saveCoverage();
    if (this.evidence.isExplained(page)) {
      await rememberFullSync(this.ctx, this.at, this.generation, answered);
    }
  }

  /** Classifies a listing without a place: a reappeared uid, a possible move, or new mail. */
  async #receive(
    listing: Listing,
    ticket: PageTicket,
    postpones: ((listing: Listing) => boolean) | undefined,
  ): Promise<void> {
    const { startedAtCommit, mirror } = this.ctx;
    const { evidence } = this;
    // A page can list a uid twice.
    if (evidence.isAwaited(listing.uid)) return;
    if (evidence.wasCovered(listing.uid)) {
      evidence.reappeared.set(listing.uid, listing);
      return;
    }
    // A move is possible only if the archive had messages before this sync run. A stable id needs no evidence of it.
    const isUndecided =
      startedAtCommit > 0 &&
      (this.stableId(listing) === null || mirror.knownMessage(this.at, listing) === undefined);
    const print = isUndecided ? fingerprint(listing) : '';
    if (print !== '' && mirror.isOpenSomewhere(this.at, print, startedAtCommit)) {
      evidence.defer({ listing, fingerprint: print, ticket });
      return;
    }
    ticket.expect();
    if (postpones?.(listing) === true) evidence.postpone({ listing, ticket });
    else await this.fetch(listing, ticket);
  }

  #isSettled(uid: number): boolean {
    if (this.evidence.isAwaited(uid) || this.evidence.setAside.has(uid)) return true;
    if (!this.evidence.mayBeKnown(uid)) return false;
    const state = this.ctx.mirror.settledAs(this.at, this.generation, uid);
    return state === 'quarantined' || state === 'forgotten';
  }

  /** Records the flags in these responses for open places. Ignores everything else. */
  recordFlags(items: readonly Listing[]): void {
    for (const item of items) {
      const range = { lo: item.uid, hi: item.uid };
      const open = this.ctx.mirror.openPlaces(this.at, this.generation, range);
      const lookup = { open, settled: () => true };
      this.#recordChangedFlags(observe([item], lookup, fingerprint).flagsChanged);
    }
  }

  /** Records the flags of open places, as returned by `Origin.changedSince`. */
  applyFlags(changes: readonly { readonly uid: number; readonly flags: FlagSet }[]): void {
    const { mirror } = this.ctx;
    const isChanged = ({ uid, flags }: (typeof changes)[number]): boolean => {
      const place = mirror.openPlaces(this.at, this.generation, { lo: uid, hi: uid }).get(uid);
      return place !== undefined && !sameFlags(place.flags, flags);
    };
    this.#recordChangedFlags(changes.filter(isChanged));
  }

  #recordChangedFlags(changes: readonly { readonly uid: number; readonly flags: FlagSet }[]): void {
    for (const { uid, flags } of changes) {
      if (!this.evidence.changeFlags(uid, flags)) continue;
      this.ctx.committer.addFact({ fact: 'flags', ...this.place(uid), flags });
      this.ctx.ledger.count(this.address, 'flagsChanged', 1);
    }
  }
}

/** Source fetches of one account, in order of arrival. */
export class FetchQueue {
  /** Fetches of messages with stable ids that are not in the catalog yet. Undefined results mean nothing was stored. */
  readonly underWay = new Map<string, Promise<FetchedMessage | undefined>>();
  readonly #queue: (() => Promise<void>)[] = [];
  #running = 0;
  readonly #roomWaiters: (() => void)[] = [];
  readonly #idleWaiters: (() => void)[] = [];

  /**
   * @param concurrency maximum running fetches
   * @param ahead number of waiting fetches at which `room` starts to wait
   */
  constructor(
    private readonly concurrency: number,
    private readonly ahead: number,
  ) {}

  /** Adds a fetch, which starts once fewer than `concurrency` are running. The fetch must not reject. */
  add(fetch: () => Promise<void>): void {
    if (this.#running < this.concurrency) this.#start(fetch);
    else this.#queue.push(fetch);
  }

  /** Resolves once there is room for another fetch: immediately, or after half of the waiting fetches have started. */
  async room(): Promise<void> {
    if (this.#queue.length < this.ahead) return;
    await new Promise<void>((resolve) => this.#roomWaiters.push(resolve));
  }

  async onIdle(): Promise<void> {
    if (this.#running === 0) return;
    await new Promise<void>((resolve) => this.#idleWaiters.push(resolve));
  }

  #start(fetch: () => Promise<void>): void {
    this.#running += 1;
    void fetch().finally(() => {
      this.#running -= 1;
      const next = this.#queue.shift();
      if (next !== undefined) this.#start(next);
      if (this.#queue.length <= this.ahead / 2) wake(this.#roomWaiters);
      if (this.#running === 0) wake(this.#idleWaiters);
    });
  }
}

function wake(waiters: (() => void)[]): void {
  for (const resolve of waiters.splice(0)) resolve();
}
