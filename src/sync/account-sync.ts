import type { Writer } from '../catalog/open-writer.ts';
import { selects } from '../core/names.ts';
import { countAccountedFor, countOpenPlaces, type ListedFolder } from '../core/types.ts';
import type { FolderSync } from './folder-sync.ts';
import { finishMailbox, type MailboxSync, openMailbox, readNewestPages } from './mailbox-sync.ts';
import { catalogMirror, type Mirror } from './mirror.ts';
import {
  type FolderPlan,
  forecast,
  hoursOf,
  PAGE_SIZE,
  planFolder,
  type TrafficPace,
} from './plan/plan-folder.ts';
import {
  concernsOnly,
  type Origin,
  type OriginMailbox,
  runGuarded,
  type SyncContext,
} from './ports.ts';
import type { SyncPlan } from './result.ts';
import { reportUnmatched } from './selection.ts';
import {
  listAccount,
  listMailboxFolders,
  type MailSelection,
  recallCoverage,
  recentMailboxes,
  recordMailboxes,
} from './sync-memory.ts';
import {
  recallMeanSize,
  recordExcludedMailboxes,
  recordQuota,
  recordUsages,
  suspensionError,
} from './usage.ts';
import { canSearch, isRefusal, reconsiderSearch } from './walk.ts';

export interface AccountToSync {
  readonly name: string;
  readonly wanted: MailSelection;
  readonly origin: Origin;
}

/** Mailboxes per group. A group's newest mail is fetched before its backlog. */
const MAILBOXES_TOGETHER = 20;
const WORTH_A_FORECAST = 200;
/** Number of mailboxes, largest first, whose quota is requested to get a mean size. It is due daily anyway. */
const ASKED_MAILBOXES = 5;
/** Number of folders in other mailboxes, largest first, whose newest page provides a mean size. */
const SAMPLED_FOLDERS = 5;

/**
 * Performs one sync run over an account. Each group of mailboxes goes through folders, new mail, backlog, deletions and
 * reconciliations. A failed mailbox or folder is reported and does not stop the others. A failure that affects all of
 * them (a refused token, an unreachable host, a full disk) ends the sync run.
 */
export async function syncAccount(ctx: SyncContext, selection: MailSelection): Promise<void> {
  reconsiderSearch(ctx.memory, ctx.origin.host, ctx.startedAt);
  let mailboxes = recentMailboxes(ctx, selection);
  if (mailboxes === undefined) {
    const listing = await listAccount(ctx, selection);
    mailboxes = listing.mailboxes;
    recordMailboxes(ctx, selection, listing.listed);
    recordExcludedMailboxes(ctx, listing.listed, selection);
    if (selection.whole?.mailboxes === true) {
      const names = listing.listed.map(({ address }) => address);
      reportUnmatched(ctx, 'mailboxes', selection, { names, selected: mailboxes.length });
    }
  }
  // Do this first, so that the result lists unreached mailboxes as not compared.
  for (const { address } of mailboxes) ctx.ledger.count(address, 'folders', 0);
  await recordUsages(ctx, mailboxes);
  const folders = new Set<string>();
  let opened = 0;
  for (let from = 0; from < mailboxes.length; from += MAILBOXES_TOGETHER) {
    const group = mailboxes.slice(from, from + MAILBOXES_TOGETHER);
    const passes = await syncGroup(ctx, group, selection, mailboxes.length);
    for (const { names } of passes) for (const name of names) folders.add(name);
    opened += passes.length;
  }
  const isWhole = ctx.origin.isOneMailbox === true || selection.whole?.mailboxes === true;
  // A pattern may match in a mailbox that could not be listed.
  if (!isWhole || selection.whole?.folders !== true || opened < mailboxes.length) return;
  const selected = ctx.ledger.results().reduce((sum, mailbox) => sum + mailbox.folders, 0);
  const [only, ...others] = mailboxes;
  const at = only !== undefined && others.length === 0 ? { mailbox: only.address } : {};
  reportUnmatched(ctx, 'folders', selection, { names: [...folders], selected }, at);
}

async function syncGroup(
  ctx: SyncContext,
  group: readonly OriginMailbox[],
  selection: MailSelection,
  mailboxes: number,
): Promise<readonly MailboxSync[]> {
  const passes: MailboxSync[] = [];
  for (const mailbox of group) {
    await runGuarded(ctx, { mailbox: mailbox.address }, async () => {
      const pass = await openMailbox(ctx, mailbox, selection).catch(async (error: unknown) => {
        throw await suspensionError(ctx, mailbox, group, error);
      });
      passes.push(pass);
    });
  }
  ctx.ledger.expect(remaining(passes.flatMap(({ folders }) => folders)));
  await announceForecast(ctx, passes, mailboxes);
  for (const pass of passes) {
    const { address } = pass.mailbox;
    ctx.ledger.report({ event: 'mailbox-started', address, messages: remaining(pass.folders) });
    await readNewestPages(ctx, pass);
  }
  await fetchFirstPart(
    ctx,
    passes.flatMap(({ folders }) => folders),
  );
  for (const pass of passes) {
    await finishMailbox(ctx, pass);
    ctx.ledger.report({ event: 'mailbox-finished', address: pass.mailbox.address });
  }
  return passes;
}

