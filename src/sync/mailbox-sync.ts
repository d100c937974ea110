import { isInbox, selects } from '../core/names.ts';
import {
  type FlagCounts,
  type FolderTuple,
  folderKey,
  generationKey,
  mailboxKey,
  type ScopeOf,
  scopesOf,
} from '../core/state.ts';
import type { CountedFlag, FolderKey, ListedFolder, Listing, MailboxKey } from '../core/types.ts';
import { countAccountedFor, countOpenPlaces } from '../core/types.ts';
import { fingerprint } from '../mail/identity.ts';
import {
  type DeletionCandidate,
  holdUnlistedFolder,
  judgeFolder,
  openEpoch,
  type RenumberedFolder,
  readDownToKnown,
  recordDeletions,
  releaseUnplaced,
} from './deletions.ts';
import { syncError } from './errors.ts';
import { FolderSync } from './folder-sync.ts';
import { SAMPLE_SIZE } from './plan/folder-evidence.ts';
import { bisect, PAGE_SIZE, type UidInterval } from './plan/plan-folder.ts';
import {
  concernsOnly,
  drain,
  type FolderListing,
  type FolderState,
  isRecent,
  type Memory,
  type OriginMailbox,
  type OriginPage,
  runGuarded,
  type SyncContext,
} from './ports.ts';
import type { FolderReconciliation } from './result.ts';
import {
  canSkipFolder,
  FOLDER_ID,
  flagsUpTo,
  forgetTuple,
  isFlagChange,
  listedTuple,
  listMailboxFolders,
  type MailSelection,
  recordProof,
  rememberFlagsUpTo,
  rememberListed,
} from './sync-memory.ts';
import { forgetSuspension, recordExcludedFolders, recordLeftBehind, recordQuota } from './usage.ts';
import { verifyUnverified } from './verify-unverified.ts';
import { canSearch, fetchUids, IGNORES_FLAGS, newestPage } from './walk.ts';

/** After a walk, a newest page older than one minute is requested again. */
const LONG_WALK_MS = 60_000;
/** Maximum number of rounds of fetching mail that arrives during long walks. */
const CERTIFYING_ROUNDS = 3;

/** Reconciles each folder, first fetching mail that arrived during a long walk. */
async function certifyAll(ctx: SyncContext, folders: readonly FolderSync[]): Promise<void> {
  let pending = folders;
  for (let round = 1; pending.length > 0; round += 1) {
    await drain(ctx);
    const retries: FolderSync[] = [];
    for (const folder of pending) {
      folder.saveCoverage();
      const reconciliation = certify(folder);
      if (round < CERTIFYING_ROUNDS && needsAnotherRound(ctx, folder, reconciliation)) {
        retries.push(folder);
      } else {
        ctx.ledger.certificates.push(reconciliation);
        if (!folder.failed) ctx.ledger.count(folder.address, 'compared', 1);
        warnIfIncomplete(ctx, folder, recordProof(ctx, folder, reconciliation));
      }
    }
    for (const folder of retries) {
      await folder.guarded(async () => {
        folder.forgetHead();
        await folder.readHead();
        await folder.walkBacklog();
      });
    }
    pending = retries;
  }
}

/** Reconciles unlisted folders, whose archived messages are pending deletions until confirmed. */
function certifyUnlisted(
  { ledger, mirror }: SyncContext,
  mailbox: string,
  folders: readonly { readonly at: FolderKey }[],
): void {
  for (const { at } of folders) {
    const sums = mirror.sumsOf(at);
    if (countOpenPlaces(sums) === 0) continue;
    ledger.certificates.push({
      mailbox,
      folder: at.folder,
      originTotal: 0,
      ...sums,
      complete: false,
    });
  }
}

function certify(folder: FolderSync): FolderReconciliation {
  const { evidence, sums } = folder;
  return {
    mailbox: folder.address,
    folder: folder.at.folder,
    originTotal: evidence.total,
    ...sums,
    complete: !folder.failed && evidence.isComplete(sums),
  };
}

/**
 * Reports messages that are listed without being shown. Otherwise, if the sums differ, the folder changed during the
 * run; twice in a row indicates a fault.
 */
