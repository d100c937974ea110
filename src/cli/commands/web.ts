import { Option } from 'commander';
import { parseListen } from '../../core/address.ts';
import { usageError } from '../../core/error-tables.ts';
import type { Flags, Register, Values } from '../context.ts';
import { collect } from '../option-values.ts';

interface WebLine extends Flags<'link' | 'open'>, Values<'relayed'> {
  readonly listen: string;
  readonly mailbox?: string[];
}

const HELP = `
Serves the archive to a browser on this machine until it is interrupted. It needs no configuration, account or
network, and only reads the archive. Once it listens, it prints its address and a sign-in link, which works
once, within ten minutes. A signed-in browser stays signed in for 30 days.

With --link, it asks the server that runs for another link, prints it and ends; the exit code is 1 if none
runs. A daemon with "web" in its configuration is such a server.

--listen takes an address of this machine only: other machines need a reverse proxy with HTTPS and the daemon
(docs/web.md).

EXAMPLES
  mailkeep web
  mailkeep web --data /media/backup/archive --listen 127.0.0.1:0 --open
  mailkeep web --link --mailbox anna@example.org`;

export const register: Register = (command, run) => {
  command
    .option('--listen <address>', 'address to listen on; port 0 is any free one', '127.0.0.1:8027')
    .option('--link', 'print a new sign-in link of the server that runs')
    .option('--mailbox <address>', 'limit the sign-in link to this mailbox; repeatable', collect)
    .option('--open', 'open the sign-in link in the browser')
    // For the worker of a fleet, which lets callers in and says who they are.
    .addOption(new Option('--relayed <socket>').hideHelp())
    .addHelpText('after', HELP)
    .action((options: WebLine) =>
      run(async (context) => {
        if (options.relayed !== undefined) {
          const { serveRelayedWeb } = await import('../serve-web.ts');
          return serveRelayedWeb(context, options.relayed);
        }
        const { link = false, open = false, mailbox: mailboxes = [] } = options;
        const listen = parseListen(options.listen);
        if (listen === undefined)
          throw usageError('usage-option', {
            option: '--listen',
            found: options.listen,
            expected: 'an address such as 127.0.0.1:8027',
          });
        const { askForLink, serveWeb } = await import('../serve-web.ts');
        return link
          ? askForLink(context, mailboxes, open)
          : serveWeb(context, { listen, mailboxes, open });
      }),
    );
};