function remaining(folders: readonly FolderSync[]): number {
  return folders.reduce((sum, folder) => sum + folder.remaining, 0);
}

/** Reports the remaining work unless it is small. The sync run reuses the sampled pages. */
async function announceForecast(
  ctx: SyncContext,
  passes: readonly MailboxSync[],
  mailboxes: number,
): Promise<void> {
  const folders = passes.flatMap((pass) => pass.folders);
  if (remaining(folders) < WORTH_A_FORECAST) return;
  const listed = new Map<MailboxSync, ReadonlyMap<string, number>>();
  for (const pass of passes) {
    const large = pass.folders.filter((folder) => folder.remaining > 0).map((one) => one.listed);
    listed.set(pass, await folderMeans(ctx, pass.key.mailbox, large));
  }
  const means = await askMeanSizes(
    ctx,
    passes.filter((pass) => (listed.get(pass)?.size ?? 0) === 0),
  );
  const samples = passes
    .filter((pass) => !means.has(pass))
    .flatMap((pass) =>
      pass.folders.filter(({ at }) => listed.get(pass)?.get(at.folder) === undefined),
    )
    .filter((folder) => folder.remaining > 0 && !folder.isBackwards)
    .sort((a, b) => b.remaining - a.remaining)
    .slice(0, SAMPLED_FOLDERS);
  const sizes = { count: 0, bytes: 0 };
  for (const folder of samples) {
    // If the folder fails here, it fails again in its turn, and that failure is reported.
    const page = await folder.head().catch((error: unknown) => {
      ctx.signal.throwIfAborted();
      if (error instanceof Error) return { items: [] };
      throw error;
    });
    // The page is newest first, so messages that are already stored come last.
    for (const { size } of page.items.slice(0, folder.remaining)) {
      sizes.count += 1;
      sizes.bytes += size;
    }
  }
  ctx.ledger.report({
    event: 'forecast',
    forecast: forecast({
      mailboxes,
      folders: passes.flatMap((pass) =>
        pass.folders.map((folder) => ({
          messages: folder.listed.messageCount,
          known: folder.listed.messageCount - folder.remaining,
          meanBytes: listed.get(pass)?.get(folder.at.folder) ?? means.get(pass),
        })),
      ),
      sizes,
      requestsPerMinute: ctx.origin.requestsPerMinute(),
      traffic: ctx.origin.traffic,
    }),
  });
}

/** Returns the mean message size of each folder whose total size the source reports. */
async function folderMeans(
  { origin, signal }: Pick<SyncContext, 'origin' | 'signal'>,
  mailbox: string,
  folders: readonly ListedFolder[],
): Promise<ReadonlyMap<string, number>> {
  if (origin.folderBytes === undefined || folders.length === 0) return new Map();
  const paths = folders.map((folder) => folder.path);
  const sizes = await origin.folderBytes(mailbox, paths, signal).catch((error: unknown) => {
    signal.throwIfAborted();
    if (concernsOnly(error)) return new Map<string, number>();
    throw error;
  });
  return new Map(
    folders.flatMap(({ path, messageCount }) => {
      const bytes = sizes.get(path);
      return bytes === undefined || messageCount === 0 ? [] : [[path, bytes / messageCount]];
    }),
  );
}

/** Returns the mean message size in large mailboxes with nothing stored yet. In others, the rest may differ. */
async function askMeanSizes(
  ctx: SyncContext,
  passes: readonly MailboxSync[],
): Promise<ReadonlyMap<MailboxSync, number>> {
  const means = new Map<MailboxSync, number>();
  const candidates = passes
    .map((pass) => ({ pass, messages: remaining(pass.folders) }))
    .filter(({ messages }) => messages > 0)
    .sort((a, b) => b.messages - a.messages)
    .slice(0, ASKED_MAILBOXES);
  for (const { pass } of candidates) {
    await recordQuota(ctx, pass.key);
    const isUntouched = pass.folders.every(
      ({ listed, remaining: ahead }) => ahead === listed.messageCount,
    );
    const mean = isUntouched ? recallMeanSize(ctx.memory, pass.key) : undefined;
    if (mean !== undefined) means.set(pass, mean);
  }
  return means;
}

