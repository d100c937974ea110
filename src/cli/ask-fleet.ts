import { performance } from 'node:perf_hooks';
import { systemClock } from '../core/concurrency.ts';
import type { FleetConfig } from '../core/config.ts';
import { usageError } from '../core/error-tables.ts';
import { EXIT, type ExitCode } from '../core/errors.ts';
import { terminalLine } from '../core/terminal-safe.ts';
import { readFleetKeys } from '../fleet/key-file.ts';
import { type AnswerSink, askHolder } from '../fleet/reading/ask.ts';
import type { AskOptions, Question } from '../fleet/reading/at-holder.ts';
import { converse } from '../fleet/reading/converse.ts';
import { lineOf } from '../fleet/reading/request.ts';
import { accountOf } from '../registry/account-named.ts';
import { fleetError } from '../registry/errors.ts';
import { withFleet } from './commands/fleet/open-fleet.ts';
import type { CommandContext } from './context.ts';
import type { AccountOption, ForwardedCommand } from './option-values.ts';

/**
 * Runs a reading command at the node of a fleet that holds an account, and prints what it prints.
 *
 * @throws what `withHolder`, `askHolder` and `converse` throw
 */
export async function askFleet(
  context: CommandContext,
  which: AccountOption,
  line: ForwardedCommand,
): Promise<ExitCode> {
  const { output, notices, signal } = context;
  const sink: AnswerSink = {
    output: (bytes) => output.bytes(bytes),
    errors: async (bytes) => void notices.stream.write(bytes),
  };
  if (line.command === 'mcp') {
    return withHolder(context, which, line, (options, question) =>
      speak(context, sink, options, question),
    );
  }
  return withHolder(context, which, line, async (options, question) =>
    exitCodeOf(await askHolder(options, question, sink, signal)),
  );
}

/** Passes on standard input and output until the input ends, or the command is interrupted. */
async function speak(
  { stdin, signal }: CommandContext,
  { output, errors }: AnswerSink,
  options: AskOptions,
  question: Question,
): Promise<ExitCode> {
  const { stream, ended } = await converse(options, question, errors, signal);
  const input = stdin();
  input.pipe(stream);
  try {
    for await (const bytes of stream) await output(bytes);
    return exitCodeOf(await ended);
  } catch (error) {
    // Interrupting it is how it ends well.
    if (signal.aborted) return EXIT.done;
    throw error;
  } finally {
    input.unpipe(stream);
    input.destroy();
  }
}

/**
 * Runs `act` with what it takes to ask the holder of an account for a command.
 *
 * @throws what `withFleet`, `accountOf`, `lineOf` and `act` throw; fleet-account-removed
 */
export async function withHolder<T>(
  context: CommandContext,
  which: AccountOption,
  { command, options, words }: ForwardedCommand,
  act: (options: AskOptions, question: Question, place: FleetConfig['fleet']) => Promise<T>,
): Promise<T> {
  const { output, notices, globals } = context;
  refuseFolder(context, command);
  // What it prints is read by this program first.
  const isReadHere = command === 'forget';
  const question = {
    ...{ account: which.account, command },
    options: options.map(([name, value]): [string, string | null] => [name, value]),
    ...{ words: [...words], quiet: globals.quiet },
    json: globals.json || isReadHere,
    columns: output.interactive && !isReadHere ? output.columns : null,
    colours: output.colours.isColorSupported,
    timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  };
  // Refused here as it would be there.
  lineOf({ ...question, archive: 1, session: null });
  return withFleet(context, async ({ config: { fleet: place }, registry, fleet }) => {
    const { archive, state, tenant } = await accountOf(registry, which.account, which.tenant);
    if (state === 'leaving') {
      throw fleetError('fleet-account-removed', { account: which.account, tenant });
    }
    return act(
      {
        ...{ registry, node: place.node },
        secrets: { fleet: fleet.id, keys: () => readFleetKeys(place.keyFile) },
        clock: systemClock,
        monotonic: () => performance.now(),
        onWaiting: (node) =>
          notices.say(
            `The node ${terminalLine(node)} does not answer; waiting until another one holds the account.`,
          ),
      },
      { ...question, archive },
      place,
    );
  });
}

/** Refuses a folder where an account is named. @throws usage-invalid */
export function refuseFolder({ globals }: CommandContext, command: string): void {
  if (globals.data === undefined) return;
  const problem = '--data cannot be used with --account: the account has a folder of its own.';
  throw usageError('usage-invalid', { command, problem });
}

function exitCodeOf(code: number): ExitCode {
  return Object.values(EXIT).find((known) => known === code) ?? EXIT.failures;
}
