import type { Command } from 'commander';
import type { Body } from '../../context.ts';

const HELP = `
Rewrites closed segments of the log whose compression differs from the current configuration (archive.codec:
zstd or zlib). A log written before mailkeep supported zstd shrinks by about a tenth. Every segment is written
next to the old one, read back and compared record by record before it replaces it, so an interruption or a
full disk costs nothing: run the command again to continue. A second run finds nothing to do. It needs disk
space for one segment at a time.

The archive must not be in use: while a daemon runs, the command exits with code 5. Stop the daemon, or set
archive.compact in its configuration to let it compact when it is idle. No network is needed.

The first segment with zstd raises the archive to format 2, which older versions of mailkeep refuse. Restart
older programs that read the archive. A damaged segment stays as it is and is named, and the command exits
with code 3.

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
