import type { SyncResult } from '../sync/result.ts';
import { counted } from './amounts.ts';
import type { CommandContext } from './context.ts';
import { EXIT, type ExitCode } from './exit-codes.ts';
import { exitOfSync, syncReport, troublesOf } from './sync-report.ts';
import { type Narrowing, refuseUnknownNames } from './sync-selection.ts';
import { tell } from './tell.ts';

/** Prints what a pass came to and names what went wrong. @throws usage-unreachable-mailbox, usage-unlisted-folder */
export async function tellResult(
  context: CommandContext,
  command: Narrowing,
  result: SyncResult,
  dataDir: string,
): Promise<ExitCode> {
  refuseUnknownNames(command, result, dataDir);
  const code = exitOfSync(result);
  // Under cron every line becomes a mail: a pass without trouble is none.
  const silent = context.globals.quiet && !context.globals.json && code === EXIT.done;
  if (!silent) await context.output.object(result, () => syncReport(result));
  tellTroubles(context, result);
  return code;
}

/** More sentences than this nobody reads; the result has them all. */
const MOST_TOLD = 20;

/** Names what went wrong on standard error: every failure for people, the one that counts most for programs. */
function tellTroubles({ globals, notices }: CommandContext, result: SyncResult): void {
  const troubles = troublesOf(result);
  for (const trouble of troubles.slice(0, globals.json ? 1 : MOST_TOLD)) {
    tell(notices.stream, globals.json, trouble);
  }
  const more = troubles.length - MOST_TOLD;
  if (more > 0) notices.say(`… and ${counted(more, 'more failure')}; --json has them all.`);
}