function warnIfIncomplete(ctx: SyncContext, folder: FolderSync, times: number): void {
  const { total, omitted } = folder.evidence;
  if (omitted.size === 0 && times < 2) return;
  const uids = [...omitted].sort((a, b) => a - b);
  const error =
    uids.length > 0
      ? syncError('sync.messages-not-shown', { total, uids: uids.slice(0, 10), count: uids.length })
      : syncError('sync.does-not-add-up', { total, times });
  ctx.ledger.fail(error, { mailbox: folder.address, folder: folder.at.folder });
}

/** Reports whether the newest page is outdated after a long walk, or the counts changed during the first walk. */
function needsAnotherRound(
  ctx: SyncContext,
  folder: FolderSync,
  reconciliation: FolderReconciliation,
): boolean {
  if (folder.failed || folder.isEmpty) return false;
  if (ctx.now() - folder.evidence.askedAt > LONG_WALK_MS) return true;
  return !reconciliation.complete && folder.evidence.isFirst;
}

/** Moves a renamed folder's memory to its new path, except for scopes keyed by place. */
export function renameFolder(memory: Memory, at: FolderKey, to: string, generation: number): void {
  const target = { ...at, folder: to };
  for (const scope of scopesOf('folder')) move(memory, scope, folderKey(at), folderKey(target));
  for (const scope of scopesOf('generation')) {
    move(memory, scope, generationKey(at, generation), generationKey(target, generation));
  }
}

type MovedScope = ScopeOf<'folder' | 'generation'>;

function move(memory: Memory, scope: MovedScope, from: string, to: string): void {
  // This also replaces values left by an earlier folder with the new name.
  memory.set(scope, to, memory.get(scope, from) ?? null);
  memory.set(scope, from, null);
}

/**
 * Finds renamed folders, and carries their places, UID epochs and coverage over to the new paths without fetching
 * anything. A renamed folder is missing from the listing, or another folder has its path. It is found by the service's
 * id of folders, else by a new folder with the same messages under the same uids. Requests at most the newest page of
 * each new folder, which the sync run reuses.
 *
 * @returns the newest pages that were requested, by path
 */
async function findRenames(
  ctx: SyncContext,
  key: MailboxKey,
  { folders: listed, leftOut = [], states }: FolderListing,
): Promise<Map<string, OriginPage>> {
  const pages = new Map<string, OriginPage>();
  const folders = ctx.mirror.folders(key);
  const byPath = new Map(listed.map((folder) => [folder.path, folder]));
  const candidates = folders.filter(({ folder }) => {
    if (!byPath.has(folder)) return !leftOut.includes(folder);
    const before = ctx.mirror.epoch({ ...key, folder })?.uidValidity ?? null;
    const now = states?.get(folder)?.uidValidity ?? null;
    return before !== null && now !== null && before !== now;
  });
  const knownPaths = new Set(folders.map(({ folder }) => folder));
  const newFolders = listed.filter(({ path }) => !knownPaths.has(path));
  for (const folder of newFolders) {
    if (candidates.length === 0) break;
    if (folder.messageCount === 0) continue;
    const page = await newestPageIfAny(ctx, { ...key, folder: folder.path }, folder.messageCount);
    if (page === undefined) continue;
    pages.set(folder.path, page);
    const from = candidates.findIndex((candidate) => {
      return isRenamed(ctx, { ...key, ...candidate }, page, byPath.has(candidate.folder));
    });
    const [source] = from < 0 ? [] : candidates.splice(from, 1);
    if (source === undefined) continue;
    const at = { ...key, folder: source.folder };
    ctx.committer.addFact({ fact: 'folder-renamed', ...at, to: folder.path });
    renameFolder(ctx.memory, at, folder.path, source.generation);
    const successor = byPath.get(source.folder);
    // It may be another renamed folder.
    if (successor !== undefined) newFolders.push(successor);
  }
  await ctx.committer.flush();
  return pages;
}

/** Returns undefined for a failure that concerns only this folder, which is reported when the folder's turn comes. */
async function newestPageIfAny(
  ctx: SyncContext,
  at: FolderKey,
  listed: number,
): Promise<OriginPage | undefined> {
  try {
    return await newestPage(ctx, at, listed);
  } catch (error) {
    ctx.signal.throwIfAborted();
    if (!concernsOnly(error)) throw error;
    return undefined;
  }
}

