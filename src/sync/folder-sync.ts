import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import type { QuarantineReason } from '../archive/format.ts';
import type { MailkeepError } from '../core/errors.ts';
import { placeKey } from '../core/state.ts';
import {
  type FlagSet,
  type FolderKey,
  flagSet,
  type ListedFolder,
  type Listing,
  type Place,
} from '../core/types.ts';
import { fingerprint } from '../mail/identity.ts';
import { carriesListedId, type FetchedFacts, type Judgement, judgeSource } from './api-origin.ts';
import { syncError } from './errors.ts';
import {
  ALL_UIDS,
  accountedFor,
  FolderEvidence,
  type FolderSums,
  notAccountedFor,
} from './plan/folder-evidence.ts';
import {
  bisect,
  gapsOf,
  observe,
  PAGE_SIZE,
  type PageTicket,
  type UidInterval,
} from './plan/plan-folder.ts';
import {
  concernsOnly,
  type FetchedSource,
  guard,
  type OriginPage,
  type PassContext,
} from './ports.ts';
import {
  dueQuarantined,
  forgetTries,
  noteTry,
  recalledCoverage,
  recalledSweep,
  rememberCoverage,
  rememberSwept,
} from './sync-memory.ts';
import { askByName, canSearch, newestPage, walkRange } from './walk.ts';

/** The Message-ID is in the header block; no real message has 256 KiB of headers. */
const HEADER_WINDOW = 256 * 1024;
const LF = 0x0a;
const CR = 0x0d;

/** Returns whether the first bytes may begin a mail, and not a web page. Costs nothing on the common path. */
function beginsLikeMail(start: Uint8Array): boolean {
  const text = Buffer.from(start.subarray(0, 512)).toString('latin1').trimStart().toLowerCase();
  return !(text.startsWith('<!doctype') || text.startsWith('<html') || text.startsWith('<?xml'));
}

/** Computes what judging a source needs. A file is streamed, never held in memory. */
export async function factsOf(source: FetchedSource): Promise<FetchedFacts> {
  const chunks: AsyncIterable<Buffer> | Iterable<Buffer> =
    source.kind === 'buffer' ? [source.bytes] : createReadStream(source.path);
  const digest = createHash('sha256');
  const window: Buffer[] = [];
  let windowBytes = 0;
  let size = 0;
  let crlf = 0;
  let bareLf = 0;
  let previous = 0;
  for await (const chunk of chunks) {
    digest.update(chunk);
    size += chunk.length;
    if (windowBytes < HEADER_WINDOW) {
      window.push(chunk.subarray(0, HEADER_WINDOW - windowBytes));
      windowBytes += chunk.length;
    }
    for (let at = chunk.indexOf(LF); at >= 0; at = chunk.indexOf(LF, at + 1)) {
      const before = at === 0 ? previous : chunk[at - 1];
      if (before === CR) crlf += 1;
      else bareLf += 1;
    }
    previous = chunk[chunk.length - 1] ?? previous;
  }
  const head = Buffer.concat(window);
  return {
    size,
    sha256: digest.digest('hex'),
    messageId: messageIdOf(head),
    looksLikeMail: beginsLikeMail(head),
    crlf,
    bareLf,
  };
}

/** Returns the header block: everything before the first empty line. Searches the bytes, because bodies are long. */
function headersOf(head: Buffer): Buffer {
  const crlf = head.indexOf('\r\n\r\n');
  const before = crlf < 0 ? head : head.subarray(0, crlf);
  const lf = before.indexOf('\n\n');
  return lf < 0 ? before : before.subarray(0, lf);
}

/** Returns the first Message-ID header, unfolded and without angle brackets (RFC 5322, 3.6.4); null where there is none. */
function messageIdOf(source: Buffer): string | null {
  const headers = headersOf(source.subarray(0, HEADER_WINDOW)).toString('latin1');
  const found = /^message-id[ \t]*:((?:.|\r?\n[ \t])*)/im.exec(headers)?.[1];
  const id = found?.replace(/\s+/g, '').replace(/^<|>$/g, '') ?? '';
  return id === '' ? null : id;
}

