import { syncError } from '../../errors/sync.ts';
import type { ListedFolder, MailboxKey } from '../../mail/words.ts';
import { openPlaces } from '../plan/folder-sums.ts';
import type { FolderCertificate } from '../result.ts';
import { certify } from './ends/certify.ts';
import { type EndingFolder, settleEndings } from './ends/endings.ts';
import { judgeFolder, type Renumbered } from './ends/judge-folder.ts';
import { releaseForgotten } from './ends/release-forgotten.ts';
import { releaseQuarantined } from './ends/release-quarantined.ts';
import { brokeWhileAnswering, concernsOnly } from './failure-scope.ts';
import { findRenames } from './find-renames.ts';
import { FolderPass } from './folder-pass.ts';
import { goneFolders, noteListing } from './memory/listing-memory.ts';
import { noteProof } from './memory/proof.ts';
import { isQuiet } from './memory/rhythm.ts';
import { noteUnwatchedFolders } from './memory/unwatched.ts';
import type { PassContext } from './pass-context.ts';
import type { OriginMailbox, OriginPage } from './ports.ts';
import { surveyMailbox, type Wanted } from './survey.ts';
import { findFlagChanges } from './walk/flag-changes.ts';
import { noteQuota } from './walk/note-quota.ts';
import { noteAnswered } from './walk/note-usages.ts';
import { verifyAssumed } from './walk/verify-assumed.ts';

/** A look at the newest page that is older than this when the walk ends is worth another: one minute. */
const LONG_WALK_MS = 60_000;
/** Mail that arrives during a long walk is looked for again this often before the pass ends. */
const CERTIFYING_ROUNDS = 3;

