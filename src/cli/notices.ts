import type { Writable } from 'node:stream';
import pc from 'picocolors';
import { type Colours, type ColourWish, wantsColour } from './output.ts';
import { fitNarrow } from './wrap-text.ts';

/** What people are told beside results, on standard error. With `--json` nothing but an error stands there. */
export interface Notices {
  /** True when progress may be drawn over: a terminal, not `--quiet`, no JSON. */
  readonly live: boolean;
  readonly colours: Colours;
  readonly stream: Writable & { readonly columns?: number };
  /** A line about what goes on; silent under `--quiet` and `--json`. */
  say(text: string): void;
  /** A line for who looks for a reason; only with `--verbose`, and silent where `say` is. */
  detail(text: string): void;
  /** Something that works but should be mended; silent under `--quiet` and `--json`. */
  warn(text: string): void;
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
  return {
    live: terminal && !options.quiet && !options.json,
    colours,
    stream,
    say: line,
    detail(text) {
      if (options.verbose === true) line(colours.dim(text));
    },
    warn: (text) => line(`${colours.yellow('warning:')} ${text}`),
  };
}
