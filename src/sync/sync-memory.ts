import { isDeepStrictEqual } from 'node:util';
import { foldersMeant, isInbox, type Selection, selects } from '../core/names.ts';
import {
  accountIn,
  accountKey,
  folderKey,
  generationKey,
  type Proof,
  placeKey,
  type RememberedMailbox,
  type ScopeValue,
  type StateFile,
} from '../core/state.ts';
import type { FolderKey, ListedFolder, MailboxKey, Place } from '../core/types.ts';
import { syncError } from './errors.ts';
import type { FolderPass } from './folder-sync.ts';
import type { Mirror } from './mirror.ts';
import {
  addInterval,
  type Coverage,
  type UidInterval,
  type UidIntervals,
} from './plan/plan-folder.ts';
import {
  type FolderListing,
  isRecent,
  type Memory,
  type Origin,
  type OriginMailbox,
  type PassContext,
} from './ports.ts';
import { type FolderCertificate, isHeldOnly } from './result.ts';
import { forgetSuspension } from './usage.ts';

/** Scope of memory: the covered uid intervals of each folder's generation. */
const COVERAGE = 'coverage';
/** Scope of memory: the uids that the current sweep has read, by folder and generation. */
const SWEPT = 'swept';

/**
 * Returns the intervals that earlier passes covered in a folder's generation. None count once the archive accounts for
 * no message: the folder was deleted, and is back with the same uids.
 *
 * @param accounted messages of the folder that the archive accounts for
 */
export function recalledCoverage(
  memory: Memory,
  at: FolderKey,
  generation: number,
  accounted: number,
): UidIntervals {
  return accounted === 0 ? [] : intervalsOf(memory.get(COVERAGE, generationKey(at, generation)));
}

/** Remembers what is durably covered, if that has changed since the last call. */
export function rememberCoverage(
  memory: Memory,
  at: FolderKey,
  generation: number,
  coverage: Coverage,
): void {
  if (!coverage.takeDirty()) return;
  memory.set(COVERAGE, generationKey(at, generation), pairsOf(coverage.durable));
}

/**
 * Returns the uids that earlier passes of the same sweep have read, with nothing left to decide in them; none when
 * this pass starts a sweep of its own.
 */
export function recalledSweep(ctx: PassContext, at: FolderKey, generation: number): UidIntervals {
  const { full, sweptSince } = ctx.policy;
  if (!full || sweptSince === null) return [];
  const kept = ctx.memory.get(SWEPT, generationKey(at, generation));
  return kept?.since === sweptSince ? intervalsOf(kept.uids) : [];
}

/**
 * Remembers that a sweep has read these uids, so that it can stop and resume anywhere. Flushes first: what the uids
 * showed must be durable.
 */
export async function rememberSwept(
  ctx: PassContext,
  at: FolderKey,
  generation: number,
  answered: UidInterval,
): Promise<void> {
  const { full, sweptSince } = ctx.policy;
  if (!full || sweptSince === null) return;
  await ctx.committer.flush();
  const uids = addInterval(recalledSweep(ctx, at, generation), answered);
  ctx.memory.set(SWEPT, generationKey(at, generation), { since: sweptSince, uids: pairsOf(uids) });
}

function pairsOf(intervals: UidIntervals): number[][] {
  return intervals.map(({ lo, hi }) => [lo, hi]);
}

function intervalsOf(pairs: readonly (readonly [number, number])[] = []): UidIntervals {
  return pairs.reduce<UidIntervals>((set, [lo, hi]) => addInterval(set, { lo, hi }), []);
}

/** Scope of memory: the mailboxes that each account has listed, and since when one is no longer listed. */
const MAILBOXES = 'account-mailboxes';

/** Scope of memory: when each account listed its mailboxes last, milliseconds since the epoch. */
const LISTED_AT = 'account-listed';

/**
 * Compares the account's mailboxes with those it listed before. One that it no longer lists is unreachable: that is
 * reported, and nothing in it counts as deleted. Syncing continues when it is back.
 */
