import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import type { MailkeepError } from '../core/errors.ts';
import { placeKey } from '../core/state.ts';
import type { FolderKey, Listing, Place } from '../core/types.ts';
import { fingerprint } from '../mail/identity.ts';
import type { FetchedSource, Memory, SyncContext } from './ports.ts';
import { fetchUids } from './walk.ts';

/** Number of bytes to search for the Message-ID. No real message has 256 KiB of headers. */
const HEADER_WINDOW = 256 * 1024;
const LF = 0x0a;
const CR = 0x0d;

/** Reports whether the first bytes look like mail rather than a web page. */
function mayBeMail(start: Uint8Array): boolean {
  const text = Buffer.from(start.subarray(0, 512)).toString('latin1').trimStart().toLowerCase();
  return !(text.startsWith('<!doctype') || text.startsWith('<html') || text.startsWith('<?xml'));
}

/** Returns the facts needed to judge a source. Streams files. */
export async function computeFetchFacts(source: FetchedSource): Promise<FetchFacts> {
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
    looksLikeMail: mayBeMail(head),
    crlf,
    bareLf,
  };
}

/** Returns all bytes before the first empty line. Does not decode them, because bodies are long. */
function headersOf(head: Buffer): Buffer {
  const crlf = head.indexOf('\r\n\r\n');
  const before = crlf < 0 ? head : head.subarray(0, crlf);
  const lf = before.indexOf('\n\n');
  return lf < 0 ? before : before.subarray(0, lf);
}

/** Returns the first Message-ID, unfolded and without angle brackets (RFC 5322, 3.6.4), or null. */
function messageIdOf(source: Buffer): string | null {
  const headers = headersOf(source.subarray(0, HEADER_WINDOW)).toString('latin1');
  const value = /^message-id[ \t]*:((?:.|\r?\n[ \t])*)/im.exec(headers)?.[1];
  const id = value?.replace(/\s+/g, '').replace(/^<|>$/g, '') ?? '';
  return id === '' ? null : id;
}

export interface FetchingFolder {
  readonly at: FolderKey;
  place(uid: number): Place;
}

const EARLIER_FETCHES = 'earlier-fetches';

interface JudgedSource {
  readonly source: FetchedSource;
  /** `other`: the uid now refers to a different message. */
  readonly judgement: Exclude<FetchVerdict, { verdict: 'again' }> | { readonly verdict: 'other' };
  readonly detail: string;
}

