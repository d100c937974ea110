import { isDeepStrictEqual } from 'node:util';
import { findFolders, isInbox, type Selection, selects } from '../core/names.ts';
import {
  type FolderTuple,
  folderKey,
  generationKey,
  type Proof,
  parseAccountKey,
  placeKey,
  type ScopeValue,
  type StateFile,
  type StoredMailbox,
} from '../core/state.ts';
import {
  accountKey,
  countAccountedFor,
  type FolderKey,
  isHeldOnly,
  type ListedFolder,
  type MailboxKey,
  type Place,
} from '../core/types.ts';
import { syncError } from './errors.ts';
import type { FolderSync } from './folder-sync.ts';
import type { Mirror } from './mirror.ts';
import {
  addInterval,
  type Coverage,
  type UidInterval,
  type UidIntervals,
} from './plan/plan-folder.ts';
import {
  type FolderState,
  isRecent,
  type Memory,
  type OriginMailbox,
  type SyncContext,
} from './ports.ts';
import type { FolderReconciliation } from './result.ts';
import { forgetSuspension } from './usage.ts';

/** Memory scope: covered uid intervals, by folder and UID epoch. */
const COVERAGE = 'coverage';
/** Memory scope: uids read by the current full sync, by folder and UID epoch. */
const SWEPT = 'swept';

/**
 * Returns the intervals covered by earlier sync runs in a folder's UID epoch. If the archive accounts for no messages,
 * the folder may have been deleted and recreated with the same uids; nothing is covered then.
 */
export function recallCoverage(memory: Memory, at: FolderKey, generation: number): UidIntervals {
  return toIntervals(memory.get(COVERAGE, generationKey(at, generation)));
}

export function rememberCoverage(
  memory: Memory,
  at: FolderKey,
  generation: number,
  coverage: Coverage,
): void {
  if (!coverage.takeDirty()) return;
  memory.set(COVERAGE, generationKey(at, generation), toPairs(coverage.durable));
}

/** Memory scope: the service's ids for folders. */
export const FOLDER_ID = 'folder-id';

/** Stores the service's id for a folder, if it has one. */
export function rememberFolderId(memory: Memory, at: FolderKey, id: string | null = null): void {
  const key = folderKey(at);
  if (id !== null && memory.get(FOLDER_ID, key) !== id) memory.set(FOLDER_ID, key, id);
}

/** Returns the uids read and resolved by earlier runs of this full sync. Empty for the first run. */
export function recallFullSync(ctx: SyncContext, at: FolderKey, generation: number): UidIntervals {
  const { full, sweptSince } = ctx.policy;
  if (!full || sweptSince === null) return [];
  const entry = ctx.memory.get(SWEPT, generationKey(at, generation));
  return entry?.since === sweptSince ? toIntervals(entry.uids) : [];
}

/** Stores the uids read by a full sync so that it can resume. Flushes first, because the findings must be durable. */
export async function rememberFullSync(
  ctx: SyncContext,
  at: FolderKey,
  generation: number,
  range: UidInterval,
): Promise<void> {
  const { full, sweptSince } = ctx.policy;
  if (!full || sweptSince === null) return;
  await ctx.committer.flush();
  const uids = addInterval(recallFullSync(ctx, at, generation), range);
  ctx.memory.set(SWEPT, generationKey(at, generation), { since: sweptSince, uids: toPairs(uids) });
}

function toPairs(intervals: UidIntervals): number[][] {
  return intervals.map(({ lo, hi }) => [lo, hi]);
}

function toIntervals(pairs: readonly (readonly [number, number])[] = []): UidIntervals {
  return pairs.reduce<UidIntervals>((set, [lo, hi]) => addInterval(set, { lo, hi }), []);
}

/** Memory scope: mailboxes that each account has listed, and when a missing one was first unlisted. */
const MAILBOXES = 'account-mailboxes';

/** Memory scope: when each account last listed its mailboxes, in milliseconds since the epoch. */
const LISTED_AT = 'account-listed';

