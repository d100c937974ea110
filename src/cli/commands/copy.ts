import type { Command } from 'commander';
import { usageError } from '../../core/error-tables.ts';
import {
  type CommandContext,
  type CommandResult,
  invalidUsage,
  lazyAction,
  type Register,
  type RunCommand,
  subCommand,
  type Values,
} from '../context.ts';
import { collect, rate, signerKey, wholeNumber } from '../option-values.ts';
import type { CopyLine, FromLine } from './copy-actions.ts';

const HELP = `
Updates a copy of the archive to the same commits. It can run during a sync, and can be interrupted safely: what
was copied before stays valid, and the same command continues.

A copy in a folder (another disk, a mounted share) is a complete archive: every segment is read back and verified
before it is put in place, "mailkeep verify --data DIR" verifies it, and with --rebuild it can be searched with
--data DIR. What was purged here is purged there.

A copy in S3 is encrypted, and so is one in a folder that was begun with "copy init": whoever keeps it cannot read
it, and what they change is found. "copy init" makes its keys. "copy --from" makes an archive out of such a copy,
on a machine that has nothing but the address and the recovery key.

With --lock-days, Object Lock (compliance mode) keeps every object of the copy in a bucket that has it: until the
days have passed, nobody can delete or shorten that, not even the owner of the account. Later copies extend it for
what is current. What is forgotten here stays in the bucket until its lock ends.

A copy that has more commits than this archive, or different ones, is never changed.

S3 reads AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL and AWS_PROFILE,
and the files in ~/.aws.

EXAMPLES
  mailkeep copy --to /media/usb/archive
  mailkeep copy init --to s3://my-bucket/mail
  mailkeep copy --to s3://my-bucket/mail
  mailkeep copy --to s3://my-locked-bucket/mail --lock-days 90
  mailkeep copy --from s3://my-bucket/mail --to ./archive --recovery-key-file key.txt
  mailkeep copy key list --to s3://my-bucket/mail
  mailkeep copy adopt --to s3://my-bucket/mail
  mailkeep copy drop --to s3://my-old-bucket/mail
  mailkeep verify --copy s3://my-bucket/mail`;

const MAX_KEPT = 10_000;
const MAX_LOCK_DAYS = 36_500;
const commit = wholeNumber(1, Number.MAX_SAFE_INTEGER);

const load = () => import('./copy-actions.ts');

export const register: Register = (command, run) => {
  command
    .usage('[init|adopt|drop|key] --to <target> [options]')
    .argument('[command]')
    .helpCommand(false)
    .option('--to <target>', 'the copy: a folder, or s3://BUCKET/PREFIX')
    .option(
      '--encrypt',
      'make no readable copy: refuse a folder that was not begun with "copy init"',
    )
    .option('--rebuild', 'build the catalog of a copy in a folder, so that it can be searched')
    .option('--refresh', 'of an encrypted copy: upload every segment again')
    .option(
      '--keep <n>',
      'of an encrypted copy: keep this many of its states (default: 1); all of the last day stay',
      wholeNumber(1, MAX_KEPT),
    )
    .option(
      '--lock-days <n>',
      'in S3: lock what is copied for this many days; nobody can delete it before',
      wholeNumber(1, MAX_LOCK_DAYS),
    )
    .option('--limit-rate <rate>', 'send at most this much a second, such as 500k or 2M', rate)
    .option('--from <target>', 'make an archive in the folder --to out of this encrypted copy')
    .option('--at-commit <n>', 'for --from: the copy as of this commit', commit)
    .option('--at-least <n>', 'for --from: refuse a copy whose newest commit is older', commit)
    .addHelpText('after', HELP)
    .action((typed: string | undefined, options: CopyLine & FromLine) => {
      if (typed !== undefined) {
        const problem = `unknown command '${typed}'. Use init, adopt, drop or key, or --to alone.`;
        throw invalidUsage('copy', problem);
      }
      run(async (context) => {
        const { copyFrom, copyTo } = await load();
        return (options.from === undefined ? copyTo : copyFrom)(context, options);
      });
    });
  withKeys(command);
  const below = actionsBelow(command, run);
  copySubcommand(
    command,
    'init',
    'begin an encrypted copy: make its keys, and show the recovery key',
  )
    .option('--to <target>', 'where the copy will be: s3://BUCKET/PREFIX, or a folder')
    .option('--create-bucket', 'create the bucket, unless it is ours already')
    .option('--object-lock', 'create it as one that can lock objects, for --lock-days')
    .option('--recovery-key-file <file>', 'write the recovery key to this new file instead')
    .option('--passphrase-file <file>', 'let this passphrase open the copy as well')
    .option(
      '--age <recipient>',
      'let this age recipient open the copy as well; repeatable',
      collect,
    )
    .option('--write-only', 'keep no key on this machine that can read the copy')
    .action(below(async () => (await load()).copyInit));
  withKeys(
    withTarget(
      copySubcommand(
        command,
        'adopt',
        'continue a copy with an archive that came from it, on a new machine',
      ),
    ).option('--older-key', 'continue with these keys although recipients have newer ones'),
  ).action(below(async () => (await load()).copyAdopt));
  copySubcommand(command, 'drop', 'remove a copy that you gave up from "status"')
    .option('--to <target>', 'the copy, as "status" shows it')
    .addHelpText('after', '\nNothing is deleted at the target, and its keys stay on this machine.')
    .action(below(async () => (await load()).copyDrop));
  defineKeys(command, below);
};

