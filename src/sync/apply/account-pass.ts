import { forecast } from '../plan/forecast.ts';
import { ahead, takeFirst } from './first-part.ts';
import { finishMailbox, guard, type MailboxPass, openMailbox, takeNewest } from './mailbox-pass.ts';
import { byName } from './memory/suspended.ts';
import { noteMailboxes, recentMailboxes } from './memory/unreachable.ts';
import { noteUnwatchedMailboxes } from './memory/unwatched.ts';
import type { PassContext } from './pass-context.ts';
import type { OriginMailbox } from './ports.ts';
import { surveyAccount, type Wanted } from './survey.ts';
import { noteQuota, recalledMeanSize } from './walk/note-quota.ts';
import { noteUsages } from './walk/note-usages.ts';
import { reconsiderSearch } from './walk/walk.ts';

/** Mailboxes that are looked at together: their newest mail comes before anybody's backlog. */
const MAILBOXES_TOGETHER = 20;
/** More than this ahead is worth a word before it starts. */
const WORTH_A_FORECAST = 200;
/** The mailboxes with most ahead, whose quotas tell how large messages are: asked once a day in any case. */
const ASKED_MAILBOXES = 5;
/** The largest folders of others, whose newest pages tell it. */
const SAMPLED_FOLDERS = 5;

/**
 * One pass over an account: for each group of mailboxes the folders, what is new, the backlog, what ended, and
 * at last what the answers prove. A mailbox or folder that fails is named and does not stop the rest; what would
 * fail for all of them (a refused token, an unreachable host, a full disk) ends the pass.
 */
export async function passAccount(ctx: PassContext, wanted: Wanted): Promise<void> {
  reconsiderSearch(ctx.memory, ctx.origin.host, ctx.startedAt);
  const mailboxes = recentMailboxes(ctx, wanted) ?? (await askMailboxes(ctx, wanted));
  // First, so that a mailbox that the pass does not get to is in the result as one that was not compared.
  for (const { address } of mailboxes) ctx.ledger.count(address, 'folders', 0);
  await noteUsages(ctx, mailboxes);
  for (let from = 0; from < mailboxes.length; from += MAILBOXES_TOGETHER) {
    await passGroup(
      ctx,
      mailboxes.slice(from, from + MAILBOXES_TOGETHER),
      wanted,
      mailboxes.length,
    );
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
        throw await byName(ctx, mailbox, group, error);
      });
      passes.push(pass);
    });
  }
  await announceForecast(ctx, passes, mailboxes);
  for (const pass of passes) {
    ctx.progress({
      event: 'mailbox-started',
      account: ctx.account,
      address: pass.mailbox.address,
      messages: pass.folders.reduce((sum, folder) => sum + ahead(ctx, folder), 0),
    });
    await takeNewest(ctx, pass);
  }
  await takeFirst(
    ctx,
    passes.flatMap(({ folders }) => folders),
  );
  for (const pass of passes) {
    await finishMailbox(ctx, pass);
    const { address } = pass.mailbox;
    ctx.progress({ event: 'mailbox-finished', account: ctx.account, address });
  }
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
  const means = await askMeanSizes(ctx, passes);
  const largest = passes
    .filter((pass) => !means.has(pass))
    .flatMap((pass) => pass.folders)
    .filter((folder) => ahead(ctx, folder) > 0 && !folder.isBackwards(ctx))
    .sort((a, b) => ahead(ctx, b) - ahead(ctx, a))
    .slice(0, SAMPLED_FOLDERS);
  const sizes = { count: 0, bytes: 0 };
  for (const folder of largest) {
    // A folder that fails here fails again, and is named, when its turn comes.
    const page = await folder.head(ctx).catch((error: unknown) => {
      ctx.signal.throwIfAborted();
      if (error instanceof Error) return { items: [] };
      throw error;
    });
    for (const { size } of page.items) {
      sizes.count += 1;
      sizes.bytes += size;
    }
  }
  ctx.progress({
    event: 'forecast',
    account: ctx.account,
    forecast: forecast({
      mailboxes,
      folders: passes.flatMap((pass) =>
        pass.folders.map((folder) => ({
          messages: folder.listed.messageCount,
          known: folder.listed.messageCount - ahead(ctx, folder),
          meanBytes: means.get(pass),
        })),
      ),
      sizes,
      requestsPerMinute: ctx.requestsPerMinute,
    }),
  });
}

async function askMeanSizes(
  ctx: PassContext,
  passes: readonly MailboxPass[],
): Promise<ReadonlyMap<MailboxPass, number>> {
  const means = new Map<MailboxPass, number>();
  const most = passes
    .map((pass) => ({
      pass,
      messages: pass.folders.reduce((sum, folder) => sum + ahead(ctx, folder), 0),
    }))
    .filter(({ messages }) => messages > 0)
    .sort((a, b) => b.messages - a.messages)
    .slice(0, ASKED_MAILBOXES);
  for (const { pass } of most) {
    await noteQuota(ctx, pass.key);
    const mean = recalledMeanSize(ctx.memory, pass.key);
    if (mean !== undefined) means.set(pass, mean);
  }
  return means;
}