/** Compares an account's mailboxes with earlier ones. A missing one is unreachable; nothing in it is deleted. */
export function recordMailboxes(
  ctx: SyncContext,
  selection: MailSelection,
  listed: readonly OriginMailbox[],
): void {
  const before = recallMailboxes(ctx);
  const now = new Map<string, StoredMailbox>();
  for (const { resourceId, address } of listed) {
    now.set(resourceId, { resourceId, address, unreachableSince: null });
  }
  for (const { resourceId, address, unreachableSince } of before.values()) {
    // An account that is one mailbox has another one only after its configuration has changed.
    if (now.has(resourceId) || ctx.origin.isOneMailbox === true) continue;
    // Only once, because another account at the same service may list the mailbox.
    if (unreachableSince === null) {
      forgetSuspension(ctx.memory, { host: ctx.origin.host, mailbox: resourceId });
    }
    const since = unreachableSince ?? ctx.startedAt;
    now.set(resourceId, { resourceId, address, unreachableSince: since });
    if (!selects(selection.mailboxes, address)) continue;
    ctx.ledger.fail(
      syncError('sync.mailbox-unreachable', { address, since: new Date(since).toISOString() }),
      { mailbox: address },
    );
  }
  ctx.memory.set(LISTED_AT, memoryKey(ctx), ctx.startedAt);
  const entries = [...now.values()];
  if (!isDeepStrictEqual(entries, [...before.values()])) {
    ctx.memory.set(MAILBOXES, memoryKey(ctx), entries);
  }
}

/** Returns the wanted mailboxes from a recent listing, or undefined if a new request is needed. */
export function recentMailboxes(
  ctx: SyncContext,
  selection: MailSelection,
): OriginMailbox[] | undefined {
  const { rhythm } = ctx.policy;
  const listedAt = ctx.memory.get(LISTED_AT, memoryKey(ctx));
  if (rhythm === null || listedAt === undefined) return undefined;
  if (!isRecent(listedAt, ctx.startedAt, rhythm.mailboxesMs)) return undefined;
  return [...recallMailboxes(ctx).values()]
    .filter(({ address, unreachableSince }) => {
      return unreachableSince === null && selects(selection.mailboxes, address);
    })
    .map(({ resourceId, address }) => ({ resourceId, address }));
}

function memoryKey(ctx: SyncContext): string {
  return accountKey(ctx.account, ctx.origin.host);
}

function recallMailboxes(ctx: SyncContext): Map<string, StoredMailbox> {
  const mailboxes = ctx.memory.get(MAILBOXES, memoryKey(ctx)) ?? [];
  return new Map(mailboxes.map((mailbox) => [mailbox.resourceId, mailbox]));
}

/** Returns the mailboxes reached by each account's token in its last sync run. */
export function listedMailboxes(state: Pick<StateFile, 'entries'> | undefined) {
  return (state?.entries(MAILBOXES) ?? []).flatMap(({ key, value }) => {
    const { account, host } = parseAccountKey(key);
    return value
      .filter(({ unreachableSince }) => unreachableSince === null)
      .map(({ resourceId, address }) => ({ account, host, resourceId, address }));
  });
}

/** Memory scope: when the deletion guard started holding a folder's messages. */
const HELD = 'held';
/** Memory scope: number of retries of an incomplete message, and the time of the last one. */
const TRIES = 'quarantine-tries';
const FIRST_WAIT_MS = 10 * 60_000;
const MAX_WAIT_MS = 86_400_000;

/** Returns when the deletion guard started holding a folder's messages, in milliseconds since the epoch. */
export function heldSince(ctx: SyncContext, at: FolderKey): number | undefined {
  return ctx.memory.get(HELD, folderKey(at))?.since;
}

/** Records when a folder's messages were first held; undefined if none are. */
export function rememberHeld(ctx: SyncContext, at: FolderKey, since: number | undefined): void {
  ctx.memory.set(HELD, folderKey(at), since === undefined ? null : { since });
}