export function noteMailboxes(
  ctx: PassContext,
  wanted: Wanted,
  listed: readonly OriginMailbox[],
): void {
  const before = recall(ctx);
  const now = new Map<string, RememberedMailbox>();
  for (const { resourceId, address } of listed) {
    now.set(resourceId, { resourceId, address, unreachableSince: null });
  }
  for (const { resourceId, address, unreachableSince } of before.values()) {
    if (now.has(resourceId)) continue;
    // Once: another account of the same service may list it.
    if (unreachableSince === null) {
      forgetSuspension(ctx.memory, { host: ctx.origin.host, mailbox: resourceId });
    }
    const since = unreachableSince ?? ctx.startedAt;
    now.set(resourceId, { resourceId, address, unreachableSince: since });
    if (!selects(wanted.mailboxes, address)) continue;
    ctx.ledger.fail(
      syncError('sync.mailbox-unreachable', { address, since: new Date(since).toISOString() }),
      { mailbox: address },
    );
  }
  ctx.memory.set(LISTED_AT, memoryKey(ctx), ctx.startedAt);
  const kept = [...now.values()];
  if (!isDeepStrictEqual(kept, [...before.values()])) {
    ctx.memory.set(MAILBOXES, memoryKey(ctx), kept);
  }
}

/**
 * Returns the wanted mailboxes as an earlier pass listed them, if that is recent enough for this one; undefined if
 * the origin has to be asked.
 */
export function recentMailboxes(ctx: PassContext, wanted: Wanted): OriginMailbox[] | undefined {
  const { rhythm } = ctx.policy;
  const listedAt = ctx.memory.get(LISTED_AT, memoryKey(ctx));
  if (rhythm === null || listedAt === undefined) return undefined;
  if (!isRecent(listedAt, ctx.startedAt, rhythm.mailboxesMs)) return undefined;
  return [...recall(ctx).values()]
    .filter(({ address, unreachableSince }) => {
      return unreachableSince === null && selects(wanted.mailboxes, address);
    })
    .map(({ resourceId, address }) => ({ resourceId, address }));
}

function memoryKey(ctx: PassContext): string {
  return accountKey(ctx.account, ctx.origin.host);
}

function recall(ctx: PassContext): Map<string, RememberedMailbox> {
  const kept = ctx.memory.get(MAILBOXES, memoryKey(ctx)) ?? [];
  return new Map(kept.map((mailbox) => [mailbox.resourceId, mailbox]));
}

/** A mailbox that a token reached when the account was synced last. */
interface ListedMailbox extends OriginMailbox {
  readonly account: string;
  readonly host: string;
}

/** Returns the mailboxes that the accounts' tokens reach, as their last passes found; none where there is no state. */
export function listedMailboxes(state: Pick<StateFile, 'entries'> | undefined): ListedMailbox[] {
  return (state?.entries(MAILBOXES) ?? []).flatMap(({ key, value }) => {
    const { account, host } = accountIn(key);
    return value
      .filter(({ unreachableSince }) => unreachableSince === null)
      .map(({ resourceId, address }) => ({ account, host, resourceId, address }));
  });
}

/** Scope of memory: since when the brake holds places of a folder. */
const HELD = 'held';
/** Scope of memory: how often a quarantined place was tried again, and when last. */
const TRIES = 'quarantine-tries';
/** The first wait after a try; each further one doubles it. */
const FIRST_WAIT_MS = 10 * 60_000;
const LONGEST_WAIT_MS = 86_400_000;

/** Returns since when the brake holds places of a folder, milliseconds since the epoch; undefined when it holds none. */
export function heldSince(ctx: PassContext, at: FolderKey): number | undefined {
  return ctx.memory.get(HELD, folderKey(at))?.since;
}

/** Remembers since when places of a folder are held; undefined when none are. */
export function rememberHeld(ctx: PassContext, at: FolderKey, since: number | undefined): void {
  ctx.memory.set(HELD, folderKey(at), since === undefined ? null : { since });
}

/** Returns whether what is held in a folder is checked again: it is due, or the user accepts the deletions. */
export function isHeldDue(ctx: PassContext, at: FolderKey): boolean {
  const since = heldSince(ctx, at);
  if (ctx.policy.acceptEndings) return true;
  return since !== undefined && ctx.now() - since >= ctx.policy.confirmAfterMs;
}

