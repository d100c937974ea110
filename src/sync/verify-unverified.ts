import { rm } from 'node:fs/promises';
import type { UnverifiedPlace } from '../catalog/list.ts';
import { placeKey } from '../core/state.ts';
import type { FolderKey, Listing, MailboxKey } from '../core/types.ts';
import { accountKey } from '../core/types.ts';
import { fingerprint } from '../mail/identity.ts';
import { syncError } from './errors.ts';
import { type FetchingFolder, fetchVerified } from './fetch-source.ts';
import { concernsOnly, isRecent, type Memory, type Origin, type SyncContext } from './ports.ts';
import { fetchUids, walkRange } from './walk.ts';

/** Memory scope: unverified messages checked in the current hour, by account and host. */
const SPENT = 'assumed-checked';
const HOUR_MS = 3_600_000;
const TRIED = 'assumed-tried';
/** An incomplete message is retried after a day so that it does not block others. */
const TRY_AGAIN_MS = 86_400_000;
const MAX_AT_ONCE = 100_000;
/** Extra places to read, because some of the oldest may have failed today. */
const MAX_SET_ASIDE = 1_000;

/**
 * Fetches the sources of unverified messages, oldest first, within the policy's hourly limit. Each source confirms the
 * match, or a correction is recorded. A message stays unverified if it does not answer or its source is incomplete.
 *
 * @param listed paths of listed folders: a deleted one cannot be requested
 */
export async function verifyUnverified(
  ctx: SyncContext,
  mailbox: MailboxKey,
  address: string,
  listed: ReadonlySet<string>,
): Promise<void> {
  const budget = new HourlyBudget(ctx);
  const places = ctx.mirror
    .assumed(mailbox, ctx.startedAtCommit, Math.min(budget.left, MAX_AT_ONCE) + MAX_SET_ASIDE)
    .filter((place) => listed.has(place.folder) && !failedToday(ctx, place))
    .slice(0, budget.left);
  const key = ({ folder, generation }: UnverifiedPlace) => JSON.stringify([folder, generation]);
  for (const group of Map.groupBy(places, key).values()) {
    const [first] = group;
    if (first === undefined) continue;
    const { generation } = first;
    const at = { ...mailbox, folder: first.folder };
    const folder = { at, place: (uid: number) => ({ ...at, generation, uid }) };
    const uids = group.map(({ uid }) => uid).sort((a, b) => a - b);
    const { answered } = await fetchUids(ctx, folder.at, uids);
    for (const place of group) {
      const listing = answered.get(place.uid);
      // A different listing means that the uid now refers to another message, which the next sync run resolves.
      if (listing === undefined || !hasSameListing(ctx, place, listing)) continue;
      budget.spend();
      await verifyOne(ctx, folder, address, place, listing);
    }
  }
}

/** Reports whether a uid still has the listing that matched its message. */
function hasSameListing(ctx: SyncContext, place: UnverifiedPlace, listing: Listing): boolean {
  const original = ctx.mirror.placed(place, place.generation, place.uid);
  return original?.fingerprint === fingerprint(listing);
}

/** Reports whether the daemon tried a message within the last day. A manual check tries every message. */
function failedToday(ctx: SyncContext, place: UnverifiedPlace): boolean {
  if (ctx.policy.rhythm === null) return false;
  const at = ctx.memory.get(TRIED, placeKey(place));
  return at !== undefined && isRecent(at, ctx.now(), TRY_AGAIN_MS);
}

function noteFailed(ctx: SyncContext, place: UnverifiedPlace): void {
  ctx.memory.set(TRIED, placeKey(place), ctx.now());
}

