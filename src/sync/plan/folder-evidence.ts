import {
  countAccountedFor,
  expectedAtOrigin,
  type FlagSet,
  type FolderTotals,
  type Listing,
  type Place,
  sameFlags,
} from '../../core/types.ts';
import {
  type AwaitedListing,
  addInterval,
  Coverage,
  covers,
  type DeferredListing,
  evaluatePage,
  findGaps,
  PAGE_SIZE,
  type PageTicket,
  type UidInterval,
  type UidIntervals,
  uidsOnPage,
} from './plan-folder.ts';

/** All uids of a folder, present and future. */
export const ALL_UIDS: UidInterval = { lo: 1, hi: Number.POSITIVE_INFINITY };

/** Facts known about a folder before the sync run's first response. */
export interface EarlierEvidence {
  readonly listed: number;
  /** Highest uid in any earlier sync run, or 0. */
  readonly highestUid: number;
  readonly covered: UidIntervals;
  readonly startedAt: number;
}

interface ComparedPage {
  readonly interval: UidInterval;
  readonly items: readonly Listing[];
  /** Uids in the interval that the service lists without showing their messages. */
  readonly omitted?: readonly number[];
  /** Uids in the interval that the archive expects but the page lacks. */
  readonly missing: readonly number[];
  /** Listings that differ from their place's original one. */
  readonly contradicted: readonly Listing[];
}

/** Evidence that one sync run collects about a folder: listed, missing and undecided messages. Pure. */
export class FolderEvidence {
  readonly coverage: Coverage;
  /** Highest uid in any earlier sync run, or 0. */
  readonly knownUpTo: number;
  /** Message count in the service's latest response about the whole folder. */
  total: number;
  /** Highest uid seen in this sync run, or 0. */
  highestUid = 0;
  /** When the newest page was last requested, in milliseconds since the epoch; initially the start of the sync run. */
  askedAt: number;
  /** True if flags on a page differed from the archive's. */
  flagsChanged = false;
  /** True if one response had every flag that changed since the archive had them all. */
  flagsUpToDate = false;
  /** Undecided uids missing from a response even though the archive has their message. */
  readonly missing = new Set<number>();
  /** Uids that the service lists without showing their messages. They are not gone, and nothing else is known. */
  readonly omitted = new Set<number>();
  /** Open places, by uid, whose listing differs from the original one. */
  readonly contradicted = new Map<number, Listing>();
  /** Uids that answer even though earlier sync runs found them empty or saw their message deleted. */
  readonly reappeared = new Map<number, Listing>();
  /** Uids that definitely refer to a message other than their open place's. */
  readonly replaced = new Set<number>();
  /** New uids whose message is also open elsewhere in the mailbox: moves or copies. Decided along with deletions. */
  readonly deferred = new Map<number, DeferredListing>();
  /** Messages to fetch after the others. Their pages remain open. */
  readonly postponed: AwaitedListing[] = [];
  /** Uids whose fetch is running or queued. Later responses about them trigger no request. */
  readonly underWay = new Set<number>();
  /** Uids quarantined or recognised as forgotten in this sync run, and not fetched again. */
  readonly setAside = new Set<number>();
  readonly #coveredBefore: UidIntervals;
  /** Lowest uid covered by the newest page. */
  #headLo = 1;
  #answered: UidIntervals = [];
  /** True if an earlier sync run read some of the answered uids. */
  #isResumed = false;
  /** Changed flags that are not yet durable. A second response with the same flags adds nothing. */
  readonly #flagsQueued = new Map<number, FlagSet>();

  constructor({ listed, highestUid, covered, startedAt }: EarlierEvidence) {
    this.total = listed;
    this.knownUpTo = highestUid;
    this.#coveredBefore = covered;
    this.askedAt = startedAt;
    this.coverage = new Coverage(covered);
  }

  /** True if no earlier sync run found a message here. */
  get isFirst(): boolean {
    return this.knownUpTo === 0;
  }

  /** The uids not covered by the newest page. */
  get belowHead(): UidInterval {
    return { lo: 1, hi: this.#headLo - 1 };
  }

  /** True if every uid up to the newest is durably covered. */
  get everyUidCovered(): boolean {
    return this.#reachesTop(this.coverage.durable);
  }

  /** True if this sync run, or the full sync it continues, saw the flags of every message. */
  get everyFlagAnswered(): boolean {
    if (this.flagsUpToDate) return true;
    return this.omitted.size === 0 && this.#reachesTop(this.#answered);
  }

  /** True if this sync run saw the flags of every message. Until then, none can be older than its start. */
  get hasReadEveryFlag(): boolean {
    return !this.#isResumed && this.omitted.size === 0 && this.#reachesTop(this.#answered);
  }

  #reachesTop(uids: UidIntervals): boolean {
    return this.highestUid === 0 || covers(uids, { lo: 1, hi: this.highestUid });
  }

