import type { Command } from 'commander';
import type { CommandContext } from './context.ts';
import type { ExitCode } from './exit-codes.ts';

/** What a command does once its line is parsed. */
export type Body = (context: CommandContext) => Promise<ExitCode>;

/** A command's file: declares its arguments and options, and hands over its body when it is chosen. */
export interface CommandFile {
  define(command: Command, chosen: (body: Body) => void): void;
}

export interface CommandEntry {
  readonly name: string;
  readonly summary: string;
  readonly load: () => Promise<CommandFile>;
}

/** Every command, in the order of the help. A command's file is loaded only when it is the one. */
export const COMMANDS: readonly CommandEntry[] = [];
