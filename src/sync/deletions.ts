import type { PlacedMessage } from '../catalog/origin-places.ts';
import type { MailkeepError } from '../core/errors.ts';
import { folderKey, placeKey } from '../core/state.ts';
import { countOpenPlaces, type FolderKey, type Listing, type Place } from '../core/types.ts';
import { imapError } from '../imap/errors.ts';
import { fingerprint } from '../mail/identity.ts';
import { bareId, hasListedMessageId } from './fetch-source.ts';
import { FolderSync } from './folder-sync.ts';
import {
  type GonePlace,
  guardDeletions,
  judgeUidEpoch,
  type NewPlace,
  pairMoves,
  type SampleAnswer,
  samplePositions,
} from './plan/folder-evidence.ts';
import { drain, type FolderState, isRecent, type SyncContext } from './ports.ts';
import {
  forgetFlagsUpTo,
  forgetTries,
  heldSince,
  isHeldDue,
  recallProof,
  rememberHeld,
} from './sync-memory.ts';
import { canSearch, fetchUids, markSearchUnreliable, walkByOffset } from './walk.ts';

/**
 * Releases quarantined and forgotten uids that have no open place and are missing from the service's listing. They are
 * then neither counted nor requested.
 *
 * @param isGone defaults to accepting the whole UID epoch
 */
export function releaseUnplaced(
  ctx: SyncContext,
  at: FolderKey,
  generation: number,
  reason: 'missing' | 'renumbered' | 'folder-gone',
  isGone: (uid: number) => boolean = () => true,
): void {
  const { host, mailbox, folder } = at;
  for (const uid of ctx.mirror.quarantined(at, generation).filter(isGone)) {
    const place = { host, mailbox, folder, generation, uid };
    ctx.committer.addFact({ fact: 'released', ...place, reason: 'ended' });
    forgetTries(ctx, place);
  }
  for (const uid of ctx.mirror.forgottenUids(at, generation).filter(isGone)) {
    ctx.committer.addFact({ fact: 'ended', host, mailbox, folder, generation, uid, reason });
  }
}

/**
 * Requests missing uids individually and returns those that are gone: a page lacked them, *and* individual requests
 * find nothing. Uids that do answer are neither missing nor held.
 *
 * A stale search index can cause both. If the folder counts more messages than would remain, its listing decides.
 */
async function confirmGone(ctx: SyncContext, pass: FolderSync): Promise<readonly number[]> {
  const missing = [...pass.evidence.missing].sort((a, b) => a - b);
  const { answered, silent, omitted } = await fetchUids(ctx, pass.at, missing, { fresh: true });
  for (const uid of omitted) pass.evidence.omitted.add(uid);
  // A list of all uids lacked them already.
  const listed =
    ctx.origin.uids === undefined ? await shownByListing(ctx, pass, silent) : new Set<number>();
  const heldUids = new Set(ctx.mirror.heldUids(pass.at, pass.generation));
  for (const uid of [...answered.keys(), ...omitted, ...listed]) {
    pass.evidence.missing.delete(uid);
    if (heldUids.has(uid)) ctx.committer.addFact({ fact: 'held', ...pass.place(uid), held: false });
  }
  return silent.filter((uid) => !listed.has(uid));
}

/** Returns the uids still in the folder's listing even though a search found none. `silent` must be ascending. */
async function shownByListing(
  ctx: SyncContext,
  pass: FolderSync,
  silent: readonly number[],
): Promise<ReadonlySet<number>> {
  const hits = new Set<number>();
  const lo = silent[0];
  const hi = silent[silent.length - 1];
  if (lo === undefined || hi === undefined || !canSearch(ctx.memory, pass.at.host)) return hits;
  if (!(await pass.countsMoreWithout(silent.length))) return hits;
  const misses = new Set(silent);
  for await (const { items } of walkByOffset(ctx, pass.at, { lo, hi }, 'ascending')) {
    for (const { uid } of items) if (misses.has(uid)) hits.add(uid);
  }
  if (hits.size > 0) markSearchUnreliable(ctx.memory, pass.at.host);
  return hits;
}