const RECENT_MS = 365 * 86_400_000;
/** A smaller backlog takes two pages, so an extra request to find the past year's mail would not pay off. */
const LARGE_BACKLOG = 2 * PAGE_SIZE;
/** Nine in ten messages are smaller, but they make up only a small part of all bytes. */
const SMALL_BYTES = 100_000;
/** Maximum number of postponed listings across all folders: about 30 MB. */
const MAX_POSTPONED = 20_000;

/**
 * Fetches the part of the folders' backlogs that is configured to come first, so that an interrupted first sync already
 * has the most useful mail. Only the order changes: the sync run does not walk these uids again.
 */
async function fetchFirstPart(ctx: SyncContext, folders: readonly FolderSync[]): Promise<void> {
  const { order, first } = ctx.settings;
  if (order === 'oldest') return;
  const pending = folders.filter((folder) => !folder.isEmpty);
  if (first === 'recent') await fetchRecent(ctx, pending);
  // The daemon interrupts long sync runs, and each one lists pages with a postponed message again: no run would make
  // progress.
  if (first === 'small' && ctx.policy.rhythm === null) await fetchSmall(pending);
}

/** Walks each folder back by one year, at the cost of one extra request per folder. */
async function fetchRecent(ctx: SyncContext, folders: readonly FolderSync[]): Promise<void> {
  const large = folders.filter((folder) => folder.remaining > LARGE_BACKLOG);
  if (large.length < 2) return;
  const since = new Date(ctx.startedAt - RECENT_MS).toISOString().slice(0, 10);
  for (const folder of large) {
    await folder.guarded(async () => {
      const downTo = await firstUidSince(ctx, folder, since);
      if (downTo !== null) await folder.walkBacklog({ downTo });
    });
  }
}

/**
 * Returns the lowest uncovered uid received on or after this day. Returns null if no message matches or the host cannot
 * search by date. Ignores failures, which the backlog walk reports later.
 */
async function firstUidSince(
  ctx: SyncContext,
  { at, evidence }: FolderSync,
  since: string,
): Promise<number | null> {
  const gaps = evidence.notWalked({ lo: 1, hi: evidence.highestUid });
  const [first, last] = [gaps[0], gaps[gaps.length - 1]];
  if (first === undefined || last === undefined) return null;
  if (!canSearch(ctx.memory, at.host)) return null;
  const query = { uids: `${first.lo}:${last.hi}`, perPage: 1, order: 'ascending', since } as const;
  try {
    const { items } = await ctx.origin.search(at, query, ctx.signal);
    return items[0]?.uid ?? null;
  } catch (error) {
    ctx.signal.throwIfAborted();
    if (isRefusal(error) || concernsOnly(error)) return null;
    throw error;
  }
}

/** Walks every backlog and postpones large messages. Costs no extra requests. */
async function fetchSmall(folders: readonly FolderSync[]): Promise<void> {
  let room = MAX_POSTPONED;
  const postpones = ({ size }: { readonly size: number }): boolean => {
    if (size < SMALL_BYTES || room === 0) return false;
    room -= 1;
    return true;
  };
  for (const folder of folders) await folder.guarded(() => folder.walkBacklog({ postpones }));
}

/**
 * Lists mailboxes and folders (one request each) and compares them with the archive. @throws refusals from the service
 */
