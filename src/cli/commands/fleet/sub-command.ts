import { type Command, InvalidArgumentError } from 'commander';
import { usageError } from '../../../core/error-tables.ts';
import { nearest } from '../../../core/names.ts';

/** Adds a command below another, described as the commands of `fleet` are. */
export function sub(command: Command, name: string, summary: string): Command {
  return command.command(name).summary(summary).description(summary);
}

/** Makes a command one that is nothing without one of the commands below it. */
export function group(command: Command, words: string, names: readonly string[]): Command {
  return command
    .usage(`<${names.join('|')}> [options]`)
    .argument('[command]')
    .helpCommand(false)
    .action((typed: string | undefined) => {
      if (typed === undefined) {
        throw usageError('usage-no-command', { help: command.helpInformation().trimEnd() });
      }
      const meant = nearest(typed, names);
      const listed = `The commands are ${names.join(', ')}.`;
      const problem = `unknown command '${typed}'. ${meant === null ? listed : `Did you mean ${meant}?`}`;
      throw usageError('usage-invalid', { command: words, problem });
    });
}

/** The name of a tenant, a node or a key. */
export function plainName(text: string): string {
  if (/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/.test(text)) return text;
  throw new InvalidArgumentError(
    'It takes a name of 1 to 64 letters, digits, dots, dashes and underscores.',
  );
}
