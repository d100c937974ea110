import { Option } from 'commander';
import type { StatsRequest } from '../../catalog/stats.ts';
import {
  DIMENSIONS,
  type Dimension,
  type DuplicateRow,
  type LargeMessage,
  type StatsRow,
  type Sums,
} from '../../catalog/sums.ts';
import { bytes, count, counted, notSearchableText } from '../../core/text.ts';
import { readQuery, refuseUnknown, withReader } from '../archive.ts';
import { action, type CommandContext, type Flags, type Register, type Values } from '../context.ts';
import { exclude, wholeNumber, withoutUndefined } from '../option-values.ts';
import {
  dateText,
  type Output,
  printCsv,
  refuseTwoFormats,
  senderText,
  shortId,
  tableText,
} from '../output.ts';

type TableFormat = 'text' | 'csv';

interface Column<Row> {
  readonly name: string;
  readonly heading: string;
  readonly value: (row: Row) => string | number | null;
  readonly text?: (row: Row) => string;
}

/**
 * Prints rows as JSON lines, CSV or a table, and returns their number.
 * @param flexible the column that shrinks on narrow terminals
 */
async function printTable<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  flexible: number,
  format: TableFormat,
  output: Output,
): Promise<number> {
  if (output.json) {
    for (const row of rows) await output.line(row, () => '');
    return rows.length;
  }
  if (format === 'csv') {
    await printCsv(output, [
      columns.map(({ name }) => name),
      ...rows.map((row) => columns.map(({ value }) => value(row))),
    ]);
    return rows.length;
  }
  if (rows.length === 0) return 0;
  const cells = rows.map((row) =>
    columns.map(({ value, text }) => text?.(row) ?? String(value(row) ?? '')),
  );
  const headings = columns.map(({ heading }) => heading);
  await output.text(tableText(headings, cells, flexible, output));
  return rows.length;
}

function combineQueries<Row extends { readonly query: string | null }>(
  row: Row,
  within: string | undefined,
): Row {
  return within === undefined || row.query === null
    ? row
    : { ...row, query: `${within} ${row.query}` };
}

const counting = <Name extends 'messages' | 'deleted' | 'contents'>(
  name: Name,
): Column<{ readonly [N in Name]?: number | null }> => ({
  name,
  heading: name,
  value: (row) => row[name] ?? null,
  text: (row) => count(row[name] ?? 0),
});
const MESSAGES = counting('messages');
const BYTES: Column<{ readonly bytes: number | null }> = {
  name: 'bytes',
  heading: 'size',
  value: (row) => row.bytes,
  text: (row) => bytes(row.bytes ?? 0),
};
const LAST: Column<StatsRow> = {
  name: 'last',
  heading: 'last',
  value: ({ last }) => last ?? null,
  text: ({ last }) => (last == null ? '' : dateText(last)),
};

function columnsOf(by: Dimension): readonly Column<StatsRow>[] {
  const key: Column<StatsRow> = { name: by, heading: by, value: (row) => row.key };
  if (by === 'type') return [key, MESSAGES, counting('contents'), BYTES];
  const isPeople = by === 'from' || by === 'to' || by === 'domain';
  return isPeople ? [key, MESSAGES, LAST] : [key, MESSAGES, BYTES, counting('deleted')];
}

async function printTotals(sums: Sums, format: TableFormat, output: Output): Promise<void> {
  if (format === 'csv') {
    const { messages, bytes: size, deleted } = sums;
    return printCsv(output, [
      ['messages', 'bytes', 'deleted'],
      [messages, size, deleted],
    ]);
  }
  await output.object(
    sums,
    () =>
      `${counted(sums.messages, 'message')}, ${bytes(sums.bytes)}, ${count(sums.deleted)} of them deleted at the service.`,
  );
}

