import { Option } from 'commander';
import { usageError } from '../errors/usage.ts';
import type { PlaceLine, SearchLine } from '../mail/lines.ts';
import { terminalSafe } from '../mail/terminal-safe.ts';
import type { MessageId } from '../mail/words.ts';
import type { Output } from './output.ts';

/** How `list` and `search` print messages, other than as JSON. */
const LINE_FORMATS = ['text', 'ids', 'csv'] as const;
export type LineFormat = (typeof LINE_FORMATS)[number];

/** What the helps of both say about it. */
export const FORMAT_HELP = `
--format ids prints the full id of each message, once, for "mailkeep export --ids -". --format csv prints CSV (RFC
4180) in UTF-8 with a header line. CSV replaces control characters, and puts an apostrophe before text that a
spreadsheet could take for a formula (it begins with = + - or @); --json prints every value unchanged.`;

export function formatOption(): Option {
  return new Option('--format <format>', 'how to print: text, ids only, or CSV')
    .choices(LINE_FORMATS)
    .default('text');
}

/** @throws usage-invalid for two formats at once */
export function refuseTwoFormats(command: string, format: LineFormat, json: boolean): void {
  if (format !== 'text' && json)
    throw usageError('usage-invalid', {
      command,
      problem: `--format ${format} cannot be used with --json.`,
    });
}

type Column<L> = readonly [name: string, value: (line: L) => string | number | null];

const PLACE_COLUMNS: readonly Column<Omit<PlaceLine, 'id'> & { readonly id: string | null }>[] = [
  ['id', ({ id }) => id],
  ['mailbox', ({ mailbox }) => mailbox],
  ['folder', ({ folder }) => folder],
  ['uid', ({ uid }) => uid],
  ['flags', ({ flags }) => flags.join(' ')],
  ['size', ({ size }) => size],
  ['date', ({ date }) => date],
  ['fromName', ({ from }) => from?.name ?? null],
  ['fromAddress', ({ from }) => from?.address ?? null],
  ['subject', ({ subject }) => subject],
  ['messageId', ({ messageId }) => messageId],
  ['firstSeen', ({ firstSeen }) => firstSeen],
  ['endedAt', ({ endedAt }) => endedAt],
];

/** The columns of `list`; where JSON has an object or a list, they are apart or parted by blanks. */
export const LIST_COLUMNS: readonly Column<PlaceLine>[] = PLACE_COLUMNS;
/** The columns of `search`: `places` is how many there are. */
export const SEARCH_COLUMNS: readonly Column<SearchLine>[] = [
  ...PLACE_COLUMNS,
  ['places', ({ places }) => places.length],
  ['snippet', ({ snippet }) => snippet],
];

/**
 * Prints lines as ids or CSV. An id that follows itself, as those of one message's places do, is printed once; a
 * message without one, which is quarantined, is left out.
 *
 * @returns whether the line was printed
 */
export function lineWriter<L extends { readonly id: string | null }>(
  format: Exclude<LineFormat, 'text'>,
  columns: readonly Column<L>[],
  output: Output,
): { begin(): Promise<void>; write(line: L): Promise<boolean> } {
  // Exact bytes: lines for programs are not fitted to a terminal.
  const print = (text: string) => output.bytes(Buffer.from(text));
  if (format === 'csv') {
    const row = (fields: readonly string[]) => print(`${fields.join(',')}\r\n`);
    return {
      begin: () => row(columns.map(([name]) => name)),
      async write(line) {
        await row(columns.map(([, value]) => csvField(value(line))));
        return true;
      },
    };
  }
  let last: string | null = null;
  return {
    begin: async () => {},
    async write({ id }) {
      if (id === null || id === last) return false;
      last = id;
      await printId(output, id);
      return true;
    },
  };
}

/** Prints one line of `--format ids`. */
export function printId(output: Output, id: MessageId): Promise<void> {
  return output.bytes(Buffer.from(`${id}\n`));
}

/** Spreadsheets take what begins so for a formula, some of them behind blanks or in full width as well. */
const FORMULA = /^\s*[=+\-@\uff1d\uff0b\uff0d\uff20]/;
/** What some reader of CSV could take for the end of a field, or strip. */
const SPECIAL = /[",;]|^\s|\s$/;

/**
 * Returns a field of CSV on one line. Texts come from mail, and whoever wrote it may want a terminal or a spreadsheet to
 * obey them: control characters become pictures or blanks, and an apostrophe stands before what begins like a formula.
 */
export function csvField(value: string | number | null): string {
  if (value === null) return '';
  if (typeof value === 'number') return String(value);
  const line = terminalSafe(value).replace(/[\t\n]/g, ' ');
  const text = FORMULA.test(line) ? `'${line}` : line;
  return SPECIAL.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
