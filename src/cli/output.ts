import { once } from 'node:events';
import type { Writable } from 'node:stream';
import pc from 'picocolors';
import { errnoOf } from '../errors/mailkeep-error.ts';
import { outputFailed } from '../errors/system.ts';
import { displayWidth, padColumns, terminalLine } from '../mail/terminal-safe.ts';
import { jsonLine } from '../wording/json.ts';

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

/** Where results go: standard output, and nothing but results. */
export interface Output {
  readonly json: boolean;
  /** True when a person reads along: a terminal, and no JSON. */
  readonly interactive: boolean;
  readonly columns: number;
  readonly colours: Colours;
  /** The one result of a command: an object in JSON, text otherwise. */
  object(value: unknown, text: () => string): Promise<void>;
  /** One result of many: a JSON line, or a line (or more) of text. */
  line(value: unknown, text: () => string): Promise<void>;
  /** Text that has no JSON form; ends with a line break. */
  text(text: string): Promise<void>;
  /** Exact bytes. */
  bytes(chunk: Uint8Array): Promise<void>;
  /** Resolves once everything is written. @throws what kept it from being written */
  written(): Promise<void>;
}

/**
 * Results on a stream, with backpressure: each call resolves when the stream takes more.
 *
 * @throws OutputClosed once the reader has gone; `output-failed` where what was written did not arrive
 */
export function streamOutput(
  stream: Writable & { isTTY?: boolean; columns?: number },
  options: { readonly json: boolean } & ColourWish,
): Output {
  let failure: Error | undefined;
  stream.on('error', (error: NodeJS.ErrnoException) => {
    const closed = error.code === 'EPIPE' || error.code === 'ERR_STREAM_DESTROYED';
    failure ??= closed ? new OutputClosed() : outputFailed(errnoOf(error) ?? 'unknown', error);
    stream.emit('drain');
  });
  const write = async (chunk: string | Uint8Array): Promise<void> => {
    if (failure !== undefined) throw failure;
    if (!stream.write(chunk)) await once(stream, 'drain');
  };
  // The callback comes behind those of all writes before, and behind their errors.
  const written = async (): Promise<void> => {
    if (failure === undefined) await new Promise((resolve) => stream.write('', resolve));
    await new Promise(setImmediate);
    if (failure !== undefined) throw failure;
  };
  const terminal = stream.isTTY === true;
  // Asked each time: windows change their size.
  const fitted = (text: string) => (terminal ? fitNarrow(text, stream.columns) : text);
  const print = (value: unknown, text: () => string): Promise<void> =>
    write(`${options.json ? jsonLine(value) : fitted(text())}\n`);
  return {
    json: options.json,
    interactive: terminal && !options.json,
    // A terminal that was never given its size reports 0.
    columns: stream.columns || 100,
    colours: pc.createColors(!options.json && wantsColour(terminal, options)),
    object: print,
    line: print,
    text: (text) => write(`${fitted(text)}\n`),
    bytes: write,
    written,
  };
}

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