/** One mailbox in one pass. */
export interface MailboxPass {
  readonly mailbox: OriginMailbox;
  readonly key: MailboxKey;
  /** The folders that are asked in this pass. */
  readonly folders: readonly FolderPass[];
  /** Folders that two complete listings, a pass apart, do not show any more. */
  readonly gone: readonly EndingFolder[];
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
  noteAnswered(ctx.memory, key);
  ctx.ledger.open(mailbox.address, folders.length);
  ctx.ledger.exclude(mailbox.address, excluded);
  if (!all.complete) {
    const shown = all.folders.length;
    const withoutPath = all.withoutPath ?? 0;
    const error =
      withoutPath > 0
        ? syncError('sync.folder-without-path', { withoutPath, shown })
        : syncError('sync.folders-incomplete', { shown });
    ctx.ledger.fail(error, { mailbox: mailbox.address });
  }
  if (ctx.mirror.mailboxAddress(key) !== mailbox.address) {
    ctx.committer.addFact({ fact: 'mailbox', ...key, address: mailbox.address });
  }
  const pages = all.complete
    ? await findRenames(ctx, key, all.folders)
    : new Map<string, OriginPage>();
  const gone = goneFolders(ctx, key, all, wanted);
  noteListing(ctx, key, all);
  noteUnwatchedFolders(ctx, key, wanted);
  const passes = folders.flatMap((folder) =>
    openFolder(ctx, key, folder, mailbox.address, pages.get(folder.path)),
  );
  const openBefore = new Map(
    passes.map(({ at }) => [at.folder, openPlaces(ctx.mirror.sumsOf(at))]),
  );
  const listed = new Set(all.folders.map(({ path }) => path));
  return { mailbox, key, folders: passes, gone, openBefore, listed };
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

/** The newest page of every folder: new mail first, before anybody's backlog. */
export async function takeNewest(ctx: PassContext, { folders }: MailboxPass): Promise<void> {
  for (const folder of folders) {
    if (folder.isEmpty(ctx) || folder.isBackwards(ctx)) continue;
    await guardFolder(ctx, folder, () => folder.takeHead(ctx));
  }
}

/** The backlog, then what ended, then older flags, then what all answers prove. */
export async function finishMailbox(ctx: PassContext, pass: MailboxPass): Promise<void> {
  for (const folder of pass.folders) {
    await guardFolder(ctx, folder, () => folder.takeQuarantined(ctx));
    if (!folder.isEmpty(ctx)) await guardFolder(ctx, folder, () => folder.takeBacklog(ctx));
  }
  for (const folder of pass.folders) {
    await guardFolder(ctx, folder, () => folder.takePostponed(ctx));
  }
  await drain(ctx);
  const renumbered = new Map<FolderPass, Renumbered>();
  for (const folder of pass.folders) {
    if (folder.isEmpty(ctx) || folder.isFirst) continue;
    await guardFolder(ctx, folder, async () => {
      if (ctx.policy.full) await folder.sweep(ctx);
      else await folder.findDifferences(ctx);
      const judged = await judgeFolder(ctx, folder);
      if (judged !== undefined) renumbered.set(folder, judged);
    });
  }
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
  await guard(ctx, { mailbox: pass.mailbox.address }, () =>
    settleEndings(ctx, pass.mailbox.address, [...ending, ...pass.gone]),
  );
  await drain(ctx);
  for (const { at, generation } of pass.gone) {
    if (ctx.mirror.openUids(at, generation).length > 0) continue;
    releaseQuarantined(ctx, at, generation);
    releaseForgotten(ctx, at, generation, 'folder-gone');
    ctx.committer.addFact({ fact: 'folder-gone', ...at });
  }
  const current = pass.folders.map((folder) => renumbered.get(folder)?.pass ?? folder);
  for (const folder of current) await guardFolder(ctx, folder, () => findFlagChanges(ctx, folder));
  await certifyAll(ctx, current);
  await guard(ctx, { mailbox: pass.mailbox.address }, async () => {
    await verifyAssumed(ctx, pass.key, pass.mailbox.address, pass.listed);
    await ctx.committer.flush();
  });
  await noteQuota(ctx, pass.key);
}

/** Waits until everything that was asked for is durable. */
async function drain(ctx: PassContext): Promise<void> {
  await ctx.queue.onIdle();
  ctx.signal.throwIfAborted();
  await ctx.committer.flush();
}

/** Certifies each folder; what a long walk has missed at the top is fetched first. */
async function certifyAll(ctx: PassContext, folders: readonly FolderPass[]): Promise<void> {
  let open = folders;
  for (let round = 1; open.length > 0; round += 1) {
    await drain(ctx);
    const again: FolderPass[] = [];
    for (const folder of open) {
      folder.saveCoverage(ctx);
      const certificate = certify(ctx, folder);
      if (round < CERTIFYING_ROUNDS && isWorthAnotherLook(ctx, folder, certificate)) {
        again.push(folder);
      } else {
        ctx.ledger.certificates.push(certificate);
        if (!folder.failed) ctx.ledger.count(folder.address, 'compared', 1);
        mindIncomplete(ctx, folder, noteProof(ctx, folder, certificate));
      }
    }
    for (const folder of again) {
      await guardFolder(ctx, folder, async () => {
        folder.forgetHead();
        await folder.takeHead(ctx);
        await folder.takeBacklog(ctx);
      });
    }
    open = again;
  }
}

/** A folder whose sums do not add up once has changed under the pass; twice in a row, something is wrong. */
function mindIncomplete(ctx: PassContext, folder: FolderPass, times: number): void {
  if (times < 2) return;
  const { total } = folder;
  const error = syncError('sync.does-not-add-up', { total, times });
  ctx.ledger.fail(error, { mailbox: folder.address, folder: folder.at.folder });
}

/** Counts that moved during the walk, or a look at the newest mail that a long walk has made old. */
function isWorthAnotherLook(
  ctx: PassContext,
  folder: FolderPass,
  certificate: FolderCertificate,
): boolean {
  if (folder.failed || folder.isEmpty(ctx)) return false;
  if (ctx.now() - folder.lookedAt > LONG_WALK_MS) return true;
  return !certificate.complete && folder.isFirst;
}

/** Acts on a folder unless it has failed before; names it when it fails now. */
export async function guardFolder(
  ctx: PassContext,
  folder: FolderPass,
  act: () => Promise<void>,
): Promise<void> {
  if (folder.failed) return;
  const done = await guard(ctx, { mailbox: folder.address, folder: folder.at.folder }, act);
  folder.failed = !done;
}

/**
 * Lets the rest go on when one mailbox or folder fails by itself, and names it; everything else ends the pass.
 * Returns whether it was done.
 */
export async function guard(
  ctx: PassContext,
  at: { readonly mailbox: string; readonly folder?: string },
  act: () => Promise<void>,
): Promise<boolean> {
  try {
    await act();
    return true;
  } catch (error) {
    ctx.signal.throwIfAborted();
    if (!concernsOnly(error)) throw error;
    if (brokeWhileAnswering(error)) ctx.trouble.met(error);
    ctx.ledger.fail(error, at);
    return false;
  }
}
