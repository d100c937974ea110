import { type Command, Option } from 'commander';
import type { Body } from '../../context.ts';
import { exitStatusHelp } from '../../exit-help.ts';

const HELP = `
Writes units for systemd: mailkeep.service, which runs the daemon, and mailkeep-sync.timer for a sync every
quarter of an hour instead. Nothing is enabled or started; the commands for that are printed.

--user writes units for your own service manager (~/.config/systemd/user). --system writes units for the
machine, with a dedicated user, the archive in /var/lib/mailkeep and the hardening that docs/operations.md
explains. Where the configuration says {"credential": "NAME"}, tokens come from files in /etc/mailkeep that
only root can read.

EXAMPLES
  mailkeep service install --user
  mailkeep service install --system --dry-run
  sudo mailkeep service install --system --config /etc/mailkeep/config.json`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command.usage('install [options]').helpCommand(false).addHelpText('after', HELP);
  command
    .command('install')
    .summary('write units for systemd')
    .description('write units for systemd')
    .helpOption('-h, --help', 'print help')
    .configureHelp({ showGlobalOptions: true })
    .option('--user', 'for the service manager of this user')
    .addOption(
      new Option('--system', 'for the machine (default when run as root)').conflicts('user'),
    )
    .option('--dry-run', 'print the files instead of writing them')
    .option('--force', 'replace files with other content')
    .option('--root <dir>', 'a folder to write below, for packages', '/')
    .addHelpText('after', exitStatusHelp('service'))
    .action(
      (options: {
        readonly user?: boolean;
        readonly system?: boolean;
        readonly dryRun?: boolean;
        readonly force?: boolean;
        readonly root: string;
      }) =>
        chosen(async (context) => {
          const { installService } = await import('./install.ts');
          const root = process.getuid?.() === 0;
          const system = options.system ?? (root && options.user !== true);
          return installService(context, {
            scope: system ? 'system' : 'user',
            dryRun: options.dryRun ?? false,
            force: options.force ?? false,
            root: options.root,
          });
        }),
    );
}