/** A listed or deleted folder whose messages may be gone. */
export interface DeletionCandidate {
  readonly at: FolderKey;
  readonly specialUse: string | null;
  /** Number of places open in the current UID epoch when the sync run started. */
  readonly open: number;
  /** Undefined if the service does not list the folder. */
  readonly pass: FolderSync | undefined;
  readonly generation: number;
  readonly renumbered: RenumberedFolder | undefined;
}

interface Removal extends GonePlace {
  readonly folder: DeletionCandidate;
  readonly reason: 'missing' | 'renumbered' | 'folder-gone' | 'replaced';
  readonly message: PlacedMessage;
}

/**
 * Records the messages that this sync run confirmed to be gone. Moves are matched without a download. Other messages
 * are deleted, or held by the deletion guard until a second check. Deferred messages that were not moved are fetched.
 */
export async function recordDeletions(
  ctx: SyncContext,
  address: string,
  folders: readonly DeletionCandidate[],
): Promise<void> {
  const removals: Removal[] = [];
  for (const folder of folders) removals.push(...(await findRemovals(ctx, folder)));
  // The catalog must release reappeared messages before anything is decided.
  await ctx.committer.flush();
  const newPlaces = folders.flatMap(findNewPlaces);
  const { relinks, fetch } = pairMoves(removals, newPlaces);
  const byPlace = new Map(removals.map((item) => [placeKey(item.place), item]));
  const moves = new Set(relinks.map(({ from }) => placeKey(from)));
  for (const { place } of movedById(ctx, removals)) moves.add(placeKey(place));
  const ended = new Set<string>();
  const end = (item: Removal): void => {
    const key = placeKey(item.place);
    if (ended.has(key)) return;
    ended.add(key);
    const reason = moves.has(key) ? 'moved' : item.reason;
    ctx.committer.addFact({ fact: 'ended', ...item.place, reason });
    if (reason === 'replaced') ctx.ledger.count(address, 'ended', 1);
  };
  for (const { from, to, listing } of relinks) {
    const source = byPlace.get(placeKey(from));
    if (source === undefined) continue;
    // A uid that refers to another message has only one place at a time.
    const occupant = byPlace.get(placeKey(to));
    if (occupant !== undefined) end(occupant);
    const { docid, id, size } = source.message;
    const deferred = findPass(folders, to)?.evidence.takeDeferred(to.uid);
    ctx.committer.addFact(
      { fact: 'appeared', ...to, listing, docid, message: id, size, assumedFrom: from },
      () => deferred?.ticket.settle(),
    );
    end(source);
    ctx.ledger.count(address, 'relinked', 1);
  }
  const reappeared = new Set(newPlaces.map(({ fingerprint: print }) => print));
  const endings = new Map<DeletionCandidate, Removal[]>(folders.map((folder) => [folder, []]));
  for (const item of removals) {
    if (item.reason === 'replaced' || moves.has(placeKey(item.place))) end(item);
    else endings.get(item.folder)?.push(item);
  }
  const decisions = guardDeletions(
    folders.map((folder) => ({
      folder: folder.at.folder,
      specialUse: folder.specialUse,
      open: folder.open,
      ending: countEndings(folder, endings.get(folder) ?? [], reappeared),
      empty: folder.pass === undefined || folder.pass.evidence.total === 0,
    })),
    ctx.policy.brake,
  );
  // What has moved is no longer held.
  if (moves.size > 0) await ctx.committer.flush();
  for (const [i, folder] of folders.entries()) {
    endOrHold(ctx, address, folder, endings.get(folder) ?? [], decisions[i]?.hold ?? true);
  }
  for (const { place } of fetch) await findPass(folders, place)?.fetchDeferred(place.uid);
}

/** Counts what is gone. In a new UID epoch, a message that reappears under another uid is not, matched or not. */
function countEndings(
  { renumbered }: DeletionCandidate,
  removals: readonly Removal[],
  reappeared: ReadonlySet<string>,
): number {
  if (renumbered !== undefined) return removals.length;
  return removals.filter(
    ({ reason, fingerprint: print }) => reason !== 'renumbered' || !reappeared.has(print),
  ).length;
}

