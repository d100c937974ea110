import type { Command } from 'commander';
import { usageError } from '../../../errors/usage.ts';
import type { Body } from '../../context.ts';
import { collected, rate } from '../../option-values.ts';
import type { AddLine, ListLine, RotateLine } from './lines.ts';
import { sub } from './sub-command.ts';

const HELP = `
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

/** Declares `mailkeep copy key` and the commands below it. */
export function defineKeys(copy: Command, chosen: (body: Body) => void): void {
  const key = sub(
    copy,
    'key',
    'list, add and remove who can open an encrypted copy, or make new keys',
  )
    .usage('<list|add|remove|rotate> --to <target> [options]')
    .argument('[command]')
    .helpCommand(false)
    .addHelpText('after', HELP)
    .action((typed: string | undefined) => {
      if (typed === undefined) {
        throw usageError('usage-no-command', { help: key.helpInformation().trimEnd() });
      }
      const problem = `unknown command '${typed}'. Use list, add, remove or rotate.`;
      throw usageError('usage-invalid', { command: 'copy key', problem });
    });
  // The parser gives options that `copy` has too to that command.
  withTarget(sub(key, 'list', 'list who can open a copy, and who signs for it')).action(
    (options: ListLine) =>
      chosen(async (context) => {
        const { keyList } = await import('./key-list.ts');
        return keyList(context, { ...copy.opts<ListLine>(), ...options });
      }),
  );
  const add = withTarget(sub(key, 'add', 'let somebody else open a copy'))
    .option('--recovery-key-file <file>', 'a new recovery key, written to this new file')
    .option('--passphrase-file <file>', 'the passphrase in the first line of this file')
    .option('--age <recipient>', 'this age recipient; repeatable', collected)
    .option('--label <text>', 'whose it is; everybody who can list the copy can read this')
    .addHelpText(
      'after',
      '\nWithout an option that names a recipient, a new recovery key is shown, and has to be typed back.',
    );
  withOpening(add).action((options: AddLine) =>
    chosen(async (context) => {
      const { keyAdd } = await import('./key-add.ts');
      return keyAdd(context, { ...copy.opts<AddLine>(), ...options });
    }),
  );
  withTarget(sub(key, 'remove', 'remove recipients; nothing that was learned is revoked'))
    .argument('<id...>', 'ids as "copy key list" shows them, or how they begin')
    .action((ids: string[], options: ListLine) =>
      chosen(async (context) => {
        const { keyRemove } = await import('./key-remove.ts');
        return keyRemove(context, ids, { ...copy.opts<ListLine>(), ...options });
      }),
    );
  const rotate = withTarget(sub(key, 'rotate', 'make new keys for what is copied from now on'))
    .option('--recovery-key-file <file>', 'write the new recovery key to this new file')
    .option('--passphrase-file <file>', 'let the passphrase in this file open the copy as well')
    .option('--reencrypt', 'upload what is there again, encrypted for the new key')
    .option('--limit-rate <rate>', 'send at most this much a second, such as 500k or 2M', rate)
    .addHelpText(
      'after',
      '\nWithout --recovery-key-file, the new recovery key is shown, and has to be typed back.',
    );
  withOpening(rotate).action((options: RotateLine) =>
    chosen(async (context) => {
      const { keyRotate } = await import('./key-rotate.ts');
      return keyRotate(context, { ...copy.opts<RotateLine>(), ...options });
    }),
  );
}

function withTarget(command: Command): Command {
  return command.option('--to <target>', 'the copy: s3://BUCKET/PREFIX, or a folder');
}

/** For machines that can only write: what opens the copy, so that its keys can be wrapped for others. */
function withOpening(command: Command): Command {
  return command
    .option('--open-with-recovery-key <file>', 'where this machine can only write: open with this')
    .option('--open-with-passphrase <file>', 'open with the passphrase in this file')
    .option('--open-with-identity <file>', 'open with the age identity in this file');
}
