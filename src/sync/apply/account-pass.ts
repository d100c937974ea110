import { forecast } from '../plan/forecast.ts';
import { fetchFirstPart } from './first-part.ts';
import type { FolderPass } from './folder-pass.ts';
import { finishMailbox, type MailboxPass, openMailbox, readNewestPages } from './mailbox-pass.ts';
import { noteMailboxes, recentMailboxes } from './memory/listed-mailboxes.ts';
import { noteUnwatchedMailboxes } from './memory/unwatched.ts';
import { guard, type PassContext } from './pass-context.ts';
import type { OriginMailbox } from './ports.ts';
import { surveyAccount, type Wanted } from './survey.ts';
import { noteQuota, recalledMeanSize } from './walk/note-quota.ts';
import { noteUsages, refusalByName } from './walk/note-usages.ts';
import { reconsiderSearch } from './walk/walk.ts';

/** Mailboxes in a group: the newest mail of all of them comes before the backlog of any. */
const MAILBOXES_TOGETHER = 20;
/** More remaining messages than this are worth a forecast. */
const WORTH_A_FORECAST = 200;
/** The mailboxes with the most remaining messages, whose quotas show mean sizes: asked once a day in any case. */
const ASKED_MAILBOXES = 5;
/** The largest folders of the other mailboxes, whose newest pages show mean sizes. */
const SAMPLED_FOLDERS = 5;

/**
 * Runs one pass over an account: for each group of mailboxes the folders, what is new, the backlog, what is gone, and
 * finally what the answers prove. A mailbox or folder that fails is reported and does not stop the rest; what would
 * fail for all of them (a refused token, an unreachable host, a full disk) ends the pass.
 */
export async function passAccount(ctx: PassContext, wanted: Wanted): Promise<void> {
  reconsiderSearch(ctx.memory, ctx.origin.host, ctx.startedAt);
  const mailboxes = recentMailboxes(ctx, wanted) ?? (await askMailboxes(ctx, wanted));
  // First, so that a mailbox that the pass does not get to is in the result as one that was not compared.
  for (const { address } of mailboxes) ctx.ledger.count(address, 'folders', 0);
  await noteUsages(ctx, mailboxes);
  for (let from = 0; from < mailboxes.length; from += MAILBOXES_TOGETHER) {
    const group = mailboxes.slice(from, from + MAILBOXES_TOGETHER);
    await passGroup(ctx, group, wanted, mailboxes.length);
  }
}

async function askMailboxes(ctx: PassContext, wanted: Wanted): Promise<readonly OriginMailbox[]> {
  const { mailboxes, listed } = await surveyAccount(ctx, wanted);
  noteMailboxes(ctx, wanted, listed);
  noteUnwatchedMailboxes(ctx, listed, wanted);
  return mailboxes;
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
      const pass = await openMailbox(ctx, mailbox, wanted).catch(async (error: unknown) => {
        throw await refusalByName(ctx, mailbox, group, error);
      });
      passes.push(pass);
    });
  }
  await announceForecast(ctx, passes, mailboxes);
  for (const pass of passes) {
    const { address } = pass.mailbox;
    ctx.ledger.report({ event: 'mailbox-started', address, messages: remaining(pass.folders) });
    await readNewestPages(pass);
  }
  await fetchFirstPart(
    ctx,
    passes.flatMap(({ folders }) => folders),
  );
  for (const pass of passes) {
    await finishMailbox(ctx, pass);
    ctx.ledger.report({ event: 'mailbox-finished', address: pass.mailbox.address });
  }
}

function remaining(folders: readonly FolderPass[]): number {
  return folders.reduce((sum, folder) => sum + folder.remaining, 0);
}

/** Reports the remaining work when it is more than a few messages; the pages it samples serve the pass later. */
async function announceForecast(
  ctx: PassContext,
  passes: readonly MailboxPass[],
  mailboxes: number,
): Promise<void> {
  const folders = passes.flatMap((pass) => pass.folders);
  if (remaining(folders) < WORTH_A_FORECAST) return;
  const means = await askMeanSizes(ctx, passes);
  const largest = passes
    .filter((pass) => !means.has(pass))
    .flatMap((pass) => pass.folders)
    .filter((folder) => folder.remaining > 0 && !folder.isBackwards)
    .sort((a, b) => b.remaining - a.remaining)
    .slice(0, SAMPLED_FOLDERS);
  const sizes = { count: 0, bytes: 0 };
  for (const folder of largest) {
    // A folder that fails here fails again, and is reported, when its turn comes.
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
          meanBytes: means.get(pass),
        })),
      ),
      sizes,
      requestsPerMinute: ctx.origin.requestsPerMinute(),
    }),
  });
}

/** Returns the mean message size of large mailboxes with nothing stored. Elsewhere, the rest may differ from the mean. */
async function askMeanSizes(
  ctx: PassContext,
  passes: readonly MailboxPass[],
): Promise<ReadonlyMap<MailboxPass, number>> {
  const means = new Map<MailboxPass, number>();
  const most = passes
    .map((pass) => ({ pass, messages: remaining(pass.folders) }))
    .filter(({ messages }) => messages > 0)
    .sort((a, b) => b.messages - a.messages)
    .slice(0, ASKED_MAILBOXES);
  for (const { pass } of most) {
    await noteQuota(ctx, pass.key);
    const isUntouched = pass.folders.every(
      ({ listed, remaining: ahead }) => ahead === listed.messageCount,
    );
    const mean = isUntouched ? recalledMeanSize(ctx.memory, pass.key) : undefined;
    if (mean !== undefined) means.set(pass, mean);
  }
  return means;
}
