import type { Command } from 'commander';
import type { Body } from '../../context.ts';

const HELP = `
Rewrites the closed segments of the log that are compressed otherwise than the configuration says now
(archive.codec: zstd, or zlib). The log of an archive written before mailkeep had zstd becomes about a tenth smaller. Every
segment is written next to the old one, read back and compared record by record before it replaces it, so
an interruption or a full disk costs nothing: run the command again and it continues. A second run finds
nothing to do. It needs room for one segment at a time.

The archive must not be in use: with a daemon at work the command ends with code 5. Stop the daemon, or set
archive.compact in its configuration and it does the same when it is idle. Needs no network.

The first segment with zstd raises the archive to format 2, which older versions of mailkeep refuse.
Restart programs that read the archive and are older than that. A damaged segment stays as it is, is named,
and the command ends with code 3.

EXAMPLES
  mailkeep compact --dry-run
  mailkeep compact
  mailkeep compact --data /var/lib/mailkeep --json`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .option('--dry-run', 'show what would be rewritten, and change nothing')
    .addHelpText('after', HELP)
    .action((options: { readonly dryRun?: boolean }) =>
      chosen(async (context) => {
        const { compact } = await import('./compact.ts');
        return compact(context, { dryRun: options.dryRun ?? false });
      }),
    );
}
