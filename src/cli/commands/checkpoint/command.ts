import type { Command } from 'commander';
import type { Body } from '../../context.ts';

interface CheckpointLine {
  readonly to?: string;
  readonly key?: string;
}

const HELP = `
Prints a signed statement about the log's last commit, and writes it to a file. The hash of a commit covers
everything before it. Keep the statement away from the archive (print it, mail it to yourself):
"mailkeep verify --checkpoint FILE" can prove later that nothing before it was changed or cut off.

The statement is signed with an Ed25519 key: --key FILE (PKCS #8, PEM), or checkpoint.key in the archive's
folder, which is created if missing. It names no mail, no mailbox and no host.

EXAMPLES
  mailkeep checkpoint
  mailkeep checkpoint --to /media/usb/checkpoint.json`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .option('--to <file>', 'file to write (default: checkpoints/NUMBER.json in the archive)')
    .option('--key <file>', 'sign with this key')
    .addHelpText('after', HELP)
    .action((options: CheckpointLine) =>
      chosen(async (context) => {
        const { makeCheckpoint } = await import('./make-checkpoint.ts');
        return makeCheckpoint(context, options);
      }),
    );
}