/**
 * Reports whether a new folder's page is of a known folder. Without ids of folders, it must have the known folder's
 * message at every known uid, and enough uids must be known.
 *
 * @param isReplaced true if the listing has another folder at the known folder's path
 */
function isRenamed(
  ctx: SyncContext,
  known: FolderKey & { readonly generation: number },
  page: OriginPage,
  isReplaced: boolean,
): boolean {
  const id = ctx.memory.get(FOLDER_ID, folderKey(known));
  if (id !== undefined && typeof page.mailboxId === 'string') return id === page.mailboxId;
  if (isReplaced && ctx.mirror.epoch(known)?.uidValidity !== page.uidValidity) return false;
  const lowest = page.items[page.items.length - 1]?.uid ?? 1;
  const range = { lo: lowest, hi: Number.POSITIVE_INFINITY };
  const places = ctx.mirror.openPlaces(known, known.generation, range);
  let matches = 0;
  for (const item of page.items) {
    const place = places.get(item.uid);
    if (place === undefined) continue;
    if (place.fingerprint !== fingerprint(item)) return false;
    matches += 1;
  }
  const all = ctx.mirror.openUids(known, known.generation).length;
  return matches > 0 && matches >= Math.min(SAMPLE_SIZE, all);
}

/** Memory scope: known folders missing from an earlier listing. */
const UNLISTED = 'unlisted';

/** A known folder missing from this sync run's listing. */
interface UnlistedFolder extends DeletionCandidate {
  /** True if the folder was also missing from an earlier sync run's listing, which confirms that it is gone. */
  readonly isGone: boolean;
}

/**
 * Returns known folders that are missing from this listing, except excluded ones. An incomplete listing says nothing
 * about missing folders.
 *
 * @throws MailkeepError `sync.no-inbox` for a listing without INBOX: every mailbox has one, so it is incomplete
 */
function unlistedFolders(
  ctx: SyncContext,
  key: MailboxKey,
  { folders: listed, leftOut = [], complete }: FolderListing,
  wanted: MailSelection,
): UnlistedFolder[] {
  const folders = ctx.mirror.folders(key);
  const paths = new Set([...listed.map(({ path }) => path), ...leftOut]);
  if (folders.length > 0 && !listed.some(({ path }) => isInbox(path))) {
    throw syncError('sync.no-inbox', { listed: listed.length });
  }
  if (!complete) return [];
  return folders
    .filter(({ folder }) => !paths.has(folder) && selects(wanted.folders, folder))
    .map((folder) => ({ ...folder, at: { ...key, folder: folder.folder } }))
    .map(({ at, specialUse, generation }) => ({
      at,
      specialUse,
      open: countOpenPlaces(ctx.mirror.sumsOf(at)),
      pass: undefined,
      generation,
      renumbered: undefined,
      isGone: ctx.memory.get(UNLISTED, folderKey(at)) !== undefined,
    }));
}

/** Stores which known folders are missing from this listing, and clears any that have reappeared. */
function noteListing(
  ctx: SyncContext,
  key: MailboxKey,
  { folders: listed, leftOut = [], complete }: FolderListing,
): void {
  const paths = new Set([...listed.map(({ path }) => path), ...leftOut]);
  for (const { folder } of ctx.mirror.folders(key)) {
    const name = folderKey({ ...key, folder });
    const previous = ctx.memory.get(UNLISTED, name);
    if (paths.has(folder)) {
      if (previous !== undefined) ctx.memory.set(UNLISTED, name, null);
    } else if (previous === undefined && complete) {
      ctx.memory.set(UNLISTED, name, { since: ctx.startedAt });
    }
  }
}

/** Memory scope: counts when a folder's flags were last compared. */
const COMPARED = 'flag-counts';
/** Maximum number of requests for a folder's older flags per normal sync run. The next full sync reads the others. */
const MAX_REQUESTS = 24;
/** The listing does not count starred or answered messages, so these are compared hourly if flags have changed. */
const ASK_AGAIN_MS = 3_600_000;
const NEVER_COMPARED: FlagCounts = { theirs: -1, ours: -1, askedAt: Number.NEGATIVE_INFINITY };

