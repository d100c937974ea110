import { rm } from 'node:fs/promises';
import type { QuarantineReason } from '../../../archive/format/facts.ts';
import type { MailkeepError } from '../../../errors/mailkeep-error.ts';
import { syncError } from '../../../errors/origin.ts';
import { fingerprint } from '../../../mail/fingerprint.ts';
import type { FolderKey, Listing, Place } from '../../../mail/words.ts';
import {
  carriesListedId,
  type EarlierFetch,
  type FetchedFacts,
  type Judgement,
  judgeSource,
} from '../../source-judgement.ts';
import { concernsOnly } from '../failure-scope.ts';
import { forgetTries } from '../memory/quarantine-retries.ts';
import type { PassContext } from '../pass-context.ts';
import { type FetchedSource, placeKey } from '../ports.ts';
import { askByName } from './ask-by-name.ts';
import { beginsLikeMail, factsOf, messageIdOf } from './fetched-facts.ts';

/** The folder whose messages are fetched, as far as fetching needs it. */
export interface FetchingFolder {
  readonly at: FolderKey;
  readonly address: string;
  /** Messages that were listed, and gone when their source was asked for. */
  vanished: number;
  /**
   * Uids that this pass quarantined, or whose mail had been forgotten: a second look at the same page does not fetch
   * them once more.
   */
  readonly setAside: Set<number>;
  place(uid: number): Place;
}

/** Scope of memory: fetches that were not accepted, by place. */
const EARLIER_FETCHES = 'earlier-fetches';
/** Larger sources that are not accepted are not kept aside: their hash is remembered all the same. */
const KEEP_ASIDE_BYTES = 4 * 1024 * 1024;

/**
 * Fetches one message's raw source and stores it, or records why it could not be. `settled` is called once
 * the outcome is durable, or when the message proves to be gone.
 *
 * @throws what concerns more than this message: a refused token, an unreachable host, a full disk
 */
export async function fetchAndStore(
  ctx: PassContext,
  pass: FetchingFolder,
  listing: Listing,
  again: boolean,
  settled: () => void,
): Promise<void> {
  try {
    ctx.signal.throwIfAborted();
    await attempt(ctx, pass, listing, again, settled);
  } catch (error) {
    // At once, so that no fetch begins that waits behind this one.
    ctx.stop(error);
    throw error;
  }
}

async function attempt(
  ctx: PassContext,
  pass: FetchingFolder,
  listing: Listing,
  again: boolean,
  settled: () => void,
): Promise<void> {
  let source: FetchedSource | undefined;
  try {
    const fetched = await fetchJudged(ctx, pass, listing);
    source = fetched.source;
    await ctx.canary.watch(pass.at, listing, ctx.signal);
    if (fetched.judgement.verdict === 'other') {
      vanished(ctx, pass, listing, again, settled);
    } else if (fetched.judgement.verdict === 'accept') {
      await store(ctx, pass, listing, source, fetched.judgement.mark, again, settled);
    } else {
      const { reason } = fetched.judgement;
      // Once: a try that fails again writes no fact, and nothing would name what it kept.
      const kept = again ? undefined : keepAside(ctx, source);
      quarantine(ctx, pass, listing, reason, fetched.detail, again, settled, kept);
    }
  } catch (error) {
    ctx.signal.throwIfAborted();
    if (!concernsOnly(error)) throw error;
    await failed(ctx, pass, listing, error, again, settled);
  } finally {
    if (source?.kind === 'file') await rm(source.path, { force: true });
  }
}

export interface Judged {
  readonly source: FetchedSource;
  /** `other`: the uid shows another message than the one that was listed. */
  readonly judgement: Exclude<Judgement, { verdict: 'again' }> | { readonly verdict: 'other' };
  readonly detail: string;
}

/**
 * Fetches one message's raw source as often as it takes to judge whether it came whole. A file is the caller's to
 * delete.
 */
