import { type Command, InvalidArgumentError, Option } from 'commander';
import { usageError } from '../../core/error-tables.ts';
import { nearest, PLAIN_NAME, PLAIN_NAME_TEXT } from '../../core/names.ts';
import { lazyAction, type Register, type RunCommand, subCommand } from '../context.ts';
import { collect, sampleSize, wholeNumber } from '../option-values.ts';
import type { AccessLine, TokenLine } from './fleet-access.ts';
import type {
  AccountLine,
  AddLine,
  DrainLine,
  InitLine,
  NodeRemoveLine,
  RebalanceLine,
  RecoverLine,
  RotateLine,
} from './fleet-actions.ts';
import type { ImportLine, VerifyLine } from './fleet-archives.ts';
import type { DemoLine } from './fleet-demo.ts';
import type { ForgetLine } from './fleet-forget.ts';

const HELP = `
For hosting providers with more mailboxes than one machine takes. Accounts are grouped into shards. Each shard is an
ordinary archive, which one of several machines (nodes) keeps up to date. A PostgreSQL database, the registry, says which
node holds which shard. An S3 bucket has an encrypted copy of each shard, about a minute old. For your own mailboxes, use
"sync" and "daemon".

The registry, the bucket and the name of this node are in "fleet" of the configuration. docs/fleet.md has the set-up, step by
step, and what to do after a disaster.

"search", "list", "show", "attachments", "history", "export", "status" and "mcp" read an account from any node with
--fleet-account NAME, and --fleet-tenant NAME if several tenants have an account of that name.

EXAMPLES
  mailkeep fleet init
  mailkeep fleet account add anna --tenant acme --settings anna.json
  mailkeep fleet account add --bulk accounts.jsonl
  mailkeep fleet import /var/lib/mailkeep --accounts accounts.jsonl
  mailkeep fleet worker
  mailkeep fleet status
  mailkeep fleet verify --sample 1%
  mailkeep fleet drain --node node-1 --wait
  mailkeep fleet forget anna 3f2a91c4
  mailkeep fleet rebalance
  mailkeep fleet access link anna
  mailkeep fleet access list
  mailkeep fleet key rotate --new key-2027
  mailkeep fleet recover
  mailkeep fleet node remove node-1 --disk-destroyed
  mailkeep fleet demo`;

const NAMES = [
  ...['init', 'account', 'access', 'import', 'worker', 'status', 'verify', 'forget', 'drain'],
  ...['rebalance', 'recover', 'key', 'node', 'demo'],
];

const INIT_HELP = `
Creates the tables of the registry and the fleet, and tries the bucket with small objects below init/: an upload in parts
is read back, an upload is cancelled, an object is deleted. A bucket with versioning is refused unless --allow-versioning
is given. If there is no key file, one is created (0600); an existing file is never changed.

Existing data stays as it is, so the command can be repeated: after an interruption, and on every node.`;

const WORKER_HELP = `
Runs in the foreground: claims shards that nobody holds, at most "capacity" accounts of them, and runs a daemon for each,
with the settings of this configuration. What is new is shipped to the bucket every minute, or after 8 MiB. A worker that
stops ships and releases its shards; those of one that was killed are claimed by others half a minute later.

"health" in the configuration counts for the worker: /readyz names shards that fail, and fails itself with ?max-age=5m if one
does or was not shipped for so long; /metrics has the fleet and, by shard, the daemons. "notify" counts for each daemon. An
account is called a and its id there: "account list --json" has the ids. Webhooks are not received: hosted accounts are
polled, as "schedule" says.

The worker refuses to start if it may open too few files, if the disk is short, or if the key file lacks a key.

SIGTERM and SIGINT stop it, with code 0. The log goes to standard output: JSON Lines, or readable lines on a terminal.`;

const STATUS_HELP = `
Shows nodes, shards and accounts, and what unfinished forgets wait for.

The exit code is 1 if something needs attention: no worker is running or they have too little room, a shard has no holder
for 5 minutes, fails on its node or must be recovered, or a forget has not ended for 24 hours. With --quiet, only that is
printed.

EXAMPLES
  mailkeep fleet status
  mailkeep fleet status --quiet || notify-me`;

