import { Option } from 'commander';
import { loadSettings } from '../../catalog/archive-settings.ts';
import { openWriter } from '../../catalog/open-writer.ts';
import type { RetentionSettings } from '../../core/config-schema.ts';
import { bytes, count, counted, KEEP_REASONS, PRUNE_REASONS } from '../../core/text.ts';
import type { KeepReason, PrunePlan, PruneReason, Sum } from '../../verify/prune.ts';
import { finishPurge, journalPrune, preparePrune } from '../../verify/purge.ts';
import { withReader, withState } from '../archive.ts';
import { confirm } from '../ask.ts';
import { action, type CommandContext, type Flags, type Register, refuse } from '../context.ts';
import type { Report } from '../output.ts';

const HELP = `
Shows which messages may be removed, and why the others stay. A message may be removed if it was deleted at the
service longer ago than the configuration says (retention.endedAfterDays, draftsAfterDays, rules), is not
among the newest of its folder (keepAtLeast), and is not on hold. A deletion counts only if a complete
comparison of the folder at least 7 days later confirmed it, and only in mailboxes that an account still
lists. While the clock is behind the last commit, or 30 days ahead of it, nothing is removed. Without
retention in the configuration, nothing is ever removed.

--apply removes the messages permanently, and asks first on a terminal: the purge is recorded, the affected segments are rewritten without
them, and the chain of commits still proves the rest. After an interruption at any moment, the same command
finishes the work.

EXAMPLES
  mailkeep prune
  mailkeep prune --json
  mailkeep prune --apply`;

export const register: Register = (command, run) => {
  command
    .addOption(new Option('--apply', 'remove these messages permanently').conflicts('dryRun'))
    .option('--dry-run', 'only show them (default)')
    .option('--yes', 'with --apply: ask no question')
    .addHelpText('after', HELP)
    .action(action(run, prune));
};

type Done = { readonly segments: number; readonly bytesFreed: number };

/** Sizes are in bytes of message source. */
function planJson({ prune, byReason, kept, left }: PrunePlan, done: Done | undefined) {
  return {
    applied: done !== undefined,
    messages: prune.length,
    bytes: totalBytes(byReason),
    left,
    prune: list(byReason),
    keep: list(kept),
    ...done,
    list: prune.map(({ id, size, reason, subject, places }) => ({
      id,
      size,
      reason,
      subject,
      places: places.map(({ address, folder, uid, endedAt }) => ({
        mailbox: address,
        folder,
        uid,
        ended: endedAt === null ? null : new Date(endedAt).toISOString(),
      })),
    })),
  };
}

function planText(plan: PrunePlan, done: Done | undefined): Report {
  const { prune, byReason, kept, left } = plan;
  const keeps = [...kept.values()].reduce((sum, { messages }) => sum + messages, 0);
  return [
    `${done === undefined ? 'Would prune' : 'Pruned'} ${summaryOf(plan)}.`,
    lines(byReason, PRUNE_REASONS),
    left > 0 && `  ${count(left)} more may go; the next run takes them.`,
    keeps > 0 && `Keeps ${counted(keeps, 'message')} that were deleted everywhere:`,
    lines(kept, KEEP_REASONS),
    done === undefined &&
      prune.length > 0 &&
      'Nothing was changed; --apply removes them permanently.',
    done !== undefined &&
      done.segments > 0 &&
      `${counted(done.segments, 'segment')} rewritten, ${bytes(Math.max(0, done.bytesFreed))} freed. The commit chain is intact; "mailkeep verify" checks it.`,
  ];
}

function summaryOf({ prune, byReason }: PrunePlan): string {
  return `${counted(prune.length, 'message')}, ${bytes(totalBytes(byReason))}`;
}

function lines<R extends PruneReason | KeepReason>(
  sums: ReadonlyMap<R, Sum>,
  words: Readonly<Record<R, string>>,
): string[] {
  return [...sums].map(
    ([reason, { messages, bytes: size }]) =>
      `${count(messages).padStart(8)}  ${bytes(size).padStart(9)}  ${words[reason]}`,
  );
}

function list<R>(sums: ReadonlyMap<R, Sum>) {
  return [...sums].map(([reason, sum]) => ({ reason, ...sum }));
}

function totalBytes(sums: ReadonlyMap<unknown, Sum>): number {
  return [...sums.values()].reduce((sum, { bytes: size }) => sum + size, 0);
}

/**
 * Prints or removes the mail that a retention policy allows to be removed.
 * @throws operation-declined, archive-in-use; retention-clock, retention-not-indexed, retention-bad-hold: nothing was changed
 * @throws log-damaged, disk-full and similar errors, purge-interrupted: run the command again to resume
 */
async function prune(
  context: CommandContext,
  { apply = false, yes = false }: Flags<'apply' | 'yes'>,
): Promise<void> {
  refuse('prune', { '--yes confirms what --apply removes: add --apply.': yes && !apply });
  const settings = loadSettings(context);
  if (!hasPolicy(settings.retention)) {
    context.notices.warn('the configuration has no retention policy: everything is kept');
  }
  if (!apply) {
    const globals = { ...context.globals, data: settings.dataDir };
    return withReader({ ...context, globals }, ({ catalog }) =>
      withState(settings.dataDir, (state) =>
        printPlan(context, preparePrune(context, catalog, state, settings.retention)),
      ),
    );
  }
  const open = () => openWriter(context, settings.dataDir, settings.archive.codec);
  let writer = await open();
  try {
    // Finishes any purge that an earlier command left incomplete.
    const before = await finishPurge(context, writer);
    if (before?.closed === true) writer = await open();
    const plan = preparePrune(context, writer.catalog, writer.state, settings.retention);
    let done: typeof before;
    if (plan.prune.length > 0) {
      const isAsked = !yes && !context.globals.json && context.stdin().isTTY === true;
      if (isAsked)
        await confirm(context, 'prune', [
          `Would prune ${summaryOf(plan)}:`,
          ...lines(plan.byReason, PRUNE_REASONS),
        ]);
      context.notices.say('Reading the log for data of these messages.');
      await journalPrune(writer, plan, context.signal);
      done = await finishPurge(context, writer);
    }
    await printPlan(context, plan, {
      segments: (before?.segments ?? 0) + (done?.segments ?? 0),
      bytesFreed: bytesFreed(before) + bytesFreed(done),
    });
  } finally {
    await writer.close();
  }
}

function hasPolicy({ endedAfterDays, draftsAfterDays, rules }: RetentionSettings): boolean {
  return [endedAfterDays, draftsAfterDays, ...rules.map((rule) => rule.endedAfterDays)].some(
    (days) => days !== null,
  );
}

function bytesFreed(
  done: { readonly bytesBefore: number; readonly bytesAfter: number } | undefined,
) {
  return done === undefined ? 0 : done.bytesBefore - done.bytesAfter;
}

function printPlan({ output }: CommandContext, plan: PrunePlan, done?: Done): Promise<void> {
  return output.object(planJson(plan, done), () => planText(plan, done));
}
