import { Option } from 'commander';
import { refuseUnknownFolder } from '../../catalog/open-reader.ts';
import type { HitCount } from '../../catalog/search.ts';
import { EXIT, type ExitCode } from '../../core/errors.ts';
import { warnBeforeFirstCommit, withReader } from '../archive.ts';
import { action, type CommandContext, type Flags, type Register, type Values } from '../context.ts';
import {
  exclude,
  FOLDERS,
  MAILBOXES,
  parseStart,
  parseTime,
  wholeNumber,
  withoutUndefined,
} from '../option-values.ts';
import {
  createCountTimer,
  FORMAT_HELP,
  footerText,
  formatOption,
  LIST_COLUMNS,
  type LineFormat,
  lineWriter,
  placeText,
  refuseTwoFormats,
} from '../output.ts';

type ListLine = Flags<'deleted' | 'held'> &
  Values<'asOf' | 'after' | 'before'> &
  Values<'mailbox' | 'folder', readonly string[]> &
  Values<'limit', number> & { readonly format: LineFormat; readonly sort: 'newest' | 'oldest' };

const HELP = `
Prints one line for each place of a message, newest first: date, id, N if unread, * if flagged, sender,
subject, folder. A message in two folders has two lines with the same id.

T is a date (2026-03-01), an ISO time, or a span such as 3d for that long ago. --as-of takes the end of a
date, and lists what the archive had observed until then. --after and --before take its beginning, as in a
search.

A folder is named by its path, by a pattern with * for any text, or by its purpose: sent, drafts, trash, spam
(or junk), archive, flagged. A path that exists takes precedence over both. With several --mailbox or --folder,
a message is listed if it is in one of the mailboxes and in one of the folders.
${FORMAT_HELP}

EXAMPLES
  mailkeep list --folder INBOX -n 20
  mailkeep list --folder sent --after 2026-01 --sort oldest
  mailkeep list --mailbox anna@example.org --deleted
  mailkeep list --as-of 2026-03-01 --json`;

export const register: Register = (command, run) => {
  command
    .option(...MAILBOXES)
    .option(...FOLDERS)
    .option('--deleted', 'messages deleted at the service, instead of those still there')
    .option('--held', 'pending deletions: messages that the service no longer shows')
    .option('--as-of <T>', 'what existed at that time')
    .option('-n, --limit <n>', 'how many places to print (default: all)', wholeNumber(1, 1_000_000))
    .addOption(
      new Option('--sort <order>', 'order of the places by their received dates')
        .choices(['newest', 'oldest'])
        .default('newest'),
    )
    .option('--after <T>', 'only what was received at that time or later')
    .option('--before <T>', 'only what was received before that time')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(action(run, listPlaces));
  exclude(command, ['held', 'deleted', 'asOf']);
};

async function listPlaces(context: CommandContext, options: ListLine): Promise<ExitCode> {
  const { output, notices, now } = context;
  const { format, sort, limit, deleted = false, held = false, ...rest } = options;
  const { asOf: at, after, before, ...choice } = rest;
  const asOf = at === undefined ? undefined : parseTime('--as-of', at, now());
  const from = after === undefined ? undefined : parseStart('--after', after, now());
  const to = before === undefined ? undefined : parseStart('--before', before, now());
  refuseTwoFormats('list', format, output.json);
  return withReader(context, async (reader) => {
    refuseUnknownFolder(reader, options);
    warnBeforeFirstCommit(reader.catalog, asOf, notices);
    const places = reader.catalog.list({
      ...choice,
      deleted,
      held,
      ...withoutUndefined({ asOf, from, to }),
      sort,
    });
    const print = format === 'text' ? undefined : await lineWriter(format, LIST_COLUMNS, output);
    let listed = 0;
    for (const place of places) {
      if (context.signal.aborted) return EXIT.interrupted;
      if (listed === limit) {
        if (output.interactive && print === undefined)
          notices.say(footerText(listed, countRest(listed + 1, places, now), 'place', '-n'));
        break;
      }
      if (print !== undefined) listed += (await print(place)) ? 1 : 0;
      else {
        await output.line(place, () => placeText(place, output));
        listed += 1;
      }
    }
    if (listed === 0) {
      const kind = deleted ? 'deleted ' : held ? 'held ' : '';
      notices.say(`No ${kind}messages.`);
    }
    return EXIT.done;
  });
}

function countRest(listed: number, rest: Iterable<unknown>, now: () => number): HitCount {
  const mayContinue = createCountTimer(now);
  let count = listed;
  for (const _ of rest) {
    count += 1;
    if (!mayContinue()) return { count, complete: false };
  }
  return { count, complete: true };
}
