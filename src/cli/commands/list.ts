import { type Command, Option } from 'commander';
import type { Body } from '../command-file.ts';
import { openReader } from '../compose/reader.ts';
import { EXIT } from '../exit-codes.ts';
import { moment } from '../moment.ts';
import { wholeNumber } from '../option-values.ts';
import { placeText } from '../place-line.ts';
import { refuseUnknownChoice } from '../unknown-names.ts';

interface ListLine {
  readonly mailbox?: string;
  readonly folder?: string;
  readonly deleted?: boolean;
  readonly held?: boolean;
  readonly asOf?: string;
  readonly limit?: number;
}

const HELP = `
One line for each place of a message, newest first: date, id, N when unread, * when flagged, sender,
subject, folder. A message in two folders has two lines with one id.

T is a date (2026-03-01, which is its end), an ISO time, or a span such as 3d, so long ago. As of a moment,
what is listed is what the archive had observed until then.

EXAMPLES
  mailkeep list --folder INBOX --limit 20
  mailkeep list --mailbox anna@example.org --deleted
  mailkeep list --as-of 2026-03-01 --json`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .option('--mailbox <address>', 'only this mailbox (address or resource id)')
    .option('--folder <path>', 'only this folder')
    .option('--deleted', 'what is no longer at the service, instead of what is')
    .addOption(
      new Option(
        '--held',
        'messages held by the brake, though the service no longer shows it',
      ).conflicts(['deleted', 'asOf']),
    )
    .option('--as-of <T>', 'what there was at that time')
    .option('--limit <n>', 'how many places to print; all, if not said', wholeNumber(1, 1_000_000))
    .addHelpText('after', HELP)
    .action((options: ListLine) =>
      chosen(async (context) => {
        const { output, notices } = context;
        const asOf =
          options.asOf === undefined ? undefined : moment('--as-of', options.asOf, context.now());
        const reader = openReader(context);
        try {
          refuseUnknownChoice(reader, options);
          let listed = 0;
          const places = reader.catalog.list({
            ...(options.mailbox === undefined ? {} : { mailbox: options.mailbox }),
            ...(options.folder === undefined ? {} : { folder: options.folder }),
            deleted: options.deleted ?? false,
            held: options.held ?? false,
            ...(asOf === undefined ? {} : { asOf }),
          });
          for (const place of places) {
            if (context.signal.aborted) return EXIT.interrupted;
            listed += 1;
            await output.line(place, () => placeText(place, output));
            if (listed === options.limit) break;
          }
          if (listed === 0) {
            const kind =
              options.deleted === true ? 'deleted ' : options.held === true ? 'held ' : '';
            notices.say(`No ${kind}messages.`);
          }
          return EXIT.done;
        } finally {
          reader.close();
        }
      }),
    );
}