/** Returns the quarantined uids to retry in this pass, ascending: by hand all of them, else those whose wait is over. */
export function dueQuarantined(ctx: PassContext, at: FolderKey, generation: number): number[] {
  const uids = ctx.mirror.quarantined(at, generation);
  if (ctx.policy.rhythm === null) return [...uids];
  const { host, mailbox, folder } = at;
  return uids.filter((uid) => {
    const tried = recallTries(ctx, { host, mailbox, folder, generation, uid });
    return tried.tries === 0 || !isRecent(tried.at, ctx.now(), nextTryAt(tried) - tried.at);
  });
}

/** Returns when a pass by the clock tries a quarantined place again, at the earliest. */
export function nextTryAt({ tries, at }: ScopeValue<typeof TRIES>): number {
  return at + Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (tries - 1));
}

/** Remembers that a quarantined place is retried now. */
export function noteTry(ctx: PassContext, place: Place): void {
  const { tries } = recallTries(ctx, place);
  ctx.memory.set(TRIES, placeKey(place), { tries: tries + 1, at: ctx.now() });
}

/** Forgets the tries of a place that has left the quarantine. */
export function forgetTries(ctx: PassContext, place: Place): void {
  ctx.memory.set(TRIES, placeKey(place), null);
}

function recallTries(ctx: PassContext, place: Place): ScopeValue<typeof TRIES> {
  return ctx.memory.get(TRIES, placeKey(place)) ?? { tries: 0, at: 0 };
}

const SCOPE = 'proof';

/**
 * Remembers what a pass proved of a folder, and writes the certificate to the log: once a day, and when the folder
 * is complete again. Returns how many passes in a row its sums did not add up.
 */
export function noteProof(
  ctx: PassContext,
  folder: FolderPass,
  certificate: FolderCertificate,
): number {
  const before = recalledProof(ctx.memory, folder.at);
  // A failed folder proves nothing: the earlier proof stays, with its age.
  if (folder.failed) return 0;
  const since = new Date(folder.evidence.askedAt).toISOString();
  const day = since.slice(0, 10);
  const { complete } = certificate;
  const due = complete && !(before?.complete === true && before.certifiedOn === day);
  const incomplete = complete || isHeldOnly(certificate) ? 0 : (before?.incomplete ?? 0) + 1;
  const proof: Proof = {
    at: since,
    complete,
    generation: folder.generation,
    originTotal: folder.evidence.total,
    unread: folder.listed.unreadCount,
    flagsAt: folder.evidence.everyFlagAnswered ? flagsSince(ctx) : (before?.flagsAt ?? null),
    certifiedOn: due ? day : (before?.certifiedOn ?? null),
    incomplete,
  };
  const remember = (): void => ctx.memory.set(SCOPE, folderKey(folder.at), proof);
  if (due) {
    const { mailbox: _address, ...sums } = certificate;
    const { generation } = folder;
    const fact = { fact: 'certificate', ...sums, ...folder.at, generation, since } as const;
    ctx.committer.addFact(fact, remember);
  } else {
    remember();
  }
  return incomplete;
}

function flagsSince({ policy, startedAt }: PassContext): string {
  return new Date(policy.full ? (policy.sweptSince ?? startedAt) : startedAt).toISOString();
}

/**
 * Returns whether a folder need not be asked in this pass: its counts are those of its last proof, that proof is
 * complete and recent enough, and nothing in the folder waits for a second look. INBOX and sent mail are asked every
 * time, and a pass by hand asks everything.
 */
export function isQuiet(
  ctx: PassContext,
  at: FolderKey,
  listed: ListedFolder,
  generation: number,
): boolean {
  const { rhythm, full } = ctx.policy;
  if (rhythm === null || full) return false;
  if (isInbox(listed.path) || listed.specialUse === '\\Sent') return false;
  const proof = recalledProof(ctx.memory, at);
  if (proof === undefined || !proof.complete || proof.generation !== generation) return false;
  if (proof.originTotal !== listed.messageCount || proof.unread !== listed.unreadCount) {
    return false;
  }
  if (!isRecent(Date.parse(proof.at), ctx.startedAt, rhythm.folderMs)) return false;
  return !isHeldDue(ctx, at) && dueQuarantined(ctx, at, generation).length === 0;
}

/** Returns the last proof of a folder; undefined where none is remembered. */
export function recalledProof(
  memory: Pick<Memory, 'get'> | undefined,
  at: FolderKey,
): Proof | undefined {
  return memory?.get(SCOPE, folderKey(at));
}

