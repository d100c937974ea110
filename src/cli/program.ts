import { Command, CommanderError } from 'commander';
import packageJson from '../../package.json' with { type: 'json' };
import { usageError } from '../core/error-tables.ts';
import { EXIT_STATUS_HELP } from '../core/errors.ts';
import { nearest } from '../core/names.ts';
import { pathProblem } from '../core/s3-target.ts';
import { commandName } from './command-name.ts';
import {
  type CommandEntry,
  type Flags,
  type Globals,
  invalidUsage,
  type RunCommand,
  type Values,
} from './context.ts';
import { exitStatusHelp, subcommandExamples, unknownWordHint } from './help-text.ts';
import { checkValues, markMinusWords } from './option-values.ts';

/** The result of parsing a command line: a command to run, or text to print. */
export type Request =
  | {
      readonly kind: 'run';
      readonly body: RunCommand;
      readonly globals: Globals;
      readonly verbose: boolean;
    }
  | { readonly kind: 'print'; readonly text: string };

const TOP_HELP = `
EXAMPLES
  mailkeep init --imap ADDRESS       set up a mailbox on an IMAP server
  mailkeep init                      set up an account of the hosted mail service
  mailkeep sync                      mirror it
  mailkeep search from:anna invoice  find a message, offline
  mailkeep show 3f2a91c4             read it

Each command has its own help: mailkeep search --help

ENVIRONMENT
  MAILKEEP_CONFIG               configuration file, unless --config is given
  MAILKEEP_DATA                 folder of the archive, unless --data is given; overrides the configuration
  MAILKEEP_PAGER, PAGER         pager of show; "cat" or nothing for none
  MAILKEEP_NETWORK_FILE_SYSTEM  "allow": write to an archive on a network file system
  MAILKEEP_DEBUG                any text: print stack traces of errors
  NO_COLOR                      any text: print no colors
  FORCE_COLOR                   any text: print colors, also to files and pipes; 0: none
  XDG_CONFIG_HOME               where to look for mailkeep/config.json, instead of ~/.config
  XDG_CACHE_HOME                where to keep mailkeep's compiled code, instead of ~/.cache
${EXIT_STATUS_HELP}`;

/**
 * Parses a command line (without node and script name). Loads only the command's own module.
 * @param columns width of the help
 * @throws usage-invalid
 */
