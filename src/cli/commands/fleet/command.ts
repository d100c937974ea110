import type { Command } from 'commander';
import type { RunCommand } from '../../context.ts';
import { duration, wholeNumber } from '../../option-values.ts';
import { defineAccounts, defineImport } from './account-commands.ts';
import type { CheckLine } from './check.ts';
import type { DemoLine } from './demo.ts';
import type { DrainLine } from './drain.ts';
import type { InitLine } from './init.ts';
import type { RotateLine } from './key-rotate.ts';
import type { NodeRemoveLine } from './node-remove.ts';
import type { StatusLine } from './status.ts';
import { group, plainName, sub } from './sub-command.ts';

const HELP = `
For providers with a thousand mailboxes and more. The archives of a fleet are spread over several machines (nodes). A
PostgreSQL database, the registry, decides who writes which archive and has the newest commits of each; an S3 bucket has
the rest. A node's disk is a cache. For your own mailboxes, use "sync" and "daemon": they need none of this.

The registry, the bucket and the name of this node are in "fleet" of the configuration: see docs/fleet.md.

EXAMPLES
  mailkeep fleet init
  mailkeep fleet account add anna --tenant acme --settings anna.json
  mailkeep fleet account list
  mailkeep fleet import --data DIR --account ben --settings config.json
  mailkeep fleet worker
  mailkeep fleet status
  mailkeep fleet drain --node node-1
  mailkeep fleet key rotate --new second
  mailkeep fleet node remove node-1
  mailkeep fleet demo`;

const NAMES = [
  ...['init', 'account', 'import', 'worker', 'status', 'check', 'drain', 'key', 'node'],
  'demo',
];

export function register(command: Command, run: (body: RunCommand) => void): void {
  group(command, 'fleet', NAMES).addHelpText('after', HELP);
  sub(command, 'init', 'make a fleet, or upgrade its tables; tries the bucket')
    .option('--create-bucket', 'create the bucket, unless it is ours already')
    .option('--allow-versioning', 'accept a bucket that keeps versions of objects')
    .addHelpText('after', INIT_HELP)
    .action((options: InitLine) =>
      run(async (context) => {
        const { initFleetCommand } = await import('./init.ts');
        return initFleetCommand(context, options);
      }),
    );
  defineAccounts(command, run);
  defineImport(command, run);
  defineKeys(command, run);
  defineNodes(command, run);
  sub(command, 'worker', 'keep archives of the fleet fresh, until it is stopped')
    .addHelpText('after', WORKER_HELP)
    .action(() =>
      run(async (context) => {
        const { fleetWorkerCommand } = await import('./worker.ts');
        return fleetWorkerCommand(context);
      }),
    );
  sub(command, 'check', 'check that every archive can be taken over')
    .argument('[account]', 'this account only')
    .option('--tenant <name>', 'accounts of this tenant only', plainName)
    .option('--read', 'read every object, instead of asking for its length')
    .addHelpText('after', CHECK_HELP)
    .action((account: string | undefined, options: CheckLine) =>
      run(async (context) => {
        const { checkCommand } = await import('./check.ts');
        return checkCommand(context, account, options);
      }),
    );
  sub(command, 'drain', 'let workers take nothing more and let go of their accounts')
    .option('--node <name>', 'of this node only (default: of all nodes)', plainName)
    .addHelpText('after', DRAIN_HELP)
    .action((options: DrainLine) =>
      run(async (context) => {
        const { drainCommand } = await import('./drain.ts');
        return drainCommand(context, options);
      }),
    );
  sub(command, 'status', 'show nodes, accounts, and what needs attention')
    .option(
      '--max-age <duration>',
      'an account without a commit for longer needs attention',
      duration,
    )
    .addHelpText('after', STATUS_HELP)
    .action((options: StatusLine) =>
      run(async (context) => {
        const { statusCommand } = await import('./status.ts');
        return statusCommand(context, options);
      }),
    );
  defineDemo(command, run);
}

function defineDemo(fleet: Command, run: (body: RunCommand) => void): void {
  sub(fleet, 'demo', 'try a fleet on this machine, with a worker that is killed')
    .option('--mailboxes <n>', 'how many', wholeNumber(2, 5_000), 200)
    .option('--messages <n>', 'of each mailbox, on average', wholeNumber(1, 1_000), 20)
    .option('--nodes <n>', 'each with a worker', wholeNumber(2, 8), 2)
    .option('--keep', 'keep the fleet running for you to explore, until Ctrl-C')
    .addHelpText('after', DEMO_HELP)
    .action((options: DemoLine) =>
      run(async (context) => {
        const { demoCommand } = await import('./demo.ts');
        return demoCommand(context, options);
      }),
    );
}

