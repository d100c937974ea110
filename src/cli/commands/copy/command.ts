import type { Command } from 'commander';
import type { Body } from '../../context.ts';

const HELP = `
Updates a copy of the archive in another folder (on another disk, a mounted share) to the same commits. Existing data is
not copied again. Every segment is read back and verified before it is put in place, and what was purged here
is purged there. The command can run during a sync, and can be interrupted safely. The copy is a complete
archive: "mailkeep verify --data DIR" verifies it, and with --rebuild it can be searched with --data DIR.

A copy that has more commits than this archive, or different ones, is never changed.

EXAMPLES
  mailkeep copy --to /media/usb/archive
  mailkeep copy --to /media/usb/archive --rebuild`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .requiredOption('--to <dir>', 'the folder of the copy')
    .option('--rebuild', 'build the catalog of the copy, so that it can be searched')
    .addHelpText('after', HELP)
    .action((options: { readonly to: string; readonly rebuild?: boolean }) =>
      chosen(async (context) => {
        const { copyTo } = await import('./copy.ts');
        return copyTo(context, options);
      }),
    );
}