/**
 * Returns removals whose message appeared elsewhere under its stable id since its folder was last compared: one for each
 * appearance. An interrupted sync run may have recorded that, or have read a part of a new UID epoch.
 */
function movedById(ctx: SyncContext, removals: readonly Removal[]): Removal[] {
  const moved = new Map<string, number>();
  return (
    removals
      .map((item) => ({ item, after: lastCommitBeforeMove(ctx, item) }))
      // An early appearance matches only removals from folders that were compared before it, so those come last.
      .sort((a, b) => b.after - a.after)
      .filter(({ item: { place, message }, after }) => {
        const { id, docid, stableId } = message;
        if (stableId === null) return false;
        const key = `${stableId} ${id}`;
        const count = moved.get(key) ?? 0;
        if (count >= ctx.mirror.arrivedSince(place, stableId, docid, after)) return false;
        moved.set(key, count + 1);
        return true;
      })
      .map(({ item }) => item)
  );
}

/** Returns a commit in which the message was still at its place, so that only later appearances can be a move. */
function lastCommitBeforeMove(ctx: SyncContext, { folder, reason, message }: Removal): number {
  const { startedAtCommit: started, mirror, memory } = ctx;
  const compared = recallProof(memory, folder.at)?.commit?.number ?? started;
  // A place that is newer than the comparison would count as an appearance itself.
  const before = message.since <= compared ? Math.min(started, compared) : started;
  const epoch = mirror.epoch(folder.at)?.since ?? Number.POSITIVE_INFINITY;
  return reason === 'renumbered' ? Math.min(before, epoch - 1) : before;
}

async function findRemovals(ctx: SyncContext, folder: DeletionCandidate): Promise<Removal[]> {
  const { at, generation, pass, renumbered } = folder;
  const list = (number: number, uids: readonly number[], reason: Removal['reason']): Removal[] =>
    uids.flatMap((uid) => {
      const message = ctx.mirror.placed(at, number, uid);
      if (message === undefined) return [];
      const { host, mailbox, folder: path } = at;
      const place: Place = { host, mailbox, folder: path, generation: number, uid };
      return [{ place, fingerprint: message.fingerprint, message, folder, reason }];
    });
  // Messages of older epochs are matched with those of the current one, which must have been read.
  const older = pass?.failed === true ? [] : ctx.mirror.olderGenerations(at);
  const result = older.flatMap((number) =>
    list(number, ctx.mirror.openUids(at, number), 'renumbered'),
  );
  if (pass === undefined) {
    return [...result, ...list(generation, ctx.mirror.openUids(at, generation), 'folder-gone')];
  }
  if (renumbered !== undefined) return result;
  result.push(...list(generation, [...pass.evidence.replaced], 'replaced'));
  if (pass.failed) return result;
  if (isHeldDue(ctx, at))
    for (const uid of ctx.mirror.heldUids(at, generation)) pass.evidence.missing.add(uid);
  if (pass.evidence.missing.size === 0) return result;
  const silent = new Set(await confirmGone(ctx, pass));
  releaseUnplaced(ctx, at, generation, 'missing', (uid) => silent.has(uid));
  return [...result, ...list(generation, [...silent], 'missing')];
}

function findNewPlaces({ pass, renumbered }: DeletionCandidate): NewPlace[] {
  const passes = [pass, renumbered?.pass].filter((item) => item !== undefined);
  return passes.flatMap((item) =>
    [...item.evidence.deferred.values()].map(({ listing, fingerprint }) => ({
      place: item.place(listing.uid),
      fingerprint,
      listing,
      draft: item.isDraft(listing),
    })),
  );
}

