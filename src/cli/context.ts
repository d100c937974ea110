import type { Readable } from 'node:stream';
import type { Command } from 'commander';
import type { EngineContext } from '../catalog/open-reader.ts';
import { usageError } from '../core/error-tables.ts';
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

/** How a command ends: with 0 if it returns no exit code. */
// biome-ignore lint/suspicious/noConfusingVoidType: functions that always succeed return nothing
export type Ended = ExitCode | void;
/** Runs a command once its line is parsed. */
export type Body = (context: CommandContext) => Promise<Ended>;
/** Declares the arguments and options of a command; the action that Commander calls chooses its body. */
export type Define = (command: Command, chosen: (body: Body) => void) => void;

interface CommandFile {
  /** Whether words of the line may begin with a minus: see `minusWords`. */
  readonly takesMinusWords?: boolean;
  readonly define: Define;
}

/** A command of the program; its file is loaded when a line names the command. */
export interface CommandEntry {
  readonly name: string;
  readonly summary: string;
  /** Not in the help. */
  readonly hidden?: true;
  readonly load: () => Promise<CommandFile>;
}

/** Switches of a command line, by the names that Commander gives their options. */
export type Flags<Name extends string> = { readonly [Option in Name]?: boolean };
/** Options of a command line that take a value. */
export type Values<Name extends string, Value = string> = { readonly [Option in Name]?: Value };

/** @param problem a sentence; `command` is empty if the line names none */
export function invalidUsage(command: string, problem: string): Error {
  return usageError('usage-invalid', { command, problem });
}

/**
 * Refuses what options do not allow together.
 *
 * @param problems sentences, each with whether it applies
 * @throws usage-invalid with the first that does
 */
export function refuse(command: string, problems: Readonly<Record<string, boolean>>): void {
  const found = Object.entries(problems).find(([, applies]) => applies);
  if (found !== undefined) throw invalidUsage(command, found[0]);
}

export function subCommand(command: Command, name: string, summary: string): Command {
  return command.command(name).summary(summary).description(summary);
}

/** Resolves when a command is interrupted, which is how one that serves ends well. */
export function interrupted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