export async function fetchJudged(
  ctx: PassContext,
  pass: FetchingFolder,
  listing: Listing,
): Promise<Judged> {
  const fetches: FetchedFacts[] = [];
  for (;;) {
    const source = await ctx.origin.source(pass.at, listing.uid, ctx.signal);
    ctx.trouble.over();
    if (fetches.length === 0 && isPlainlyWhole(source, listing)) {
      ctx.hostRules.learn(listing, undefined);
      return { source, judgement: { verdict: 'accept' }, detail: '' };
    }
    const latest = await factsOf(source);
    if (latest.looksLikeMail && !(await isListedStill(ctx, pass, listing, latest))) {
      return { source, judgement: { verdict: 'other' }, detail: '' };
    }
    fetches.push(latest);
    const [first = latest, ...rest] = fetches;
    const judgement = judgeSource({
      listing,
      fetches: [first, ...rest],
      earlier: earlierFetches(ctx, pass, listing),
      rule: ctx.hostRules.rule,
      now: ctx.now(),
    });
    if (judgement.verdict !== 'again') {
      ctx.hostRules.learn(listing, latest);
      rememberFetch(ctx, pass, listing, judgement, latest);
      const detail = `listed ${listing.size} bytes, came ${latest.size}`;
      return { source, judgement, detail };
    }
    if (source.kind === 'file') await rm(source.path, { force: true });
  }
}

/** The common case: exactly as long as listed, with the listed Message-ID, and no web page. */
function isPlainlyWhole(source: FetchedSource, listing: Listing): boolean {
  if (source.kind === 'file' || source.bytes.length !== listing.size) return false;
  return (
    beginsLikeMail(source.bytes) &&
    carriesListedId(listing, { messageId: messageIdOf(source.bytes) })
  );
}

/**
 * Looks, when a source came with another Message-ID, whether its uid is listed as it was before: uids may have been
 * handed out anew in between, and bytes must never be filed under another message's name. A host that spells
 * Message-IDs in its own way is learned, and not asked for ever.
 */
async function isListedStill(
  ctx: PassContext,
  pass: FetchingFolder,
  listing: Listing,
  latest: FetchedFacts,
): Promise<boolean> {
  if (carriesListedId(listing, latest) || ctx.hostRules.spellsIdsItsWay) return true;
  const { answered } = await askByName(ctx, pass.at, [listing.uid]);
  const now = answered.get(listing.uid);
  const same = now !== undefined && fingerprint(now) === fingerprint(listing);
  if (latest.size === listing.size) ctx.hostRules.learnIds(same);
  return same;
}

async function store(
  ctx: PassContext,
  pass: FetchingFolder,
  listing: Listing,
  source: FetchedSource,
  accepted: 'shorter-twice' | 'longer-twice' | 'host-rule' | undefined,
  again: boolean,
  settled: () => void,
): Promise<void> {
  const place = pass.place(listing.uid);
  if (again) forgetTries(ctx, place);
  const bytes = source.kind === 'buffer' ? source.bytes.length : source.size;
  const options = { accepted, wasQuarantined: again };
  const put = await ctx.committer.storeSource(place, listing, source, options, (is) => {
    if (is === 'stored') ctx.ledger.count(pass.address, 'added', 1);
    ctx.ledger.count(pass.address, 'bytes', bytes);
    settled();
  });
  if (put.is === 'stored') return;
  pass.setAside.add(listing.uid);
  // What it was listed with, and perhaps a part of it, lie in the log since it was quarantined.
  if (again) {
    const error = syncError('sync.forgotten-in-quarantine', { id: put.id });
    ctx.ledger.fail(error, { mailbox: pass.address, place });
  }
}