function endOrHold(
  ctx: SyncContext,
  address: string,
  folder: DeletionCandidate,
  removals: readonly Removal[],
  alarm: boolean,
): void {
  const since = heldSince(ctx, folder.at);
  const mustHold = !ctx.policy.acceptEndings && isHeld(ctx, folder, since, alarm);
  const heldUids = new Set(ctx.mirror.heldUids(folder.at, folder.generation));
  for (const { place, reason } of removals) {
    const wasHeld = place.generation === folder.generation && heldUids.delete(place.uid);
    if (!mustHold) {
      ctx.committer.addFact({ fact: 'ended', ...place, reason });
      ctx.ledger.count(address, 'ended', 1);
      continue;
    }
    ctx.ledger.count(address, 'held', 1);
    if (!wasHeld && !isAlreadyHeld(ctx, place)) {
      ctx.committer.addFact({ fact: 'held', ...place, held: true });
    }
  }
  // Held messages not checked in this sync run remain held.
  ctx.ledger.count(address, 'held', heldUids.size);
  const isUnread = folder.pass?.failed === true && since !== undefined;
  const holdsAny = (mustHold && removals.length > 0) || heldUids.size > 0 || isUnread;
  if (!holdsAny && since === undefined) return;
  const from = since ?? ctx.now();
  if (holdsAny) ctx.ledger.hold(address, from + ctx.policy.confirmAfterMs);
  rememberHeld(ctx, folder.at, holdsAny ? from : undefined);
}

/** Holds an unlisted folder's messages as pending deletions until a second listing confirms its absence. */
export function holdUnlistedFolder(
  ctx: SyncContext,
  address: string,
  { at, generation }: DeletionCandidate,
): void {
  const open = countOpenPlaces(ctx.mirror.sumsOf(at));
  if (open === 0) return;
  for (const number of [...ctx.mirror.olderGenerations(at), generation]) {
    const held = new Set(ctx.mirror.heldUids(at, number));
    for (const uid of ctx.mirror.openUids(at, number)) {
      if (held.has(uid)) continue;
      ctx.committer.addFact({ fact: 'held', ...at, generation: number, uid, held: true });
    }
  }
  ctx.ledger.count(address, 'held', open);
  const from = heldSince(ctx, at) ?? ctx.now();
  ctx.ledger.hold(address, from + ctx.policy.confirmAfterMs);
  rememberHeld(ctx, at, from);
}

/** The second check lifts an existing hold. A renumbered folder is held unless enough of its messages reappear. */
function isHeld(
  ctx: SyncContext,
  folder: DeletionCandidate,
  since: number | undefined,
  alarm: boolean,
): boolean {
  if (since !== undefined) return ctx.now() - since < ctx.policy.confirmAfterMs;
  return folder.renumbered === undefined ? alarm : !folder.renumbered.familiar;
}

function isAlreadyHeld(ctx: SyncContext, { uid, generation, ...at }: Place): boolean {
  const range = { lo: uid, hi: uid };
  return ctx.mirror.openPlaces(at, generation, range).get(uid)?.held === true;
}

function findPass(folders: readonly DeletionCandidate[], place: Place): FolderSync | undefined {
  const folder = folders.find(
    ({ at }) => at.folder === place.folder && at.mailbox === place.mailbox,
  );
  const { pass, renumbered } = folder ?? {};
  return renumbered !== undefined && renumbered.pass.generation === place.generation
    ? renumbered.pass
    : pass;
}

export interface RenumberedFolder {
  readonly pass: FolderSync;
  /** False if fewer than half of the old epoch's sample reappear in the new one. */
  readonly familiar: boolean;
}

/**
 * Reads messages known before, newest first, until one is still at its uid. A server that was restored from a backup can
 * assign the uids of lost messages again, and more mail can arrive than the newest page shows.
 */
export async function readDownToKnown(ctx: SyncContext, pass: FolderSync): Promise<void> {
  const { at, generation, evidence } = pass;
  const proof = recallProof(ctx.memory, at);
  // A run that was killed may have stored newer mail without reading what is below it.
  const proven = proof?.generation === generation ? proof.highestUid : 0;
  const last = proven > 0 ? proven : evidence.knownUpTo;
  const isKnown = (items: readonly Listing[]): boolean => {
    const lowest = items[items.length - 1];
    if (lowest === undefined || lowest.uid > last) return false;
    return compare(ctx.mirror.placed(at, generation, lowest.uid), lowest) === 'same';
  };
  if (isKnown((await pass.head()).items)) return;
  const below = { lo: 1, hi: Math.min(last, evidence.belowHead.hi) };
  for await (const items of pass.readPages(below, 'descending')) if (isKnown(items)) return;
}