/** Reports whether to check a folder's held messages again, because the check is due or the user accepts deletions. */
export function isHeldDue(ctx: SyncContext, at: FolderKey): boolean {
  const since = heldSince(ctx, at);
  if (ctx.policy.acceptEndings) return true;
  return since !== undefined && ctx.now() - since >= ctx.policy.confirmAfterMs;
}

/** Returns the quarantined uids to retry, ascending. Scheduled sync runs omit any that are not yet due. */
export function dueIncomplete(ctx: SyncContext, at: FolderKey, generation: number): number[] {
  const uids = ctx.mirror.quarantined(at, generation);
  if (ctx.policy.rhythm === null) return [...uids];
  const { host, mailbox, folder } = at;
  return uids.filter((uid) => {
    const last = recallTries(ctx, { host, mailbox, folder, generation, uid });
    return last.tries === 0 || !isRecent(last.at, ctx.now(), nextTryAt(last) - last.at);
  });
}

export function nextTryAt({ tries, at }: ScopeValue<typeof TRIES>): number {
  return at + Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** (tries - 1));
}

export function recordTry(ctx: SyncContext, place: Place): void {
  const { tries } = recallTries(ctx, place);
  ctx.memory.set(TRIES, placeKey(place), { tries: tries + 1, at: ctx.now() });
}

/** Resets the retries of a message that has left quarantine. */
export function forgetTries(ctx: SyncContext, place: Place): void {
  ctx.memory.set(TRIES, placeKey(place), null);
}

function recallTries(ctx: SyncContext, place: Place): ScopeValue<typeof TRIES> {
  return ctx.memory.get(TRIES, placeKey(place)) ?? { tries: 0, at: 0 };
}

const SCOPE = 'proof';
/**
 * How long an unchanged listing proves that a folder is unchanged. A server that was restored from a backup can list the
 * same again once as much has changed as was lost.
 */
const LISTING_PROVES_MS = 86_400_000;
/** Memory scope: UID epochs without modification sequences. */
const NO_MOD_SEQ = 'no-mod-seq';

/**
 * Returns what a listing reports about a folder if any change to it would change the report. Returns null without
 * modification sequences: the report then cannot show every change. A folder that had none is trusted again once it is
 * open and has them.
 */
export function listedTuple(
  memory: Memory,
  at: FolderKey,
  generation: number,
  { messageCount: messages, unreadCount: unseen }: ListedFolder,
  state: FolderState | undefined,
): FolderTuple | null {
  if (state === undefined) return null;
  const key = generationKey(at, generation);
  const { uidValidity, uidNext, highestModSeq } = state;
  const isMarked = memory.get(NO_MOD_SEQ, key) !== undefined;
  if (highestModSeq === null) rememberModSeqs(memory, at, generation, false);
  if (highestModSeq === null || isMarked || uidValidity === null || uidNext === null) return null;
  return { messages, unseen, uidValidity, uidNext, highestModSeq };
}

/** Records whether a folder has modification sequences. Without them, those of flags that are known say nothing. */
export function rememberModSeqs(
  memory: Memory,
  at: FolderKey,
  generation: number,
  hasModSeqs: boolean,
): void {
  const key = generationKey(at, generation);
  const hadModSeqs = memory.get(NO_MOD_SEQ, key) === undefined;
  if (hasModSeqs === hadModSeqs) return;
  memory.set(NO_MOD_SEQ, key, hasModSeqs ? null : true);
  forgetFlagsUpTo(memory, at, generation);
}

/**
 * Stores a folder's proof, and logs the reconciliation once a day and whenever the folder becomes complete again.
 * Returns the number of consecutive sync runs that did not add up.
 */