async function verifyOne(
  ctx: SyncContext,
  folder: FetchingFolder,
  address: string,
  match: UnverifiedPlace,
  listing: Listing,
): Promise<void> {
  const place = folder.place(match.uid);
  try {
    const { source, judgement } = await fetchVerified(ctx, folder, listing);
    try {
      await ctx.host.readFlagCheck.watch(folder.at, listing, ctx.signal);
      if (judgement.verdict !== 'accept') {
        noteFailed(ctx, match);
        return;
      }
      const put = await ctx.committer.putSource(place, listing, source);
      if (put.is === 'forgotten') {
        // The match was another message with the same listing. This message was forgotten, and must not be stored.
        ctx.committer.addFact({ fact: 'ended', ...place, reason: 'forgotten' });
        ctx.committer.noteForgotten(put.id, place);
        ctx.ledger.count(address, 'corrected', 1);
        return;
      }
      const { id, docid, size } = put;
      const corrected = id !== match.id;
      ctx.committer.addFact({ fact: 'verified', ...place, message: id, docid, size, corrected });
      ctx.ledger.count(address, corrected ? 'corrected' : 'verified', 1);
    } finally {
      if (source.kind === 'file') await rm(source.path, { force: true });
    }
  } catch (error) {
    ctx.signal.throwIfAborted();
    if (!concernsOnly(error)) throw error;
    noteFailed(ctx, match);
    ctx.ledger.fail(error, { mailbox: address, place });
  }
}

/** Fetches left this hour. Stored, so that frequent sync runs and restarts share the limit. */
class HourlyBudget {
  readonly #key: string;
  #since: number;
  #count: number;

  constructor(private readonly ctx: SyncContext) {
    this.#key = accountKey(ctx.account, ctx.origin.host);
    const entry = ctx.memory.get(SPENT, this.#key);
    const isSameHour = entry !== undefined && isRecent(entry.since, ctx.now(), HOUR_MS);
    this.#since = isSameHour ? entry.since : ctx.now();
    this.#count = isSameHour ? entry.count : 0;
  }

  get left(): number {
    return Math.max(0, this.ctx.policy.verifyPerHour - this.#count);
  }

  spend(): void {
    this.#count += 1;
    this.ctx.memory.set(SPENT, this.#key, { since: this.#since, count: this.#count });
  }
}

/** Memory scope: when a host last proved that reading a source leaves its message unseen. */
const READ_FLAG_CHECK = 'canary';
/** A proof is valid for a day, so the check costs one request per host per day. */
const PROOF_HOLDS_MS = 86_400_000;
/** The owner may have read a message at the same moment. Twice in a row indicates that the fault is ours. */
const WITNESSES = 2;
const SEEN = '\\Seen';

/** Checks that reading messages does not mark them as seen, which no documentation guarantees. */
export class ReadFlagCheck {
  #isWatching = false;
  #witnesses = 0;

  constructor(
    private readonly origin: Origin,
    private readonly memory: Memory,
    private readonly now: () => number,
  ) {}

  /**
   * Checks a message again after its source was read. Costs a request only if the message is unseen and the host has
   * not passed the check today.
   *
   * @throws MailkeepError `sync.marks-seen` if two consecutive messages became seen: reading must stop
   */
  async watch(at: FolderKey, listing: Listing, signal: AbortSignal): Promise<void> {
    if (listing.flags.includes(SEEN) || this.#isWatching || this.#isProven()) return;
    this.#isWatching = true;
    try {
      const now = await this.#listAgain(at, listing.uid, signal);
      if (now === undefined) return;
      if (!now.flags.includes(SEEN)) {
        this.#witnesses = 0;
        this.memory.set(READ_FLAG_CHECK, at.host, { provenAt: this.now() });
        return;
      }
      this.#witnesses += 1;
      if (this.#witnesses >= WITNESSES) {
        throw syncError('sync.marks-seen', { host: at.host });
      }
    } finally {
      this.#isWatching = false;
    }
  }

  /** Returns the message's current listing, or undefined if the message is gone or the service does not answer. */
  async #listAgain(at: FolderKey, uid: number, signal: AbortSignal): Promise<Listing | undefined> {
    const deps = { origin: this.origin, memory: this.memory, signal };
    try {
      // Newest first: if a host cannot search by uid, new mail is on the first page.
      for await (const { items } of walkRange(deps, at, { lo: uid, hi: uid }, 'descending')) {
        const listing = items.find((item) => item.uid === uid);
        if (listing !== undefined) return listing;
      }
    } catch (error) {
      signal.throwIfAborted();
      // This failure does not concern the message, whose source arrived.
      if (!concernsOnly(error)) throw error;
    }
    return undefined;
  }

  #isProven(): boolean {
    const proof = this.memory.get(READ_FLAG_CHECK, this.origin.host);
    return proof !== undefined && isRecent(proof.provenAt, this.now(), PROOF_HOLDS_MS);
  }
}
