import { once } from 'node:events';
import type { Writable } from 'node:stream';
import pc from 'picocolors';
import { errnoOf } from '../errors/mailkeep-error.ts';
import { outputFailed } from '../errors/system.ts';
import { jsonLine } from '../wording/amounts.ts';
import { fitNarrow } from './wrap-text.ts';

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
    // A terminal that was never told its size says 0.
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
