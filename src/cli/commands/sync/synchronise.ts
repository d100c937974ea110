import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import packageJson from '../../../../package.json' with { type: 'json' };
import { realFiles } from '../../../archive/files/real-files.ts';
import { isUnused } from '../../../archive/read/format-file.ts';
import type { AccountSettings, Settings } from '../../../config/settings.ts';
import { findControlSocket } from '../../../daemon/control-path.ts';
import { type EventLog, openLog } from '../../../daemon/pass-log.ts';
import { openWriter, type Writer } from '../../../engine/archive/writer.ts';
import { syncAccounts } from '../../../engine/pass/make-pass.ts';
import { type OpenAccounts, withAccounts } from '../../../engine/pass/open-pass.ts';
import { chosenAccounts, type Narrowing, wantedOf } from '../../../engine/pass/selection.ts';
import { settingsOf } from '../../../engine/settings.ts';
import type { ExitCode } from '../../../errors/exit-codes.ts';
import { readDamage, recalledVerification } from '../../../health/verification.ts';
import { catalogMirror } from '../../../sync/apply/catalog-mirror.ts';
import { planSync } from '../../../sync/plan-sync.ts';
import type { ProgressListener } from '../../../sync/progress.ts';
import type { CommandContext } from '../../context.ts';
import { showProgress } from '../../progress/sync-progress.ts';
import { printPlan, printResult } from './print-result.ts';

/** What of `sync` goes to a daemon. */
export interface HandedOver extends Narrowing {
  readonly full: boolean;
  readonly dryRun: boolean;
  readonly acceptEndings: boolean;
  readonly log: boolean;
}

/**
 * Has a running daemon make the pass, which begins after this call; null where no daemon has the archive. Its accounts
 * and limits are the daemon's own. Interrupted, only the waiting ends.
 *
 * @throws usage-option for names that the configuration leaves out; what goes wrong in the daemon
 */
export async function handOver(
  context: CommandContext,
  settings: Settings,
  chosen: readonly AccountSettings[],
  command: HandedOver,
): Promise<ExitCode | null> {
  const socket = findControlSocket(settings.dataDir);
  if (socket === null) return null;
  const { account, mailboxes, folders, full, dryRun, acceptEndings } = command;
  wantedOf(chosen, command);
  const log = await openLog(context.notices.stream, command.log ? settings.log.level : 'silent');
  const shown = command.log
    ? { listen: log.progress, stop: () => {} }
    : await showProgress(context.notices, context.now, settings.rateLimit.requestsPerMinute);
  const { askSync } = await import('../../../daemon/control-client.ts');
  const message = {
    account,
    mailboxes: [...mailboxes],
    folders: [...folders],
    full,
    dryRun,
    acceptEndings,
  };
  const options = {
    version: packageJson.version,
    progress: shown.listen,
    signal: context.signal,
  };
  let answer: Awaited<ReturnType<typeof askSync>>;
  try {
    answer = await askSync(socket, message, options);
  } finally {
    shown.stop();
  }
  if (answer === null) return null;
  const { dataDir } = settings;
  if ('plan' in answer) return printPlan(context, answer.plan, readDamage(dataDir));
  log.result(answer.result);
  return printResult(context, command, answer.result, { dataDir, damage: readDamage(dataDir) });
}

/** A pass of a command with its services open, and what shows how it goes. */
export interface ShownPass extends OpenAccounts {
  readonly progress: ProgressListener;
  /** Clears the progress: to be called before a result is printed. */
  readonly stopProgress: () => void;
  readonly events: EventLog;
}

/**
 * Opens the services of the chosen accounts for as long as `act` takes. Progress goes to standard error, or a log of
 * JSON Lines instead.
 */
export async function withOrigins<T>(
  context: CommandContext,
  settings: Settings,
  chosen: readonly AccountSettings[],
  narrowing: Narrowing,
  writer: Writer,
  logged: boolean,
  act: (open: ShownPass) => Promise<T>,
): Promise<T> {
  const events = await openLog(context.notices.stream, logged ? settings.log.level : 'silent');
  const shown = logged
    ? { listen: events.progress, stop: () => {} }
    : await showProgress(context.notices, context.now, settings.rateLimit.requestsPerMinute);
  const listeners = { progress: shown.listen, request: events.request };
  try {
    return await withAccounts(context, settings, chosen, narrowing, writer, listeners, (open) =>
      act({ ...open, progress: shown.listen, stopProgress: () => shown.stop(), events }),
    );
  } finally {
    shown.stop();
  }
}

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
  return printPlan(context, plan, recalledVerification(writer.state)?.damage ?? null);
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
  return printResult(context, command, result, { dataDir, damage });
}
