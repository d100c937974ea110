import type { Command } from 'commander';
import { locateDataDir } from '../../../config/located-fields.ts';
import type { Settings } from '../../../config/settings.ts';
import { allowsNetwork } from '../../../engine/archive/archive-folder.ts';
import { settingsOf } from '../../../engine/settings.ts';
import { combinedExit, type ExitCode } from '../../../errors/exit-codes.ts';
import { MailkeepError } from '../../../errors/mailkeep-error.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import type { Body, CommandContext } from '../../context.ts';
import { accountChecks } from './account-checks.ts';
import { archiveChecks } from './archive-checks.ts';
import { type Check, failed, well } from './check.ts';
import { copyChecks } from './copy-checks.ts';

const HELP = `
Checks everything that a sync needs, and prints one line for each check, with what to do if it fails. It checks the
configuration; the archive's file system, free space, write access, log, lock and last verification; how old the
copies of the configuration are, and whether they fail; and for each account the token, the service, the clocks
and the webhooks. It leaves nothing behind, and takes about five requests for each account.

The exit code is 0 if nothing failed, even with warnings; otherwise it is the code of a sync.

EXAMPLES
  mailkeep doctor
  mailkeep doctor --json | jq '.checks[] | select(.state != "ok")'`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command.addHelpText('after', HELP).action(() => chosen(examine));
}

/** `mailkeep doctor`: looks at everything that a sync needs, and says what to do about what is amiss. */
async function examine(context: CommandContext): Promise<ExitCode> {
  const { output, surroundings } = context;
  const checks: Check[] = [];
  const settings = configuration(context, checks);
  const dataDir = settings?.dataDir ?? fallbackDataDir(context);
  if (dataDir !== null) {
    const least = settings?.minFreeBytes ?? 0;
    const allowed = allowsNetwork(surroundings.env);
    checks.push(...(await archiveChecks(dataDir, least, allowed, context.now())));
    checks.push(...copyChecks(dataDir, settings?.copies ?? [], context.now()));
  }
  for (const account of settings?.accounts ?? []) {
    if (settings !== null) checks.push(...(await accountChecks(context, settings, account)));
  }
  const exit = combinedExit(checks.map((check) => check.exit));
  const shown = checks.map(({ exit: _, ...check }) => check);
  await output.object({ ok: exit === 0, checks: shown }, () =>
    checks.map((check) => lineOf(check, output.colours)).join('\n'),
  );
  return exit;
}

function configuration(context: CommandContext, checks: Check[]): Settings | null {
  try {
    const settings = settingsOf(context);
    const message = `${settings.file} is in order.`;
    checks.push(well({ name: 'config', about: null, message }));
    return settings;
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    checks.push(failed('config', null, error));
    return null;
  }
}

/** Where the archive is, when the rest of the configuration is wrong. */
function fallbackDataDir({ globals, surroundings }: CommandContext): string | null {
  try {
    return locateDataDir(globals, surroundings);
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    // Reported already: the configuration cannot be read.
    return null;
  }
}

const MARK = { ok: 'ok', warning: 'warning', failed: 'FAILED', skipped: '-' } as const;

function lineOf(check: Check, colours: CommandContext['output']['colours']): string {
  const { name, about, state, message, remedy } = check;
  const paint = {
    ok: colours.green,
    warning: colours.yellow,
    failed: colours.red,
    skipped: colours.dim,
  };
  const where = about === null ? name : `${name} (${terminalLine(about)})`;
  const advice = remedy === null || state === 'ok' ? '' : ` ${terminalLine(remedy)}`;
  return `${paint[state](MARK[state].padEnd(8))}${where}: ${terminalLine(message)}${advice}`;
}
