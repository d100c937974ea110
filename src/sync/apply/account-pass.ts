import type { ListedFolder, MailboxKey } from '../../mail/words.ts';
import { forecast } from '../plan/forecast.ts';
import type { FolderCertificate } from '../result.ts';
import { certify } from './certify.ts';
import { concernsOnly } from './failure-scope.ts';
import { FolderPass } from './folder-pass.ts';
import type { PassContext } from './pass-context.ts';
import type { OriginMailbox } from './ports.ts';
import { surveyAccount, surveyMailbox, type Wanted } from './survey.ts';

/** Mailboxes that are looked at together: their newest mail comes before anybody's backlog. */
const MAILBOXES_TOGETHER = 20;
/** More than this ahead is worth a word before it starts. */
const WORTH_A_FORECAST = 200;
/** The largest folders, whose newest pages tell how large messages are. */
const SAMPLED_FOLDERS = 5;
/** A look at the newest page that is older than this when the walk ends is worth another: one minute. */
const LONG_WALK_MS = 60_000;
/** Mail that arrives during a long walk is looked for again this often before the pass ends. */
const CERTIFYING_ROUNDS = 3;

interface MailboxPass {
  readonly mailbox: OriginMailbox;
  readonly folders: readonly FolderPass[];
}

/**
 * One pass over an account: for each group of mailboxes the folders, what is new, the backlog, and at last
 * what the answers prove. A mailbox or folder that fails is named and does not stop the rest; what would
 * fail for all of them (a refused token, an unreachable host, a full disk) ends the pass.
 */
export async function passAccount(ctx: PassContext, wanted: Wanted): Promise<void> {
  const mailboxes = await surveyAccount(ctx, wanted);
  for (let from = 0; from < mailboxes.length; from += MAILBOXES_TOGETHER) {
    await passGroup(
      ctx,
      mailboxes.slice(from, from + MAILBOXES_TOGETHER),
      wanted,
      mailboxes.length,
    );
  }
}

async function passGroup(
  ctx: PassContext,
  group: readonly OriginMailbox[],
  wanted: Wanted,
  mailboxes: number,
): Promise<void> {
  const passes: MailboxPass[] = [];
  for (const mailbox of group) {
    await guard(ctx, { mailbox: mailbox.address }, async () => {
      passes.push(await openMailbox(ctx, mailbox, wanted));
    });
  }
  await announceForecast(ctx, passes, mailboxes);
  for (const { mailbox, folders } of passes) {
    ctx.progress({
      event: 'mailbox-started',
      account: ctx.account,
      address: mailbox.address,
      messages: folders.reduce((sum, folder) => sum + ahead(ctx, folder), 0),
    });
    for (const folder of folders) {
      if (folder.isEmpty(ctx) || folder.isBackwards(ctx)) continue;
      await guardFolder(ctx, folder, () => folder.takeHead(ctx));
    }
  }
  for (const { mailbox, folders } of passes) {
    for (const folder of folders) {
      await guardFolder(ctx, folder, () => folder.takeQuarantined(ctx));
      if (!folder.isEmpty(ctx)) await guardFolder(ctx, folder, () => folder.takeBacklog(ctx));
    }
    await settle(ctx, folders);
    ctx.progress({ event: 'mailbox-finished', account: ctx.account, address: mailbox.address });
  }
}

/** Records which folders of a mailbox are new or have changed, and opens their passes. */
async function openMailbox(
  ctx: PassContext,
  mailbox: OriginMailbox,
  wanted: Wanted,
): Promise<MailboxPass> {
  const { key, folders, excluded } = await surveyMailbox(ctx, mailbox, wanted);
  ctx.ledger.count(mailbox.address, 'folders', folders.length);
  ctx.ledger.exclude(mailbox.address, excluded);
  if (ctx.mirror.mailboxAddress(key) !== mailbox.address) {
    ctx.committer.addFact({ fact: 'mailbox', ...key, address: mailbox.address });
  }
  return {
    mailbox,
    folders: folders.map((folder) => openFolder(ctx, key, folder, mailbox.address)),
  };
}

function openFolder(
  ctx: PassContext,
  key: MailboxKey,
  listed: ListedFolder,
  address: string,
): FolderPass {
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
  return new FolderPass(ctx, at, listed, address, generation);
}

function ahead(ctx: PassContext, folder: FolderPass): number {
  const { stored, assumed, quarantined, held, forgotten } = ctx.mirror.counts(
    folder.at,
    folder.generation,
  );
  const known = stored + assumed + quarantined + held + forgotten;
  return Math.max(0, folder.listed.messageCount - known);
}

/** Says what is ahead when it is more than a few messages; the pages it samples serve the pass later. */
async function announceForecast(
  ctx: PassContext,
  passes: readonly MailboxPass[],
  mailboxes: number,
): Promise<void> {
  const folders = passes.flatMap((pass) => pass.folders);
  const messages = folders.reduce((sum, folder) => sum + ahead(ctx, folder), 0);
  if (messages < WORTH_A_FORECAST) return;
  const largest = folders
    .filter((folder) => ahead(ctx, folder) > 0 && !folder.isBackwards(ctx))
    .sort((a, b) => ahead(ctx, b) - ahead(ctx, a))
    .slice(0, SAMPLED_FOLDERS);
  const sizes = { count: 0, bytes: 0 };
  for (const folder of largest) {
    await guardFolder(ctx, folder, async () => {
      for (const { size } of (await folder.head(ctx)).items) {
        sizes.count += 1;
        sizes.bytes += size;
      }
    });
  }
  ctx.progress({
    event: 'forecast',
    account: ctx.account,
    forecast: forecast({
      mailboxes,
      folders: folders.map((folder) => ({
        messages: folder.listed.messageCount,
        known: folder.listed.messageCount - ahead(ctx, folder),
      })),
      sizes,
      requestsPerMinute: ctx.requestsPerMinute,
    }),
  });
}

/** Waits until everything is durable, then certifies; what a long walk has missed at the top is fetched first. */
async function settle(ctx: PassContext, folders: readonly FolderPass[]): Promise<void> {
  let open = folders;
  for (let round = 1; open.length > 0; round += 1) {
    await ctx.queue.onIdle();
    ctx.signal.throwIfAborted();
    await ctx.committer.flush();
    const again: FolderPass[] = [];
    for (const folder of open) {
      folder.saveCoverage(ctx);
      const certificate = certify(ctx, folder);
      if (round < CERTIFYING_ROUNDS && isWorthAnotherLook(ctx, folder, certificate)) {
        again.push(folder);
      } else {
        ctx.ledger.certificates.push(certificate);
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

/** Counts that moved during the walk, or a look at the newest mail that a long walk has made old. */
function isWorthAnotherLook(
  ctx: PassContext,
  folder: FolderPass,
  certificate: FolderCertificate,
): boolean {
  if (folder.failed || folder.missing + folder.contradicted > 0 || folder.isEmpty(ctx))
    return false;
  return !certificate.complete || ctx.now() - folder.lookedAt > LONG_WALK_MS;
}

async function guardFolder(
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
async function guard(
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
    ctx.ledger.fail(error, at);
    return false;
  }
}