/** The folder whose messages are fetched. */
export interface FetchingFolder {
  readonly at: FolderKey;
  place(uid: number): Place;
}

/** Scope of memory: fetches that were not accepted, by place. */
const EARLIER_FETCHES = 'earlier-fetches';

interface Judged {
  readonly source: FetchedSource;
  /** `other`: the uid shows another message than the one that was listed. */
  readonly judgement: Exclude<Judgement, { verdict: 'again' }> | { readonly verdict: 'other' };
  readonly detail: string;
}

/**
 * Fetches one message's raw source as often as it takes to decide whether it is complete. The caller deletes a
 * source that is a file.
 */
export async function fetchJudged(
  ctx: PassContext,
  folder: FetchingFolder,
  listing: Listing,
): Promise<Judged> {
  const key = placeKey(folder.place(listing.uid));
  const fetches: FetchedFacts[] = [];
  for (;;) {
    const source = await ctx.origin.source(folder.at, listing.uid, ctx.signal);
    ctx.host.trouble.over();
    if (fetches.length === 0 && isPlainlyComplete(source, listing)) {
      ctx.host.rules.learn(listing, undefined);
      return { source, judgement: { verdict: 'accept' }, detail: '' };
    }
    const latest = await factsOf(source);
    if (latest.looksLikeMail && !(await isListedStill(ctx, folder.at, listing, latest))) {
      return { source, judgement: { verdict: 'other' }, detail: '' };
    }
    fetches.push(latest);
    const [first = latest, ...rest] = fetches;
    const judgement = judgeSource({
      listing,
      fetches: [first, ...rest],
      earlier: ctx.memory.get(EARLIER_FETCHES, key) ?? [],
      rule: ctx.host.rules.rule,
      now: ctx.now(),
    });
    if (judgement.verdict !== 'again') {
      ctx.host.rules.learn(listing, latest);
      rememberFetch(ctx, key, judgement, latest);
      const detail = `listed ${listing.size} bytes, came ${latest.size}`;
      return { source, judgement, detail };
    }
    if (source.kind === 'file') await rm(source.path, { force: true });
  }
}

/** The common case: exactly as long as listed, with the listed Message-ID, and no web page. */
function isPlainlyComplete(source: FetchedSource, listing: Listing): boolean {
  if (source.kind === 'file' || source.bytes.length !== listing.size) return false;
  return (
    beginsLikeMail(source.bytes) &&
    carriesListedId(listing, { messageId: messageIdOf(source.bytes) })
  );
}

/**
 * Checks, for a source with another Message-ID than listed, whether its uid is still listed as before. The origin may
 * have reassigned its uids in between, and bytes must never be filed under another message's name. A host that
 * spells Message-IDs in its own way is learned, and not asked for ever.
 */
async function isListedStill(
  ctx: PassContext,
  at: FolderKey,
  listing: Listing,
  latest: FetchedFacts,
): Promise<boolean> {
  const { rules } = ctx.host;
  if (carriesListedId(listing, latest) || rules.spellsIdsItsWay) return true;
  const { answered } = await askByName(ctx, at, [listing.uid]);
  const now = answered.get(listing.uid);
  const same = now !== undefined && fingerprint(now) === fingerprint(listing);
  if (latest.size === listing.size) rules.learnIds(same);
  return same;
}

/** Remembers the first fetch of each distinct content: the time since then is what counts. */
function rememberFetch(
  ctx: PassContext,
  key: string,
  judgement: Judgement,
  latest: FetchedFacts,
): void {
  const earlier = ctx.memory.get(EARLIER_FETCHES, key) ?? [];
  if (judgement.verdict === 'accept') {
    if (earlier.length > 0) ctx.memory.set(EARLIER_FETCHES, key, null);
  } else if (!earlier.some(({ sha256 }) => sha256 === latest.sha256)) {
    ctx.memory.set(EARLIER_FETCHES, key, [...earlier, { at: ctx.now(), sha256: latest.sha256 }]);
  }
}

