import { once } from 'node:events';
import type { Writable } from 'node:stream';
import { Option } from 'commander';
import pc from 'picocolors';
import type { HitCount } from '../catalog/search.ts';
import { errnoOf } from '../core/errors.ts';
import {
  displayWidth,
  fitColumns,
  jsonLine,
  padColumns,
  shellWord,
  terminalLine,
  terminalSafe,
} from '../core/terminal-safe.ts';
import { count, counted, localTime } from '../core/text.ts';
import type { MessageId } from '../core/types.ts';
import type { PlaceLine, SearchLine } from '../mail/identity.ts';
import { invalidUsage } from './context.ts';
import { outputError } from './errors.ts';

/** Longer lines are not prose. They are left to the terminal to wrap. */
const MAX_CHARS = 20_000;

/** Wraps a terminal-safe line between words to `columns`. Repeats its quote marks and indentation on each piece. */
export function wrapLine(line: string, columns: number): string[] {
  if (line.length <= columns / 2 || line.length > MAX_CHARS || shownWidth(line) <= columns) {
    return [line];
  }
  const [start = ''] = /^(?:[ \t]*>)*[ \t]*/.exec(line) ?? [];
  const lead = displayWidth(start) < columns / 2 ? start : '';
  const room = columns - displayWidth(lead);
  const pieces: string[] = [];
  let piece = '';
  let width = 0;
  for (const word of line.slice(start.length).split(' ')) {
    const wide = shownWidth(word);
    if (piece !== '' && width + 1 + wide > room) {
      pieces.push(`${lead}${piece}`);
      piece = word;
      width = wide;
    } else {
      piece = piece === '' ? word : `${piece} ${word}`;
      width += piece === word ? wide : wide + 1;
    }
  }
  return [...pieces, `${lead}${piece}`];
}

