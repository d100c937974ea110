import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { realFiles } from '../../../archive/files/real-files.ts';
import { isUnused } from '../../../archive/read/format-file.ts';
import type { Settings } from '../../../config/settings.ts';
import { openWriter, type Writer } from '../../../engine/archive/writer.ts';
import { chosenAccounts, type Narrowing } from '../../../engine/pass/selection.ts';
import { syncAccounts } from '../../../engine/pass/sync-accounts.ts';
import { settingsOf } from '../../../engine/settings.ts';
import type { ExitCode } from '../../../errors/exit-codes.ts';
import { recalledVerification } from '../../../health/verification.ts';
import { catalogMirror } from '../../../sync/apply/catalog-mirror.ts';
import { planSync } from '../../../sync/plan-sync.ts';
import type { CommandContext } from '../../context.ts';
import { handOver } from './hand-over.ts';
import { tellPlan, tellResult } from './tell-result.ts';
import { type ShownPass, withOrigins } from './with-origins.ts';

export interface SyncCommand extends Narrowing {
  readonly full: boolean;
  readonly dryRun: boolean;
  readonly acceptEndings: boolean;
  /** A log of JSON Lines on standard error instead of progress. */
  readonly log: boolean;
}

/** `mailkeep sync`: one pass over the accounts of the configuration. */
export async function synchronise(
  context: CommandContext,
  command: SyncCommand,
): Promise<ExitCode> {
  const settings = settingsOf(context);
  const chosen = chosenAccounts(settings, command.account);
  const handed = await handOver(context, settings, chosen, command);
  if (handed !== null) return handed;
  const place = command.dryRun ? placeToPlan(settings.dataDir) : { dir: settings.dataDir };
  try {
    const writer = await openWriter(context, place.dir, settings.archive.codec);
    try {
      return await withOrigins(context, settings, chosen, command, writer, command.log, (open) =>
        command.dryRun
          ? planned(context, settings, open, command, writer)
          : passed(context, settings, open, command, writer),
      );
    } finally {
      await writer.close();
    }
  } finally {
    place.leave?.();
  }
}

/** Where there is no archive yet, a plan leaves none: it is made against an empty one elsewhere. */
function placeToPlan(dataDir: string): { readonly dir: string; readonly leave?: () => void } {
  if (!isUnused(realFiles, dataDir)) return { dir: dataDir };
  const dir = mkdtempSync(path.join(tmpdir(), 'mailkeep-plan-'));
  return { dir, leave: () => rmSync(dir, { recursive: true, force: true }) };
}

async function planned(
  context: CommandContext,
  settings: Settings,
  { accounts, stopProgress }: ShownPass,
  { full }: SyncCommand,
  writer: Writer,
): Promise<ExitCode> {
  const plan = await planSync({
    accounts,
    mirror: catalogMirror(writer.catalog),
    memory: writer.state,
    requestsPerMinute: settings.rateLimit.requestsPerMinute,
    full,
    signal: context.signal,
  });
  stopProgress();
  return tellPlan(context, plan, recalledVerification(writer.state)?.damage ?? null);
}

async function passed(
  context: CommandContext,
  settings: Settings,
  { accounts, requests, progress, stopProgress, events }: ShownPass,
  command: SyncCommand,
  writer: Writer,
): Promise<ExitCode> {
  const { dataDir, state } = writer;
  const open = { accounts, requests };
  const result = await syncAccounts(context, writer, settings, open, command, progress);
  events.result(result);
  stopProgress();
  const damage = recalledVerification(state)?.damage ?? null;
  return tellResult(context, command, result, { dataDir, damage });
}