/** Larger sources that are not accepted are not kept aside: their hash is remembered all the same. */
const KEEP_ASIDE_BYTES = 4 * 1024 * 1024;

type AcceptedAs = Extract<Judged['judgement'], { verdict: 'accept' }>['mark'];

interface FetchOrder {
  readonly folder: FetchingFolder & { readonly address: string };
  readonly listing: Listing;
  /** True for a message that an earlier pass quarantined. */
  readonly again: boolean;
  /** Called when the source is not stored: another look at the same page must not fetch it once more. */
  readonly onSetAside: () => void;
  /** Called once the outcome is durable, or when the message turns out to be gone. */
  readonly onSettled: () => void;
}

/** Fetches one message's raw source and stores it, or records why it could not be stored. */
class FetchJob {
  readonly #place: Place;

  constructor(
    private readonly ctx: PassContext,
    private readonly order: FetchOrder,
  ) {
    this.#place = order.folder.place(order.listing.uid);
  }

  /** @throws what concerns more than this message: a refused token, an unreachable host, a full disk */
  async run(): Promise<void> {
    try {
      this.ctx.signal.throwIfAborted();
      await this.#attempt();
    } catch (error) {
      // At once, so that no fetch begins that waits behind this one.
      this.ctx.stop(error);
      throw error;
    }
  }

