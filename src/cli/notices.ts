import type { Writable } from 'node:stream';
import pc from 'picocolors';
import { jsonLine } from '../wording/json.ts';
import { type Colours, type ColourWish, fitNarrow, wantsColour } from './output.ts';

/** An error as people and programs see it. */
export interface ErrorReport {
  readonly code: string;
  readonly message: string;
  readonly hint: string | null;
  /** The service's own words, where they are shown: as in its JSON, and as lines. */
  readonly answer?: { readonly json: object; readonly lines: readonly string[] };
}

/** Prints an error on standard error: one object with `--json`, otherwise a sentence and what to do about it. */
export function printError(
  stderr: Writable & { readonly isTTY?: boolean; readonly columns?: number },
  json: boolean,
  report: ErrorReport,
): void {
  const { code, message, hint, answer } = report;
  if (json) {
    const shown = answer === undefined ? {} : { answer: answer.json };
    stderr.write(`${jsonLine({ error: { code, message, hint, ...shown } })}\n`);
    return;
  }
  const lines = [
    `mailkeep: ${message}`,
    ...(answer?.lines ?? []),
    ...(hint === null ? [] : [hint]),
  ];
  const text = lines.join('\n');
  stderr.write(`${stderr.isTTY === true ? fitNarrow(text, stderr.columns) : text}\n`);
}

/** A warning that programs act on. Codes are stable; sentences are not. */
export interface Warning {
  readonly code: string;
  readonly message: string;
  readonly hint: string;
}

/** Notices on standard error. With `--json` it holds one error, or the warnings of a command that ended with 0. */
export interface Notices {
  /** True when progress may be drawn over: a terminal, not `--quiet`, no JSON. */
  readonly live: boolean;
  readonly colours: Colours;
  readonly stream: Writable & { readonly columns?: number };
  /** Prints a line about the work in progress; silent under `--quiet` and `--json`. */
  say(text: string): void;
  /** A line for who looks for a reason; only with `--verbose`, and silent where `say` is. */
  detail(text: string): void;
  /** Something that works but should be mended; silent under `--quiet` and `--json`. */
  warn(text: string): void;
  /** A warning that with `--json` is not silent: an object, written by `settle`. Silent under `--quiet`. */
  alert(warning: Warning): void;
  /** Writes the alerts that wait with `--json`, one line each: called once the command has ended with 0. */
  settle(): void;
}

export function streamNotices(
  stream: Writable & { isTTY?: boolean; columns?: number },
  options: {
    readonly quiet: boolean;
    readonly json: boolean;
    readonly verbose?: boolean;
  } & ColourWish,
): Notices {
  const terminal = stream.isTTY === true;
  const colours = pc.createColors(wantsColour(terminal, options));
  const line = (text: string): void => {
    if (!options.quiet && !options.json)
      stream.write(`${terminal ? fitNarrow(text, stream.columns) : text}\n`);
  };
  const warn = (text: string): void => line(`${colours.yellow('warning:')} ${text}`);
  const waiting: Warning[] = [];
  return {
    live: terminal && !options.quiet && !options.json,
    colours,
    stream,
    say: line,
    detail(text) {
      if (options.verbose === true) line(colours.dim(text));
    },
    warn,
    alert(warning) {
      if (options.json && !options.quiet) waiting.push(warning);
      else warn(`${warning.message} ${warning.hint}`);
    },
    settle() {
      for (const { code, message, hint } of waiting.splice(0)) {
        stream.write(`${jsonLine({ warning: { code, message, hint } })}\n`);
      }
    },
  };
}