/**
 * Records all flags that have changed since the archive had them all, by modification sequence. Everything fetched must
 * be durable. Returns false if the service cannot tell, or if the unread messages do not add up afterwards.
 */
async function readChangedFlags(ctx: SyncContext, pass: FolderSync): Promise<boolean> {
  const { at, generation, tuple, evidence } = pass;
  if (tuple === null || ctx.origin.changedSince === undefined) return false;
  const since = flagsUpTo(ctx, at, generation, tuple);
  if (since === undefined) return false;
  let { highestModSeq } = tuple;
  await ctx.committer.flush();
  if (since.modSeq !== highestModSeq || !hasUnread(ctx, pass)) {
    const answer = await ctx.origin.changedSince(at, since, ctx.signal);
    if (answer === null || BigInt(answer.highestModSeq) < BigInt(highestModSeq)) return false;
    pass.applyFlags(answer.changes);
    await ctx.committer.flush();
    // If something has changed since the listing, its count says nothing.
    if (answer.highestModSeq === highestModSeq && !hasUnread(ctx, pass)) return false;
    highestModSeq = answer.highestModSeq;
  }
  rememberFlagsUpTo(ctx, at, generation, { ...tuple, highestModSeq });
  evidence.flagsUpToDate = true;
  return true;
}

/**
 * Reports whether the archive has as many unread messages as the listing counts, or as when every message was read
 * without making up the difference. Messages on either side only are decided first.
 */
function hasUnread(ctx: SyncContext, { at, generation, listed, sums }: FolderSync): boolean {
  if (sums.held > 0 || countAccountedFor(sums) !== listed.messageCount) return true;
  if (ctx.mirror.hasUnread(at, generation, listed.unreadCount)) return true;
  const before = ctx.memory.get(COMPARED, folderKey(at));
  const ours = ctx.mirror.unread(at, generation);
  return before?.theirs === listed.unreadCount && before.ours === ours;
}

/** Reads every message, unless this sync run has done so, after which the archive has all flags. */
async function readAllFlags(ctx: SyncContext, pass: FolderSync, tuple: FolderTuple): Promise<void> {
  const { at, generation, evidence } = pass;
  if (!evidence.hasReadEveryFlag) {
    pass.readsAll = true;
    await pass.sweep();
    await drain(ctx);
  }
  if (!evidence.hasReadEveryFlag || evidence.contradicted.size > 0) return;
  await ctx.committer.flush();
  const [theirs, ours] = [pass.listed.unreadCount, ctx.mirror.unread(at, generation)];
  if (theirs !== ours)
    ctx.memory.set(COMPARED, folderKey(at), { theirs, ours, askedAt: ctx.now() });
  rememberFlagsUpTo(ctx, at, generation, tuple);
  evidence.flagsUpToDate = true;
}

/**
 * Finds changed flags on messages below the newest page. If the folder's unread count differs from the archive's,
 * searches by flag in UID ranges to locate the changes. Changes that cancel out are found by the next full sync.
 */
async function findFlagChanges(ctx: SyncContext, pass: FolderSync): Promise<void> {
  const { evidence } = pass;
  if (pass.onlyFlags || (await readChangedFlags(ctx, pass))) return;
  if (pass.tuple !== null && ctx.origin.changedSince !== undefined) {
    await readAllFlags(ctx, pass, pass.tuple);
    return;
  }
  if (pass.isEmpty) return;
  if (ctx.policy.full || evidence.isFirst || evidence.belowHead.hi < 1) return;
  const { host } = pass.at;
  if (!canSearch(ctx.memory, host) || ctx.memory.get(IGNORES_FLAGS, host) !== undefined) return;
  const key = folderKey(pass.at);
  const before = ctx.memory.get(COMPARED, key) ?? NEVER_COMPARED;
  const theirs = pass.listed.unreadCount;
  const ours = ctx.mirror.unread(pass.at, pass.generation);
  const hasChanged = theirs !== ours && !(before.theirs === theirs && before.ours === ours);
  const wasAsked = isRecent(before.askedAt, ctx.now(), ASK_AGAIN_MS);
  const isDue = (hasChanged || evidence.flagsChanged) && !wasAsked;
  if (!hasChanged && !isDue) return;
  const comparison = new Comparison(ctx, pass);
  if (hasChanged) await comparison.compare('\\Seen');
  if (isDue) {
    await comparison.compare('\\Flagged');
    await comparison.compare('\\Answered');
  }
  await ctx.committer.flush();
  ctx.memory.set(COMPARED, key, {
    theirs,
    ours: ctx.mirror.unread(pass.at, pass.generation),
    askedAt: isDue ? ctx.now() : before.askedAt,
  });
}

