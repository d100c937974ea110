import type { Command } from 'commander';
import type { Body } from '../../context.ts';

const HELP = `
Checks everything that a sync needs, and prints one line for each check, with what to do if it fails. It checks the
configuration; the archive's file system, free space, write access, log, lock and last verification; and for
each account the token, the service, the clocks and the webhooks. It leaves nothing behind, and takes about
five requests for each account.

The exit code is 0 if nothing failed, even with warnings; otherwise it is the code of a sync.

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
