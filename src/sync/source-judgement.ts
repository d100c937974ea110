import type { Listing } from '../mail/words.ts';

/** Fetches of a source that is shorter than listed, in one run, before it is quarantined. */
export const FETCHES_IN_A_RUN = 3;
/** Another run confirms a short source only when it comes at least this much later: 10 minutes. */
export const CONFIRM_AFTER_MS = 600_000;
/** Messages in a row that a size rule must explain before it is believed. */
export const MESSAGES_TO_LEARN = 20;

/** What judging needs to know about one fetch. */
export interface FetchedFacts {
  readonly size: number;
  readonly sha256: string;
  /** The Message-ID header without its angle brackets; null where there is none. */
  readonly messageId: string | null;
  /** False for what begins as a web page: a portal or a maintenance notice is never mail. */
  readonly looksLikeMail: boolean;
  /** Line ends of two bytes, and of a lone LF. */
  readonly crlf: number;
  readonly bareLf: number;
}

/** A fetch of an earlier run that was not accepted. */
export interface EarlierFetch {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly sha256: string;
}

/**
 * How a host's listed sizes always differ from the sources: `lf` counts one byte per line end where the source has two,
 * `crlf` two where it has one, `offset` a constant number of bytes more (or fewer).
 */
export type SizeRule =
  | { readonly kind: 'lf' }
  | { readonly kind: 'crlf' }
  | { readonly kind: 'offset'; readonly bytes: number };

export type Judgement =
  | { readonly verdict: 'accept'; readonly mark?: 'shorter-twice' | 'longer-twice' | 'host-rule' }
  | { readonly verdict: 'again' }
  | { readonly verdict: 'quarantine'; readonly reason: 'short' | 'size-disagrees' | 'not-mail' };

/**
 * Decides about a source by its fetches in this run (the latest last, at least one) and in earlier runs.
 *
 * A source of the listed size is complete. With another size, it must have the listed Message-ID. Then a host's learned
 * rule accepts it at once; a longer source is accepted when two fetches agree; a shorter one only when another run, at
 * least ten minutes later, gets the same bytes.
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
  if (!latest.looksLikeMail && !isMailAllTheSame(listing, latest)) {
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
 * Returns whether what begins like a web page is mail that has lost its headers: it has the listed Message-ID or, where
 * none is listed, the listed size to the byte. A portal's page can have neither.
 */
function isMailAllTheSame(
  listing: Pick<Listing, 'size' | 'messageId'>,
  fetched: FetchedFacts,
): boolean {
  if (!carriesListedId(listing, fetched)) return false;
  return bareId(listing.messageId) !== null || fetched.size === listing.size;
}

/** Returns whether a source has the listed Message-ID; a message listed without one must come without one. */
export function carriesListedId(
  listing: Pick<Listing, 'messageId'>,
  fetched: Pick<FetchedFacts, 'messageId'>,
): boolean {
  return bareId(listing.messageId) === bareId(fetched.messageId);
}

/** Strips the angle brackets that some listings keep. */
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

/** How many messages in a row each rule explained, on one host. Plain data, because it is remembered between runs. */
export interface SizeLessons {
  readonly lf: number;
  readonly crlf: number;
  readonly offset: { readonly bytes: number; readonly count: number };
}

export const NO_LESSONS: SizeLessons = { lf: 0, crlf: 0, offset: { bytes: 0, count: 0 } };

/**
 * Learns from one message. `fetched` is undefined for a message whose size was as listed: that contradicts every rule,
 * because a rule must always hold.
 */
export function learnSizes(
  lessons: SizeLessons,
  listing: Pick<Listing, 'size' | 'messageId'>,
  fetched: FetchedFacts | undefined,
): SizeLessons {
  if (fetched === undefined || fetched.size === listing.size) {
    return isBlank(lessons) ? lessons : NO_LESSONS;
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

function isBlank({ lf, crlf, offset }: SizeLessons): boolean {
  return lf === 0 && crlf === 0 && offset.count === 0;
}

/** Returns the rule that a host follows; null while none is believed. */
export function ruleOf({ lf, crlf, offset }: SizeLessons): SizeRule | null {
  if (lf >= MESSAGES_TO_LEARN) return { kind: 'lf' };
  if (crlf >= MESSAGES_TO_LEARN) return { kind: 'crlf' };
  if (offset.count >= MESSAGES_TO_LEARN) return { kind: 'offset', bytes: offset.bytes };
  return null;
}