export async function planSync(
  { catalog, state }: Pick<Writer, 'catalog' | 'state'>,
  toSync: readonly AccountToSync[],
  full: boolean,
  signal: AbortSignal,
): Promise<SyncPlan> {
  const mirror = catalogMirror(catalog);
  const mailboxes: SyncPlan['mailboxes'][number][] = [];
  const accounts: PlannedAccount[] = [];
  for (const { name, wanted, origin } of toSync) {
    const deps = { origin, signal };
    const perMinute = origin.requestsPerMinute();
    let requests = perMinute === null ? 0 : 1;
    const work = { messages: 0, bytes: 0, isSized: true };
    for (const mailbox of (await listAccount(deps, wanted)).mailboxes) {
      const listing = await listMailboxFolders(deps, mailbox, wanted);
      const { key, folders, excluded, all } = listing;
      const missing = missingFolders(mirror, listing);
      const plans = folders.map((listed) => {
        const at = { ...key, folder: listed.path };
        const uidValidity = all.states?.get(listed.path)?.uidValidity ?? null;
        const isSameEpoch = (other: string | null): boolean =>
          other === null || uidValidity === null || other === uidValidity;
        if (mirror.folder(at) === undefined && listed.messageCount > 0) {
          const from = missing.findIndex(
            (one) => one.open === listed.messageCount && isSameEpoch(one.uidValidity),
          );
          const [renamed] = from < 0 ? [] : missing.splice(from, 1);
          if (renamed !== undefined) return { listed, plan: renamedPlan(listed, renamed.folder) };
        }
        const generation = mirror.folder(at)?.generation ?? 1;
        const accounted = countAccountedFor(mirror.sumsOf(at));
        const unread = mirror.unread(at, generation);
        const covered = accounted === 0 ? [] : recallCoverage(state, at, generation);
        const plan = planFolder(listed, { accounted, unread, covered }, full);
        const isRenumbered = !isSameEpoch(mirror.epoch(at)?.uidValidity ?? null);
        const changed = isRenumbered ? ({ action: 'walk', reason: 'renumbered' } as const) : {};
        return { listed, plan: { ...plan, ...changed } };
      });
      const large = plans.filter(({ plan }) => plan.messages > 0);
      const means = await folderMeans(
        deps,
        mailbox.resourceId,
        large.map(({ listed }) => listed),
      );
      const sized = [...plans.map(({ plan }) => plan), ...missing.map(unlistedPlan)].map((plan) => {
        const mean = means.get(plan.folder);
        const requests = perMinute === null ? 0 : plan.requests;
        const bytes = mean === undefined ? {} : { bytes: Math.round(mean * plan.messages) };
        return { ...plan, requests, ...bytes };
      });
      work.isSized &&= means.size === large.length;
      work.messages += sum(sized, ({ messages }) => messages);
      work.bytes += sum(sized, ({ bytes = 0 }) => bytes);
      if (perMinute !== null) requests += 1 + sum(sized, (plan) => plan.requests);
      mailboxes.push({ account: name, address: mailbox.address, folders: sized, excluded });
    }
    const { traffic } = origin;
    const hours = perMinute === null ? hoursOf(work, traffic) : requests / perMinute / 60;
    accounts.push({ requests, perMinute, hours, work, traffic });
  }
  return {
    mailboxes,
    messages: sum(mailboxes, ({ folders }) => sum(folders, ({ messages }) => messages)),
    ...planCost(accounts),
  };
}

/** Returns the known folders with messages that a complete listing lacks. */
function missingFolders(
  mirror: Mirror,
  { key, all, wanted }: Awaited<ReturnType<typeof listMailboxFolders>>,
) {
  if (!all.complete) return [];
  const paths = new Set([...all.folders.map(({ path }) => path), ...(all.leftOut ?? [])]);
  return mirror
    .folders(key)
    .filter(({ folder }) => !paths.has(folder) && selects(wanted.folders, folder))
    .map(({ folder }) => {
      const at = { ...key, folder };
      const uidValidity = mirror.epoch(at)?.uidValidity ?? null;
      return { folder, open: countOpenPlaces(mirror.sumsOf(at)), uidValidity };
    })
    .filter(({ open }) => open > 0);
}

/** Only its newest page, which the sync run reads, can show whether it is that folder. */
function renamedPlan({ path: folder }: ListedFolder, renamedFrom: string): FolderPlan {
  return { folder, action: 'look', reason: 'renamed', messages: 0, requests: 1, renamedFrom };
}

function unlistedPlan({ folder }: { readonly folder: string }): FolderPlan {
  return { folder, action: 'nothing', reason: 'unlisted', messages: 0, requests: 0 };
}

interface PlannedAccount {
  readonly requests: number;
  readonly perMinute: number | null;
  readonly hours: number;
  readonly work: { readonly messages: number; readonly bytes: number; readonly isSized: boolean };
  readonly traffic: TrafficPace | undefined;
}

/** Accounts run in parallel, so the slowest of each kind determines the duration. */
function planCost(accounts: readonly PlannedAccount[]) {
  const slowest = accounts.toSorted((a, b) => b.hours - a.hours);
  const paced = slowest.find(({ perMinute }) => perMinute !== null);
  const metered = slowest.filter(({ traffic }) => traffic !== undefined);
  const traffic = metered[0]?.traffic;
  return {
    requests: sum(accounts, (account) => account.requests),
    requestsPerMinute: paced?.perMinute ?? 0,
    hours: slowest[0]?.hours ?? 0,
    ...(metered.length > 0 && metered.every(({ work }) => work.isSized)
      ? { bytes: sum(metered, ({ work }) => work.bytes) }
      : {}),
    ...(traffic && { traffic: { limit: traffic.limit, speed: traffic.speed } }),
  };
}

function sum<T>(items: readonly T[], value: (item: T) => number): number {
  return items.reduce((total, item) => total + value(item), 0);
}