/** Returns a function that creates subcommand actions. The parser assigns shared options to `copy` itself. */
function actionsBelow(copy: Command, run: (body: RunCommand) => void) {
  return <Line extends object>(
    load: () => Promise<(context: CommandContext, line: Line) => Promise<CommandResult>>,
  ) => {
    const act = lazyAction(run, load);
    return (line: Line) => act({ ...copy.opts<Line>(), ...line });
  };
}

function withKeys(command: Command): Command {
  return command
    .option('--recovery-key-file <file>', 'the recovery key is in this file')
    .option('--passphrase-file <file>', 'the passphrase is the first line of this file')
    .option('--identity-file <file>', 'the age identity is in this file')
    .option(
      '--signer <key>',
      'refuse a copy that was not begun with this signing key, as "copy init" printed it',
      signerKey,
    );
}

const KEY_HELP = `
A copy is encrypted for its recipients: a recovery key, passphrases, age recipients. Each of them opens all of
it, until the keys are rotated.

"remove" revokes nothing that was learned before: whoever opened the copy may have kept its keys, and still needs only
the objects. "rotate" makes new keys for what is copied from now on: with a new recovery key, with the passphrase of
--passphrase-file, and for the age recipients that this machine knows. Other recipients open only what was copied
before. An interrupted rotation is completed by running it again; the copy can be used meanwhile.

EXAMPLES
  mailkeep copy key list --to s3://my-bucket/mail
  mailkeep copy key add --to s3://my-bucket/mail --age age1… --label "Anna"
  mailkeep copy key remove 3f2a --to s3://my-bucket/mail
  mailkeep copy key rotate --to s3://my-bucket/mail --reencrypt`;

function defineKeys(copy: Command, below: ReturnType<typeof actionsBelow>): void {
  const key = copySubcommand(
    copy,
    'key',
    'list, add and remove who can open an encrypted copy, or make new keys',
  )
    .usage('<list|add|remove|rotate> --to <target> [options]')
    .argument('[command]')
    .helpCommand(false)
    .addHelpText('after', KEY_HELP)
    .action((typed: string | undefined) => {
      if (typed === undefined) {
        throw usageError('usage-no-command', { help: key.helpInformation().trimEnd() });
      }
      const problem = `unknown command '${typed}'. Use list, add, remove or rotate.`;
      throw invalidUsage('copy key', problem);
    });
  withTarget(copySubcommand(key, 'list', 'list who can open a copy, and who signs for it')).action(
    below(async () => (await load()).keyList),
  );
  const add = withTarget(copySubcommand(key, 'add', 'let somebody else open a copy'))
    .option('--recovery-key-file <file>', 'a new recovery key, written to this new file')
    .option('--passphrase-file <file>', 'the passphrase in the first line of this file')
    .option('--age <recipient>', 'this age recipient; repeatable', collect)
    .option('--label <text>', 'whose it is; everybody who can list the copy can read this')
    .addHelpText(
      'after',
      '\nWithout an option that names a recipient, a new recovery key is shown, and has to be typed back.',
    );
  withOpening(add).action(below(async () => (await load()).keyAdd));
  withTarget(
    copySubcommand(key, 'remove', 'remove recipients; nothing that was learned is revoked'),
  )
    .argument('<id...>', 'ids as "copy key list" shows them, or how they begin')
    .action((ids: string[], options: Values<'to'>) =>
      below(async () => {
        const { keyRemove } = await load();
        return (context, line: Values<'to'>) => keyRemove(context, ids, line);
      })(options),
    );
  const rotate = withTarget(
    copySubcommand(key, 'rotate', 'make new keys for what is copied from now on'),
  )
    .option('--recovery-key-file <file>', 'write the new recovery key to this new file')
    .option('--passphrase-file <file>', 'let the passphrase in this file open the copy as well')
    .option('--reencrypt', 'upload what is there again, encrypted for the new key')
    .option('--limit-rate <rate>', 'send at most this much a second, such as 500k or 2M', rate)
    .addHelpText(
      'after',
      '\nWithout --recovery-key-file, the new recovery key is shown, and has to be typed back.',
    );
  withOpening(rotate).action(below(async () => (await load()).keyRotate));
}

function withTarget(command: Command): Command {
  return command.option('--to <target>', 'the copy: s3://BUCKET/PREFIX, or a folder');
}

/** Adds the options needed on write-only machines, which hold no secret that opens the copy. */
function withOpening(command: Command): Command {
  return command
    .option('--open-with-recovery-key <file>', 'where this machine can only write: open with this')
    .option('--open-with-passphrase <file>', 'open with the passphrase in this file')
    .option('--open-with-identity <file>', 'open with the age identity in this file');
}

/**
 * Adds a subcommand. Its help lists the program's options as global, but not those of `copy`, some of which have other
 * meanings there.
 */
function copySubcommand(command: Command, name: string, summary: string): Command {
  const sub = subCommand(command, name, summary);
  let program = command;
  while (program.parent !== null) program = program.parent;
  const visibleGlobalOptions = () => program.options.filter(({ hidden }) => !hidden);
  return sub.configureHelp({ ...sub.configureHelp(), visibleGlobalOptions });
}