function shownWidth(text: string): number {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: what picocolors writes
  return displayWidth(text.includes('\u001b') ? text.replace(/\u001b\[[\d;]*m/g, '') : text);
}

/** Wraps text for a terminal. Leaves JSON unchanged, so that it can be copied. */
export function fitNarrow(text: string, columns: number | undefined): string {
  if (columns === undefined || columns < 1 || /^[[{]/.test(text)) return text;
  return text
    .split('\n')
    .flatMap((line) => wrapLine(line, columns))
    .join('\n');
}

export type Colours = ReturnType<typeof pc.createColors>;

/** Thrown if the reader closes our output (`| head`). The command then stops without an error. */
export class OutputClosed extends Error {
  override readonly name = 'OutputClosed';
}

/**
 * Writes results to a stream with backpressure: a call resolves when the stream accepts more.
 * @throws OutputClosed once the reader has closed it; `output-failed` if writing failed
 */
export function streamOutput(
  stream: Writable & { isTTY?: boolean; columns?: number },
  options: { readonly json: boolean } & ColourOptions,
) {
  let failure: Error | undefined;
  stream.on('error', (error: NodeJS.ErrnoException) => {
    const closed = error.code === 'EPIPE' || error.code === 'ERR_STREAM_DESTROYED';
    failure ??= closed
      ? new OutputClosed()
      : outputError('output-failed', { errno: errnoOf(error) ?? 'unknown' }, error);
    stream.emit('drain');
  });
  const write = async (chunk: string | Uint8Array): Promise<void> => {
    if (failure !== undefined) throw failure;
    if (!stream.write(chunk)) await once(stream, 'drain');
  };
  const terminal = stream.isTTY === true;
  // A window can be resized, so the width is read each time.
  const fitted = (text: string) => (terminal ? fitNarrow(text, stream.columns) : text);
  const print = (value: unknown, report: () => Report): Promise<void> =>
    write(`${options.json ? jsonLine(value) : fitted(reportText(report()))}\n`);
  return {
    json: options.json,
    /** True on a terminal, unless JSON is requested. */
    interactive: terminal && !options.json,
    // A terminal with no size set reports 0.
    columns: stream.columns || 100,
    colours: pc.createColors(!options.json && usesColour(terminal, options)),
    /** Prints a command's single result, as a JSON object or text. */
    object: print,
    /** Prints one of many results, as a line of JSON or one or more lines of text. */
    line: print,
    /** Prints text that has no JSON form, followed by a line break. */
    text: (text: string): Promise<void> => write(`${fitted(text)}\n`),
    bytes: (chunk: Uint8Array): Promise<void> => write(chunk),
    /**
     * Resolves once everything has been written.
     * @throws the error of a failed write
     */
    async written(): Promise<void> {
      // This callback runs after those of all earlier writes and their errors.
      if (failure === undefined) await new Promise((resolve) => stream.write('', resolve));
      await new Promise(setImmediate);
      if (failure !== undefined) throw failure;
    },
  };
}

export type Output = Readonly<ReturnType<typeof streamOutput>>;

export interface ColourOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly noColour?: boolean;
}

/**
 * Returns whether to print colours. `--no-color` and any value of NO_COLOR (https://no-color.org) disable them. Any
 * value of FORCE_COLOR (https://force-color.org) except `0` and `false` enables them even without a terminal. By
 * default, capable terminals get colours.
 */
export function usesColour(terminal: boolean, { env, noColour = false }: ColourOptions): boolean {
  if (noColour || (env.NO_COLOR ?? '') !== '') return false;
  const forced = env.FORCE_COLOR ?? '';
  if (forced !== '') return forced !== '0' && forced !== 'false';
  return terminal && env.TERM !== 'dumb';
}

/**
 * Formats rows as a table with headings. Makes cells terminal-safe. On a terminal, the column at index `flexible`
 * shrinks to fit; elsewhere, no cell is cut.
 */
export function tableText(
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  flexible: number,
  output: Pick<Output, 'interactive' | 'columns' | 'colours'>,
): string {
  const cells = [headings, ...rows].map((row) => row.map(terminalLine));
  const widths = headings.map((_, i) =>
    Math.max(...cells.map((row) => displayWidth(row[i] ?? ''))),
  );
  if (output.interactive) {
    const all = widths.reduce((sum, width) => sum + width + GAP.length, -GAP.length);
    const wanted = widths[flexible] ?? 0;
    widths[flexible] = Math.min(wanted, Math.max(LEAST, wanted - (all - output.columns)));
  }
  return cells
    .map((row, i) => {
      const line = row.map((cell, j) => padColumns(cell, widths[j] ?? 0)).join(GAP);
      return i === 0 ? output.colours.dim(line.trimEnd()) : line.trimEnd();
    })
    .join('\n');
}

const GAP = '  ';
/** Minimum width of a shrunk column. */
const LEAST = 16;

/** A text, or its lines. False parts are left out. */
export type Report = string | readonly (string | false | readonly string[])[];

function reportText(report: Report): string {
  return typeof report === 'string' ? report : joinReport(report).join('\n');
}

/** Drops the false parts of a report and flattens lists. */
export function joinReport(parts: Exclude<Report, string>): string[] {
  return parts.filter((part) => part !== false).flat();
}

/**
 * Returns a line for each of the first items, and one for the rest.
 * @param all number of items, if `items` contains only some of them
 */
export function firstLines<T>(
  items: readonly T[],
  most: number,
  line: (item: T) => string,
  rest: (more: number) => string,
  all = items.length,
): string[] {
  const shown = items.slice(0, most).map(line);
  return all > shown.length ? [...shown, rest(all - shown.length)] : shown;
}

/** Output formats of `list` and `search`, in addition to JSON. */
const LINE_FORMATS = ['text', 'ids', 'csv'] as const;
export type LineFormat = (typeof LINE_FORMATS)[number];

export const FORMAT_HELP = `
--format ids prints the full id of each message, once, for "mailkeep export --ids -". --format csv prints CSV (RFC
4180) in UTF-8 with a header line. CSV replaces control characters, and puts an apostrophe before text that a
spreadsheet could take for a formula (it begins with = + - or @); --json prints every value unchanged.`;

export function formatOption(): Option {
  return new Option('--format <format>', 'how to print: text, ids only, or CSV')
    .choices(LINE_FORMATS)
    .default('text');
}

/** @throws usage-invalid if two formats are requested */
export function refuseTwoFormats(command: string, format: string, json: boolean): void {
  if (format !== 'text' && json)
    throw invalidUsage(command, `--format ${format} cannot be used with --json.`);
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

/** JSON objects and lists become several columns, or values separated by spaces. */
export const LIST_COLUMNS: readonly Column<PlaceLine>[] = PLACE_COLUMNS;
/** Here, `places` is a number. */
export const SEARCH_COLUMNS: readonly Column<SearchLine>[] = [
  ...PLACE_COLUMNS,
  ['places', ({ places }) => places.length],
  ['snippet', ({ snippet }) => snippet],
];

/**
 * Returns a function that prints a line as an id or as CSV, and returns whether it printed anything. CSV starts with a
 * header line. Adjacent repetitions of an id are printed once. Incomplete messages, which have no id, are left out.
 */
export async function lineWriter<L extends { readonly id: string | null }>(
  format: Exclude<LineFormat, 'text'>,
  columns: readonly Column<L>[],
  output: Output,
): Promise<(line: L) => Promise<boolean>> {
  if (format === 'csv') {
    await printCsv(output, [columns.map(([name]) => name)]);
    return async (line) => {
      await printCsv(output, [columns.map(([, value]) => value(line))]);
      return true;
    };
  }
  let last: string | null = null;
  return async ({ id }) => {
    if (id === null || id === last) return false;
    last = id;
    await printId(output, id);
    return true;
  };
}

/** Prints exact bytes. Machine-readable lines must not be wrapped for a terminal. */
export async function printCsv(
  output: Output,
  rows: readonly (readonly (string | number | null)[])[],
): Promise<void> {
  for (const row of rows) await output.bytes(Buffer.from(`${row.map(csvField).join(',')}\r\n`));
}

export function printId(output: Output, id: MessageId): Promise<void> {
  return output.bytes(Buffer.from(`${id}\n`));
}

/** The start of text that spreadsheets treat as a formula. Some skip leading spaces or accept full-width signs. */
const FORMULA = /^\s*[=+\-@\uff1d\uff0b\uff0d\uff20]/;
/** Characters that a CSV reader may strip or treat as the end of a field. */
const SPECIAL = /[",;]|^\s|\s$/;

/**
 * Returns a CSV field on one line. Mail can contain attacks on terminals or spreadsheets, so control characters become
 * symbols or spaces, and an apostrophe precedes anything like a formula.
 */
export function csvField(value: string | number | null): string {
  if (value === null) return '';
  if (typeof value === 'number') return String(value);
  const line = terminalSafe(value).replace(/[\t\n]/g, ' ');
  const text = FORMULA.test(line) ? `'${line}` : line;
  return SPECIAL.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const MOST = 200;

/** Returns names for a report, terminal-safe and cut to 200 columns each. JSON contains full names. */
export function displayName(...parts: readonly string[]): string {
  return parts.map((part) => fitColumns(terminalLine(part), MOST)).join(' / ');
}

/**
 * Returns a command that the user can run on the same archive.
 * @param data the `--data` folder
 */
export function commandLine(command: string, data: string | undefined): string {
  if (data === undefined) return `mailkeep ${command}`;
  return terminalLine(`mailkeep ${command} --data ${shellWord(data)}`);
}

const COUNTING_MS = 100;

/** Returns a function that reports whether there is time left to count results beyond a page. */
export function createCountTimer(now: () => number): () => boolean {
  const end = now() + COUNTING_MS;
  return () => now() < end;
}

/**
 * Returns the line shown below a page, with the total and how to see more.
 * @param noun what is counted, such as `message`
 * @param more options that print more, such as `-n`
 */
export function footerText(shown: number, all: HitCount, noun: string, more: string): string {
  if (all.complete && all.count <= shown) return counted(shown, noun);
  const many = all.complete ? counted(all.count, noun) : `more than ${counted(all.count, noun)}`;
  return `${count(shown)} of ${many}; more with ${more}`;
}

/** Number of id characters displayed, enough to be unique within an archive. */
export const SHORT_ID = 8;

export function shortId(id: string | null): string {
  return id === null ? 'quarant.' : id.slice(0, SHORT_ID);
}

export function senderText(from: PlaceLine['from']): string {
  if (from === null) return '';
  return from.name === '' ? from.address : from.name;
}

/** Formats a date in the user's time zone. */
export function dateText(date: string | null): string {
  return date === null ? 'no date'.padEnd(16) : localTime(Date.parse(date));
}

interface Columns {
  readonly sender: number;
  readonly subject: number;
  /** 0 if it is not shown. */
  readonly folder: number;
}

/** Without a terminal, columns that users may need are not cut. */
const UNMEASURED: Columns = { sender: 24, subject: 60, folder: Number.POSITIVE_INFINITY };
/** Width of date, id and flags with separators. */
const START_COLUMNS = 16 + 2 + SHORT_ID + 1 + 2 + 1;

/** On narrower terminals, a message takes three lines. */
const ONE_LINE_COLUMNS = 64;

/** Returns the column widths of a terminal line, the same for every line of a list. */
function columnsOf(output: Output, ended: number): Columns {
  if (!output.interactive) return UNMEASURED;
  const folder = output.columns >= 110 ? 24 : output.columns >= 78 ? 14 : 0;
  const room = output.columns - START_COLUMNS - (folder === 0 ? 0 : folder + 2) - ended - 2;
  const sender = Math.max(8, Math.min(24, Math.floor(room / 3)));
  return { sender, subject: Math.max(8, room - sender), folder };
}

/** Formats a message as an entry of a list, fitted to the terminal if there is one. */
export function placeText(place: PlaceLine, output: Output): string {
  const { colours } = output;
  const unread = !place.flags.includes('\\Seen');
  const flagged = place.flags.includes('\\Flagged') ? '*' : ' ';
  const ended = place.endedAt === null ? '' : `  deleted ${dateText(place.endedAt)}`;
  const columns = columnsOf(output, ended.length);
  const start = `${dateText(place.date)}  ${shortId(place.id)} ${unread ? 'N' : ' '}${flagged} `;
  if (output.interactive && output.columns < ONE_LINE_COLUMNS) {
    const room = output.columns - 2;
    const about = `${terminalLine(senderText(place.from))}: ${terminalLine(place.subject ?? '(no subject)')}`;
    const shown = fitColumns(about, room);
    const folder = tailColumns(terminalLine(place.folder), Math.max(0, room - ended.length));
    return [
      colours.dim(start.trimEnd()),
      `  ${unread ? colours.bold(shown) : shown}`,
      colours.dim(`  ${folder}${ended}`),
    ].join('\n');
  }
  const sender = padColumns(terminalLine(senderText(place.from)), columns.sender);
  const subject = padColumns(terminalLine(place.subject ?? '(no subject)'), columns.subject);
  const folder =
    columns.folder === 0 ? '' : `  ${tailColumns(terminalLine(place.folder), columns.folder)}`;
  return [
    colours.dim(`${start}${sender}  `),
    unread ? colours.bold(subject) : subject,
    colours.dim(`${folder}${ended}`),
  ].join('');
}

/** Returns the end of a path, which distinguishes folders better than the start. */
function tailColumns(path: string, columns: number): string {
  if (displayWidth(path) <= columns) return path;
  // Every character is at least one column wide, except combining marks.
  const characters = [...path.slice(-4 * columns)];
  while (displayWidth(characters.join('')) > columns - 1) characters.shift();
  return `…${characters.join('')}`;
}
