import { commandName } from '../../src/cli/command-name.ts';
import { COMMANDS } from '../../src/cli/commands.ts';
import { commandExitCodes } from '../../src/cli/help-text.ts';

/** Checks that the help of the command that a line names lists the code that it ended with. */
export function expectDeclared(args: readonly string[], code: number): void {
  const name = commandName(args);
  if (name === undefined || !COMMANDS.some((command) => command.name === name)) return;
  const codes = Object.keys(commandExitCodes(name)).map(Number);
  if (!codes.includes(code))
    throw new Error(`${name} ended with ${code}; its help lists ${codes.join(', ')} only`);
}
