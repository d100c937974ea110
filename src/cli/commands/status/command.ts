import type { Command } from 'commander';
import { openReader } from '../../../engine/archive/reader.ts';
import { archiveStatus } from '../../../engine/status/archive-status.ts';
import { combinedExit, EXIT } from '../../../errors/exit-codes.ts';
import { staleMailboxes } from '../../../health/facts.ts';
import { readState } from '../../../state/state-file.ts';
import type { Body } from '../../context.ts';
import { duration } from '../../option-values.ts';
import { daemonLines, runningDaemon, statusText } from './status-report.ts';

const HELP = `
How much there is, when its bytes were last verified, and when each mailbox was last compared with the service.
Asks the archive only, never the service.

When a daemon runs, its schedules, its queue and the freshness it reaches are shown as well.

The last verification is shown with its age, what it read and what it found. Damage ends with 3 until a repair, or
a clean verification that read the damaged bytes again, clears it.

With --max-age it ends with 1 when a mailbox was not compared for longer than that (or never), which is
what monitoring wants. What the configuration has left out since it was synced is unwatched, and never stale.

EXAMPLES
  mailkeep status
  mailkeep status --max-age 26h --quiet || notify-me`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .option('--max-age <duration>', 'end with 1 when a mailbox is older than that', duration)
    .addHelpText('after', HELP)
    .action((options: { readonly maxAge?: number }) =>
      chosen(async (context) => {
        const { output, now } = context;
        const reader = openReader(context);
        const state = readState(reader.dataDir);
        try {
          const status = archiveStatus(reader, state);
          const { maxAge } = options;
          const stale =
            maxAge === undefined
              ? []
              : staleMailboxes(status.mailboxes, now() - maxAge).map(({ address }) => address);
          const fresh =
            maxAge === undefined ? null : stale.length === 0 && status.mailboxes.length > 0;
          const daemon = await runningDaemon(reader.dataDir);
          const { catalogBehind } = reader;
          await output.object({ ...status, catalogBehind, fresh, stale, daemon }, () =>
            [
              statusText(status, stale, now(), output),
              ...daemonLines(daemon, now(), output.colours),
            ].join('\n'),
          );
          return combinedExit([
            ...(fresh === false ? [EXIT.failures] : []),
            ...(status.verification?.ok === false ? [EXIT.damage] : []),
          ]);
        } finally {
          state?.close();
          reader.close();
        }
      }),
    );
}
