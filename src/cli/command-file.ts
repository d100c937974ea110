import type { Command } from 'commander';
import type { ExitCode } from '../errors/exit-codes.ts';
import type { CommandContext } from './context.ts';

/** What a command does once its line is parsed. */
export type Body = (context: CommandContext) => Promise<ExitCode>;

/** A command's file: declares its arguments and options, and hands over its body when it is chosen. */
export interface CommandFile {
  /** Whether words of the line may begin with a minus: see `minus-words.ts`. */
  readonly takesMinusWords?: boolean;
  define(command: Command, chosen: (body: Body) => void): void;
}