/** Records why a message is not stored. What was quarantined for the same reason already is not said again. */
function quarantine(
  ctx: PassContext,
  pass: FetchingFolder,
  listing: Listing,
  reason: QuarantineReason,
  detail: string,
  again: boolean,
  settled: () => void,
  kept: string | undefined,
): void {
  const quiet = again && ctx.mirror.isAcknowledged(pass.at, pass.place(listing.uid));
  if (!quiet) ctx.ledger.count(pass.address, 'quarantined', 1);
  pass.setAside.add(listing.uid);
  if (again) {
    settled();
    return;
  }
  ctx.committer.addFact(
    {
      fact: 'quarantined',
      ...pass.place(listing.uid),
      listing,
      reason,
      detail,
      ...(kept === undefined ? {} : { kept }),
    },
    settled,
  );
}

/** A source that could not be fetched: gone meanwhile, or refused. Asking by name tells which. */
async function failed(
  ctx: PassContext,
  pass: FetchingFolder,
  listing: Listing,
  error: MailkeepError,
  again: boolean,
  settled: () => void,
): Promise<void> {
  if (isNotFound(error) && (await isGone(ctx, pass, listing))) {
    vanished(ctx, pass, listing, again, settled);
    return;
  }
  ctx.trouble.met(error);
  const reason: QuarantineReason = error.code === 'origin.not-mail' ? 'not-mail' : 'refused';
  quarantine(ctx, pass, listing, reason, error.code, again, settled, undefined);
  const place = pass.place(listing.uid);
  if (again && ctx.mirror.isAcknowledged(pass.at, place)) return;
  ctx.ledger.fail(error, { mailbox: pass.address, place });
}

/** A message that is not at its uid any more: gone, or the uid shows another. What is there now is found by its listing. */
function vanished(
  ctx: PassContext,
  pass: FetchingFolder,
  listing: Listing,
  again: boolean,
  settled: () => void,
): void {
  const place = pass.place(listing.uid);
  if (again) {
    ctx.committer.addFact({ fact: 'released', ...place, reason: 'ended' });
    forgetTries(ctx, place);
  }
  pass.vanished += 1;
  settled();
}

/** Asks for the message by name. An origin that will not answer that either has not said that it is gone. */
async function isGone(ctx: PassContext, pass: FetchingFolder, listing: Listing): Promise<boolean> {
  try {
    return (await askByName(ctx, pass.at, [listing.uid])).silent.length > 0;
  } catch (error) {
    if (concernsOnly(error)) return false;
    throw error;
  }
}

function isNotFound(error: MailkeepError): boolean {
  return error.code === 'origin.status' && error.facts.status === 404;
}

function keepAside(ctx: PassContext, source: FetchedSource): string | undefined {
  if (source.kind === 'file' || source.bytes.length > KEEP_ASIDE_BYTES) return undefined;
  return ctx.committer.keepAside(source.bytes);
}

function earlierFetches(ctx: PassContext, pass: FetchingFolder, listing: Listing): EarlierFetch[] {
  const kept = ctx.memory.get(EARLIER_FETCHES, placeKey(pass.place(listing.uid)));
  if (!Array.isArray(kept)) return [];
  return kept.flatMap((fetch: unknown) =>
    typeof fetch === 'object' &&
    fetch !== null &&
    'at' in fetch &&
    'sha256' in fetch &&
    typeof fetch.at === 'number' &&
    typeof fetch.sha256 === 'string'
      ? [{ at: fetch.at, sha256: fetch.sha256 }]
      : [],
  );
}

/** Keeps the first sight of each distinct content, since it is the time between sights that counts. */
function rememberFetch(
  ctx: PassContext,
  pass: FetchingFolder,
  listing: Listing,
  judgement: Judgement,
  latest: FetchedFacts,
): void {
  const key = placeKey(pass.place(listing.uid));
  const earlier = earlierFetches(ctx, pass, listing);
  if (judgement.verdict === 'accept') {
    if (earlier.length > 0) ctx.memory.set(EARLIER_FETCHES, key, null);
  } else if (!earlier.some(({ sha256 }) => sha256 === latest.sha256)) {
    ctx.memory.set(EARLIER_FETCHES, key, [...earlier, { at: ctx.now(), sha256: latest.sha256 }]);
  }
}