export function recordProof(
  ctx: SyncContext,
  folder: FolderSync,
  reconciliation: FolderReconciliation,
): number {
  const before = recallProof(ctx.memory, folder.at);
  // A failed folder yields no proof, so keep the earlier one with its age.
  if (folder.failed) return 0;
  if (recallListed(ctx.memory, folder.at) !== undefined) {
    ctx.memory.set(LISTED, folderKey(folder.at), null);
  }
  const { complete } = reconciliation;
  const incomplete = complete || isHeldOnly(reconciliation) ? 0 : (before?.incomplete ?? 0) + 1;
  const { full, sweptSince } = ctx.policy;
  const flagsSince = full ? (sweptSince ?? ctx.startedAt) : ctx.startedAt;
  const flagsAt = new Date(flagsSince).toISOString();
  storeProof(ctx, folder.at, before, reconciliation, {
    at: new Date(folder.evidence.askedAt).toISOString(),
    complete,
    generation: folder.generation,
    originTotal: folder.evidence.total,
    unread: folder.listed.unreadCount,
    flagsAt: folder.evidence.everyFlagAnswered ? flagsAt : (before?.flagsAt ?? null),
    incomplete,
    tuple: folder.evidence.flagsUpToDate ? folder.tuple : null,
    highestUid: complete ? folder.evidence.highestUid : (before?.highestUid ?? 0),
    readAt: new Date(folder.evidence.askedAt).toISOString(),
  });
  return incomplete;
}

function storeProof(
  { memory, committer, mirror }: SyncContext,
  at: FolderKey,
  before: Proof | undefined,
  reconciliation: FolderReconciliation,
  proof: Omit<Proof, 'certifiedOn' | 'commit'>,
): void {
  const day = proof.at.slice(0, 10);
  const certifiedOn = before?.certifiedOn ?? null;
  const isDue = proof.complete && !(before?.complete === true && certifiedOn === day);
  const store = (): void => {
    const commit = mirror.lastCommit();
    const stored: Proof = { ...proof, certifiedOn: isDue ? day : certifiedOn, commit };
    memory.set(SCOPE, folderKey(at), stored);
  };
  if (!isDue) {
    store();
    return;
  }
  const { mailbox: _address, ...sums } = reconciliation;
  const { generation, at: since } = proof;
  committer.addFact({ fact: 'certificate', ...sums, ...at, generation, since }, store);
}

/**
 * Reports whether a sync run can skip a folder, because nothing in it awaits a second check and its listing proves that
 * it has not changed since it was read within the last day, or at least matches a recent complete proof. The former
 * renews the proof. Otherwise, INBOX and sent mail are never skipped, and manual sync runs skip nothing.
 *
 * @param now.askedAt when the listing was requested, in milliseconds since the epoch
 */
export function canSkipFolder(
  ctx: SyncContext,
  at: FolderKey,
  listed: ListedFolder,
  now: {
    readonly generation: number;
    readonly tuple: FolderTuple | null;
    readonly address: string;
    readonly askedAt: number;
  },
): boolean {
  const { rhythm, full } = ctx.policy;
  const { generation, tuple } = now;
  const proof = recallProof(ctx.memory, at);
  if (full || proof?.complete !== true || proof.generation !== generation) return false;
  if (proof.originTotal !== listed.messageCount || !ctx.mirror.hasCommit(proof.commit))
    return false;
  if (tuple === null) {
    if (rhythm === null || isInbox(listed.path) || listed.specialUse === '\\Sent') return false;
    if (proof.unread !== listed.unreadCount) return false;
    if (!isRecent(Date.parse(proof.at), ctx.startedAt, rhythm.folderMs)) return false;
    return !isHeldDue(ctx, at) && dueIncomplete(ctx, at, generation).length === 0;
  }
  const sums = ctx.mirror.sumsOf(at);
  const isProven =
    isDeepStrictEqual(proof.tuple, tuple) &&
    isRecent(Date.parse(proof.readAt), ctx.startedAt, LISTING_PROVES_MS) &&
    sums.held === 0 &&
    countAccountedFor(sums) === tuple.messages &&
    ctx.mirror.hasUnread(at, generation, tuple.unseen) &&
    dueIncomplete(ctx, at, generation).length === 0;
  if (!isProven) return false;
  const { address: mailbox, askedAt } = now;
  const { folder } = at;
  const sum = { mailbox, folder, originTotal: tuple.messages, ...sums, complete: true };
  ctx.ledger.certificates.push(sum);
  storeProof(ctx, at, proof, sum, { ...proof, at: new Date(askedAt).toISOString() });
  return true;
}

