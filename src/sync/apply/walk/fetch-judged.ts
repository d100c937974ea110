import { rm } from 'node:fs/promises';
import { fingerprint } from '../../../mail/fingerprint.ts';
import type { FolderKey, Listing, Place } from '../../../mail/words.ts';
import { placeKey } from '../../../state/scopes.ts';
import {
  carriesListedId,
  type FetchedFacts,
  type Judgement,
  judgeSource,
} from '../../source-judgement.ts';
import type { PassContext } from '../pass-context.ts';
import type { FetchedSource } from '../ports.ts';
import { askByName } from './ask-by-name.ts';
import { beginsLikeMail, factsOf, messageIdOf } from './fetched-facts.ts';

/** The folder whose messages are fetched. */
export interface FetchingFolder {
  readonly at: FolderKey;
  place(uid: number): Place;
}

/** Scope of memory: fetches that were not accepted, by place. */
const EARLIER_FETCHES = 'earlier-fetches';

export interface Judged {
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