/** Fetches a message's raw source until it can be judged. If the source is a file, the caller deletes it. */
export async function fetchVerified(
  ctx: SyncContext,
  folder: FetchingFolder,
  listing: Listing,
): Promise<JudgedSource> {
  const key = placeKey(folder.place(listing.uid));
  const fetches: FetchFacts[] = [];
  for (;;) {
    const source = await ctx.origin.source(folder.at, listing.uid, ctx.signal);
    ctx.host.failures.over();
    // Neither the listed size nor the first bytes say more than a literal that arrived in full.
    if (ctx.origin.sourcesAreComplete === true) {
      return { source, judgement: { verdict: 'accept' }, detail: '' };
    }
    if (fetches.length === 0 && isPlainlyComplete(source, listing)) {
      ctx.host.rules.learn(listing, undefined);
      return { source, judgement: { verdict: 'accept' }, detail: '' };
    }
    const latest = await computeFetchFacts(source);
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

/** Detects the common case: the source has exactly the listed length and Message-ID, and is not a web page. */
function isPlainlyComplete(source: FetchedSource, listing: Listing): boolean {
  if (source.kind === 'file' || source.bytes.length !== listing.size) return false;
  return (
    mayBeMail(source.bytes) && hasListedMessageId(listing, { messageId: messageIdOf(source.bytes) })
  );
}

/**
 * Reports whether a uid's listing is unchanged even though its source has another Message-ID. If the service has
 * reassigned its uids, these bytes must not be stored for the listed message. Hosts that always alter Message-IDs are
 * remembered and not checked again.
 */
async function isListedStill(
  ctx: SyncContext,
  at: FolderKey,
  listing: Listing,
  latest: FetchFacts,
): Promise<boolean> {
  const { rules } = ctx.host;
  if (hasListedMessageId(listing, latest) || rules.altersMessageIds) return true;
  const { answered } = await fetchUids(ctx, at, [listing.uid]);
  const now = answered.get(listing.uid);
  const isSame = now !== undefined && fingerprint(now) === fingerprint(listing);
  if (latest.size === listing.size) rules.learnIds(isSame);
  return isSame;
}

/** Stores the first fetch of each version of the content, because confirmation depends on its age. */
function rememberFetch(
  ctx: SyncContext,
  key: string,
  judgement: FetchVerdict,
  latest: FetchFacts,
): void {
  const earlier = ctx.memory.get(EARLIER_FETCHES, key) ?? [];
  if (judgement.verdict === 'accept') {
    if (earlier.length > 0) ctx.memory.set(EARLIER_FETCHES, key, null);
  } else if (!earlier.some(({ sha256 }) => sha256 === latest.sha256)) {
    ctx.memory.set(EARLIER_FETCHES, key, [...earlier, { at: ctx.now(), sha256: latest.sha256 }]);
  }
}

/** Maximum number of fetches of a short source per sync run before the message is considered incomplete. */
export const MAX_FETCHES_PER_RUN = 3;
/** A short source must be confirmed by a sync run at least 10 minutes later. */
export const CONFIRM_AFTER_MS = 600_000;
/** Consecutive messages that a size rule must explain before it is trusted. */
export const MIN_RULE_MESSAGES = 20;

export interface FetchFacts {
  readonly size: number;
  readonly sha256: string;
  /** Message-ID header without angle brackets, or null. */
  readonly messageId: string | null;
  /** False for a web page, for example a portal or a maintenance notice. */
  readonly looksLikeMail: boolean;
  /** Number of CRLF line endings, and of lone LFs. */
  readonly crlf: number;
  readonly bareLf: number;
}

export interface EarlierFetch {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly sha256: string;
}

/** A systematic size error: `lf` counts a CRLF as one byte, `crlf` counts an LF as two, `offset` adds bytes. */
export type SizeRule =
  | { readonly kind: 'lf' }
  | { readonly kind: 'crlf' }
  | { readonly kind: 'offset'; readonly bytes: number };

export type FetchVerdict =
  | { readonly verdict: 'accept'; readonly mark?: 'shorter-twice' | 'longer-twice' | 'host-rule' }
  | { readonly verdict: 'again' }
  | { readonly verdict: 'quarantine'; readonly reason: 'short' | 'size-disagrees' | 'not-mail' };

/**
 * Judges a source by its fetches in this sync run (at least one, latest last) and earlier ones.
 *
 * A source of the listed size is complete. Any other size requires the listed Message-ID. A rule learned for the host
 * can then accept it immediately. Otherwise, a longer source must be fetched twice with identical bytes. A shorter one
 * must have the same bytes in another sync run, at least ten minutes later.
 */
export function judgeSource(input: {
  readonly listing: Pick<Listing, 'size' | 'messageId'>;
  readonly fetches: readonly [FetchFacts, ...FetchFacts[]];
  readonly earlier: readonly EarlierFetch[];
  readonly rule: SizeRule | null;
  readonly now: number;
}): FetchVerdict {
  const { listing, fetches, earlier, rule, now } = input;
  const latest = fetches[fetches.length - 1] ?? fetches[0];
  const mayRetry = fetches.length < MAX_FETCHES_PER_RUN;
  const hasId = hasListedMessageId(listing, latest);
  if (!latest.looksLikeMail && !isMailWithoutHeaders(listing, latest)) {
    return mayRetry ? { verdict: 'again' } : { verdict: 'quarantine', reason: 'not-mail' };
  }
  if (latest.size === listing.size) return { verdict: 'accept' };
  if (hasId && rule !== null && sizeByRule(rule, latest) === listing.size) {
    return { verdict: 'accept', mark: 'host-rule' };
  }
  const isShort = latest.size < listing.size;
  if (hasId && !isShort) {
    const isRepeated = fetches.slice(0, -1).some(({ sha256 }) => sha256 === latest.sha256);
    if (isRepeated) return { verdict: 'accept', mark: 'longer-twice' };
  }
  if (mayRetry) return { verdict: 'again' };
  if (hasId && isShort) {
    const isConfirmed = earlier.some(
      ({ at, sha256 }) => sha256 === latest.sha256 && now - at >= CONFIRM_AFTER_MS,
    );
    if (isConfirmed) return { verdict: 'accept', mark: 'shorter-twice' };
  }
  return { verdict: 'quarantine', reason: isShort ? 'short' : 'size-disagrees' };
}

/**
 * Reports whether an apparent web page is mail without headers. Such mail has the listed Message-ID or, if none is
 * listed, exactly the listed size. A portal's page has neither.
 */
function isMailWithoutHeaders(
  listing: Pick<Listing, 'size' | 'messageId'>,
  facts: FetchFacts,
): boolean {
  if (!hasListedMessageId(listing, facts)) return false;
  return bareId(listing.messageId) !== null || facts.size === listing.size;
}

export function hasListedMessageId(
  listing: Pick<Listing, 'messageId'>,
  facts: Pick<FetchFacts, 'messageId'>,
): boolean {
  return bareId(listing.messageId) === bareId(facts.messageId);
}

/** Removes the angle brackets that some listings keep. Returns null if there is no id. */
export function bareId(id: string | null): string | null {
  const value = id?.trim().replace(/^<|>$/g, '').trim() ?? '';
  return value === '' ? null : value;
}

function sizeByRule(rule: SizeRule, facts: FetchFacts): number {
  switch (rule.kind) {
    case 'lf':
      return facts.size - facts.crlf;
    case 'crlf':
      return facts.size + facts.bareLf;
    case 'offset':
      return facts.size + rule.bytes;
  }
}

/** Number of consecutive messages that each rule has explained on one host. Stored between runs. */
export interface SizeLessons {
  readonly lf: number;
  readonly crlf: number;
  readonly offset: { readonly bytes: number; readonly count: number };
}

export const NO_LESSONS: SizeLessons = { lf: 0, crlf: 0, offset: { bytes: 0, count: 0 } };

/** Returns the lessons after another message. If its size matched (`fetched` is undefined), every rule is refuted. */
export function learnSizes(
  lessons: SizeLessons,
  listing: Pick<Listing, 'size' | 'messageId'>,
  fetched: FetchFacts | undefined,
): SizeLessons {
  if (fetched === undefined || fetched.size === listing.size) {
    const isBlank = lessons.lf === 0 && lessons.crlf === 0 && lessons.offset.count === 0;
    return isBlank ? lessons : NO_LESSONS;
  }
  if (!hasListedMessageId(listing, fetched)) return lessons;
  const fits = (rule: SizeRule): boolean => sizeByRule(rule, fetched) === listing.size;
  const bytes = listing.size - fetched.size;
  return {
    lf: fits({ kind: 'lf' }) ? lessons.lf + 1 : 0,
    crlf: fits({ kind: 'crlf' }) ? lessons.crlf + 1 : 0,
    offset: { bytes, count: lessons.offset.bytes === bytes ? lessons.offset.count + 1 : 1 },
  };
}

export function trustedRule({ lf, crlf, offset }: SizeLessons): SizeRule | null {
  if (lf >= MIN_RULE_MESSAGES) return { kind: 'lf' };
  if (crlf >= MIN_RULE_MESSAGES) return { kind: 'crlf' };
  if (offset.count >= MIN_RULE_MESSAGES) return { kind: 'offset', bytes: offset.bytes };
  return null;
}

const SIZE_LESSONS = 'size-lessons';

/** Memory scope: number of consecutive sources whose Message-ID differed from their unchanged listing. */
const ODD_IDS = 'odd-ids';

/** Learns how a host's listed sizes differ from actual source sizes. */
export class HostRules {
  #lessons: SizeLessons;
  #oddIds: number;

  constructor(
    private readonly memory: Memory,
    private readonly host: string,
  ) {
    this.#lessons = memory.get(SIZE_LESSONS, host) ?? NO_LESSONS;
    this.#oddIds = memory.get(ODD_IDS, host) ?? 0;
  }

  get rule(): SizeRule | null {
    return trustedRule(this.#lessons);
  }

  /** True if the host's listed Message-IDs persistently differ from those in its sources. */
  get altersMessageIds(): boolean {
    return this.#oddIds >= MIN_RULE_MESSAGES;
  }

  /** Records a source whose Message-ID is not the listed one. @param listedStill true if the listing is unchanged */
  learnIds(listedStill: boolean): void {
    this.#oddIds = listedStill ? this.#oddIds + 1 : 0;
    this.memory.set(ODD_IDS, this.host, this.#oddIds);
  }

  learn(listing: Listing, facts: FetchFacts | undefined): void {
    const lessons = learnSizes(this.#lessons, listing, facts);
    if (lessons === this.#lessons) return;
    this.#lessons = lessons;
    this.memory.set(SIZE_LESSONS, this.host, lessons);
  }
}

/** Number of consecutive failures that indicates a failing host rather than failing messages. */
const FAILURES_OF_A_HOST = 20;

/** Counts consecutive failed requests regardless of the error. */
export class FailureCounter {
  #streak = 0;

  /** @throws `error` after too many consecutive failures */
  failed(error: MailkeepError): void {
    this.#streak += 1;
    if (this.#streak >= FAILURES_OF_A_HOST) throw error;
  }

  over(): void {
    this.#streak = 0;
  }
}