const IMPORT_HELP = `
Ships the archive of a single machine as a new shard, then adds its accounts, which go on where they were. Stop its daemon
first. The file has the accounts of its configuration, one a line, as for "account add --bulk": the same servers and mailboxes;
names and tenants may be others. The folder stays as it is. Forgets in the fleet do not reach it.

An import that was interrupted can be run again. It leaves at most a shard without accounts.`;

const VERIFY_HELP = `
Downloads, opens and reads what the bucket has of each shard, as a take-over would; --sample reads a random part of the
segments. The archives on the nodes are verified by their daemons, as "schedule" says, or with "mailkeep verify --data
CACHE/SHARD" on the node that holds the shard.

The exit code is 3 if something is damaged. Delete the damaged objects, below shards/NUMBER/, and restart the worker that
holds the shard: it uploads again what is missing.`;

const FORGET_HELP = `
Removes messages of an account permanently, or with --mailbox and no ids everything in a mailbox. Only this account loses
them: if another account of its shard has the same message, that one keeps it, and the bytes go with the last one. They are
never fetched for this account again; a removed mailbox comes back with the next sync if its service still has it.

The answer comes once the forget is decided in the registry: from then on it is carried out, whatever happens to this command
or to the node that holds the account. That node stops the daemon of the shard for it, within a minute. The command
waits until no node and no object of the bucket has the bytes any more, which takes 15 minutes or more; Ctrl-C or --no-wait
does not cancel anything. A node that is switched off and may have the bytes on its disk is waited for: see "fleet node
remove". An account that was removed from the fleet has to be resumed first.

EXAMPLES
  mailkeep fleet forget anna 3f2a91c4 9b01d7aa --tenant acme
  mailkeep fleet forget anna 3f2a91c4 --mailbox anna@example.org --yes --no-wait
  mailkeep fleet forget anna --mailbox left@example.org --dry-run
  mailkeep fleet forget anna --list`;

const DRAIN_HELP = `
For an upgrade, or before a machine is switched off. A worker that drains ships and releases its shards for others to
claim, and claims nothing more. A worker that is started later is not affected. With --wait, the command ends once the
workers hold nothing. Without --node, all workers drain, and nothing is mirrored until --undo or a new worker.

EXAMPLES
  mailkeep fleet drain --node node-1 --wait
  mailkeep fleet drain --node node-1 --undo`;

const REBALANCE_HELP = `
Asks for shards to move from nodes with many accounts to nodes with few. Each holder ships and releases a shard, and the
wanted node claims it. Meanwhile nobody mirrors or reads its accounts.

EXAMPLES
  mailkeep fleet rebalance --dry-run`;

const RECOVER_HELP = `
After PostgreSQL has failed over or was restored, no shard is claimed until its row was compared with the bucket. Running
workers do that by themselves; this command does it as well. It takes the newest state of each shard whose objects are all
in the bucket, and waits two minutes first, until nothing of before is under way.

After a restore that PostgreSQL does not notice, such as of a snapshot of its disk, or if the bucket has lost objects: stop the
workers, wait 30 seconds, and use --all.

If PostgreSQL is lost: stop the workers, create an empty database, and use --from-bucket on a node with the key file, instead
of "fleet init". Workers store a copy of the registry in the bucket within minutes if accounts or forgets have changed. API
tokens and sign-ins are not in it: create them again.

EXAMPLES
  mailkeep fleet recover
  mailkeep fleet recover --all
  mailkeep fleet recover --from-bucket`;

const ACCOUNT_HELP = `
An account is what an entry of "accounts" is in the configuration of a single machine: a token at a mail service, or an IMAP
server with its user. Names are unique within a tenant, such as a customer.

EXAMPLES
  mailkeep fleet account add anna --tenant acme --settings anna.json
  mailkeep fleet account add ben --settings ben.json --token-file - < token
  mailkeep fleet account add --bulk accounts.jsonl
  mailkeep fleet account update anna --settings anna.json --token-file new.token
  mailkeep fleet account list --tenant acme
  mailkeep fleet account pause anna
  mailkeep fleet account resume anna
  mailkeep fleet account remove anna`;

