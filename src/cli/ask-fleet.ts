import { performance } from 'node:perf_hooks';
import type { ExitCode } from '../errors/exit-codes.ts';
import { EXIT } from '../errors/exit-codes.ts';
import { fleetError } from '../errors/fleet.ts';
import { usageError } from '../errors/usage.ts';
import { readFleetKeys } from '../fleet/key-file.ts';
import { type AnswerSink, askHolder } from '../fleet/reading/ask.ts';
import { lineOf } from '../fleet/reading/request.ts';
import { systemClock } from '../limiter/clock.ts';
import { terminalLine } from '../mail/terminal-safe.ts';
import { accountOf } from '../registry/account-named.ts';
import { withFleet } from './commands/fleet/open-fleet.ts';
import type { CommandContext } from './context.ts';
import type { TypedLine, WhichAccount } from './typed-line.ts';

/**
 * Runs a reading command at the node of a fleet that holds an account, and prints what it prints.
 *
 * @throws what `withFleet`, `accountOf` and `askHolder` throw; fleet-account-removed
 */
export async function askFleet(
  context: CommandContext,
  which: WhichAccount,
  line: TypedLine,
): Promise<ExitCode> {
  const { output, notices } = context;
  if (line.command === 'export') {
    const { exportFromFleet } = await import('./export-from-fleet.ts');
    return exportFromFleet(context, line, (rest, sink) => askedFor(context, which, rest, sink));
  }
  return askedFor(context, which, line, {
    output: (bytes) => output.bytes(bytes),
    errors: async (bytes) => void notices.stream.write(bytes),
  });
}

async function askedFor(
  context: CommandContext,
  which: WhichAccount,
  { command, options, words }: TypedLine,
  sink: AnswerSink,
): Promise<ExitCode> {
  const { output, notices, globals, signal } = context;
  if (globals.data !== undefined) {
    throw usageError('usage-invalid', {
      command,
      problem: '--data cannot be used with --account: the account has a folder of its own.',
    });
  }
  const question = {
    ...{ account: which.account, command },
    options: options.map(([name, value]): [string, string | null] => [name, value]),
    ...{ words: [...words], quiet: globals.quiet },
    // What an export prints is read here first.
    json: globals.json || command === 'export',
    columns: output.interactive && command !== 'export' ? output.columns : null,
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
    const code = await askHolder(
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
      sink,
      signal,
    );
    return exitCodeOf(code);
  });
}

function exitCodeOf(code: number): ExitCode {
  return Object.values(EXIT).find((known) => known === code) ?? EXIT.failures;
}