function defineKeys(fleet: Command, run: (body: RunCommand) => void): void {
  const key = sub(fleet, 'key', 'change the key that encrypts the secrets of accounts');
  group(key, 'fleet key', ['rotate']);
  sub(key, 'rotate', 'encrypt all secrets by the first key of the file of keys')
    .option('--new <name>', 'put a new key of this name at the top of the file first', plainName)
    .addHelpText('after', ROTATE_HELP)
    .action((options: RotateLine) =>
      run(async (context) => {
        const { rotateCommand } = await import('./key-rotate.ts');
        return rotateCommand(context, options);
      }),
    );
}

function defineNodes(fleet: Command, run: (body: RunCommand) => void): void {
  const node = sub(fleet, 'node', 'strike off a node that is gone for good');
  group(node, 'fleet node', ['remove']);
  sub(node, 'remove', 'let no forget wait for a node whose disk is destroyed')
    .argument('<node>', 'the node')
    .option('--disk-destroyed', 'nobody can ever read its disk again')
    .addHelpText('after', NODE_HELP)
    .action((name: string, options: NodeRemoveLine) =>
      run(async (context) => {
        const { removeNodeCommand } = await import('./node-remove.ts');
        return removeNodeCommand(context, name, options);
      }),
    );
}

const DEMO_HELP = `
Starts a PostgreSQL server, RadosGW and a mail service with made-up mail in a folder of its own, makes a fleet of two
nodes, mirrors all mailboxes, kills one worker, and shows how its archives are taken over. Nothing listens
outside this machine, and everything is removed in the end. It needs the packages of PostgreSQL and RadosGW, and about
two minutes.

EXAMPLES
  mailkeep fleet demo
  mailkeep fleet demo --mailboxes 20 --keep`;

const ROTATE_HELP = `
Secrets are encrypted again one by one by the first key of the file. An interrupted rotation is continued by running it
again. Nothing is added to the file unless --new is given. Lines of older keys stay: remove them once no secret uses them.

With --new, copy the file to the other nodes at once. To avoid the moment in which they lack the key, add its line to every
file by hand as the second one, move it to the top everywhere, then run the command without --new.`;

const NODE_HELP = `
A forget ends only once every disk that may have a copy of what is forgotten was wiped. A node that is gone for good never
wipes its disk, so it has to be struck off by hand. The registry keeps a note of it. Refused while a worker of the node is
running.`;

const WORKER_HELP = `
Runs in the foreground: claims accounts that nobody holds, at most "capacity" of them, and keeps them fresh as "daemon"
does, by schedule.sync and schedule.sweep of this configuration. Its local copies are below "cache". A worker that stops
gives its accounts back; those of one that was killed are claimed by others half a minute later. Start one on each node.

With "webhook" in the configuration, it receives webhooks for the whole fleet, whoever holds the account.
With "health", it answers /healthz, /readyz and /metrics. "notify" is for what "fleet status" shows as ATTENTION.

SIGTERM and SIGINT stop it, with code 0. The log goes to standard output: JSON Lines, or readable lines on a terminal.`;

const CHECK_HELP = `
Checks, for every account: that PostgreSQL and the bucket together have every commit once and in order, that the bytes in
PostgreSQL are what was committed, and that every object is in the bucket and as long as it was. With --read, every object
is read and compared by its SHA-256. Also checks that PostgreSQL acknowledges only what a replica has. Nothing is changed,
and workers may run meanwhile.

The exit code is 3 if something is damaged or missing, and 1 if replication is not synchronous.

EXAMPLES
  mailkeep fleet check
  mailkeep fleet check anna --tenant acme --read`;

const DRAIN_HELP = `
For an upgrade, or before a machine is switched off. A worker that drains ends the passes under way, lets go of its accounts
for others to take, and takes nothing more. A worker that is started later is not concerned. Without --node, no account is
mirrored until workers are started again.`;

const STATUS_HELP = `
Shows the nodes, who holds how many accounts, how fresh these are, what is in PostgreSQL and in the bucket, and what
unfinished forgets wait for.

The exit code is 1 if something needs attention: PostgreSQL has no synchronous replica, no worker is running or they take
fewer accounts than there are, nobody took the accounts of a dead node for 5 minutes, commits have been in PostgreSQL for
48 hours, a forget has not ended for 24 hours, or an account is older than --max-age. With --quiet, only that is printed.

EXAMPLES
  mailkeep fleet status
  mailkeep fleet status --max-age 26h --quiet || notify-me`;

const INIT_HELP = `
Makes or upgrades the tables of the registry, makes the fleet, and tries the bucket with small objects below init/: an
upload in parts is read back, an upload is called off, an object is deleted. A bucket with versioning is refused unless
--allow-versioning is given. If there is no file of keys, one is made (0600); an existing file is never changed.

Everything that is there stays as it is, so the command can be repeated: after an interruption, on every node, and
after an upgrade of mailkeep.`;
