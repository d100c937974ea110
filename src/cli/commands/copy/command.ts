import path from 'node:path';
import type { Command } from 'commander';
import type { Copied } from '../../../copy/copy-log.ts';
import { type CatalogThere, copyArchive } from '../../../engine/copy-archive.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { bytes, count, counted } from '../../../wording/amounts.ts';
import { archiveOf } from '../../archive-access.ts';
import type { Body, CommandContext } from '../../context.ts';
import { present } from '../../output.ts';
import { openActivity } from '../../progress/activity.ts';

interface CopyLine {
  readonly to: string;
  readonly rebuild?: boolean;
}

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
    .action((options: CopyLine) => chosen((context) => copyTo(context, options)));
}

/** `mailkeep copy`. @throws what the engine's `copyArchive` throws */
async function copyTo(context: CommandContext, options: CopyLine): Promise<ExitCode> {
  const { surroundings, signal, output, now } = context;
  const from = archiveOf(context);
  const to = path.resolve(surroundings.cwd, options.to);
  const startedAt = now();
  const activity = openActivity(context, 'comparing the copy with the archive');
  const { catalog, ...copied } = await copyArchive({
    from,
    to,
    rebuild: options.rebuild ?? false,
    signal,
    onCopy: ({ segments, of }) =>
      activity.show(() => `copied and verified ${segments} of ${counted(of, 'segment')}`),
    onFold: ({ messages }) =>
      activity.show(() => `read ${counted(messages, 'message')} of the copied log`),
    onIndex: ({ indexed, remaining }) =>
      activity.show(() => `made ${count(indexed)} searchable, ${count(remaining)} to go`),
  }).finally(activity.stop);
  const result = { to, ...copied, catalog, durationMs: now() - startedAt };
  await output.object(result, () => copyReport(to, copied, catalog));
  return EXIT.done;
}

function copyReport(
  to: string,
  { number, segments, written, bytes: size, purged }: Copied,
  catalog: CatalogThere,
): string {
  return present([
    `${to} is at commit ${number}: ${counted(written, 'segment')} of ${segments} copied and verified, ${bytes(size)}.`,
    purged > 0 && `${counted(purged, 'record')} purged there as well.`,
    catalog === 'updated' && 'Its catalog was brought up to date.',
    (catalog === 'none' || catalog === 'removed') &&
      `It has no catalog; "mailkeep rebuild --data ${to}" creates one; so does "mailkeep copy" with --rebuild.`,
  ]).join('\n');
}
