import type { Readable } from 'node:stream';
import type { Surroundings } from '../config/locate.ts';
import type { Notices } from './notices.ts';
import type { Output } from './output.ts';

/** Options that stand before or after any command. */
export interface Globals {
  readonly config: string | undefined;
  readonly data: string | undefined;
  readonly json: boolean;
  readonly quiet: boolean;
}

/** What a command works with: nothing of the process is reached by other ways. */
export interface CommandContext {
  readonly globals: Globals;
  readonly output: Output;
  readonly notices: Notices;
  readonly surroundings: Surroundings;
  readonly stdin: () => Readable & { readonly isTTY?: boolean };
  /** Aborted by the first SIGINT or SIGTERM. */
  readonly signal: AbortSignal;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}
