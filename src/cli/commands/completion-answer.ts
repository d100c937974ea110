import { type Complete, type Completion, RootCommand } from '@bomb.sh/tab';
import { Command, type Option } from 'commander';
import { openReader, type Reader } from '../../catalog/open-reader.ts';
import { OPERATOR_NAMES } from '../../catalog/query-ast.ts';
import { commandName } from '../command-name.ts';
import { COMMANDS } from '../commands.ts';
import type { Register } from '../context.ts';
import { minusWords } from '../option-values.ts';
import { captureOutput, SHELLS } from './completion.ts';

type Values = () => readonly Completion[];

/**
 * Characters with no special meaning in any shell. Names with other characters are not offered: once inserted into a
 * command line, a malicious folder name could run a command.
 */
const HARMLESS = /^[\p{L}\p{N}._@+:/,=-]+$/u;

export function offer(values: Values) {
  return (complete: Complete): void => {
    for (const { value, description = '' } of values())
      if (HARMLESS.test(value)) complete(value, description);
  };
}

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
        const root = new RootCommand();
        addGlobals(root);
        for (const { name, summary, load } of COMMANDS) {
          const known = root.command(name, summary);
          addGlobals(known);
          if (name !== typedName) continue;
          const probe = new Command(name);
          (await load()).register(probe, () => {});
          for (const option of probe.options) addOption(known, option, archive);
          known.argument('value', offer(positionals(probe, archive)), true);
        }
        await context.output.text(captureOutput(() => root.parse([...words])));
      }),
    );
};

type Options = Pick<RootCommand, 'option'>;

function addGlobals(to: Options): void {
  const none = offer(() => []);
  to.option('config', 'configuration file', none);
  to.option('data', 'folder of the archive', none);
  to.option('json', 'print JSON');
  to.option('quiet', 'print results and errors only');
  to.option('verbose', 'print more on standard error', 'v');
  to.option('no-color', 'print no colors');
  to.option('help', 'print help', 'h');
}

function addOption(to: Options, option: Option, archive: ArchiveValues): void {
  const name = (option.long ?? '').replace(/^--/, '');
  const { description } = option;
  const short = option.short?.replace(/^-/, '');
  if (!option.required && !option.optional) to.option(name, description, short);
  else to.option(name, description, offer(valuesOf(name, option, archive)), short);
}

function valuesOf(name: string, option: Option, archive: ArchiveValues) {
  if (name === 'mailbox') return archive.mailboxes;
  if (name === 'folder') return archive.folders;
  if (name === 'query') return archive.query;
  const choices = (option.argChoices ?? []).map((value) => ({ value }));
  return () => choices;
}

function positionals(command: Command, archive: ArchiveValues): Values {
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
