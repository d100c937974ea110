import type { Command } from 'commander';
import { readState } from '../../catalog/state.ts';
import { archiveStatus, staleMailboxes } from '../archive-status.ts';
import type { Body } from '../command-file.ts';
import { openReader } from '../compose/reader.ts';
import { EXIT } from '../exit-codes.ts';
import { duration } from '../option-values.ts';
import { statusText } from '../status-report.ts';

const HELP = `
How much there is, and when each mailbox was last compared with the service, without asking the service.

With --max-age it ends with 1 when a mailbox was not compared for longer than that (or never), which is
what monitoring wants.

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
              : staleMailboxes(status, now() - maxAge).map(({ address }) => address);
          const fresh =
            maxAge === undefined ? null : stale.length === 0 && status.mailboxes.length > 0;
          await output.object({ ...status, fresh, stale }, () =>
            statusText(status, stale, now(), output.colours),
          );
          return fresh === false ? EXIT.failures : EXIT.done;
        } finally {
          state?.close();
          reader.close();
        }
      }),
    );
}