const ADD_HELP = `
The settings are JSON like an entry of "accounts" in the configuration: baseUrl and token, or imap; mailboxes, folders,
platform. Secrets are stored encrypted by the first key of the key file, so they have to be in the settings: as text, not as
the name of a variable, a file or a command. --token-file and --token-env read the token, or the password of an IMAP
account, from elsewhere now.

An IMAP account with "oauth" also has the refresh token of a person's sign-in there, as refreshToken, unless it has
appOnly. The node that holds it refreshes it from then on: use it nowhere else.

--bulk adds many accounts: each line of the file is the JSON of one, with its name and, if it has one, "tenant". Accounts
that exist are left as they are, so the command can be repeated.

EXAMPLES
  echo '{"baseUrl": "https://mail-api.example.org"}' |
    mailkeep fleet account add anna --settings - --token-file anna.token`;

const ACCESS_HELP = `
Every node with "web" in its configuration serves the web interface, the API and MCP for every account, whichever node holds
it. A link works once, within ten minutes; the browser stays signed in for 30 days, at all nodes. A token covers one account,
or all accounts of a tenant: then each request names one in the header mailkeep-account, and GET /api/v1/fleet/search?q=…
searches all of them.

EXAMPLES
  mailkeep fleet access link anna --tenant acme
  mailkeep fleet access token anna --name phone --expires 90
  mailkeep fleet access token --tenant acme --name search
  mailkeep fleet access revoke 0d0f3f0a-5d0e-4b7e-9d1a-5f1f6a7a2b11`;

const ROTATE_HELP = `
Secrets are encrypted again one by one by the first key of the file. An interrupted rotation is continued by running it
again. Nothing is added to the file unless --new is given. Lines of older keys stay: the copies in the bucket need them.

With --new, copy the file to the other nodes at once. To avoid the moment in which they lack the key, add its line to every
file by hand as the second one, move it to the top everywhere, then run the command without --new.

EXAMPLES
  mailkeep fleet key rotate --new key-2027`;

const NODE_HELP = `
A forget ends only once every disk that may have the bytes was wiped. A node that is gone for good never wipes its disk, so it
has to be removed by hand. If its disk comes back after all, its folders are set aside and merged. Refused while a worker of
the node is running.

EXAMPLES
  mailkeep fleet node remove node-1 --disk-destroyed`;

const DEMO_HELP = `
Starts a PostgreSQL server, RadosGW and a mail service with made-up mail in a folder of its own, creates a fleet of two
nodes, mirrors all mailboxes, kills one worker, and shows how its shards are taken over. Nothing listens outside this
machine, and everything is removed in the end. It needs the packages of PostgreSQL and RadosGW, and about two minutes.

EXAMPLES
  mailkeep fleet demo
  mailkeep fleet demo --mailboxes 20 --keep`;

const ACTS = [
  ['pause', 'let no node mirror an account until it is resumed'],
  ['resume', 'let the nodes mirror a paused or removed account again'],
  ['remove', 'take an account out of the fleet; its mail stays'],
] as const;

const days = wholeNumber(1, 3_650);

const load = () => import('./fleet-actions.ts');

