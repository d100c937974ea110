import { type Command, Option } from 'commander';
import type { StatsRequest } from '../../../catalog/stats/asked.ts';
import { DIMENSIONS, type Dimension } from '../../../catalog/stats/rows.ts';
import type { Reader } from '../../../engine/archive/reader.ts';
import { accountHosts, savedSearches, withSaved } from '../../../engine/saved-searches.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { parseQuery } from '../../../search/parse.ts';
import { notSearchableText } from '../../../wording/catalog.ts';
import { withReader } from '../../archive-access.ts';
import type { Body, CommandContext } from '../../context.ts';
import { given, wholeNumber } from '../../option-values.ts';
import { refuseUnknown } from '../../unknown-names.ts';
import { printDuplicates, printLargest, printRows, printTotals } from './print-stats.ts';
import { refuseTwoTables, type TableFormat, tableFormatOption } from './table-format.ts';

interface StatsLine {
  readonly by?: Dimension;
  readonly query?: string;
  readonly largest?: boolean;
  readonly duplicates?: boolean;
  readonly limit?: number;
  readonly format: TableFormat;
}

const HELP = `
Counts messages, their bytes, and how many of them are deleted at the service. Years and months are those of your
time zone, by the received date. A message that is in two folders or mailboxes, or has two recipients, counts in
each.

  --by mailbox, folder       where messages are or were last
  --by from, to, domain      addresses of From; of To, Cc and Bcc; domains of From
  --by type                  attachments: messages that have one, distinct contents and their bytes

With --json each line has the query that finds exactly these messages with "mailkeep search". Without --query the
numbers come from sums that the catalog keeps. With it every message found is counted.

--format csv prints CSV (RFC 4180) in UTF-8 with a header line.

EXAMPLES
  mailkeep stats
  mailkeep stats --by year
  mailkeep stats --by from --query 'after:2026' -n 10
  mailkeep stats --by folder --query is:deleted --format csv
  mailkeep stats --largest -n 20`;

/** Lines where the line does not say: of lists that may be as long as the archive. */
const PAGE = 20;
/** Years and months are few, and programs read everything. */
const EVERYTHING = 1_000_000_000;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .addOption(new Option('--by <what>', 'what to count messages by').choices(DIMENSIONS))
    .option('--query <query>', 'only messages that this search finds')
    .addOption(
      new Option('--largest', 'list the largest messages instead').conflicts(['by', 'duplicates']),
    )
    .addOption(
      new Option(
        '--duplicates',
        'list messages that share a Message-ID and differ in their bytes',
      ).conflicts(['by', 'largest']),
    )
    .option(
      '-n, --limit <n>',
      'how many lines to print (default: 20; years, months, JSON and CSV all)',
      wholeNumber(1, 1_000_000),
    )
    .addOption(tableFormatOption())
    .addHelpText('after', HELP)
    .action((options: StatsLine) => chosen((context) => stats(context, options)));
}

async function stats(context: CommandContext, options: StatsLine): Promise<ExitCode> {
  const { output, notices } = context;
  const { by, format } = options;
  refuseTwoTables('stats', format, output.json);
  return withReader(context, async (reader) => {
    const { catalog } = reader;
    const { request, within }: Question =
      options.query === undefined
        ? { request: {}, within: undefined }
        : asked(context, reader, options.query);
    if (request.node !== undefined) {
      const search = { ...request, node: request.node, limit: 1, sort: 'newest' } as const;
      refuseUnknown(catalog.explainSearch(search).unknown, notices);
    }
    const isTime = by === 'year' || by === 'month';
    const isPage = format === 'text' && !output.json && !isTime;
    const limit = options.limit ?? (isPage ? PAGE : EVERYTHING);
    const listed = options.limit ?? PAGE;
    let printed = 1;
    if (options.largest === true)
      printed = await printLargest(catalog.stats.largest(request, listed), format, output);
    else if (options.duplicates === true)
      printed = await printDuplicates(
        catalog.stats.duplicates(request, limit),
        within,
        format,
        output,
      );
    else if (by === undefined) await printTotals(catalog.stats.totals(request), format, output);
    else {
      const rows = catalog.stats.rows(by, request, limit);
      printed = await printRows(by, rows, within, format, output);
    }
    if (printed === 0) notices.say('Nothing found.');
    const pending = catalog.index.pendingCount();
    if (pending > 0) notices.warn(notSearchableText(pending));
    return EXIT.done;
  });
}

/** What is asked for, and the beginning of queries for a part of what `--query` finds. */
interface Question {
  readonly request: StatsRequest;
  readonly within: string | undefined;
}

function asked(context: CommandContext, reader: Reader, text: string): Question {
  const expanded = withSaved(text, () => savedSearches(reader.dataDir));
  const { node, asOf } = parseQuery(expanded, { now: context.now() });
  const request = {
    node,
    accounts: accountHosts(node, context),
    ...given({ asOf: asOf ?? undefined }),
  };
  // A query with `asof:` has no alternatives that brackets must hold together, and `asof:` stands in none.
  return { request, within: asOf === null ? `(${expanded})` : expanded };
}
