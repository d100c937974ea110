import { rm } from 'node:fs/promises';
import type { AssumedPlace } from '../../../catalog/places.ts';
import { fingerprint } from '../../../mail/fingerprint.ts';
import type { Listing, MailboxKey } from '../../../mail/words.ts';
import { accountKey, placeKey } from '../../../state/scopes.ts';
import { concernsOnly } from '../failure-scope.ts';
import type { PassContext } from '../pass-context.ts';
import { isRecent } from '../ports.ts';
import { askByName } from './ask-by-name.ts';
import { type FetchingFolder, fetchJudged } from './fetch-judged.ts';

/** Scope of memory: how many assumed places were checked in the current hour, by account and host. */
const SPENT = 'assumed-checked';
const HOUR_MS = 3_600_000;
/** Scope of memory: when fetching an assumed place last failed. */
const TRIED = 'assumed-tried';
/** An incomplete one is retried a day later, so that it does not hold up the others. */
const TRY_AGAIN_MS = 86_400_000;
/** Places read from the catalog at a time. */
const MOST_AT_ONCE = 100_000;
/** Places read in addition, because so many of the oldest may have failed today. */
const MOST_SET_ASIDE = 1_000;

/**
 * Fetches the sources of places whose bytes an earlier pass assumed, the oldest first, as many as the policy leaves
 * for this hour. Each becomes stored, or is corrected by a fact of its own. A place that no longer answers, or whose
 * source is incomplete, stays assumed.
 *
 * @param listed paths of the folders that the origin lists: a deleted folder cannot be asked
 */
export async function verifyAssumed(
  ctx: PassContext,
  mailbox: MailboxKey,
  address: string,
  listed: ReadonlySet<string>,
): Promise<void> {
  const budget = new HourlyBudget(ctx);
  const places = ctx.mirror
    .assumed(mailbox, ctx.startedAtCommit, Math.min(budget.left, MOST_AT_ONCE) + MOST_SET_ASIDE)
    .filter((place) => listed.has(place.folder) && !wasTried(ctx, place))
    .slice(0, budget.left);
  for (const [folder, assumed] of byFolder(places)) {
    const uids = assumed.map(({ uid }) => uid).sort((a, b) => a - b);
    const { answered } = await askByName(ctx, folder.at, uids);
    for (const place of assumed) {
      const listing = answered.get(place.uid);
      // Another listing at the uid means another message, not a wrong guess: the next pass finds out what happened.
      if (listing === undefined || !showsTheSame(ctx, place, listing)) continue;
      budget.spend();
      await verifyOne(ctx, folder, address, place, listing);
    }
  }
}

/** Returns whether a uid still has the listing that the place was relinked by. */
function showsTheSame(ctx: PassContext, place: AssumedPlace, listing: Listing): boolean {
  const placed = ctx.mirror.placed(place, place.generation, place.uid);
  return placed?.fingerprint === fingerprint(listing);
}

/** A check by hand tries every place; a pass of a daemon those that were not tried today. */
function wasTried(ctx: PassContext, place: AssumedPlace): boolean {
  if (ctx.policy.rhythm === null) return false;
  const at = ctx.memory.get(TRIED, placeKey(place));
  return at !== undefined && isRecent(at, ctx.now(), TRY_AGAIN_MS);
}

function noteTried(ctx: PassContext, place: AssumedPlace): void {
  ctx.memory.set(TRIED, placeKey(place), ctx.now());
}

async function verifyOne(
  ctx: PassContext,
  folder: FetchingFolder,
  address: string,
  assumed: AssumedPlace,
  listing: Listing,
): Promise<void> {
  const place = folder.place(assumed.uid);
  try {
    const { source, judgement } = await fetchJudged(ctx, folder, listing);
    try {
      await ctx.host.canary.watch(folder.at, listing, ctx.signal);
      if (judgement.verdict !== 'accept') {
        noteTried(ctx, assumed);
        return;
      }
      const put = await ctx.committer.putSource(listing, source);
      if (put.is === 'forgotten') {
        // The guess was another message with the same listing; this one was forgotten and must not be stored.
        ctx.committer.addFact({ fact: 'ended', ...place, reason: 'forgotten' });
        ctx.committer.noteForgotten(put.id, place);
        ctx.ledger.count(address, 'corrected', 1);
        return;
      }
      const { id, docid, size } = put;
      const corrected = id !== assumed.id;
      ctx.committer.addFact({ fact: 'verified', ...place, message: id, docid, size, corrected });
      ctx.ledger.count(address, corrected ? 'corrected' : 'verified', 1);
    } finally {
      if (source.kind === 'file') await rm(source.path, { force: true });
    }
  } catch (error) {
    ctx.signal.throwIfAborted();
    if (!concernsOnly(error)) throw error;
    noteTried(ctx, assumed);
    ctx.ledger.fail(error, { mailbox: address, place });
  }
}

function byFolder(places: readonly AssumedPlace[]): Map<FetchingFolder, AssumedPlace[]> {
  const folders = new Map<string, { folder: FetchingFolder; places: AssumedPlace[] }>();
  for (const place of places) {
    const { host, mailbox, folder: path, generation } = place;
    const at = { host, mailbox, folder: path };
    const key = JSON.stringify([path, generation]);
    const group = folders.get(key) ?? {
      folder: { at, place: (uid: number) => ({ ...at, generation, uid }) },
      places: [],
    };
    group.places.push(place);
    folders.set(key, group);
  }
  return new Map([...folders.values()].map(({ folder, places: list }) => [folder, list]));
}

/** How many fetches remain in this hour; remembered, so that frequent passes and restarts do not add up. */
class HourlyBudget {
  readonly #key: string;
  #since: number;
  #count: number;

  constructor(private readonly ctx: PassContext) {
    this.#key = accountKey(ctx.account, ctx.origin.host);
    const kept = ctx.memory.get(SPENT, this.#key);
    const same = kept !== undefined && isRecent(kept.since, ctx.now(), HOUR_MS);
    this.#since = same ? kept.since : ctx.now();
    this.#count = same ? kept.count : 0;
  }

  get left(): number {
    return Math.max(0, this.ctx.policy.verifyPerHour - this.#count);
  }

  spend(): void {
    this.#count += 1;
    this.ctx.memory.set(SPENT, this.#key, { since: this.#since, count: this.#count });
  }
}
