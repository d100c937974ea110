import type { Command } from 'commander';
import type { Body } from '../../context.ts';
import { exitStatusHelp } from '../../exit-help.ts';

const HELP = `
"check" reads the configuration as every other command does, reports all errors in it, and tries to read the tokens. It
contacts neither the service nor the archive ("mailkeep doctor" does). "show" prints every field in effect, where
the file was found and which values are defaults; secrets are printed as ***.

EXAMPLES
  mailkeep config check --config /etc/mailkeep/config.json
  mailkeep config show
  mailkeep config show --json | jq '.fields[] | select(.isDefault | not)'`;

const PARTS = [
  [
    'check',
    'check the configuration, and whether its tokens can be read',
    async () => (await import('./show.ts')).checkConfig,
  ],
  [
    'show',
    'print every field in effect, without secrets',
    async () => (await import('./show.ts')).showConfig,
  ],
] as const;

export function define(command: Command, chosen: (body: Body) => void): void {
  command.usage('<check|show> [options]').helpCommand(false).addHelpText('after', HELP);
  for (const [name, summary, load] of PARTS) {
    command
      .command(name)
      .summary(summary)
      .description(summary)
      .helpOption('-h, --help', 'print help')
      .configureHelp({ showGlobalOptions: true })
      .addHelpText('after', exitStatusHelp('config'))
      .action(() => chosen(async (context) => (await load())(context)));
  }
}
