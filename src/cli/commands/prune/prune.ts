import type { RetentionSettings } from '../../../config/settings.ts';
import { openReader } from '../../../engine/archive/reader.ts';
import { openWriter, type Writer } from '../../../engine/archive/writer.ts';
import { finishPurge } from '../../../engine/purge/finish-purge.ts';
import { plannedPrune } from '../../../engine/purge/holds.ts';
import { journalPrune } from '../../../engine/purge/journal-prune.ts';
import { settingsOf } from '../../../engine/settings.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import type { PrunePlan } from '../../../retention/collect.ts';
import { readState } from '../../../state/state-file.ts';
import type { CommandContext } from '../../context.ts';
import { planJson, planText } from './prune-report.ts';

/**
 * `mailkeep prune`: tells what may go, or lets go of it.
 *
 * @throws archive-in-use; retention-clock, retention-not-indexed, retention-bad-hold: nothing was changed
 * @throws log-damaged, disk-full and its like, purge-interrupted: the same command goes on
 */
export async function prune(
  context: CommandContext,
  { apply }: { readonly apply: boolean },
): Promise<ExitCode> {
  const settings = settingsOf(context);
  if (!hasPolicy(settings.retention)) {
    context.notices.warn('the configuration has no retention policy: everything is kept');
  }
  if (!apply) {
    const reader = openReader({
      ...context,
      globals: { ...context.globals, data: settings.dataDir },
    });
    const state = readState(settings.dataDir);
    try {
      await tell(context, plannedPrune(context, reader.catalog, state, settings.retention));
      return EXIT.done;
    } finally {
      state?.close();
      reader.close();
    }
  }
  let writer = await openWriter(context, settings.dataDir, settings.archive.codec);
  try {
    // What an earlier run decided comes first, whichever command it was.
    const before = await finishPurge(context, writer);
    if (before?.closed === true)
      writer = await openWriter(context, settings.dataDir, settings.archive.codec);
    const plan = plannedPrune(context, writer.catalog, writer.state, settings.retention);
    const done = plan.prune.length === 0 ? undefined : await carryOut(context, writer, plan);
    await tell(context, plan, {
      segments: (before?.segments ?? 0) + (done?.segments ?? 0),
      bytesFreed: freed(before) + freed(done),
    });
    return EXIT.done;
  } finally {
    await writer.close();
  }
}

function hasPolicy({ endedAfterDays, draftsAfterDays, rules }: RetentionSettings): boolean {
  return [endedAfterDays, draftsAfterDays, ...rules.map((rule) => rule.endedAfterDays)].some(
    (days) => days !== null,
  );
}

async function carryOut(context: CommandContext, writer: Writer, plan: PrunePlan) {
  context.notices.say('Reading the log for what belongs to these messages.');
  await journalPrune(writer, plan, context.signal);
  return finishPurge(context, writer);
}

function freed(done: { readonly bytesBefore: number; readonly bytesAfter: number } | undefined) {
  return done === undefined ? 0 : done.bytesBefore - done.bytesAfter;
}

function tell(
  { output }: CommandContext,
  plan: PrunePlan,
  done?: { readonly segments: number; readonly bytesFreed: number },
): Promise<void> {
  return output.object(planJson(plan, done), () => planText(plan, done));
}
