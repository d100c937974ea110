import type { Command } from 'commander';
import type { CommandEntry, RunCommand, Values } from './context.ts';
import type { ForwardedCommand } from './option-values.ts';

const HELP = `
In a fleet, --account reads an account of it, on any of its nodes: see docs/fleet.md.`;

/** Returns a command that with `--fleet-account` reads an account of a fleet, wherever it is. */
export function inFleet(entry: CommandEntry): CommandEntry {
  return {
    ...entry,
    async load() {
      const file = await entry.load();
      return {
        ...file,
        register(command, run) {
          const typed: (readonly [string, string | null])[] = [];
          file.register(command, (body) => {
            const { fleetAccount: account, fleetTenant: tenant } =
              command.opts<Values<'fleetAccount' | 'fleetTenant'>>();
            if (account === undefined) return run(body);
            return run(async (context) => {
              const { readFleetAccount } = await import('./fleet-account.ts');
              const words = command.processedArgs.flat().filter((word) => typeof word === 'string');
              const line = { command: command.name(), options: typed, words };
              return readFleetAccount(context, { account, tenant }, line);
            });
          });
          command
            .option('--fleet-account <name>', 'an account of the fleet, on any of its nodes')
            .option('--fleet-tenant <name>', 'its tenant, if several have an account of that name');
          for (const option of command.options) {
            const { long } = option;
            if (long === undefined || long === null) continue;
            command.on(`option:${option.name()}`, (value: unknown) => {
              typed.push([long, typeof value === 'string' ? value : null]);
            });
          }
        },
      };
    },
  };
}

/** Returns a command that with `--account` is answered by the node of a fleet that holds the account. */
export function atAnyNode(entry: CommandEntry): CommandEntry {
  return {
    ...entry,
    async load() {
      const file = await entry.load();
      return {
        ...file,
        register(command, run) {
          const typed: (readonly [string, string | null])[] = [];
          file.register(command, (body) => run(elsewhere(command, typed, body)));
          for (const option of command.options) {
            const { long } = option;
            if (long === undefined || long === null) continue;
            command.on(`option:${option.name()}`, (value: unknown) => {
              typed.push([long, typeof value === 'string' ? value : null]);
            });
          }
          command
            .option('--account <name>', 'an account of the fleet, instead of the archive here')
            .option(
              '--tenant <name>',
              'the tenant of the account, if several have one of that name',
            )
            .addHelpText('after', HELP);
        },
      };
    },
  };
}

/** What runs where `--account` is given, otherwise the command itself. */
function elsewhere(
  command: Command,
  options: ForwardedCommand['options'],
  body: RunCommand,
): RunCommand {
  const { account, tenant } = command.opts<{ account?: string; tenant?: string }>();
  if (account === undefined) return body;
  return async (context) => {
    const { askFleet } = await import('./ask-fleet.ts');
    const words = command.processedArgs.flat().filter((word) => typeof word === 'string');
    return askFleet(context, { account, tenant }, { command: command.name(), options, words });
  };
}
