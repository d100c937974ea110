import type { Command } from 'commander';
import type { Body } from '../../context.ts';

const HELP = `
Looks at everything that a sync needs, and says in a line each how it is and what to do about it: the configuration,
the file system of the archive and its free space, whether it can be written, its log, its lock and its last
verification; for each account the token, the service, the clocks and
the webhooks. Leaves nothing behind. Some five requests for each account.

It ends with 0 when nothing failed, though there may be warnings; else as a sync would.

EXAMPLES
  mailkeep doctor
  mailkeep doctor --json | jq '.checks[] | select(.state != "ok")'`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command.addHelpText('after', HELP).action(() =>
    chosen(async (context) => {
      const { examine } = await import('./examine.ts');
      return examine(context);
    }),
  );
}
