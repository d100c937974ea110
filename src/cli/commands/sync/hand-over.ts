import packageJson from '../../../../package.json' with { type: 'json' };
import type { AccountSettings, Settings } from '../../../config/settings.ts';
import { findControlSocket } from '../../../daemon/control-path.ts';
import { openLog } from '../../../engine/pass/pass-log.ts';
import type { Narrowing } from '../../../engine/pass/selection.ts';
import { wantedOf } from '../../../engine/pass/selection.ts';
import type { ExitCode } from '../../../errors/exit-codes.ts';
import { readDamage } from '../../../health/known-damage.ts';
import type { CommandContext } from '../../context.ts';
import { showProgress } from '../../progress/sync-progress.ts';
import { tellPlan, tellResult } from './tell-result.ts';

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
  if ('plan' in answer) return tellPlan(context, answer.plan, readDamage(dataDir));
  log.result(answer.result);
  return tellResult(context, command, answer.result, { dataDir, damage: readDamage(dataDir) });
}
