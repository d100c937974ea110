import { syncError } from '../../errors/sync.ts';
import type { ListedFolder, MailboxKey } from '../../mail/words.ts';
import { openPlaces } from '../plan/folder-sums.ts';
import { certifyAll, certifyUnlisted } from './ends/certify.ts';
import { type EndingFolder, holdUnlisted, settleEndings } from './ends/endings.ts';
import { judgeFolder, type Renumbered } from './ends/judge-folder.ts';
import { releaseUnplaced } from './ends/release-unplaced.ts';
import { findRenames } from './find-renames.ts';
import { FolderPass } from './folder-pass.ts';
import { noteListing, type UnlistedFolder, unlistedFolders } from './memory/listing-memory.ts';
import { isQuiet } from './memory/proof.ts';
import { noteUnwatchedFolders } from './memory/unwatched.ts';
import { drain, guard, type PassContext } from './pass-context.ts';
import type { FolderListing, OriginMailbox, OriginPage } from './ports.ts';
import { surveyMailbox, type Wanted } from './survey.ts';
import { findFlagChanges } from './walk/flag-changes.ts';
import { noteQuota } from './walk/note-quota.ts';
import { forgetSuspension } from './walk/note-usages.ts';
import { verifyAssumed } from './walk/verify-assumed.ts';

/** One mailbox in one pass. */
export interface MailboxPass {
  readonly mailbox: OriginMailbox;
  readonly key: MailboxKey;
  /** The folders that are asked in this pass. */
  readonly folders: readonly FolderPass[];
  /** Known folders that the listing lacks; gone are those that two complete listings, a pass apart, lack. */
  readonly unlisted: readonly UnlistedFolder[];
  /** Open places by path, before the pass changed anything. */
  readonly openBefore: ReadonlyMap<string, number>;
  /** Paths of all folders that the origin lists, also of those that are not asked. */
  readonly listed: ReadonlySet<string>;
}

/** Reads a mailbox's folders, records which are new, renamed or changed, and opens their passes. */
export async function openMailbox(
  ctx: PassContext,
  mailbox: OriginMailbox,
  asked: Wanted,
): Promise<MailboxPass> {
  const { key, all, folders, excluded, wanted } = await surveyMailbox(ctx, mailbox, asked);
  forgetSuspension(ctx.memory, key);
  ctx.ledger.open(mailbox.address, folders.length);
  ctx.ledger.exclude(mailbox.address, excluded);
  if (!all.complete) ctx.ledger.fail(incompleteListing(all), { mailbox: mailbox.address });
  if (ctx.mirror.mailboxAddress(key) !== mailbox.address) {
    ctx.committer.addFact({ fact: 'mailbox', ...key, address: mailbox.address });
  }
  const pages = all.complete
    ? await findRenames(ctx, key, all.folders)
    : new Map<string, OriginPage>();
  const unlisted = unlistedFolders(ctx, key, all, wanted);
  noteListing(ctx, key, all);
  noteUnwatchedFolders(ctx, key, wanted);
  const passes = folders.flatMap((folder) =>
    openFolder(ctx, key, folder, mailbox.address, pages.get(folder.path)),
  );
  const openBefore = new Map(passes.map(({ at, sums }) => [at.folder, openPlaces(sums)]));
  const listed = new Set(all.folders.map(({ path }) => path));
  return { mailbox, key, folders: passes, unlisted, openBefore, listed };
}

function incompleteListing({ folders, withoutPath = 0, problem }: FolderListing) {
  if (problem !== undefined) return problem;
  const shown = folders.length;
  return withoutPath > 0
    ? syncError('sync.folder-without-path', { withoutPath, shown })
    : syncError('sync.folders-incomplete', { shown });
}

/** Opens the pass over a folder; none over one that is too quiet to be asked now. */
function openFolder(
  ctx: PassContext,
  key: MailboxKey,
  listed: ListedFolder,
  address: string,
  head: OriginPage | undefined,
): FolderPass[] {
  const at = { ...key, folder: listed.path };
  const { name, delimiter, specialUse } = listed;
  const known = ctx.mirror.folder(at);
  const generation = known?.generation ?? 1;
  const same =
    known !== undefined &&
    known.name === name &&
    known.delimiter === delimiter &&
    known.specialUse === specialUse;
  if (!same) {
    ctx.committer.addFact({ fact: 'folder', ...at, name, delimiter, specialUse, generation });
  }
  if (head === undefined && isQuiet(ctx, at, listed, generation)) {
    ctx.ledger.count(address, 'compared', 1);
    return [];
  }
  return [new FolderPass(ctx, at, listed, address, generation, head)];
}

/** Reads the newest page of every folder: new mail first, before any backlog. */
export async function readNewestPages({ folders }: MailboxPass): Promise<void> {
  for (const folder of folders) {
    if (folder.isEmpty || folder.isBackwards) continue;
    await folder.guarded(() => folder.readHead());
  }
}

/** Fetches the backlog, records what is gone, updates older flags, and certifies what all answers prove. */
export async function finishMailbox(ctx: PassContext, pass: MailboxPass): Promise<void> {
  const { address } = pass.mailbox;
  for (const folder of pass.folders) {
    await folder.guarded(() => folder.retryQuarantined());
    if (!folder.isEmpty) await folder.guarded(() => folder.walkBacklog());
  }
  for (const folder of pass.folders) await folder.guarded(() => folder.fetchPostponed());
  await drain(ctx);
  const renumbered = await judgeFolders(ctx, pass.folders);
  await drain(ctx);
  const ending = pass.folders.map(
    (folder): EndingFolder => ({
      at: folder.at,
      specialUse: folder.listed.specialUse,
      open: pass.openBefore.get(folder.at.folder) ?? 0,
      pass: folder,
      generation: folder.generation,
      renumbered: renumbered.get(folder),
    }),
  );
  const gone = pass.unlisted.filter(({ isGone }) => isGone);
  await guard(ctx, { mailbox: address }, () => settleEndings(ctx, address, [...ending, ...gone]));
  for (const folder of pass.unlisted) if (!folder.isGone) holdUnlisted(ctx, address, folder);
  await drain(ctx);
  for (const { at, generation } of gone) {
    if (ctx.mirror.openUids(at, generation).length > 0) continue;
    releaseUnplaced(ctx, at, generation, 'folder-gone');
    ctx.committer.addFact({ fact: 'folder-gone', ...at });
  }
  const current = pass.folders.map((folder) => renumbered.get(folder)?.pass ?? folder);
  for (const folder of current) await folder.guarded(() => findFlagChanges(ctx, folder));
  await certifyAll(ctx, current);
  certifyUnlisted(ctx, address, pass.unlisted);
  await guard(ctx, { mailbox: address }, async () => {
    await verifyAssumed(ctx, pass.key, address, pass.listed);
    await ctx.committer.flush();
  });
  await noteQuota(ctx, pass.key);
}

/** Compares what older pages show, and returns the folders whose uids were reassigned. */
async function judgeFolders(
  ctx: PassContext,
  folders: readonly FolderPass[],
): Promise<ReadonlyMap<FolderPass, Renumbered>> {
  const renumbered = new Map<FolderPass, Renumbered>();
  for (const folder of folders) {
    if (folder.isEmpty || folder.evidence.isFirst) continue;
    await folder.guarded(async () => {
      if (ctx.policy.full) await folder.sweep();
      else await folder.findDifferences();
      const judged = await judgeFolder(ctx, folder);
      if (judged !== undefined) renumbered.set(folder, judged);
    });
  }
  return renumbered;
}
