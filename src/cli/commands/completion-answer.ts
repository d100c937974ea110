import { type Complete, type Completion, RootCommand } from '@bomb.sh/tab';
import { Command, type Option } from 'commander';
import { openReader, type Reader } from '../../catalog/open-reader.ts';
import { OPERATOR_NAMES } from '../../catalog/query-ast.ts';
import { commandName } from '../command-name.ts';
import { COMMANDS } from '../commands.ts';
import type { Register } from '../context.ts';
import { minusWords } from '../option-values.ts';
import { captureOutput, SHELLS } from './completion.ts';

/** `values` is set for options that take a value. */
interface KnownOption {
  readonly name: string;
  readonly short?: string | undefined;
  readonly description: string;
  readonly values?: () => readonly Completion[];
}

export interface KnownCommand {
  readonly name: string;
  readonly description: string;
  readonly options: readonly KnownOption[];
  readonly values: () => readonly Completion[];
}

/**
 * Characters with no special meaning in any shell. Names with other characters are not offered: once inserted into a
 * command line, a malicious folder name could run a command.
 */
const HARMLESS = /^[\p{L}\p{N}._@+:/,=-]+$/u;

const STATES = 'unread read starred answered forwarded draft deleted';

/** @param open opens the archive; nothing is offered if it throws */
function archiveValues(open: () => Reader) {
  const lookUp = <T>(ask: (reader: Reader) => T[]): T[] => {
    try {
      const reader = open();
      try {
        return ask(reader);
      } finally {
        reader.close();
      }
    } catch {
      // The user only pressed a key, so errors are ignored.
      return [];
    }
  };
  const mailboxes = () =>
    lookUp(({ catalog }) => catalog.folders.mailboxes().map(({ address }) => ({ value: address })));
  const folders = () =>
    lookUp(({ catalog }) => {
      const paths = catalog.folders.all({ gone: false }).map(({ folder }) => folder);
      return [...new Set(paths)].map((value) => ({ value }));
    });
  const withOperator = (operator: string, values: readonly Completion[]) =>
    values.map(({ value }) => ({ value: `${operator}:${value}` }));
  return {
    mailboxes,
    folders,
    query: () => [
      ...OPERATOR_NAMES.map((name) => ({ value: `${name}:` })),
      ...STATES.split(' ').map((state) => ({ value: `is:${state}` })),
      ...['attachment', 'inline'].map((what) => ({ value: `has:${what}` })),
      ...withOperator('in', folders()),
      ...withOperator('mailbox', mailboxes()),
    ],
  };
}

type ArchiveValues = ReturnType<typeof archiveValues>;

/** Answers the completion scripts, which pass the line's words after `--`. Prints no errors and writes nothing. */
export const register: Register = (command, run) => {
  // The last word is empty if the user is about to type a new one.
  command
    .argument('[words...]', 'the words of the line', minusWords, [])
    .action((words: string[]) =>
      run(async (context) => {
        const globals = {
          ...context.globals,
          config: typedValue(words, '--config') ?? context.globals.config,
          data: typedValue(words, '--data') ?? context.globals.data,
        };
        const archive = archiveValues(() => openReader({ ...context, globals, report: () => {} }));
        const typedName = commandName(words.slice(0, -1));
        const commands = await Promise.all(
          COMMANDS.map(async ({ name, summary, load }): Promise<KnownCommand> => {
            const entry = { name, description: summary, options: [], values: () => [] };
            if (name !== typedName) return entry;
            const probe = new Command(name);
            (await load()).register(probe, () => {});
            return {
              ...entry,
              options: optionsOf(probe, archive),
              values: positionals(probe, archive),
            };
          }),
        );
        await context.output.text(answer(words, GLOBALS, commands));
      }),
    );
};

const none = (): [] => [];
const GLOBALS: readonly KnownOption[] = [
  { name: 'config', description: 'configuration file', values: none },
  { name: 'data', description: 'folder of the archive', values: none },
  { name: 'json', description: 'print JSON' },
  { name: 'quiet', description: 'print results and errors only' },
  { name: 'verbose', short: 'v', description: 'print more on standard error' },
  { name: 'no-color', description: 'print no colors' },
  { name: 'help', short: 'h', description: 'print help' },
];

function optionsOf(command: Command, archive: ArchiveValues): KnownOption[] {
  return command.options.map((option) => {
    const name = (option.long ?? '').replace(/^--/, '');
    const { description } = option;
    const short = option.short?.replace(/^-/, '');
    if (!option.required && !option.optional) return { name, short, description };
    return { name, short, description, values: valuesOf(name, option, archive) };
  });
}

function valuesOf(name: string, option: Option, archive: ArchiveValues) {
  if (name === 'mailbox') return archive.mailboxes;
  if (name === 'folder') return archive.folders;
  if (name === 'query') return archive.query;
  const choices = (option.argChoices ?? []).map((value) => ({ value }));
  return () => choices;
}

function positionals(command: Command, archive: ArchiveValues): KnownCommand['values'] {
  if (command.name() === 'search') return archive.query;
  if (command.name() === 'completion') return () => SHELLS.map((value) => ({ value }));
  const below = command.commands.map((sub) => ({
    value: sub.name(),
    description: sub.summary() || sub.description(),
  }));
  return () => below;
}

function typedValue(words: readonly string[], option: string): string | undefined {
  const at = words.lastIndexOf(option);
  return at < 0 || at >= words.length - 1 ? undefined : words[at + 1];
}

/** Returns completions for the last word, in the format that the scripts read. */
export function answer(
  words: readonly string[],
  globals: readonly KnownOption[],
  commands: readonly KnownCommand[],
): string {
  const root = new RootCommand();
  const offer = (values: () => readonly Completion[]) => (complete: Complete) => {
    for (const { value, description = '' } of values()) {
      if (HARMLESS.test(value)) complete(value, description);
    }
  };
  const add = (to: { option: RootCommand['option'] }, options: readonly KnownOption[]): void => {
    for (const { name, short, description, values } of options) {
      if (values === undefined) to.option(name, description, short);
      else to.option(name, description, offer(values), short);
    }
  };
  add(root, globals);
  for (const { name, description, options, values } of commands) {
    const command = root.command(name, description);
    add(command, [...globals, ...options]);
    command.argument('value', offer(values), true);
  }
  return captureOutput(() => root.parse([...words]));
}