export const register: Register = (command, run) => {
  group(command, 'fleet', NAMES).addHelpText('after', HELP);
  subCommand(command, 'init', 'create a fleet, and try its bucket')
    .option('--create-bucket', 'create the bucket, unless it is ours already')
    .option('--allow-versioning', 'accept a bucket that keeps versions of objects')
    .addHelpText('after', INIT_HELP)
    .action(lazyAction<[InitLine]>(run, async () => (await load()).initFleet));
  defineAccounts(command, run);
  defineAccess(command, run);
  subCommand(command, 'import', 'take in the archive of a single machine')
    .argument('<folder>', 'the archive')
    .requiredOption('--accounts <file>', 'its accounts, one a line; - for standard input')
    .option('--tenant <name>', 'their tenant (default: default)', plainName)
    .addHelpText('after', IMPORT_HELP)
    .action(
      lazyAction<[string, ImportLine]>(
        run,
        async () => (await import('./fleet-archives.ts')).importArchive,
      ),
    );
  subCommand(command, 'worker', 'keep shards of the fleet up to date, until it is stopped')
    .addHelpText('after', WORKER_HELP)
    .action(lazyAction<[]>(run, async () => (await load()).runFleetWorker));
  subCommand(command, 'status', 'show nodes, shards, and what needs attention')
    .addHelpText('after', STATUS_HELP)
    .action(lazyAction<[]>(run, async () => (await load()).showStatus));
  subCommand(command, 'verify', 'read what the bucket has of the shards')
    .argument(
      '[shard]',
      'its number (default: all shards)',
      wholeNumber(1, Number.MAX_SAFE_INTEGER),
    )
    .option('--sample <p>', 'so many segments of each, or this share of them (5%)', sampleSize)
    .addHelpText('after', VERIFY_HELP)
    .action(
      lazyAction<[number | undefined, VerifyLine]>(
        run,
        async () => (await import('./fleet-archives.ts')).verifyShards,
      ),
    );
  subCommand(command, 'forget', 'remove messages or a mailbox of an account permanently')
    .argument('<account>', 'the account')
    .argument('[id...]', 'ids of messages, or their beginnings')
    .option('--tenant <name>', 'of this tenant only', plainName)
    .option('--mailbox <address>', 'from this mailbox only; without ids: the whole mailbox')
    .option('--list', 'list the forgets of the account, and what they wait for')
    .option('--dry-run', 'print what would be forgotten')
    .option('--yes', 'do not ask')
    .option('--no-wait', 'end once it is decided')
    .addHelpText('after', FORGET_HELP)
    .action(
      lazyAction<[string, readonly string[], ForgetLine]>(
        run,
        async () => (await import('./fleet-forget.ts')).forgetInFleet,
      ),
    );
  subCommand(command, 'drain', 'let workers release their shards and claim nothing more')
    .option('--node <name>', 'of this node only (default: of all nodes)', plainName)
    .option('--wait', 'wait until they hold nothing')
    .option('--undo', 'let them claim shards again')
    .addHelpText('after', DRAIN_HELP)
    .action(lazyAction<[DrainLine]>(run, async () => (await load()).drain));
  subCommand(command, 'rebalance', 'move shards to nodes with fewer accounts')
    .option('--dry-run', 'only show what would move')
    .addHelpText('after', REBALANCE_HELP)
    .action(lazyAction<[RebalanceLine]>(run, async () => (await load()).rebalanceFleet));
  subCommand(command, 'recover', 'compare the registry with the bucket after a restore')
    .option('--all', 'all shards, also those that seem to be current')
    .option('--from-bucket', 'make the registry from its last copy in the bucket first')
    .addHelpText('after', RECOVER_HELP)
    .action(lazyAction<[RecoverLine]>(run, async () => (await load()).recoverShards));
  const key = subCommand(command, 'key', 'change the key that encrypts the secrets of accounts');
  group(key, 'fleet key', ['rotate']);
  subCommand(key, 'rotate', 'encrypt all secrets by the first key of the key file')
    .option('--new <name>', 'put a new key of this name at the top of the file first', plainName)
    .addHelpText('after', ROTATE_HELP)
    .action(lazyAction<[RotateLine]>(run, async () => (await load()).rotateKey));
  const node = subCommand(command, 'node', 'remove a node that is gone for good');
  group(node, 'fleet node', ['remove']);
  subCommand(node, 'remove', 'let no forget wait for a node whose disk is destroyed')
    .argument('<node>', 'the node')
    .option('--disk-destroyed', 'nobody can ever read its disk again')
    .addHelpText('after', NODE_HELP)
    .action(lazyAction<[string, NodeRemoveLine]>(run, async () => (await load()).removeFleetNode));
  subCommand(command, 'demo', 'try a fleet on this machine, with a worker that is killed')
    .option('--mailboxes <n>', 'how many', wholeNumber(2, 5_000), 200)
    .option('--messages <n>', 'of each mailbox, on average', wholeNumber(1, 1_000), 20)
    .option('--nodes <n>', 'each with a worker', wholeNumber(2, 8), 2)
    .option('--keep', 'keep the fleet running for you to explore, until Ctrl-C')
    .addHelpText('after', DEMO_HELP)
    .action(lazyAction<[DemoLine]>(run, async () => (await import('./fleet-demo.ts')).demoCommand));
};

