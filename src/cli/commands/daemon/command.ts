import type { Command } from 'commander';
import type { Body } from '../../context.ts';

const HELP = `
Runs in the foreground until it is told to end, and keeps the archive fresh: a pass over all mailboxes by
schedule.sync, every message and flag by schedule.sweep, every byte of the archive by schedule.verify, a
mailbox at once when a webhook tells of mail. What was missed while the machine slept is made up for once.
What fails, and works again, is told by notify.

Commands work beside it: reading commands as ever, and "sync" is handed to it. A second daemon on the same
archive ends with code 5.

SIGTERM and SIGINT end it within ten seconds, with code 0. SIGHUP reloads the configuration; when that is
wrong, it says why and goes on with the old one.

The log goes to standard output: JSON Lines, or lines for people on a terminal. It names mailboxes by their
resource ids, and holds no addresses, subjects or secrets.

EXAMPLES
  mailkeep daemon --config /etc/mailkeep/config.json
  mailkeep status`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command.addHelpText('after', HELP).action(() =>
    chosen(async (context) => {
      const { runDaemon } = await import('../../../daemon/run-daemon.ts');
      return runDaemon({ ...context, interactive: context.output.interactive });
    }),
  );
}
