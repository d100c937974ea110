import type { Readable } from 'node:stream';
import type { Command } from 'commander';
import type { EngineContext } from '../catalog/open-reader.ts';
import type { ExitCode } from '../core/errors.ts';
import type { Output } from './output.ts';
import type { Notices } from './warnings.ts';

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

/** What a command does once its line is parsed. */
export type Body = (context: CommandContext) => Promise<ExitCode>;

/** A command's file: declares its arguments and options, and hands over its body when it is chosen. */
export interface CommandFile {
  /** Whether words of the line may begin with a minus: see `minusWords`. */
  readonly takesMinusWords?: boolean;
  define(command: Command, chosen: (body: Body) => void): void;
}
