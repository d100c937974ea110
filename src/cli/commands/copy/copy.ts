import path from 'node:path';
import type { Copied } from '../../../copy/copy-log.ts';
import { type CatalogThere, copyArchive } from '../../../engine/copy-archive.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { bytes, count, counted } from '../../../wording/amounts.ts';
import type { CommandContext } from '../../context.ts';
import { openActivity } from '../../progress/activity.ts';
import { archiveOf } from '../verify/verify.ts';

/** `mailkeep copy`. @throws what the engine's `copyArchive` throws */
export async function copyTo(
  context: CommandContext,
  options: { readonly to: string; readonly rebuild?: boolean },
): Promise<ExitCode> {
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
  return [
    `${to} is at commit ${number}: ${counted(written, 'segment')} of ${segments} copied and verified, ${bytes(size)}.`,
    ...(purged > 0 ? [`${counted(purged, 'record')} purged there as well.`] : []),
    ...(catalog === 'updated' ? ['Its catalog was brought up to date.'] : []),
    ...(catalog === 'none' || catalog === 'removed'
      ? [`It has no catalog; "mailkeep rebuild --data ${to}" makes one, or --rebuild.`]
      : []),
  ].join('\n');
}
