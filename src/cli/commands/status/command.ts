import type { Command } from 'commander';
import type { Reader } from '../../../engine/archive/reader.ts';
import { archiveStatus } from '../../../engine/status/archive-status.ts';
import { combinedExit, EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { copyStatuses } from '../../../health/copies.ts';
import { staleMailboxes } from '../../../health/facts.ts';
import { readState } from '../../../state/state-file.ts';
import { withReader } from '../../archive-access.ts';
import type { Body, CommandContext } from '../../context.ts';
import { duration } from '../../option-values.ts';
import { copyLines } from './copy-lines.ts';
import {
  daemonLines,
  NEVER_COMPARED,
  runningDaemon,
  statusText,
  wrongLines,
} from './status-report.ts';

const HELP = `
Shows how much the archive holds, when its bytes were last verified, and when each mailbox was last compared
with the service. Reads only the archive, and never contacts the service.

While a daemon runs, its schedules, its queue and the freshness it achieves are shown as well.

The last verification is shown with its age, what it read and what it found. Damage exits with code 3 until a
repair, or a clean verification that read the damaged bytes again, clears it.

Copies are shown with their age and with what they lack. Damage that reading one back found exits with code 3
until all of it is found intact.

With --max-age, the exit code is 1 if a mailbox was not compared for longer than that (or never), or if a copy of
the daemon is stale: it lacks commits, and three of its intervals have passed. That is for monitoring; with --quiet as well, only what is wrong is printed. Mailboxes and folders that the configuration no longer includes are unwatched, and never stale.

EXAMPLES
  mailkeep status
  mailkeep status --max-age 26h --quiet || notify-me`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .option('--max-age <duration>', 'exit with code 1 if a mailbox is older than that', duration)
    .addHelpText('after', HELP)
    .action((options: { readonly maxAge?: number }) =>
      chosen((context) =>
        withReader(context, (reader) => printStatus(context, reader, options.maxAge)),
      ),
    );
}

async function printStatus(
  { output, now, globals }: CommandContext,
  reader: Reader,
  maxAge: number | undefined,
): Promise<ExitCode> {
  const state = readState(reader.dataDir);
  try {
    const status = archiveStatus(reader, state);
    const copies = copyStatuses(state, status.commit.number, now());
    const old = maxAge === undefined ? [] : staleMailboxes(status.mailboxes, now() - maxAge);
    const stale = old.map(({ address }) => address);
    const isFresh = stale.length === 0 && status.mailboxes.length > 0;
    const fresh = maxAge === undefined ? null : isFresh && !copies.some((copy) => copy.stale);
    const daemon = await runningDaemon(reader.dataDir);
    const { catalogBehind } = reader;
    const text = () => [
      statusText(status, stale, now(), output, globals.data),
      ...copyLines(copies, now(), output.colours),
      ...daemonLines(daemon, now(), output.colours),
      ...(fresh === false && status.mailboxes.length === 0 ? [NEVER_COMPARED] : []),
    ];
    // Under cron every line becomes a mail: a check that finds nothing wrong prints none.
    const lines =
      fresh !== null && globals.quiet ? () => wrongLines(status, copies, fresh, stale) : text;
    if (output.json || lines().length > 0) {
      await output.object({ ...status, copies, catalogBehind, fresh, stale, daemon }, () =>
        lines().join('\n'),
      );
    }
    return combinedExit([
      ...(fresh === false ? [EXIT.failures] : []),
      ...(status.verification?.ok === false ? [EXIT.damage] : []),
      ...(copies.some(({ damage }) => damage !== null) ? [EXIT.damage] : []),
    ]);
  } finally {
    state?.close();
  }
}