/**
 * Reports whether only flags can have changed since a folder's last proof: as many messages, and none of them new. The
 * flags that changed must be known by modification sequence.
 */
export function isFlagChange(
  ctx: SyncContext,
  at: FolderKey,
  generation: number,
  tuple: FolderTuple | null,
): boolean {
  const proof = recallProof(ctx.memory, at);
  if (ctx.policy.full || tuple === null || proof?.complete !== true) return false;
  if (proof.generation !== generation || proof.tuple === null) return false;
  if (!isRecent(Date.parse(proof.readAt), ctx.startedAt, LISTING_PROVES_MS)) return false;
  const { messages, uidNext, uidValidity } = proof.tuple;
  const sums = ctx.mirror.sumsOf(at);
  return (
    tuple.messages === messages &&
    tuple.uidNext === uidNext &&
    tuple.uidValidity === uidValidity &&
    flagsUpTo(ctx, at, generation, tuple) !== undefined &&
    sums.held === 0 &&
    countAccountedFor(sums) === messages &&
    dueIncomplete(ctx, at, generation).length === 0
  );
}

/** Memory scope: the modification sequence up to which the archive has every flag. */
const FLAGS_UP_TO = 'flags-up-to';

/**
 * Returns where the next request for changed flags starts. Forgets it if the folder has gone back to an earlier state,
 * such as that of a backup, or if the archive has: its sequences then say nothing about what the archive has.
 */
export function flagsUpTo(
  { memory, mirror }: SyncContext,
  at: FolderKey,
  generation: number,
  { uidValidity, uidNext, highestModSeq }: FolderTuple,
): ScopeValue<typeof FLAGS_UP_TO> | undefined {
  const key = generationKey(at, generation);
  const known = memory.get(FLAGS_UP_TO, key);
  if (known === undefined || known.uidValidity !== uidValidity) return undefined;
  const isLower = uidNext < known.uidNext || BigInt(highestModSeq) < BigInt(known.modSeq);
  if (!isLower && mirror.hasCommit(known.commit)) return known;
  forgetFlagsUpTo(memory, at, generation);
  return undefined;
}

/** Records that the archive has, or will have, every flag up to a modification sequence. */
export function rememberFlagsUpTo(
  { memory, mirror }: SyncContext,
  at: FolderKey,
  generation: number,
  { uidValidity, uidNext, highestModSeq: modSeq }: FolderTuple,
): void {
  const commit = mirror.lastCommit();
  memory.set(FLAGS_UP_TO, generationKey(at, generation), { uidValidity, uidNext, modSeq, commit });
}

/** Memory scope: messages that a folder's listing counts, if the last comparison was of another number. */
const LISTED = 'listed';

/** Records how many messages a listing counts, so that no summary leaves out those that are yet to be read. */
export function rememberListed(
  memory: Memory,
  at: FolderKey,
  generation: number,
  messages: number,
): void {
  const proof = recallProof(memory, at);
  const isCompared = proof?.generation === generation && proof.originTotal === messages;
  const listed = isCompared ? undefined : messages;
  if (recallListed(memory, at) !== listed) memory.set(LISTED, folderKey(at), listed ?? null);
}

/** Returns the number of messages listed since the last comparison; undefined if it was of as many. */
export function recallListed(
  memory: Pick<Memory, 'get'> | undefined,
  at: FolderKey,
): number | undefined {
  return memory?.get(LISTED, folderKey(at));
}

/** Forgets up to where flags are known, because the folder has gone back to an earlier state. */
export function forgetFlagsUpTo(memory: Memory, at: FolderKey, generation: number): void {
  memory.set(FLAGS_UP_TO, generationKey(at, generation), null);
}

