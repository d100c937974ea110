import { type Argument, Command, type Option } from 'commander';
import { readHelp } from '../../src/cli/commands/manual.ts';
import { COMMANDS } from '../../src/cli/commands.ts';
import { parseCommandLine } from '../../src/cli/program.ts';

/** A command or subcommand as commander knows it, by its words: `webhooks list`. */
export interface KnownCommand {
  readonly words: string;
  readonly command: Command;
}

/** Returns every command and every command below one, without those that only the program itself calls. */
export async function allCommands(): Promise<KnownCommand[]> {
  const tops = await Promise.all(
    COMMANDS.map(async ({ name, load }) => {
      const command = new Command(name);
      (await load()).register(command, () => {});
      return command;
    }),
  );
  const below = (command: Command, words: string): KnownCommand[] => [
    { words, command },
    ...command.commands.flatMap((sub) => below(sub, `${words} ${sub.name()}`)),
  ];
  return tops.flatMap((command) => below(command, command.name()));
}

/** Returns what each command takes: options and arguments with their defaults and choices. */
export async function commandEntries(): Promise<Record<string, Record<string, string>>> {
  const entries: Record<string, Record<string, string>> = {};
  const help = await parseCommandLine(['--help'], COMMANDS);
  if (help.kind !== 'print') throw new Error('--help prints nothing');
  const options = readHelp(help.text).lists.get('Options') ?? [];
  entries['(every command)'] = Object.fromEntries(options.map(({ term }) => [term, '']));
  for (const { words, command } of await allCommands()) {
    const own = [
      ...command.options.map((option): [string, string] => [option.flags, optionText(option)]),
      ...command.registeredArguments.map((argument, i): [string, string] => [
        `argument ${i + 1}: ${argumentName(argument)}`,
        valueText(argument),
      ]),
      ...command.aliases().map((alias): [string, string] => [`alias ${alias}`, '']),
    ];
    entries[words] = Object.fromEntries(own);
  }
  return entries;
}

function optionText(option: Option): string {
  const parts = [
    ...(option.mandatory ? ['mandatory'] : []),
    ...(option.hidden ? ['hidden'] : []),
    ...(option.envVar === undefined ? [] : [`environment ${option.envVar}`]),
    valueText(option),
  ];
  return parts.filter((part) => part !== '').join('; ');
}

function valueText({ argChoices, defaultValue }: Option | Argument): string {
  return [
    ...(argChoices === undefined ? [] : [`choices ${argChoices.join(' ')}`]),
    ...(defaultValue === undefined ? [] : [`default ${JSON.stringify(defaultValue)}`]),
  ].join('; ');
}

function argumentName(argument: Argument): string {
  const name = `${argument.name()}${argument.variadic ? '...' : ''}`;
  return argument.required ? `<${name}>` : `[${name}]`;
}
