import type { Register } from '../context.ts';

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
  mailkeep status`;

export const register: Register = (command, run) => {
  command.addHelpText('after', HELP).action(() =>
    run(async (context) => {
      const { runDaemon } = await import('../../daemon/daemon-process.ts');
      return runDaemon({ ...context, interactive: context.output.interactive });
    }),
  );
};
