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
  terminalLine,
  terminalSafe,
} from '../core/terminal-safe.ts';
import { count, counted, localTime } from '../core/text.ts';
import type { MessageId } from '../core/types.ts';
import type { PlaceLine, SearchLine } from '../mail/identity.ts';
import { invalidUsage } from './context.ts';
import { outputError } from './errors.ts';

/** Beyond this many characters a line is no prose, and is left to the terminal. */
const MOST_CHARS = 20_000;

/**
 * A line (harmless already) broken between words so that none is wider than `columns`, where its words allow. What
 * marks it as quoted, and its indentation, stand before every piece.
 */
export function wrapLine(line: string, columns: number): string[] {
  if (line.length <= columns / 2 || line.length > MOST_CHARS || shownWidth(line) <= columns) {
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

/** Columns of a text that may have our own colours in it. */
function shownWidth(text: string): number {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: what picocolors writes
  return displayWidth(text.includes('\u001b') ? text.replace(/\u001b\[[\d;]*m/g, '') : text);
}

/** A text for a terminal: its lines are broken between words. JSON is left to the terminal, so that it can be copied. */
export function fitNarrow(text: string, columns: number | undefined): string {
  if (columns === undefined || columns < 1 || /^[[{]/.test(text)) return text;
  return text
    .split('\n')
    .flatMap((line) => wrapLine(line, columns))
    .join('\n');
}

export type Colours = ReturnType<typeof pc.createColors>;

/** Whoever read our output has gone (`| head`). Not an error: the command stops where it is. */
export class OutputClosed extends Error {
  override readonly name = 'OutputClosed';
}

/**
 * Results, and nothing but results, on a stream with backpressure: each call resolves when the stream takes more.
 *
 * @throws OutputClosed once the reader has gone; `output-failed` where what was written did not arrive
 */
export function streamOutput(
  stream: Writable & { isTTY?: boolean; columns?: number },
  options: { readonly json: boolean } & ColourWish,
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
  // Asked each time: windows change their size.
  const fitted = (text: string) => (terminal ? fitNarrow(text, stream.columns) : text);
  const print = (value: unknown, text: () => string): Promise<void> =>
    write(`${options.json ? jsonLine(value) : fitted(text())}\n`);
  return {
    json: options.json,
    /** True when a person reads along: a terminal, and no JSON. */
    interactive: terminal && !options.json,
    // A terminal that was never given its size reports 0.
    columns: stream.columns || 100,
    colours: pc.createColors(!options.json && wantsColour(terminal, options)),
    /** The one result of a command: an object in JSON, text otherwise. */
    object: print,
    /** One result of many: a JSON line, or a line (or more) of text. */
    line: print,
    /** Text that has no JSON form; ends with a line break. */
    text: (text: string): Promise<void> => write(`${fitted(text)}\n`),
    /** Exact bytes. */
    bytes: (chunk: Uint8Array): Promise<void> => write(chunk),
    /** Resolves once everything is written. @throws what kept it from being written */
    async written(): Promise<void> {
      // The callback comes behind those of all writes before, and behind their errors.
      if (failure === undefined) await new Promise((resolve) => stream.write('', resolve));
      await new Promise(setImmediate);
      if (failure !== undefined) throw failure;
    },
  };
}

export type Output = Readonly<ReturnType<typeof streamOutput>>;

/** What the user wants of colours. */
export interface ColourWish {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** `--no-color` was given. */
  readonly noColour?: boolean;
}

/**
 * Returns whether to print colours. `--no-color` and any text in NO_COLOR (https://no-color.org) refuse them; any text
 * in FORCE_COLOR (https://force-color.org) wants them also where there is no terminal, but for `0` and `false`. Without
 * any of these, terminals that can have them.
 */
export function wantsColour(terminal: boolean, { env, noColour = false }: ColourWish): boolean {
  if (noColour || (env.NO_COLOR ?? '') !== '') return false;
  const forced = env.FORCE_COLOR ?? '';
  if (forced !== '') return forced !== '0' && forced !== 'false';
  return terminal && env.TERM !== 'dumb';
}

/**
 * Rows as a table without lines, under their headings. Cells are made harmless for a terminal. On a terminal the
 * column at `flexible` gives way when the rest needs its room; elsewhere every cell is whole.
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
/** What is left of a column at least. */
const LEAST = 16;

/** Returns the texts of a report that there are: parts that are false are left out, and lists are unfolded. */
export function present(parts: readonly (string | false | readonly string[])[]): string[] {
  return parts.filter((part) => part !== false).flat();
}

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

/** The columns of `list`; where JSON has an object or a list, they are apart or parted by blanks. */
export const LIST_COLUMNS: readonly Column<PlaceLine>[] = PLACE_COLUMNS;
/** The columns of `search`: `places` is how many there are. */
export const SEARCH_COLUMNS: readonly Column<SearchLine>[] = [
  ...PLACE_COLUMNS,
  ['places', ({ places }) => places.length],
  ['snippet', ({ snippet }) => snippet],
];

/**
 * Returns a function that prints lines as ids or CSV, below the header line. An id that follows itself, as those of one
 * message's places do, is printed once; a message without one, which is quarantined, is left out.
 *
 * @returns whether the line was printed
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

/** Exact bytes: lines for programs are not fitted to a terminal. */
export async function printCsv(
  output: Output,
  rows: readonly (readonly (string | number | null)[])[],
): Promise<void> {
  for (const row of rows) await output.bytes(Buffer.from(`${row.map(csvField).join(',')}\r\n`));
}

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

const MOST = 200;

/**
 * Returns an address, a folder's path or both for a line of a report: harmless for a terminal, and cut to 200 columns,
 * because a service may name things at any length. JSON has them in full.
 */
export function shownName(...parts: readonly string[]): string {
  return parts.map((part) => fitColumns(terminalLine(part), MOST)).join(' / ');
}

/**
 * Returns a command to type, which works on the same archive.
 *
 * @param data the folder that `--data` names, if any
 */
export function commandLine(command: string, data: string | undefined): string {
  if (data === undefined) return `mailkeep ${command}`;
  const word = /^[\w@%+=:,./-]+$/.test(data) ? data : `'${data.replaceAll("'", "'\\''")}'`;
  return terminalLine(`mailkeep ${command} --data ${word}`);
}

const COUNTING_MS = 100;

/** Returns a function that says whether there is time left to count what does not fit on a page. */
export function countingTime(now: () => number): () => boolean {
  const end = now() + COUNTING_MS;
  return () => now() < end;
}

/**
 * Returns the line below a page: how many there are in all, and how to get more.
 *
 * @param noun what is counted, such as `message`
 * @param more options that print more, such as `-n`
 */
export function footerText(shown: number, all: HitCount, noun: string, more: string): string {
  if (all.complete && all.count <= shown) return counted(shown, noun);
  const many = all.complete ? counted(all.count, noun) : `more than ${counted(all.count, noun)}`;
  return `${count(shown)} of ${many}; more with ${more}`;
}

/** The characters of an id that people read; enough to distinguish the messages of one archive. */
export const SHORT_ID = 8;

export function shortId(id: string | null): string {
  return id === null ? 'quarant.' : id.slice(0, SHORT_ID);
}

export function senderText(from: PlaceLine['from']): string {
  if (from === null) return '';
  return from.name === '' ? from.address : from.name;
}

/** A received date as people read it, in their time zone. */
export function dateText(date: string | null): string {
  return date === null ? 'no date'.padEnd(16) : localTime(Date.parse(date));
}

interface Columns {
  readonly sender: number;
  readonly subject: number;
  /** 0: not shown. */
  readonly folder: number;
}

/** Where nobody measures lines, nothing is cut short that a reader may want whole. */
const UNMEASURED: Columns = { sender: 24, subject: 60, folder: Number.POSITIVE_INFINITY };
/** Date, id and flags, with the blanks behind them. */
const START_COLUMNS = 16 + 2 + SHORT_ID + 1 + 2 + 1;

/** A narrower terminal has a place in three lines. */
const ONE_LINE_COLUMNS = 64;

/** How a terminal's line is shared, the same for every line of a list. */
function columnsOf(output: Output, ended: number): Columns {
  if (!output.interactive) return UNMEASURED;
  const folder = output.columns >= 110 ? 24 : output.columns >= 78 ? 14 : 0;
  const room = output.columns - START_COLUMNS - (folder === 0 ? 0 : folder + 2) - ended - 2;
  const sender = Math.max(8, Math.min(24, Math.floor(room / 3)));
  return { sender, subject: Math.max(8, room - sender), folder };
}

/** One place as a line: fitted to the terminal, whole elsewhere. */
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

/** The end of a path, which distinguishes folders better than their beginning. */
function tailColumns(path: string, columns: number): string {
  if (displayWidth(path) <= columns) return path;
  // No character takes less than one column, but for marks that join the one before.
  const characters = [...path.slice(-4 * columns)];
  while (displayWidth(characters.join('')) > columns - 1) characters.shift();
  return `…${characters.join('')}`;
}
