import { existsSync, lstatSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { realFiles } from '../../archive/files/real-files.ts';
import { FOLDER_MODE, formatPath, logFolder, temporaryPath } from '../../archive/format/layout.ts';
import { isUnused } from '../../archive/read/format-file.ts';
import { acquireLock } from '../../archive/write/lock.ts';
import { holderPath } from '../../archive/write/lock-holder.ts';
import { openAttachmentExtractor } from '../../attachments/extractor.ts';
import { catalogFile } from '../../catalog/open.ts';
import { type Copied, copyLog } from '../../copy/copy-log.ts';
import { makeFoldersDurably } from '../../disk/make-folders.ts';
import { updateCatalog } from '../../engine/verify/catalog-of-copy.ts';
import { removeCatalogs } from '../../engine/verify/remove-catalogs.ts';
import { errnoOf } from '../../errors/archive.ts';
import { copyError } from '../../errors/copy.ts';
import { EXIT, type ExitCode } from '../../errors/exit-codes.ts';
import { usageError } from '../../errors/usage.ts';
import { rebuildCatalog } from '../../indexer/rebuild.ts';
import { openExtractorPool } from '../../mime/extractor-pool.ts';
import { dropAsides } from '../../retention/carry-out.ts';
import { bytes, count, counted } from '../../wording/amounts.ts';
import type { CommandContext } from '../context.ts';
import { type Activity, openActivity } from '../progress/activity.ts';
import { isWithin } from '../within.ts';
import { archiveOf } from './verify.ts';

/** `mailkeep copy`. @throws copy-onto-itself, copy-elsewhere, copy-linked, copy-other-archive, copy-ahead, copy-diverged, archive-in-use */
export async function copyArchive(
  context: CommandContext,
  options: { readonly to: string; readonly rebuild?: boolean },
): Promise<ExitCode> {
  const { surroundings, signal, output, now } = context;
  const from = archiveOf(context);
  const to = path.resolve(surroundings.cwd, options.to);
  if (isWithin(to, from)) throw copyError('copy-onto-itself', { to });
  try {
    makeFoldersDurably(to, FOLDER_MODE);
  } catch (error) {
    throw usageError('usage-save-failed', { file: to, reason: errnoOf(error) });
  }
  refuseElsewhere(to);
  const log = logFolder(to);
  if (lstatSync(log, { throwIfNoEntry: false })?.isSymbolicLink() === true) {
    throw copyError('copy-linked', { file: log });
  }
  const startedAt = now();
  const lock = acquireLock(to);
  const activity = openActivity(context, 'comparing the copy with the archive');
  try {
    let forgotten = false;
    const copied = await copyLog({
      from,
      to,
      signal,
      progress: ({ segments, of }) =>
        activity.show(() => `copied and verified ${segments} of ${counted(of, 'segment')}`),
      forget: async () => {
        forgotten = (await removeCatalogs(to)) || forgotten;
        await dropAsides(realFiles, to);
      },
    });
    const rebuild = options.rebuild ?? false;
    const catalog = rebuild
      ? await rebuilt(to, signal, activity)
      : await catalogThere(to, forgotten, signal);
    activity.stop();
    const result = { to, ...copied, catalog, durationMs: now() - startedAt };
    await output.object(result, () => copyReport(to, copied, catalog));
    return EXIT.done;
  } finally {
    activity.stop();
    lock.release();
  }
}

/** What a copy that was killed in its first moments leaves, and what a file system puts into every disk. */
const NO_STRANGERS = new Set([
  'lock',
  // SQLite has one while the lock is held.
  'lock-journal',
  path.basename(holderPath('.')),
  path.basename(logFolder('.')),
  path.basename(temporaryPath(formatPath('.'))),
  'lost+found',
]);

/** An archive among the files of something else would be taken for a part of that, and removed with it. */
function refuseElsewhere(to: string): void {
  if (!isUnused(realFiles, to)) return;
  const stranger = readdirSync(to).find((name) => !NO_STRANGERS.has(name));
  if (stranger !== undefined) throw copyError('copy-elsewhere', { to, stranger });
}

type CatalogThere = 'rebuilt' | 'updated' | 'none' | 'removed' | 'as it was';

async function rebuilt(
  dir: string,
  signal: AbortSignal,
  activity: Activity,
): Promise<CatalogThere> {
  const extractor = openExtractorPool();
  const attachments = openAttachmentExtractor();
  try {
    await rebuildCatalog({
      dir,
      extractor,
      attachments,
      signal,
      onFold: ({ messages }) =>
        activity.show(() => `read ${counted(messages, 'message')} of the copied log`),
      onIndex: ({ indexed, remaining }) =>
        activity.show(() => `made ${count(indexed)} searchable, ${count(remaining)} to go`),
    });
  } finally {
    await Promise.all([extractor.close(), attachments.close()]);
  }
  return 'rebuilt';
}

async function catalogThere(
  dir: string,
  forgotten: boolean,
  signal: AbortSignal,
): Promise<CatalogThere> {
  if (existsSync(catalogFile(dir))) return updateCatalog(dir, signal);
  return forgotten ? 'removed' : 'none';
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