/**
 * Judges uids that unexpectedly answer or refer to other messages: no change, single replaced messages, or reassigned
 * uids. In a new UID epoch, reads the newest page, walks the backlog and returns the new pass.
 */
export async function judgeFolder(
  ctx: SyncContext,
  pass: FolderSync,
): Promise<RenumberedFolder | undefined> {
  const { evidence } = pass;
  if (evidence.contradicted.size === 0) {
    if (evidence.reappeared.size === 0) return undefined;
    if (ctx.origin.uids !== undefined) {
      acceptSingles(ctx, pass);
      return undefined;
    }
  }
  const uids = ctx.mirror.openUids(pass.at, pass.generation);
  const sample = samplePositions(uids.length).flatMap((position) => uids[position] ?? []);
  let verdict = judgeUidEpoch(await askSample(ctx, pass, sample));
  if (verdict === 'doubtful') {
    await pass.sweep();
    const answers = uids.map((uid): SampleAnswer => {
      if (evidence.missing.has(uid)) return 'missing';
      const listing = evidence.contradicted.get(uid);
      if (listing === undefined) return 'same';
      return compare(ctx.mirror.placed(pass.at, pass.generation, uid), listing);
    });
    verdict = judgeUidEpoch(answers);
  }
  if (verdict === 'new') return renumber(ctx, pass, sample);
  acceptSingles(ctx, pass);
  return undefined;
}

/**
 * Compares a listing with the uid's original message by Message-ID and received date. Without a Message-ID, every
 * listed field must match, because the same date and size do not prove that it is the same message.
 */
function compare(original: PlacedMessage | undefined, listing: Listing): SampleAnswer {
  if (original === undefined) return 'missing';
  if (original.fingerprint === fingerprint(listing)) return 'same';
  if (bareId(listing.messageId) === null) return 'other';
  const moment = Date.parse(listing.date);
  const sameDate = original.date === null ? Number.isNaN(moment) : original.date === moment;
  return sameDate && hasListedMessageId(listing, original) ? 'same' : 'other';
}

async function askSample(
  ctx: SyncContext,
  pass: FolderSync,
  uids: readonly number[],
): Promise<SampleAnswer[]> {
  const { answered } = await fetchUids(ctx, pass.at, uids);
  const prints = deferredPrints(pass);
  return uids.map((uid) => {
    const listing = answered.get(uid);
    const original = ctx.mirror.placed(pass.at, pass.generation, uid);
    if (listing !== undefined) return compare(original, listing);
    // The message has another uid in the folder.
    return original !== undefined && prints.has(original.fingerprint) ? 'other' : 'missing';
  });
}

function deferredPrints({ evidence }: FolderSync): ReadonlySet<string> {
  return new Set([...evidence.deferred.values()].map((item) => item.fingerprint));
}

/**
 * Decides each uid separately: either its listing has changed, or it refers to another message. A replaced or
 * reappeared message may have moved here, so it is deferred until all deletions are known.
 */
function acceptSingles(ctx: SyncContext, pass: FolderSync): void {
  const { evidence } = pass;
  for (const [uid, listing] of evidence.contradicted) {
    const original = ctx.mirror.placed(pass.at, pass.generation, uid);
    evidence.contradicted.delete(uid);
    if (compare(original, listing) === 'other') evidence.replace(listing, fingerprint(listing));
  }
  const isOlder = evidence.replaced.size + evidence.reappeared.size > 0;
  if (isOlder) forgetFlagsUpTo(ctx.memory, pass.at, pass.generation);
  for (const listing of evidence.reappeared.values()) {
    evidence.deferReappeared(listing, fingerprint(listing));
  }
}

/** Memory scope: when a folder's UIDVALIDITY last went back to a lower value. */
const RETURNED = 'epoch-returned';
const DAY_MS = 86_400_000;