export async function parseCommandLine(
  args: readonly string[],
  commands: readonly CommandEntry[],
  columns = 80,
): Promise<Request> {
  const first = commandName(args);
  const isHelp = first === 'help';
  const target = isHelp ? commandName(args.slice(args.indexOf('help') + 1)) : first;
  if (isHelp && target === 'help') return parseCommandLine(['--help'], commands, columns);
  // For `mailkeep --help search`, the parser would print the program's help.
  const before = first === undefined || isHelp ? [] : args.slice(0, args.indexOf(first));
  if (first !== undefined && before.some((arg) => arg === '--help' || arg === '-h'))
    return parseCommandLine(['help', first], commands, columns);
  let printed = '';
  let body: RunCommand | undefined;
  const program = new Command('mailkeep')
    .commandsGroup('Advanced:')
    .description(
      'Mirrors mailboxes, of IMAP servers and of a hosted mail service, into a local archive, and searches it offline.',
    )
    .version(packageJson.version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print help')
    .helpCommand('help [command]', 'print help on a command')
    .usage('<command> [options]')
    .option('--config <file>', 'configuration file')
    .option('--data <dir>', 'folder of the archive')
    .option('--json', 'print JSON (JSON Lines for lists)')
    .option('--quiet', 'print results and errors only')
    .option('-v, --verbose', 'print more on standard error: files in use, time, stacks')
    .option('--no-color', 'print no colors')
    .configureHelp({ showGlobalOptions: true })
    .addHelpText('after', TOP_HELP)
    .exitOverride()
    // `problemText` makes all suggestions, for every kind of name.
    .showSuggestionAfterError(false)
    .configureOutput({
      writeOut: (text) => {
        printed += text;
      },
      // Errors are printed as sentences elsewhere.
      writeErr: () => {},
      getOutHelpWidth: () => columns,
    });
  program.hook('preAction', (_, acting) => refuseAddresses(acting));
  let argv = [...args];
  for (const { name, group, summary, hidden = false, load } of commands) {
    const command = program
      .command(name, { hidden })
      .helpGroup(`${group}:`)
      .summary(summary)
      .description(summary)
      .action(() => {});
    if (name === target) {
      const file = await load();
      file.register(command, (started) => {
        body = started;
      });
      command.addHelpText('after', exitStatusHelp(name));
      let isLooking = false;
      const helpOf = (other: Command): string => {
        const shown = printed;
        isLooking = true;
        other.outputHelp();
        isLooking = false;
        const help = printed.slice(shown.length);
        printed = shown;
        return help;
      };
      for (const { words, sub, above } of commandsBelow(command, `mailkeep ${name}`, [command])) {
        sub.addHelpText('after', () => {
          if (isLooking) return '';
          const own = subcommandExamples(helpOf(sub), '');
          const found = above.map((other) => subcommandExamples(helpOf(other), ` ${words} `));
          const inherited = own === '' ? found.find((examples) => examples !== '') : '';
          return `${inherited ?? ''}${exitStatusHelp(name)}`;
        });
      }
      if (file.takesMinusWords === true)
        argv = markMinusWords(args, [...program.options, ...command.options]);
    }
  }
  const targetCommand = program.commands.find((command) => command.name() === target);
  if (isHelp && target !== undefined && targetCommand === undefined)
    throw invalidUsage('', await unknownCommand(target, program, program));
  checkValues(program, (problem) => {
    throw invalidUsage(targetCommand?.name() ?? '', problem);
  });
  try {
    await program.parseAsync(argv, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode === 0) return { kind: 'print', text: printed.trimEnd() };
    if (error.code === 'commander.help') throw missingCommand(targetCommand ?? program);
    const problem = await problemText(error, targetCommand ?? program, program);
    throw invalidUsage(targetCommand?.name() ?? '', problem);
  }
  if (body === undefined) throw missingCommand(targetCommand ?? program);
  const {
    config,
    data,
    json = false,
    quiet = false,
    verbose = false,
  } = program.opts<Values<'config' | 'data'> & Flags<'json' | 'quiet' | 'verbose'>>();
  return { kind: 'run', body, globals: { config, data, json, quiet }, verbose };
}

interface SubCommand {
  readonly words: string;
  readonly sub: Command;
  /** Parent commands, nearest first. */
  readonly above: readonly Command[];
}

function commandsBelow(command: Command, words: string, above: readonly Command[]): SubCommand[] {
  return command.commands.flatMap((sub) => {
    const own = `${words} ${sub.name()}`;
    return [{ words: own, sub, above }, ...commandsBelow(sub, own, [sub, ...above])];
  });
}

/** Options that take a local path. Mailbox folders may have any name. */
const PATH_OPTION = /<(?:dir|file|path)>$/;
const FOLDER_OPTION = '--folder';

/**
 * Refuses mail addresses as paths, because a folder of that name would be created.
 * @throws usage-invalid
 */
function refuseAddresses(acting: Command): void {
  for (let command: Command | null = acting; command !== null; command = command.parent) {
    const values = command.opts<Record<string, unknown>>();
    for (const option of command.options) {
      if (!PATH_OPTION.test(option.flags) || option.long === FOLDER_OPTION) continue;
      for (const value of [values[option.attributeName()]].flat()) {
        const found = typeof value === 'string' ? pathProblem(value) : undefined;
        if (found === undefined) continue;
        const problem = `${option.long} takes a path: ${found}.`;
        throw invalidUsage(acting.name(), problem);
      }
    }
  }
}

function missingCommand(command: Command): Error {
  return usageError('usage-no-command', { help: command.helpInformation().trimEnd() });
}

/** Returns the parser's error, with a suggestion: a command, an option or a value. */
async function problemText(
  { code, message }: CommanderError,
  command: Command,
  program: Command,
): Promise<string> {
  const text = message.replace(/^error: /, '').replace(/\.?$/, '.');
  const [, quoted = ''] = /'([^']*)'/.exec(text) ?? [];
  switch (code) {
    case 'commander.excessArguments': {
      const stray = /: ([^,]+)\.$/.exec(text)?.[1];
      if (stray === undefined) return text;
      const isCommand = command.commands.length > 0;
      if (stray.includes('@') && command.options.some(({ long }) => long === '--mailbox'))
        return `${isCommand ? `unknown command '${stray}'.` : text} Did you mean --mailbox ${stray}?`;
      return isCommand ? unknownCommand(stray, command, program) : text;
    }
    case 'commander.unknownCommand':
      return unknownCommand(quoted, command, program);
    case 'commander.unknownOption': {
      const hint = await unknownWordHint(quoted, command, program);
      if (hint !== null) return `${text} ${hint}`;
      const known = [command, ...command.commands, program].flatMap(({ options }) => options);
      const names = known.flatMap(({ long }) => long ?? []);
      return withNearest(text, quoted, names);
    }
    case 'commander.invalidArgument': {
      const found = / '([^']*)' is invalid/.exec(text)?.[1] ?? '';
      return withNearest(text, found, / Allowed choices are (.*)\.$/.exec(text)?.[1]?.split(', '));
    }
    default:
      return text;
  }
}

async function unknownCommand(typed: string, command: Command, program: Command): Promise<string> {
  const hint = await unknownWordHint(typed, command, program);
  const text = `unknown command '${typed}'.`;
  const visible = command.createHelp().visibleCommands(command);
  const names = visible.map((sub) => sub.name());
  return hint === null ? withNearest(text, typed, names) : `${text} ${hint}`;
}

function withNearest(text: string, typed: string, candidates: readonly string[] = []): string {
  const suggestion = nearest(typed, candidates);
  return suggestion === null ? text : `${text} Did you mean ${suggestion}?`;
}

/** Returns whether a line, valid or not, has a switch such as `--json`. */
export function hasSwitch(args: readonly string[], option: string): boolean {
  const end = args.indexOf('--');
  return (end < 0 ? args : args.slice(0, end)).includes(option);
}