  /** True if a response differs from what the archive expects. */
  get isUndecided(): boolean {
    const differing = this.missing.size + this.contradicted.size + this.omitted.size;
    return differing + this.#undecided > 0;
  }

  /** Number of undecided messages not counted in the archive. */
  get #undecided(): number {
    return this.deferred.size + this.reappeared.size;
  }

  /** Reports whether every uid is covered, nothing is undecided, and the sums match the service's count. */
  isComplete(sums: FolderTotals): boolean {
    const unresolved = this.contradicted.size + this.omitted.size + this.#undecided;
    return this.everyUidCovered && countAccountedFor(sums) === this.total && unresolved === 0;
  }

  /** Returns the number of archived and undecided messages. It equals the service's count unless some are gone. */
  accountedFor(sums: FolderTotals): number {
    return countAccountedFor(sums) + this.#undecided;
  }

  /**
   * Reports whether the archive accounts for as many messages as the service counts. Uids only ever increase: if the
   * newest page also agrees uid by uid, nothing below it differs or needs reading.
   */
  addsUp(sums: FolderTotals, total: number): boolean {
    return expectedAtOrigin(sums) + this.#undecided - this.missing.size === total;
  }

  /** Returns the uids that the service should list, ascending. @param known the archive's uids, ascending */
  expectedUids(known: readonly number[]): readonly number[] {
    if (this.#undecided === 0) return known;
    const uids = new Set([...known, ...this.deferred.keys(), ...this.reappeared.keys()]);
    return [...uids].sort((a, b) => a - b);
  }

  /** Returns the parts of a range not yet covered by a response, ascending. */
  notWalked(within: UidInterval): UidIntervals {
    return findGaps(this.coverage.walked, within);
  }

  /** Reports whether a uid awaits its source or a decision. */
  isAwaited(uid: number): boolean {
    return this.underWay.has(uid) || this.deferred.has(uid);
  }

  /** Returns false for a uid above any from earlier sync runs. */
  mayBeKnown(uid: number): boolean {
    return uid <= this.knownUpTo;
  }

  /** Reports whether an earlier sync run covered a uid. Without a place, the uid was empty or its message is gone. */
  wasCovered(uid: number): boolean {
    return uid <= this.knownUpTo && covers(this.#coveredBefore, { lo: uid, hi: uid });
  }

  /** Records the newest page. Returns the uids it covers, or null if it is inconclusive. */
  readNewestPage(page: {
    readonly items: readonly Listing[];
    readonly total: number;
    readonly omitted?: readonly number[];
  }): UidInterval | null {
    this.total = page.total;
    const uids = uidsOnPage(page, 'descending');
    const { interval } = evaluatePage(
      { range: ALL_UIDS, order: 'descending', perPage: PAGE_SIZE },
      { uids, total: page.total },
    );
    // The page is sorted, so its first message is the newest.
    for (const uid of uids.slice(0, 1)) this.sawUids([{ uid }]);
    if (interval !== null) this.#headLo = interval.lo;
    return interval;
  }

  /** Records a page. Returns its ticket and the uids it covers: an open end reaches the highest uid seen. */
  readPage(page: ComparedPage): { readonly ticket: PageTicket; readonly answered: UidInterval } {
    const { interval, items, missing, contradicted, omitted = [] } = page;
    for (const uid of omitted) this.omitted.add(uid);
    for (const uid of missing) {
      if (!this.underWay.has(uid) && !this.omitted.has(uid)) this.missing.add(uid);
    }
    for (const listing of contradicted) this.contradicted.set(listing.uid, listing);
    for (const { uid } of items) {
      this.missing.delete(uid);
      this.omitted.delete(uid);
    }
    // The service has yet to assign the later uids, so they are not covered.
    const hi = interval.hi === Number.POSITIVE_INFINITY ? this.highestUid : interval.hi;
    const range = { lo: interval.lo, hi };
    this.#answered = addInterval(this.#answered, range);
    const ticket = this.coverage.ticket(range);
    // The page stays open, so that the next sync run reads it again.
    for (const _uid of omitted) ticket.expect();
    return { ticket, answered: range };
  }

  /**
   * Records a list of all uids (ascending). Returns the range of the uids that answer unexpectedly, or null.
   *
   * @param known the archive's uids, ascending, without held ones
   */
  readUids(uids: Uint32Array, known: readonly number[]): UidInterval | null {
    const expected = this.expectedUids(known);
    let at = 0;
    const unexpected: number[] = [];
    const missUntil = (uid: number): void => {
      for (let next = expected[at]; next !== undefined && next < uid; next = expected[at]) {
        if (!this.isAwaited(next) && !this.reappeared.has(next)) this.missing.add(next);
        at += 1;
      }
    };
    for (const uid of uids) {
      missUntil(uid);
      if (expected[at] === uid) at += 1;
      // Higher uids have arrived since the newest page was read.
      else if (uid <= this.highestUid && !this.#isExplained(uid)) unexpected.push(uid);
    }
    missUntil(Number.POSITIVE_INFINITY);
    const [lo] = unexpected;
    const hi = unexpected[unexpected.length - 1];
    return lo === undefined || hi === undefined ? null : { lo, hi };
  }

  #isExplained(uid: number): boolean {
    return this.isAwaited(uid) || this.setAside.has(uid) || this.omitted.has(uid);
  }

  sawUids(items: readonly Pick<Listing, 'uid'>[]): void {
    for (const { uid } of items) this.highestUid = Math.max(this.highestUid, uid);
  }

  /** Reports whether a page leaves nothing to decide. */
  isExplained({ missing, contradicted }: ComparedPage): boolean {
    const isMissing = missing.some((uid) => this.missing.has(uid));
    const isOpen = contradicted.length + this.omitted.size + this.reappeared.size > 0;
    return !isMissing && !isOpen;
  }

  /** Records uids read by an earlier run of the same full sync. */
  resumeSweep(uids: UidIntervals): void {
    if (uids.length > 0) this.#isResumed = true;
    for (const interval of uids) this.#answered = addInterval(this.#answered, interval);
  }

  /** Records flags that differ from the archive's. Returns false if an earlier response had the same flags. */
  changeFlags(uid: number, flags: FlagSet): boolean {
    const pending = this.#flagsQueued.get(uid);
    if (pending !== undefined && sameFlags(pending, flags)) return false;
    this.#flagsQueued.set(uid, flags);
    this.flagsChanged = true;
    return true;
  }

  /** Defers a message until it is known whether it has moved. Its page then expects it. */
  defer(message: DeferredListing): void {
    message.ticket.expect();
    this.deferred.set(message.listing.uid, message);
  }

  takeDeferred(uid: number): DeferredListing | undefined {
    const deferred = this.deferred.get(uid);
    this.deferred.delete(uid);
    return deferred;
  }

  /** Postpones a message until the others have been fetched. Later responses about it add nothing. */
  postpone(message: AwaitedListing): void {
    this.underWay.add(message.listing.uid);
    this.postponed.push(message);
  }

  /** Records that a uid now refers to a different message, and defers it as a possible move. */
  replace(listing: Listing, fingerprint: string): void {
    this.replaced.add(listing.uid);
    this.deferred.set(listing.uid, { listing, fingerprint, ticket: NO_PAGE });
  }

  /** Defers a reappeared uid as a possible move. */
  deferReappeared(listing: Listing, fingerprint: string): void {
    this.reappeared.delete(listing.uid);
    this.deferred.set(listing.uid, { listing, fingerprint, ticket: NO_PAGE });
  }

  /** Drops everything undecided, because the responses belong to a new UID epoch. */
  abandon(): void {
    for (const { ticket } of this.deferred.values()) ticket.settle();
    for (const all of [this.deferred, this.missing, this.contradicted, this.reappeared])
      all.clear();
    this.replaced.clear();
  }
}

/** For messages at uids covered by earlier sync runs, which no page waits for. */
const NO_PAGE: PageTicket = { expect: () => {}, settle: () => {}, seal: () => {} };

/** Deletion guard limits, from the configuration's `brake` section. */
export interface DeletionGuardPolicy {
  /** Maximum share of a folder's or mailbox's open places whose deletions are accepted immediately. */
  readonly maxEndedShare: number;
  /** Minimum number of open places for the share to apply. */
  readonly minMessages: number;
}

interface FolderEndings {
  readonly folder: string;
  readonly specialUse: string | null;
  /** Number of places open before the sync run. */
  readonly open: number;
  readonly ending: number;
  /** True if the service lists the folder as empty, or does not list it. */
  readonly empty: boolean;
}

interface BrakeDecision {
  readonly folder: string;
  readonly hold: boolean;
  readonly reason: 'within-bounds' | 'exempt' | 'folder-share' | 'folder-empty' | 'mailbox-share';
}

/** Folders that users are expected to empty (RFC 6154). */
const EXEMPT: ReadonlySet<string> = new Set(['\\Trash', '\\Junk']);

/**
 * Decides for each folder whether to accept its deletions immediately or hold them until a second check. Holds a folder
 * that is suddenly empty regardless of its size. If a large share of the whole mailbox is gone, holds every folder that
 * contributes.
 */
export function guardDeletions(
  folders: readonly FolderEndings[],
  policy: DeletionGuardPolicy,
): BrakeDecision[] {
  const candidates = folders.filter(({ specialUse }) => !EXEMPT.has(specialUse ?? ''));
  const open = candidates.reduce((sum, folder) => sum + folder.open, 0);
  const ending = candidates.reduce((sum, folder) => sum + folder.ending, 0);
  const wholeMailbox = exceeds(ending, open, policy);
  return folders.map(({ folder, specialUse, open: held, ending: gone, empty }) => {
    if (gone === 0) return { folder, hold: false, reason: 'within-bounds' };
    if (EXEMPT.has(specialUse ?? '')) return { folder, hold: false, reason: 'exempt' };
    if (empty && gone === held) return { folder, hold: true, reason: 'folder-empty' };
    if (exceeds(gone, held, policy)) return { folder, hold: true, reason: 'folder-share' };
    if (wholeMailbox) return { folder, hold: true, reason: 'mailbox-share' };
    return { folder, hold: false, reason: 'within-bounds' };
  });
}

function exceeds(ending: number, open: number, policy: DeletionGuardPolicy): boolean {
  return open >= policy.minMessages && ending > policy.maxEndedShare * open;
}

/** A place that is gone, that belongs to a UID epoch just replaced, or whose uid now refers to another message. */
export interface GonePlace {
  readonly place: Place;
  readonly fingerprint: string;
}

/** A new uid whose fingerprint also exists elsewhere in the mailbox. */
export interface NewPlace extends GonePlace {
  readonly listing: Listing;
  /** Drafts are rewritten in place, so identical listings do not guarantee identical bytes. */
  readonly draft: boolean;
}

interface Relink {
  readonly from: Place;
  readonly to: Place;
  readonly listing: Listing;
}

/**
 * Pairs new places with places that are gone. A new uid gets known bytes without a download only if exactly one gone
 * and one new place have its fingerprint, it has a Message-ID, and it is not a draft. Both places can be in one folder,
 * because a service that renumbers may keep some uids. Everything else is fetched.
 */
export function pairMoves(
  gone: readonly GonePlace[],
  newPlaces: readonly NewPlace[],
): { readonly relinks: readonly Relink[]; readonly fetch: readonly NewPlace[] } {
  const goneBy = groupByPrint(gone);
  const newBy = groupByPrint(newPlaces);
  const relinks: Relink[] = [];
  const fetch: NewPlace[] = [];
  for (const candidate of newPlaces) {
    const sources = goneBy.get(candidate.fingerprint) ?? [];
    const [source] = sources;
    const isUnique = sources.length === 1 && newBy.get(candidate.fingerprint)?.length === 1;
    const allowed =
      source !== undefined &&
      isUnique &&
      candidate.listing.messageId !== null &&
      !candidate.draft &&
      isMoved(source.place, candidate.place);
    if (allowed) {
      relinks.push({ from: source.place, to: candidate.place, listing: candidate.listing });
    } else {
      fetch.push(candidate);
    }
  }
  return { relinks, fetch };
}

function isMoved(a: Place, b: Place): boolean {
  const isSame = a.folder === b.folder && a.generation === b.generation && a.uid === b.uid;
  return a.host === b.host && a.mailbox === b.mailbox && !isSame;
}

function groupByPrint<T extends { readonly fingerprint: string }>(
  items: readonly T[],
): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(item.fingerprint);
    if (group === undefined) groups.set(item.fingerprint, [item]);
    else group.push(item);
  }
  return groups;
}

