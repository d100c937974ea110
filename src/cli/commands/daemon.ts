import { Option } from 'commander';
import { lazyAction, type Register, subCommand } from '../context.ts';

const HELP = `
Runs in the foreground until it is stopped, and keeps the archive up to date: schedule.sync starts a pass over
all mailboxes, schedule.sweep compares every message and flag, schedule.verify reads every byte of the
archive, and a webhook that reports new mail starts a pass over its mailbox at once. IMAP accounts are
watched with IDLE or NOTIFY in place of webhooks. If runs were missed while the machine slept, one run
makes up for them. notify reports failures and recoveries.

Other commands work while it runs: reading commands as usual, and "sync" is handed to the daemon. A second
daemon on the same archive exits with code 5.

SIGTERM and SIGINT stop it within ten seconds, with code 0. SIGHUP reloads the configuration; if that is
invalid, the daemon logs why and keeps the old one.

The log goes to standard output: JSON Lines, or readable lines on a terminal. It names mailboxes by their
resource ids (those of IMAP accounts by a hash), and contains no addresses, subjects or secrets.

EXAMPLES
  mailkeep daemon --config /etc/mailkeep/config.json
  mailkeep daemon install --user
  mailkeep status`;

const INSTALL_HELP = `
Writes units for systemd: mailkeep.service, which runs the daemon, and mailkeep-sync.timer for a sync every
quarter of an hour instead. Nothing is enabled or started; the commands for that are printed.

--user writes units for your own service manager (~/.config/systemd/user). --system writes units for the
machine, with a dedicated user, the archive in /var/lib/mailkeep and the hardening that docs/operations.md
explains. Where the configuration says {"credential": "NAME"}, tokens come from files in /etc/mailkeep that
only root can read.

EXAMPLES
  mailkeep daemon install --user
  mailkeep daemon install --system --dry-run
  sudo mailkeep daemon install --system --config /etc/mailkeep/config.json`;

export const register: Register = (command, run) => {
  command
    .helpCommand(false)
    .addHelpText('after', HELP)
    .action(() =>
      run(async (context) => {
        const { runDaemon } = await import('../../daemon/daemon-process.ts');
        return runDaemon({ ...context, interactive: context.output.interactive });
      }),
    );
  subCommand(command, 'install', 'write units for systemd')
    .option('--user', 'for the service manager of this user')
    .addOption(
      new Option('--system', 'for the machine (default when run as root)').conflicts('user'),
    )
    .option('--dry-run', 'print the files instead of writing them')
    .option('--force', 'replace files with other content')
    .option('--root <dir>', 'a folder to write below, for packages', '/')
    .addHelpText('after', INSTALL_HELP)
    .action(lazyAction(run, async () => (await import('./daemon-install.ts')).installUnits));
};