interface OpenedEpoch {
  readonly generation: number;
  /** The epoch's number at the service, if it reports one. */
  readonly uidValidity?: string;
  /** True if the archive has recorded `uidValidity` for this generation. */
  readonly isStored: boolean;
  /** True if the folder was removed and is back in the same epoch. */
  readonly isRestored?: boolean;
  /** Called once the archive has recorded `uidValidity`. */
  readonly onStored?: (() => void) | undefined;
  /** Why the folder's messages cannot be told apart from earlier ones. The folder must not be read. */
  readonly problem?: MailkeepError;
}

/**
 * Returns a folder's UID epoch. If the service reports epochs, another UIDVALIDITY than the last one always starts a new
 * generation, even one that the folder has had before. Otherwise, or if the archive has no UIDVALIDITY yet, the
 * generation stays, and `judgeFolder` infers changes.
 */
export function openEpoch(
  ctx: SyncContext,
  at: FolderKey,
  state: FolderState | undefined,
): OpenedEpoch {
  const known = ctx.mirror.epoch(at);
  const generation = known?.generation ?? 1;
  if (state === undefined) return { generation, isStored: true };
  const { uidValidity } = state;
  const problem = (kind: 'missing' | 'unstable') =>
    imapError('imap.no-uid-epoch', { folder: at.folder, problem: kind });
  if (uidValidity === null) return { generation, isStored: true, problem: problem('missing') };
  const before = known?.uidValidity ?? null;
  if (known === undefined || before === null) return { generation, uidValidity, isStored: false };
  if (before === uidValidity) {
    return { generation: known.generation, uidValidity, isStored: true, isRestored: known.gone };
  }
  const isLower = Number(uidValidity) < Number(before);
  const returned = ctx.memory.get(RETURNED, folderKey(at));
  if (isLower && returned !== undefined && isRecent(returned.since, ctx.now(), DAY_MS)) {
    return { generation, isStored: true, problem: problem('unstable') };
  }
  // Not before: after a crash, the next sync run must not count it as the second time.
  const onStored = isLower
    ? () => ctx.memory.set(RETURNED, folderKey(at), { since: ctx.now() })
    : undefined;
  const next = known.newest + 1;
  if (known.gone) return { generation: next, uidValidity, isStored: false, onStored };
  startGeneration(ctx, at, known.generation, next, uidValidity, onStored);
  return { generation: next, uidValidity, isStored: true };
}

/** Records that a folder's uids were reassigned. What the old ones refer to is decided once the folder was read. */
function startGeneration(
  ctx: SyncContext,
  at: FolderKey,
  old: number,
  generation: number,
  uidValidity: string | null,
  onStored?: () => void,
): void {
  releaseUnplaced(ctx, at, old, 'renumbered');
  const fact = { fact: 'generation', ...at, generation, reason: 'renumbered' } as const;
  ctx.committer.addFact({ ...fact, ...(uidValidity === null ? {} : { uidValidity }) }, onStored);
}

async function renumber(
  ctx: SyncContext,
  old: FolderSync,
  sample: readonly number[],
): Promise<RenumberedFolder> {
  const sampled = sample.flatMap((uid) => ctx.mirror.placed(old.at, old.generation, uid) ?? []);
  const { newest, uidValidity } = ctx.mirror.epoch(old.at) ?? { newest: 1, uidValidity: null };
  const generation = newest + 1;
  startGeneration(ctx, old.at, old.generation, generation, uidValidity);
  old.evidence.abandon();
  await ctx.queue.onIdle();
  await ctx.committer.flush();
  const pass = new FolderSync(ctx, old.at, old.listed, old.address, generation);
  await pass.readHead();
  await pass.walkBacklog();
  await drain(ctx);
  const prints = deferredPrints(pass);
  const matches = sampled.filter(
    ({ fingerprint: print, stableId, docid }) =>
      prints.has(print) ||
      (stableId !== null &&
        ctx.mirror.arrivedSince(old.at, stableId, docid, ctx.startedAtCommit) > 0),
  ).length;
  return { pass, familiar: matches >= sampled.length / 2 };
}
