import { Option } from 'commander';
import type { CommandEntry, Values } from './context.ts';

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
          // "fleet --help" describes them; most archives are not in a fleet.
          for (const flags of ['--fleet-account <name>', '--fleet-tenant <name>'])
            command.addOption(new Option(flags).hideHelp());
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