/** The message at an open uid in the sample, compared by Message-ID and date. */
export type SampleAnswer = 'same' | 'other' | 'missing';

/** Number of open uids to sample before declaring a new UID epoch. Smaller folders are sampled in full. */
export const SAMPLE_SIZE = 20;
/** Minimum share of the sample that must refer to another message. */
const DECLARED_AT = 0.8;

/**
 * `same`: nothing contradicts the archive. `replaced`: a single uid refers to another message, which is fetched. `new`:
 * the service reassigned the uids. `doubtful`: neither is clear, so the folder is walked first.
 */
type GenerationVerdict = 'same' | 'replaced' | 'new' | 'doubtful';

/** Judges a sample of min(20, all) open uids. Missing uids support neither verdict. */
export function judgeUidEpoch(sample: readonly SampleAnswer[]): GenerationVerdict {
  const other = sample.filter((answer) => answer === 'other').length;
  if (other === 0) return 'same';
  if (other >= DECLARED_AT * sample.length) return sample.length === 1 ? 'replaced' : 'new';
  return other === 1 ? 'replaced' : 'doubtful';
}

/** Returns the positions of a sample spread evenly over `count` items, ascending. */
export function samplePositions(count: number, size = SAMPLE_SIZE): number[] {
  if (count <= size) return Array.from({ length: count }, (_, i) => i);
  return Array.from({ length: size }, (_, i) => Math.floor((i * (count - 1)) / (size - 1)));
}
