import type { Command } from 'commander';
import type { Body } from '../../context.ts';

const HELP = `
Brings another folder (on another disk, a mounted share) to the same commits. What it has already is not
copied again; every segment is read back and verified before it takes its place, and what was purged here is
purged there. It can run beside a sync, and it is safe to interrupt. The copy is an archive of its own:
"mailkeep verify --data DIR" proves it, and with --rebuild it can be searched with --data DIR.

A copy that has more than this archive, or something else, is never changed.

EXAMPLES
  mailkeep copy --to /media/usb/archive
  mailkeep copy --to /media/usb/archive --rebuild`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .requiredOption('--to <dir>', 'the folder of the copy')
    .option('--rebuild', 'make the catalog of the copy, so that it can be searched')
    .addHelpText('after', HELP)
    .action((options: { readonly to: string; readonly rebuild?: boolean }) =>
      chosen(async (context) => {
        const { copyTo } = await import('./copy.ts');
        return copyTo(context, options);
      }),
    );
}
