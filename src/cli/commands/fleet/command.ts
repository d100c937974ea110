import type { Command } from 'commander';
import type { Body } from '../../context.ts';
import { defineAccounts } from './account-commands.ts';
import type { InitLine } from './init.ts';
import { group, sub } from './sub-command.ts';

const HELP = `
For providers with a thousand mailboxes and more. The archives of a fleet are spread over several machines (nodes). A
PostgreSQL database, the registry, decides who writes which archive and has the newest commits of each; an S3 bucket has
the rest. A node's disk is a cache. For your own mailboxes, use "sync" and "daemon": they need none of this.

The registry, the bucket and the name of this node are in "fleet" of the configuration: see docs/fleet.md.

EXAMPLES
  mailkeep fleet init
  mailkeep fleet account add anna --tenant acme --settings anna.json
  mailkeep fleet account list`;

const NAMES = ['init', 'account'];

export function define(command: Command, chosen: (body: Body) => void): void {
  group(command, 'fleet', NAMES).addHelpText('after', HELP);
  sub(command, 'init', 'make a fleet, or upgrade its tables; tries the bucket')
    .option('--create-bucket', 'create the bucket, unless it is ours already')
    .option('--allow-versioning', 'accept a bucket that keeps versions of objects')
    .addHelpText('after', INIT_HELP)
    .action((options: InitLine) =>
      chosen(async (context) => {
        const { initFleetCommand } = await import('./init.ts');
        return initFleetCommand(context, options);
      }),
    );
  defineAccounts(command, chosen);
}

const INIT_HELP = `
Makes or upgrades the tables of the registry, makes the fleet, and tries the bucket with small objects below init/: an
upload in parts is read back, an upload is called off, an object is deleted. A bucket with versioning is refused unless
--allow-versioning is given. If there is no file of keys, one is made (0600); an existing file is never changed.

Everything that is there stays as it is, so the command can be repeated: after an interruption, on every node, and
after an upgrade of mailkeep.`;