export interface LastCompared {
  /** When the newest page of INBOX was requested, which every pass does: milliseconds since the epoch, 0 for never. */
  readonly at: number;
  /** Messages that the origin listed in all folders when each was last compared. */
  readonly messages: number;
}

/** Returns what the last passes over a mailbox saw. */
export function lastCompared(
  mirror: Pick<Mirror, 'folders'>,
  memory: Pick<Memory, 'get'>,
  mailbox: MailboxKey,
): LastCompared {
  let at = 0;
  let messages = 0;
  for (const { folder } of mirror.folders(mailbox)) {
    const proof = recalledProof(memory, { ...mailbox, folder });
    messages += proof?.originTotal ?? 0;
    if (isInbox(folder)) at = Date.parse(proof?.at ?? '') || 0;
  }
  return { at, messages };
}

/** Folders that people read first come first, so that an interrupted first sync has what matters most. */
const RANK_BY_USE: Readonly<Record<string, number>> = {
  '\\Sent': 1,
  '\\Flagged': 2,
  '\\Drafts': 3,
  '\\Archive': 5,
  '\\All': 6,
  '\\Junk': 8,
  '\\Trash': 9,
};
const ORDINARY_RANK = 4;

/** The mailboxes (by address) and folders (by path) that a pass covers. */
export interface Wanted {
  readonly mailboxes: Selection;
  readonly folders: Selection;
  /** Which of the two are the configuration's own, not narrowed for this pass; absent means narrowed. */
  readonly whole?: { readonly mailboxes: boolean; readonly folders: boolean };
}

interface SurveyDeps {
  readonly origin: Origin;
  readonly signal: AbortSignal;
}

/** Lists all mailboxes of an account, and those that are wanted: one request. */
export async function surveyAccount(
  deps: SurveyDeps,
  wanted: Wanted,
): Promise<{ readonly listed: readonly OriginMailbox[]; readonly mailboxes: OriginMailbox[] }> {
  const listed = await deps.origin.mailboxes(deps.signal);
  return { listed, mailboxes: listed.filter(({ address }) => selects(wanted.mailboxes, address)) };
}

/**
 * Returns the wanted folders of a mailbox, in the order of a pass, and the paths of those that the configuration
 * leaves out. It does not list what a command's own options leave out: the user has just asked for that. The `wanted`
 * it returns includes the paths that names such as `sent` stand for in this mailbox.
 */
export async function surveyMailbox(
  deps: SurveyDeps,
  mailbox: OriginMailbox,
  wanted: Wanted,
): Promise<{
  readonly key: MailboxKey;
  readonly all: FolderListing;
  readonly folders: readonly ListedFolder[];
  readonly excluded: readonly string[];
  readonly wanted: Wanted;
}> {
  const listing = await deps.origin.folders(mailbox.resourceId, deps.signal);
  const listed = inSyncOrder(listing.folders);
  const here = withPaths(wanted, listed);
  const isWanted = ({ path }: ListedFolder): boolean => selects(here.folders, path);
  return {
    key: { host: deps.origin.host, mailbox: mailbox.resourceId },
    all: { ...listing, folders: listed },
    folders: listed.filter(isWanted),
    excluded:
      wanted.whole?.folders === false
        ? []
        : listed.filter((folder) => !isWanted(folder)).map(({ path }) => path),
    wanted: here,
  };
}

/** Adds the paths that a command's folder names stand for in a mailbox. Patterns stay, for folders that are not listed. */
function withPaths(wanted: Wanted, listed: readonly ListedFolder[]): Wanted {
  const { only } = wanted.folders;
  if (only === undefined) return wanted;
  const paths = only.flatMap((name) => foldersMeant(name, listed).map(({ path }) => path));
  return { ...wanted, folders: { ...wanted.folders, only: [...only, ...paths] } };
}

/** Sorts folders: INBOX, Sent, Drafts, the user's own folders by path, then archives, junk and trash. */
export function inSyncOrder(folders: readonly ListedFolder[]): ListedFolder[] {
  const rank = (folder: ListedFolder): number =>
    folder.path.toUpperCase() === 'INBOX'
      ? 0
      : (RANK_BY_USE[folder.specialUse ?? ''] ?? ORDINARY_RANK);
  return [...folders].sort((a, b) => rank(a) - rank(b) || (a.path < b.path ? -1 : 1));
}