  async #attempt(): Promise<void> {
    const { folder, listing } = this.order;
    const { host, signal } = this.ctx;
    let source: FetchedSource | undefined;
    try {
      const fetched = await fetchJudged(this.ctx, folder, listing);
      source = fetched.source;
      await host.canary.watch(folder.at, listing, signal);
      const { judgement, detail } = fetched;
      if (judgement.verdict === 'other') this.#recordGone();
      else if (judgement.verdict === 'accept') await this.#store(source, judgement.mark);
      else this.#quarantine(judgement.reason, detail, source);
    } catch (error) {
      signal.throwIfAborted();
      if (!concernsOnly(error)) throw error;
      await this.#recordFailure(error);
    } finally {
      if (source?.kind === 'file') await rm(source.path, { force: true });
    }
  }

  async #store(source: FetchedSource, accepted: AcceptedAs): Promise<void> {
    const { folder, listing, again, onSetAside, onSettled } = this.order;
    const { committer, ledger } = this.ctx;
    const place = this.#place;
    if (again) forgetTries(this.ctx, place);
    const bytes = source.kind === 'buffer' ? source.bytes.length : source.size;
    const options = { accepted, wasQuarantined: again };
    const put = await committer.storeSource(place, listing, source, options, (is) => {
      if (is === 'stored') ledger.count(folder.address, 'added', 1);
      ledger.count(folder.address, 'bytes', bytes);
      onSettled();
    });
    if (put.is === 'stored') return;
    onSetAside();
    // Since its quarantine, the log holds its listing and perhaps a part of its source.
    if (again) {
      const error = syncError('sync.forgotten-in-quarantine', { id: put.id });
      ledger.fail(error, { mailbox: folder.address, place });
    }
  }

  /** Records why a message is not stored; once, even if a retry fails again. */
  #quarantine(reason: QuarantineReason, detail: string, source?: FetchedSource): void {
    const { folder, listing, again, onSetAside, onSettled } = this.order;
    // A retry writes no fact, so nothing would refer to the bytes it kept.
    const kept = again ? undefined : this.#keepAside(source);
    if (!this.#isAcknowledgedRetry()) this.ctx.ledger.count(folder.address, 'quarantined', 1);
    onSetAside();
    if (again) {
      onSettled();
      return;
    }
    this.ctx.committer.addFact(
      {
        fact: 'quarantined',
        ...this.#place,
        listing,
        reason,
        detail,
        ...(kept === undefined ? {} : { kept }),
      },
      onSettled,
    );
  }

  #keepAside(source: FetchedSource | undefined): string | undefined {
    if (source?.kind !== 'buffer' || source.bytes.length > KEEP_ASIDE_BYTES) return undefined;
    return this.ctx.committer.keepAside(source.bytes);
  }

  /** The user has acknowledged this quarantine: another failed try is nothing to report. */
  #isAcknowledgedRetry(): boolean {
    const { folder, again } = this.order;
    return again && this.ctx.mirror.isAcknowledged(folder.at, this.#place);
  }

  /** Handles a source that could not be fetched: the message is gone, or the origin refuses it. */
  async #recordFailure(error: MailkeepError): Promise<void> {
    if (isNotFound(error) && (await this.#isGone())) {
      this.#recordGone();
      return;
    }
    this.ctx.host.trouble.failed(error);
    this.#quarantine(error.code === 'origin.not-mail' ? 'not-mail' : 'refused', error.code);
    if (this.#isAcknowledgedRetry()) return;
    this.ctx.ledger.fail(error, { mailbox: this.order.folder.address, place: this.#place });
  }

  /** Asks for the message by name. An origin that refuses that as well has not said that the message is gone. */
  async #isGone(): Promise<boolean> {
    const { folder, listing } = this.order;
    try {
      return (await askByName(this.ctx, folder.at, [listing.uid])).silent.length > 0;
    } catch (error) {
      if (concernsOnly(error)) return false;
      throw error;
    }
  }

  /** Handles a message that left its uid. A message that has the uid now is found by its own listing. */
  #recordGone(): void {
    const { again, onSettled } = this.order;
    if (again) {
      this.ctx.committer.addFact({ fact: 'released', ...this.#place, reason: 'ended' });
      forgetTries(this.ctx, this.#place);
    }
    onSettled();
  }
}

function isNotFound(error: MailkeepError): boolean {
  return error.code === 'origin.status' && error.facts.status === 404;
}

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

/**
 * Source fetches of one account: some run, the rest wait in the order in which they came. A fetch costs this queue a
 * few microseconds, because a first sync puts every message of a mailbox through it.
 */
export class FetchQueue {
  #waiting: (() => Promise<void>)[] = [];
  /** Of `#waiting`, those that have started: cut off from time to time instead of shifting each. */
  #taken = 0;
  #running = 0;
  #forRoom: (() => void)[] = [];
  #forIdle: (() => void)[] = [];

  /**
   * @param concurrency fetches that run at a time
   * @param ahead fetches that may wait before `room` does
   */
  constructor(
    private readonly concurrency: number,
    private readonly ahead: number,
  ) {}

  /** Adds a fetch, which starts as soon as fewer than `concurrency` run. It must not reject. */
  add(fetch: () => Promise<void>): void {
    if (this.#running < this.concurrency) this.#start(fetch);
    else this.#waiting.push(fetch);
  }

  /** Resolves when another fetch may be added: at once, or else when half of those that wait have started. */
  async room(): Promise<void> {
    if (this.#size < this.ahead) return;
    await new Promise<void>((resolve) => this.#forRoom.push(resolve));
  }

  /** Resolves when none runs and none waits. */
  async onIdle(): Promise<void> {
    if (this.#running === 0) return;
    await new Promise<void>((resolve) => this.#forIdle.push(resolve));
  }

  get #size(): number {
    return this.#waiting.length - this.#taken;
  }

  #start(fetch: () => Promise<void>): void {
    this.#running += 1;
    void fetch().finally(() => {
      this.#running -= 1;
      const next = this.#next();
      if (next !== undefined) this.#start(next);
      if (this.#size <= this.ahead / 2) wake(this.#forRoom);
      if (this.#running === 0) wake(this.#forIdle);
    });
  }

  #next(): (() => Promise<void>) | undefined {
    const next = this.#waiting[this.#taken];
    if (next === undefined) return undefined;
    this.#taken += 1;
    if (this.#taken >= this.ahead) {
      this.#waiting = this.#waiting.slice(this.#taken);
      this.#taken = 0;
    }
    return next;
  }
}

function wake(waiting: (() => void)[]): void {
  for (const resolve of waiting.splice(0)) resolve();
}