/** Forgets what a folder's listing proved, because the sync run may record changes. */
export function forgetTuple(memory: Memory, at: FolderKey): void {
  const proof = recallProof(memory, at);
  if (proof !== undefined && proof.tuple !== null) {
    memory.set(SCOPE, folderKey(at), { ...proof, tuple: null });
  }
}

export function recallProof(
  memory: Pick<Memory, 'get'> | undefined,
  at: FolderKey,
): Proof | undefined {
  return memory?.get(SCOPE, folderKey(at));
}

export interface LastComparison {
  /** When INBOX's newest page, read by every sync run, was last requested: milliseconds since the epoch, or 0. */
  readonly at: number;
  /** Messages listed in all folders, each counted at its last comparison. */
  readonly messages: number;
}

/** Returns the result of the last comparison of a mailbox. */
export function lastComparison(
  mirror: Pick<Mirror, 'folders'>,
  memory: Pick<Memory, 'get'>,
  mailbox: MailboxKey,
): LastComparison {
  let at = 0;
  let messages = 0;
  for (const { folder } of mirror.folders(mailbox)) {
    const proof = recallProof(memory, { ...mailbox, folder });
    messages += proof?.originTotal ?? 0;
    if (isInbox(folder)) at = Date.parse(proof?.at ?? '') || 0;
  }
  return { at, messages };
}

/** Ranks folders by use, so that an interrupted first sync has the most important mail. */
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

/** Mailboxes (by address) and folders (by path) selected for a sync run. */
export interface MailSelection {
  readonly mailboxes: Selection;
  readonly folders: Selection;
  /** Dimensions not narrowed by the command. If absent, both are narrowed. */
  readonly whole?: { readonly mailboxes: boolean; readonly folders: boolean };
}

type SurveyDeps = Pick<SyncContext, 'origin' | 'signal'>;

export async function listAccount(deps: SurveyDeps, scope: MailSelection) {
  const listed = await deps.origin.mailboxes(deps.signal);
  return { listed, mailboxes: listed.filter(({ address }) => selects(scope.mailboxes, address)) };
}

/**
 * Returns a mailbox's wanted folders in sync order, and the paths that the configuration excludes. Omits paths that
 * only command options exclude, because the user has just asked for that. In the returned `wanted`, names such as
 * `sent` also stand for their paths.
 */
export async function listMailboxFolders(
  deps: SurveyDeps,
  mailbox: OriginMailbox,
  selection: MailSelection,
) {
  const listing = await deps.origin.folders(mailbox.resourceId, deps.signal);
  const listed = inSyncOrder(listing.folders);
  const filter = addPaths(selection, listed);
  const isWanted = ({ path }: ListedFolder): boolean => selects(filter.folders, path);
  return {
    key: { host: deps.origin.host, mailbox: mailbox.resourceId },
    all: { ...listing, folders: listed },
    folders: listed.filter(isWanted),
    excluded:
      selection.whole?.folders === false
        ? []
        : listed.filter((folder) => !isWanted(folder)).map(({ path }) => path),
    wanted: filter,
  };
}

/** Adds the paths of folders named on the command line. Keeps patterns, which can also match unlisted folders. */
function addPaths(selection: MailSelection, listed: readonly ListedFolder[]): MailSelection {
  const { only } = selection.folders;
  if (only === undefined) return selection;
  const paths = only.flatMap((name) => findFolders(name, listed).map(({ path }) => path));
  return { ...selection, folders: { ...selection.folders, only: [...only, ...paths] } };
}

/** Sorts folders: INBOX, Sent, Flagged, Drafts, the user's folders by path, then archives, junk and trash. */
export function inSyncOrder(folders: readonly ListedFolder[]): ListedFolder[] {
  const rank = (folder: ListedFolder): number =>
    folder.path.toUpperCase() === 'INBOX'
      ? 0
      : (RANK_BY_USE[folder.specialUse ?? ''] ?? ORDINARY_RANK);
  return [...folders].sort((a, b) => rank(a) - rank(b) || (a.path < b.path ? -1 : 1));
}
