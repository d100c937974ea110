import { type FlagSet, type Listing, type Place, sameFlags } from '../../core/types.ts';
import {
  type AwaitedListing,
  addInterval,
  Coverage,
  covers,
  type DeferredListing,
  gapsOf,
  PAGE_SIZE,
  type PageTicket,
  type UidInterval,
  type UidIntervals,
  weighPage,
} from './plan-folder.ts';

/**
 * Places of a folder by what the archive has of them; each place is in one sum only. They add up when the origin's total
 * equals stored + assumed + quarantined + forgotten: it does not count the held ones.
 */
export interface FolderSums {
  /** Open places with bytes that were fetched and hashed. */
  readonly stored: number;
  /** Open places that share the bytes of another place; their own source was not fetched yet. */
  readonly assumed: number;
  /** Places whose source was fetched and not accepted, or refused. */
  readonly quarantined: number;
  /** Open places that the brake keeps although the origin lacks them. */
  readonly held: number;
  /** Places at which the origin still shows a message that was forgotten here. */
  readonly forgotten: number;
}

export const NO_PLACES: FolderSums = {
  stored: 0,
  assumed: 0,
  quarantined: 0,
  held: 0,
  forgotten: 0,
};

/** Returns how many places the archive accounts for: the sum of all five. */
export function accountedFor(sums: FolderSums): number {
  return expectedAtOrigin(sums) + sums.held;
}

/** Returns how many places the origin should count: all but the held ones, which it has lost. */
export function expectedAtOrigin({ stored, assumed, quarantined, forgotten }: FolderSums): number {
  return stored + assumed + quarantined + forgotten;
}

/** Returns how many places are open, which means current: with a message, and not deleted at the origin. */
export function openPlaces({ stored, assumed, held }: FolderSums): number {
  return stored + assumed + held;
}

/** Returns how many of the origin's messages the archive does not account for; 0 when it accounts for more. */
export function notAccountedFor(originTotal: number, sums: FolderSums): number {
  return Math.max(0, originTotal - accountedFor(sums));
}

/** Returns whether everything adds up except the held places: only the brake's decision is missing then. */
export function differsByHeldOnly(originTotal: number, sums: FolderSums): boolean {
  return sums.held > 0 && expectedAtOrigin(sums) === originTotal;
}

/** Adds up the sums of several folders. */
export function addSums(folders: readonly FolderSums[]): FolderSums {
  return folders.reduce<FolderSums>(
    (total, sums) => ({
      stored: total.stored + sums.stored,
      assumed: total.assumed + sums.assumed,
      quarantined: total.quarantined + sums.quarantined,
      held: total.held + sums.held,
      forgotten: total.forgotten + sums.forgotten,
    }),
    NO_PLACES,
  );
}

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
interface ComparedPage {
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

/** How many deletions a pass accepts at once; the `brake` section of the configuration. */
export interface BrakePolicy {
  /** Deletions of more than this share of the open places are held, in a folder or in a mailbox. */
  readonly maxEndedShare: number;
  /** With fewer open places, shares do not count. */
  readonly minMessages: number;
}

/** What is about to end in one folder: places that are gone and did not move elsewhere. */
interface FolderEndings {
  readonly folder: string;
  readonly specialUse: string | null;
  /** Open places before the pass. */
  readonly open: number;
  readonly ending: number;
  /** True when the origin shows the folder as empty, or no longer lists it. */
  readonly empty: boolean;
}

interface BrakeDecision {
  readonly folder: string;
  readonly hold: boolean;
  readonly reason: 'within-bounds' | 'exempt' | 'folder-share' | 'folder-empty' | 'mailbox-share';
}

/** These folders are meant to be emptied (RFC 6154). */
const EXEMPT: ReadonlySet<string> = new Set(['\\Trash', '\\Junk']);

/**
 * Decides, folder by folder, whether deletions are accepted at once or held until a second check. A folder that is
 * suddenly empty is held whatever its size; a large share of the complete mailbox holds every folder that contributes.
 */
export function brake(folders: readonly FolderEndings[], policy: BrakePolicy): BrakeDecision[] {
  const counted = folders.filter(({ specialUse }) => !EXEMPT.has(specialUse ?? ''));
  const open = counted.reduce((sum, folder) => sum + folder.open, 0);
  const ending = counted.reduce((sum, folder) => sum + folder.ending, 0);
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

function exceeds(ending: number, open: number, policy: BrakePolicy): boolean {
  return open >= policy.minMessages && ending > policy.maxEndedShare * open;
}

/** A place that this pass found to be gone, one of the generation that was just replaced, or one whose uid shows another message. */
export interface GonePlace {
  readonly place: Place;
  readonly fingerprint: string;
}

/** A new uid whose fingerprint the mailbox has elsewhere. */
export interface NewPlace extends GonePlace {
  readonly listing: Listing;
  /** Drafts are rewritten in place: an equal listing does not guarantee equal bytes. */
  readonly draft: boolean;
}

interface Relink {
  readonly from: Place;
  readonly to: Place;
  readonly listing: Listing;
}

/**
 * Pairs new places with places that are gone. A new uid gets known bytes without a download only when exactly one place
 * with its fingerprint is gone and exactly one is new, with a Message-ID, and when it is no draft. The two may be in one
 * folder: a service that renumbers may keep some uids. Everything else is fetched.
 */
export function pairMoves(
  gone: readonly GonePlace[],
  appeared: readonly NewPlace[],
): { readonly relinks: readonly Relink[]; readonly fetch: readonly NewPlace[] } {
  const goneBy = grouped(gone);
  const newBy = grouped(appeared);
  const relinks: Relink[] = [];
  const fetch: NewPlace[] = [];
  for (const candidate of appeared) {
    const sources = goneBy.get(candidate.fingerprint) ?? [];
    const [source] = sources;
    const alone = sources.length === 1 && newBy.get(candidate.fingerprint)?.length === 1;
    const allowed =
      source !== undefined &&
      alone &&
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

function grouped<T extends { readonly fingerprint: string }>(
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

/** What a sampled open uid answers with, compared by Message-ID and date. */
export type SampleAnswer = 'same' | 'other' | 'missing';

/** Open uids that are asked before a new generation is declared; all of them if there are fewer. */
export const SAMPLE_SIZE = 20;
/** The share of the sample that has to answer with another message. */
const DECLARED_AT = 0.8;

/**
 * `same`: nothing contradicts. `replaced`: a single uid shows another message; it is fetched. `new`: the origin
 * reassigned the uids. `doubtful`: in between; the folder is walked first.
 */
type GenerationVerdict = 'same' | 'replaced' | 'new' | 'doubtful';

/** Weighs a sample of min(20, all) open uids. Uids that are missing neither contradict nor agree. */
export function judgeGeneration(sample: readonly SampleAnswer[]): GenerationVerdict {
  const other = sample.filter((answer) => answer === 'other').length;
  if (other === 0) return 'same';
  if (other >= DECLARED_AT * sample.length) return sample.length === 1 ? 'replaced' : 'new';
  return other === 1 ? 'replaced' : 'doubtful';
}

/** Returns the evenly spread positions of a sample among `count` items, ascending. */
export function samplePositions(count: number, size = SAMPLE_SIZE): number[] {
  if (count <= size) return Array.from({ length: count }, (_, i) => i);
  return Array.from({ length: size }, (_, i) => Math.floor((i * (count - 1)) / (size - 1)));
}