function defineAccounts(fleet: Command, run: (body: RunCommand) => void): void {
  const account = subCommand(fleet, 'account', 'add, update, list, pause and remove accounts');
  group(account, 'fleet account', ['add', 'update', 'list', 'pause', 'resume', 'remove']);
  account.addHelpText('after', ACCOUNT_HELP);
  const own = 'its tenant (default: default)';
  const add = subCommand(account, 'add', 'add an account, or many')
    .argument('[name]', 'the name of the account')
    .option('--settings <file>', 'its settings; - for standard input')
    .addOption(
      new Option('--bulk <file>', 'add the accounts in this file, one a line').conflicts(
        'settings',
      ),
    )
    .option('--tenant <name>', own, plainName)
    .addHelpText('after', ADD_HELP);
  withTokenOptions(add).action(
    lazyAction<[string | undefined, AddLine]>(run, async () => (await load()).addFleetAccounts),
  );
  const update = subCommand(account, 'update', 'give an account other settings and secrets')
    .argument('<name>', 'the account')
    .requiredOption('--settings <file>', 'all its settings; - for standard input')
    .option('--tenant <name>', 'of this tenant only', plainName);
  withTokenOptions(update).action(
    lazyAction<[string, AddLine]>(run, async () => (await load()).updateFleetAccount),
  );
  subCommand(account, 'list', 'list accounts: who holds them, and their last errors')
    .option('--tenant <name>', 'of this tenant only', plainName)
    .action(lazyAction<[AccountLine]>(run, async () => (await load()).listFleetAccounts));
  for (const [act, summary] of ACTS) {
    subCommand(account, act, summary)
      .argument('<name>', 'the account')
      .option('--tenant <name>', 'of this tenant only', plainName)
      .action(
        lazyAction<[string, AccountLine]>(run, async () => {
          const { changeFleetAccount } = await load();
          return (context, name, line) => changeFleetAccount(context, act, name, line);
        }),
      );
  }
}

function withTokenOptions(command: Command): Command {
  return command
    .option('--token-file <file>', 'the token is in this file; - for standard input')
    .addOption(
      new Option('--token-env <name>', 'the token is in this environment variable').conflicts(
        'tokenFile',
      ),
    );
}

function defineAccess(fleet: Command, run: (body: RunCommand) => void): void {
  const access = subCommand(fleet, 'access', 'let browsers and programs read accounts');
  group(access, 'fleet access', ['link', 'token', 'list', 'revoke']);
  access.addHelpText('after', ACCESS_HELP);
  const open = () => import('./fleet-access.ts');
  const mailbox = 'limit it to this mailbox, by host and id; repeatable';
  subCommand(access, 'link', 'print a link that signs a browser in')
    .argument('<account>', 'the account')
    .option('--tenant <name>', 'of this tenant only', plainName)
    .option('--mailbox <host/id>', mailbox, collect)
    .action(lazyAction<[string, AccessLine]>(run, async () => (await open()).printAccessLink));
  subCommand(access, 'token', 'create a token of the API and of MCP')
    .argument('[account]', 'the account (default: all accounts of the tenant)')
    .requiredOption('--name <name>', 'a name for lists')
    .option('--tenant <name>', 'of this tenant only', plainName)
    .option('--mailbox <host/id>', mailbox, collect)
    .option('--expires <days>', 'how many days it is valid (default: until it is revoked)', days)
    .action(
      lazyAction<[string | undefined, TokenLine]>(
        run,
        async () => (await open()).createAccessToken,
      ),
    );
  subCommand(access, 'list', 'list tokens and signed-in browsers')
    .option('--tenant <name>', 'of this tenant only', plainName)
    .action(lazyAction<[AccessLine]>(run, async () => (await open()).listAccess));
  subCommand(access, 'revoke', 'end a token or a session at once, on all nodes')
    .argument('<id>', 'its id')
    .action(lazyAction<[string]>(run, async () => (await open()).revokeAccess));
}

/** Makes a command one that is nothing without one of the commands below it. */
function group(command: Command, words: string, names: readonly string[]): Command {
  return command
    .usage(`<${names.join('|')}> [options]`)
    .argument('[command]')
    .helpCommand(false)
    .action((typed: string | undefined) => {
      if (typed === undefined) {
        throw usageError('usage-no-command', { help: command.helpInformation().trimEnd() });
      }
      const meant = nearest(typed, names);
      const listed = `The commands are ${names.join(', ')}.`;
      const problem = `unknown command '${typed}'. ${meant === null ? listed : `Did you mean ${meant}?`}`;
      throw usageError('usage-invalid', { command: words, problem });
    });
}

/** The name of a tenant, a node or a key. */
function plainName(text: string): string {
  if (PLAIN_NAME.test(text)) return text;
  throw new InvalidArgumentError(`It takes a name of ${PLAIN_NAME_TEXT}`);
}
