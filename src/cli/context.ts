import type { Readable } from 'node:stream';
import type { Command } from 'commander';
import type { EngineContext } from '../catalog/open-reader.ts';
import { usageError } from '../core/error-tables.ts';
import type { ExitCode } from '../core/errors.ts';
import type { Output } from './output.ts';
import type { Notices } from './warnings.ts';

/** Global options, which can precede or follow the command. */
export interface Globals {
  readonly config: string | undefined;
  readonly data: string | undefined;
  readonly json: boolean;
  readonly quiet: boolean;
}

/** A command's interface to the process. */
export interface CommandContext extends EngineContext {
  readonly globals: Globals;
  readonly output: Output;
  readonly notices: Notices;
  readonly stdin: () => Readable & { readonly isTTY?: boolean };
}

/** A command's exit code; default 0. */
// biome-ignore lint/suspicious/noConfusingVoidType: functions that always succeed return nothing
export type CommandResult = ExitCode | void;
export type RunCommand = (context: CommandContext) => Promise<CommandResult>;
/** Declares a command's arguments and options. The Commander action passes the command's body to `run`. */
export type Register = (command: Command, run: (body: RunCommand) => void) => void;

interface CommandFile {
  /** True if words may start with a minus: see `minusWords`. */
  readonly takesMinusWords?: boolean;
  readonly register: Register;
}

/** A command of the program. Its module is loaded only when it is used. */
export interface CommandEntry {
  readonly name: string;
  /** Heading in the help. */
  readonly group: string;
  readonly summary: string;
  readonly hidden?: true;
  readonly load: () => Promise<CommandFile>;
}

/** Lists commands of a group by name, each with a summary and the file that defines it. */
export function listCommands<Name extends string>(
  group: string,
  files: Readonly<Record<Name, readonly [summary: string, load: CommandEntry['load']]>>,
): CommandEntry[] {
  const entries = Object.entries<(typeof files)[Name]>(files);
  return entries.map(([name, [summary, load]]) => ({ name, group, summary, load }));
}

/** A command line's switches, keyed by Commander's option names. */
export type Flags<Name extends string> = { readonly [Option in Name]?: boolean };
export type Values<Name extends string, Value = string> = { readonly [Option in Name]?: Value };

/**
 * @param command empty if the line has none
 * @param problem a sentence
 */
export function invalidUsage(command: string, problem: string): Error {
  return usageError('usage-invalid', { command, problem });
}

/**
 * Refuses forbidden combinations of options.
 * @param problems maps each sentence to whether it applies
 * @throws usage-invalid with the first sentence that applies
 */
export function refuse(command: string, problems: Readonly<Record<string, boolean>>): void {
  const found = Object.entries(problems).find(([, applies]) => applies);
  if (found !== undefined) throw invalidUsage(command, found[0]);
}

/** Returns a Commander action that runs `body` with the command line's arguments and options. */
export function action<Args extends unknown[]>(
  run: Parameters<Register>[1],
  body: (context: CommandContext, ...args: Args) => Promise<CommandResult>,
): (...args: Args) => void {
  return (...args) => run((context) => body(context, ...args));
}

/** Returns the action for a command whose code is loaded only when it runs, so that its help appears quickly. */
export function lazyAction<Args extends unknown[]>(
  run: Parameters<Register>[1],
  load: () => Promise<(context: CommandContext, ...args: Args) => Promise<CommandResult>>,
): (...args: Args) => void {
  return action(run, async (context, ...args: Args) => (await load())(context, ...args));
}

export function subCommand(command: Command, name: string, summary: string): Command {
  return command.command(name).summary(summary).description(summary);
}

/** Resolves on interruption, which is how servers normally stop. */
export function untilInterrupted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
