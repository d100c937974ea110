import type { Readable } from 'node:stream';
import type { EngineContext } from '../engine/context.ts';
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
export interface CommandContext extends EngineContext {
  readonly globals: Globals;
  readonly output: Output;
  readonly notices: Notices;
  readonly stdin: () => Readable & { readonly isTTY?: boolean };
}
