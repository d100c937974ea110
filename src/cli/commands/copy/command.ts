import type { Command } from 'commander';
import { usageError } from '../../../errors/usage.ts';
import type { Body } from '../../context.ts';
import { collected, rate, signerKey, wholeNumber } from '../../option-values.ts';
import { defineKeys } from './key-commands.ts';
import type { AdoptLine, CopyLine, FromLine, InitLine, ListLine } from './lines.ts';
import { sub } from './sub-command.ts';

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

/** Manifests that are kept at the least. */
const MOST_KEPT = 10_000;
const MOST_LOCK_DAYS = 36_500;
const MOST_COMMITS = Number.MAX_SAFE_INTEGER;

export function define(command: Command, chosen: (body: Body) => void): void {
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
      wholeNumber(1, MOST_KEPT),
    )
    .option(
      '--lock-days <n>',
      'in S3: lock what is copied for this many days; nobody can delete it before',
      wholeNumber(1, MOST_LOCK_DAYS),
    )
    .option('--limit-rate <rate>', 'send at most this much a second, such as 500k or 2M', rate)
    .option('--from <target>', 'make an archive in the folder --to out of this encrypted copy')
    .option(
      '--at-commit <n>',
      'for --from: the copy as of this commit',
      wholeNumber(1, MOST_COMMITS),
    )
    .option(
      '--at-least <n>',
      'for --from: refuse a copy whose newest commit is older',
      wholeNumber(1, MOST_COMMITS),
    )
    .addHelpText('after', HELP)
    .action((typed: string | undefined, options: CopyLine & FromLine) => {
      if (typed !== undefined) {
        const problem = `unknown command '${typed}'. Use init, adopt, drop or key, or --to alone.`;
        throw usageError('usage-invalid', { command: 'copy', problem });
      }
      chosen(async (context) => {
        if (options.from !== undefined) {
          const { copyFrom } = await import('./from.ts');
          return copyFrom(context, options);
        }
        const { copyTo } = await import('./to.ts');
        return copyTo(context, options);
      });
    });
  withKeys(command);
  const init = sub(
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
      collected,
    )
    .option('--write-only', 'keep no key on this machine that can read the copy');
  // The parser gives options that both have to the command before.
  init.action((options: InitLine) =>
    chosen(async (context) => {
      const { copyInit } = await import('./init.ts');
      return copyInit(context, { ...command.opts<InitLine>(), ...options });
    }),
  );
  const adopt = sub(
    command,
    'adopt',
    'continue a copy with an archive that came from it, on a new machine',
  )
    .option('--to <target>', 'the copy: s3://BUCKET/PREFIX, or a folder')
    .option('--older-key', 'continue with these keys although recipients have newer ones');
  withKeys(adopt).action((options: AdoptLine) =>
    chosen(async (context) => {
      const { copyAdopt } = await import('./adopt.ts');
      return copyAdopt(context, { ...command.opts<AdoptLine>(), ...options });
    }),
  );
  const drop = sub(command, 'drop', 'remove a copy that you gave up from "status"')
    .option('--to <target>', 'the copy, as "status" shows it')
    .addHelpText('after', '\nNothing is deleted at the target, and its keys stay on this machine.');
  drop.action((options: ListLine) =>
    chosen(async (context) => {
      const { copyDrop } = await import('./drop.ts');
      return copyDrop(context, { ...command.opts<ListLine>(), ...options });
    }),
  );
  defineKeys(command, chosen);
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