class Comparison {
  #budget = MAX_REQUESTS;

  constructor(
    private readonly ctx: SyncContext,
    private readonly pass: FolderSync,
  ) {}

  async compare(flag: CountedFlag): Promise<void> {
    const range = this.pass.evidence.belowHead;
    const uids = this.ctx.mirror.uidsFlagged(this.pass.at, this.pass.generation, flag);
    const expected = uids.filter((uid) => uid <= range.hi);
    const total = (await this.#ask(range, flag, 1))?.total;
    if (total === undefined) return;
    const steps = bisect(expected, range, total, PAGE_SIZE);
    let step = steps.next();
    while (step.done !== true) {
      const { ask, range: part } = step.value;
      if (ask === 'count') {
        const page = await this.#ask(part, flag, 1);
        if (page === undefined) return;
        step = steps.next(page.total);
      } else {
        if (!(await this.#read(part, flag, expected))) return;
        step = steps.next(0);
      }
    }
  }

  /** Reads the flagged messages in a range. Any that unexpectedly lack the flag are read individually. */
  async #read(range: UidInterval, flag: CountedFlag, uids: readonly number[]): Promise<boolean> {
    const carriers = new Set<number>();
    for (let lo = range.lo; lo <= range.hi; ) {
      const page = await this.#ask({ lo, hi: range.hi }, flag, PAGE_SIZE);
      if (page === undefined) return false;
      this.pass.recordFlags(page.items);
      for (const { uid } of page.items) carriers.add(uid);
      const last = page.items[page.items.length - 1]?.uid;
      if (page.total <= page.items.length || last === undefined) break;
      lo = last + 1;
    }
    const misses = uids.filter((uid) => uid >= range.lo && uid <= range.hi && !carriers.has(uid));
    const batch = misses.slice(0, this.#budget * PAGE_SIZE);
    this.#budget -= Math.ceil(batch.length / PAGE_SIZE);
    const { answered } = await fetchUids(this.ctx, this.pass.at, batch);
    this.pass.recordFlags([...answered.values()]);
    return this.#budget > 0;
  }

  /** Requests a page of messages with the flag. Returns undefined if the budget is spent or the host cannot answer. */
  async #ask(
    range: UidInterval,
    flag: CountedFlag,
    perPage: number,
  ): Promise<OriginPage | undefined> {
    if (this.#budget <= 0) return undefined;
    this.#budget -= 1;
    const { at } = this.pass;
    const page = { uids: `${range.lo}:${range.hi}`, perPage, order: 'ascending', flag } as const;
    let answer: OriginPage;
    try {
      answer = await this.ctx.origin.search(at, page, this.ctx.signal);
    } catch (error) {
      this.ctx.signal.throwIfAborted();
      if (!concernsOnly(error)) throw error;
      return undefined;
    }
    if (answer.items.every((item) => isAsked(item, range, flag))) return answer;
    this.ctx.memory.set(IGNORES_FLAGS, at.host, true);
    return undefined;
  }
}

function isAsked({ uid, flags }: Listing, range: UidInterval, flag: CountedFlag): boolean {
  return uid >= range.lo && uid <= range.hi && flags.includes(flag);
}

export type MailboxSync = Awaited<ReturnType<typeof openMailbox>>;

/** Reads a mailbox's folders, records new, renamed and changed ones, and opens them for the sync run. */
export async function openMailbox(ctx: SyncContext, mailbox: OriginMailbox, scope: MailSelection) {
  const askedAt = ctx.now();
  const { key, all, folders, excluded, wanted } = await listMailboxFolders(ctx, mailbox, scope);
  forgetSuspension(ctx.memory, key);
  ctx.ledger.open(mailbox.address, folders.length);
  ctx.ledger.exclude(mailbox.address, excluded);
  if (!all.complete) ctx.ledger.fail(incompleteListing(all), { mailbox: mailbox.address });
  const { mirror } = ctx;
  const { address } = mailbox;
  if (ctx.origin.isOneMailbox === true) {
    const { account } = ctx;
    const mailboxes = mirror.accountMailboxes();
    const known = mailboxes.find((one) => mailboxKey(one) === mailboxKey(key));
    recordLeftBehind(ctx, key, mailboxes);
    if (known?.address !== address || known.account !== account)
      ctx.committer.addFact({ fact: 'mailbox', ...key, address, account });
  } else if (mirror.mailboxAddress(key) !== address) {
    ctx.committer.addFact({ fact: 'mailbox', ...key, address });
  }
  const pages = all.complete ? await findRenames(ctx, key, all) : new Map<string, OriginPage>();
  // A folder is gone if it is missing from the complete listings of two separate sync runs.
  const unlisted = unlistedFolders(ctx, key, all, wanted);
  noteListing(ctx, key, all);
  recordExcludedFolders(ctx, key, wanted, folders.length);
  const passes: FolderSync[] = [];
  for (const folder of folders) {
    const head = pages.get(folder.path);
    const listing = { head, state: all.states?.get(folder.path), askedAt };
    passes.push(...(await openFolder(ctx, key, folder, mailbox.address, listing)));
  }
  // By path, before this sync run changes anything.
  const openCounts = new Map(passes.map(({ at, sums }) => [at.folder, countOpenPlaces(sums)]));
  // Includes folders without requests.
  const listed = new Set(all.folders.map(({ path }) => path));
  /** Includes folders that cannot be read. */
  const names = [...listed, ...(all.leftOut ?? [])];
  return { mailbox, key, folders: passes, unlisted, openBefore: openCounts, listed, names };
}

function incompleteListing({ folders, withoutPath = 0, problem }: FolderListing) {
  if (problem !== undefined) return problem;
  const count = folders.length;
  return withoutPath > 0
    ? syncError('sync.folder-without-path', { withoutPath, shown: count })
    : syncError('sync.folders-incomplete', { shown: count });
}

/** Opens a folder for the sync run. Returns an empty list if the folder has been too quiet to need a request. */
async function openFolder(
  ctx: SyncContext,
  key: MailboxKey,
  listed: ListedFolder,
  address: string,
  listing: {
    readonly head: OriginPage | undefined;
    readonly state: FolderState | undefined;
    readonly askedAt: number;
  },
): Promise<FolderSync[]> {
  const at = { ...key, folder: listed.path };
  const { head, state, askedAt } = listing;
  const { name, delimiter, specialUse } = listed;
  const previous = ctx.mirror.folder(at);
  const epoch = openEpoch(ctx, at, state);
  const { generation } = epoch;
  const isSame =
    previous !== undefined &&
    previous.name === name &&
    previous.delimiter === delimiter &&
    previous.specialUse === specialUse &&
    epoch.isStored;
  if (!isSame) {
    const { uidValidity } = epoch;
    const fact = { fact: 'folder', ...at, name, delimiter, specialUse, generation } as const;
    const validity = uidValidity === undefined ? {} : { uidValidity };
    ctx.committer.addFact({ ...fact, ...validity }, epoch.onStored);
  }
  rememberListed(ctx.memory, at, generation, listed.messageCount);
  if (epoch.problem !== undefined) {
    const failed = new FolderSync(ctx, at, listed, address, generation);
    failed.fail(epoch.problem);
    return [failed];
  }
  const tuple = listedTuple(ctx.memory, at, generation, listed, state);
  const known = { generation, tuple, address, askedAt };
  if (head === undefined && canSkipFolder(ctx, at, listed, known)) {
    ctx.ledger.count(address, 'compared', 1);
    return [];
  }
  // A folder that is back has its earlier places only once the catalog knows it again.
  if (epoch.isRestored === true) await ctx.committer.flush();
  const isSameEpoch = epoch.uidValidity !== undefined && epoch.isStored;
  const evidence = { head, tuple, isSameEpoch };
  const opened = new FolderSync(ctx, at, listed, address, generation, evidence);
  opened.onlyFlags = head === undefined && isFlagChange(ctx, at, generation, tuple);
  forgetTuple(ctx.memory, at);
  // All flags are yet to be read, and later than this.
  if (tuple !== null && opened.evidence.isFirst) rememberFlagsUpTo(ctx, at, generation, tuple);
  opened.readsAll = tuple !== null && flagsUpTo(ctx, at, generation, tuple) === undefined;
  return [opened];
}

export async function readNewestPages(ctx: SyncContext, { folders }: MailboxSync): Promise<void> {
  for (const folder of folders) {
    if (folder.isEmpty || folder.isBackwards) continue;
    await folder.guarded(async () => {
      await folder.readHead();
      if (!folder.onlyFlags) return;
      // The newest page shows whether the uids still mean the same.
      folder.onlyFlags = !folder.evidence.isUndecided;
      if (!folder.onlyFlags) {
        folder.readsAll = folder.evidence.contradicted.size > 0;
        return;
      }
      folder.onlyFlags = await readChangedFlags(ctx, folder);
      folder.readsAll = !folder.onlyFlags;
    });
  }
}

/** Fetches the backlog, records deletions, updates older flags, and reconciles every folder. */
export async function finishMailbox(ctx: SyncContext, pass: MailboxSync): Promise<void> {
  const { address } = pass.mailbox;
  for (const folder of pass.folders) {
    if (!folder.isEmpty) await folder.guarded(() => folder.walkBacklog());
  }
  for (const folder of pass.folders) await folder.guarded(() => folder.fetchPostponed());
  // Last, because messages that fail again must not delay others.
  for (const folder of pass.folders) await folder.guarded(() => folder.retryQuarantined());
  await drain(ctx);
  const renumbered = await judgeFolders(ctx, pass.folders);
  await drain(ctx);
  const candidates = pass.folders.map(
    (folder): DeletionCandidate => ({
      at: folder.at,
      specialUse: folder.listed.specialUse,
      open: pass.openBefore.get(folder.at.folder) ?? 0,
      pass: folder,
      generation: folder.generation,
      renumbered: renumbered.get(folder),
    }),
  );
  const gone = pass.unlisted.filter(({ isGone }) => isGone);
  await runGuarded(ctx, { mailbox: address }, () =>
    recordDeletions(ctx, address, [...candidates, ...gone]),
  );
  for (const folder of pass.unlisted) if (!folder.isGone) holdUnlistedFolder(ctx, address, folder);
  await drain(ctx);
  for (const { at, generation } of gone) {
    if (countOpenPlaces(ctx.mirror.sumsOf(at)) > 0) continue;
    releaseUnplaced(ctx, at, generation, 'folder-gone');
    ctx.committer.addFact({ fact: 'folder-gone', ...at });
  }
  const current = pass.folders.map((folder) => renumbered.get(folder)?.pass ?? folder);
  for (const folder of current) await folder.guarded(() => findFlagChanges(ctx, folder));
  await certifyAll(ctx, current);
  certifyUnlisted(ctx, address, pass.unlisted);
  await runGuarded(ctx, { mailbox: address }, async () => {
    await verifyUnverified(ctx, pass.key, address, pass.listed);
    await ctx.committer.flush();
  });
  await recordQuota(ctx, pass.key);
}

/** Compares older pages. Returns the folders whose uids were reassigned. */
async function judgeFolders(
  ctx: SyncContext,
  folders: readonly FolderSync[],
): Promise<ReadonlyMap<FolderSync, RenumberedFolder>> {
  const renumbered = new Map<FolderSync, RenumberedFolder>();
  for (const folder of folders) {
    if (folder.isEmpty || folder.evidence.isFirst || folder.onlyFlags) continue;
    await folder.guarded(async () => {
      const mustSweep = folder.readsAll && !folder.evidence.hasReadEveryFlag;
      if (ctx.policy.full || mustSweep) await folder.sweep();
      else {
        await readDownToKnown(ctx, folder);
        await folder.findDifferences();
      }
      const result = await judgeFolder(ctx, folder);
      if (result !== undefined) renumbered.set(folder, result);
    });
  }
  return renumbered;
}