const LARGEST: readonly Column<LargeMessage>[] = [
  {
    name: 'bytes',
    heading: 'size',
    value: ({ size }) => size,
    text: ({ size }) => bytes(size),
  },
  { name: 'id', heading: 'id', value: ({ id }) => id, text: ({ id }) => shortId(id) },
  {
    name: 'date',
    heading: 'received',
    value: ({ date }) => date,
    text: ({ date }) => dateText(date),
  },
  {
    name: 'from',
    heading: 'from',
    value: ({ from }) => from?.address ?? null,
    text: ({ from }) => senderText(from),
  },
  { name: 'subject', heading: 'subject', value: ({ subject }) => subject },
];

const DUPLICATES: readonly Column<DuplicateRow>[] = [
  MESSAGES,
  BYTES,
  { name: 'messageId', heading: 'Message-ID', value: ({ messageId }) => messageId },
  { name: 'subject', heading: 'subject', value: ({ subject }) => subject },
];

interface StatsLine extends Flags<'largest' | 'duplicates'>, Values<'query'> {
  readonly by?: Dimension;
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

/** Default number of rows for lists that can be as long as the archive. */
const PAGE = 20;
/** Default number of rows for programs, and for years and months, of which there are few. */
const EVERYTHING = 1_000_000_000;

export const register: Register = (command, run) => {
  command
    .addOption(new Option('--by <what>', 'what to count messages by').choices(DIMENSIONS))
    .option('--query <query>', 'only messages that this search finds')
    .option('--largest', 'list the largest messages instead')
    .option('--duplicates', 'list messages that share a Message-ID and differ in their bytes')
    .option(
      '-n, --limit <n>',
      'how many lines to print (default: 20; years, months, JSON and CSV all)',
      wholeNumber(1, 1_000_000),
    )
    .addOption(
      new Option('--format <format>', 'how to print: text or CSV')
        .choices(['text', 'csv'])
        .default('text'),
    )
    .addHelpText('after', HELP)
    .action(action(run, stats));
  exclude(command, ['largest', 'by', 'duplicates'], ['duplicates', 'by', 'largest']);
};

async function stats(context: CommandContext, options: StatsLine): Promise<void> {
  const { output, notices } = context;
  const { by, format } = options;
  refuseTwoFormats('stats', format, output.json);
  return withReader(context, async (reader) => {
    const { catalog } = reader;
    let request: StatsRequest = {};
    // The query passed with `--query`. Each row's own query starts with it.
    let within: string | undefined;
    if (options.query !== undefined) {
      const { text, query, accounts } = readQuery(context, reader, options.query);
      const { node, asOf } = query;
      const asked = { node, accounts, ...withoutUndefined({ asOf: asOf ?? undefined }) };
      refuseUnknown(catalog.prepare(asked).unknownNames(), notices);
      request = asked;
      // `asof:` is not allowed in brackets. A query with `asof:` has no alternatives, so it needs none.
      within = asOf === null ? `(${text})` : text;
    }
    const isTime = by === 'year' || by === 'month';
    const isPage = format === 'text' && !output.json && !isTime;
    const limit = options.limit ?? (isPage ? PAGE : EVERYTHING);
    const listed = options.limit ?? PAGE;
    let printed = 1;
    if (options.largest === true) {
      const largest = catalog.stats.largest(request, listed);
      printed = await printTable(largest, LARGEST, 4, format, output);
    } else if (options.duplicates === true) {
      const rows = catalog.stats
        .duplicates(request, limit)
        .map((row) => combineQueries(row, within));
      printed = await printTable(rows, DUPLICATES, 3, format, output);
    } else if (by === undefined) await printTotals(catalog.stats.totals(request), format, output);
    else {
      const rows = catalog.stats.rows(by, request, limit);
      const shown = rows.map((row) => combineQueries(row, within));
      printed = await printTable(shown, columnsOf(by), 0, format, output);
    }
    if (printed === 0) notices.say('Nothing found.');
    const pending = catalog.index.pendingCount();
    if (pending > 0) notices.warn(notSearchableText(pending));
  });
}
