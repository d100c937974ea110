import { existsSync } from 'node:fs';
import path from 'node:path';
import { acquireLock } from '../../archive/write/lock.ts';
import { openAttachmentExtractor } from '../../attachments/extractor.ts';
import { catalogFile } from '../../catalog/open.ts';
import { reachedBy } from '../../catalog/reached-by.ts';
import { holdsArchive } from '../../engine/archive/archive-folder.ts';
import { fetchingAgain } from '../../engine/verify/fetch-again.ts';
import { rememberRead } from '../../engine/verify/remember-read.ts';
import { EXIT, type ExitCode } from '../../errors/exit-codes.ts';
import { hasCode } from '../../errors/mailkeep-error.ts';
import { usageError } from '../../errors/usage.ts';
import { rebuildCatalog } from '../../indexer/rebuild.ts';
import { openExtractorPool } from '../../mime/extractor-pool.ts';
import { type Repaired, repairArchive } from '../../verify/repair/repair-archive.ts';
import { checkerOnThreads } from '../../verify/segment-threads.ts';
import type { Verification } from '../../verify/verify-archive.ts';
import { counted } from '../../wording/amounts.ts';
import { reasonText } from '../../wording/sentence.ts';
import type { CommandContext } from '../context.ts';
import type { Colours } from '../output.ts';
import { openActivity } from '../progress/activity.ts';
import { verdict } from './report.ts';
import { exitOfVerification, readArchive, tellUnread } from './verify.ts';

/** `mailkeep verify --repair`. @throws archive-in-use; usage-no-archive for a copy that is none */
export async function repair(
  context: CommandContext,
  dataDir: string,
  from: readonly string[],
): Promise<ExitCode> {
  const { surroundings, output, now } = context;
  const copies = from.map((copy) => path.resolve(surroundings.cwd, copy));
  for (const copy of copies) {
    // One that is there and cannot be read is named and skipped.
    if (!existsSync(copy) || isAbsent(copy))
      throw usageError('usage-no-archive', { dataDir: copy });
  }
  const startedAt = now();
  const lock = acquireLock(dataDir);
  try {
    const repaired = await mendAll(context, dataDir, copies);
    const { catalogRebuilt, unread } = await catalogAnew(context, dataDir, repaired);
    const after = await readArchive(context, dataDir, true, []);
    const exit = exitOfVerification(after);
    const { before, ...done } = repaired;
    const run = { at: startedAt, mode: 'repair', checkpoint: null } as const;
    const remembered = rememberRead(context, dataDir, run, after, true);
    const result = {
      mode: 'repair',
      ok: exit === EXIT.done,
      foundBefore: before.found,
      ...done,
      catalogRebuilt,
      unreadCatalog: unread,
      ...after,
      durationMs: now() - startedAt,
      remembered,
    };
    await output.object(result, () =>
      repairReport(repaired, { catalogRebuilt, unread }, after, output.colours),
    );
    tellUnread(context, dataDir, after);
    return exit;
  } finally {
    lock.release();
  }
}

/** Whether a folder surely holds no archive. */
function isAbsent(copy: string): boolean {
  try {
    return !holdsArchive(copy);
  } catch (error) {
    if (!hasCode(error, 'archive-unreadable')) throw error;
    return false;
  }
}

async function mendAll(
  context: CommandContext,
  dir: string,
  copies: readonly string[],
): Promise<Repaired> {
  const checker = checkerOnThreads();
  const again = fetchingAgain(context, dir);
  const activity = openActivity(context, 'reading the log, and looking for what is damaged');
  try {
    const { now, signal } = context;
    return await repairArchive({ dir, checker, copies, fetchAgain: again.fetch, now, signal });
  } finally {
    activity.stop();
    await again.close();
    await checker.close();
  }
}

interface CatalogAnew {
  readonly catalogRebuilt: boolean;
  /** Where the old one was moved to, because it could not be copied there, and why: an errno or `not a file`. */
  readonly unread: { readonly file: string; readonly reason: string } | null;
}

/** Makes the catalog anew where it is not what the log implies, and keeps the old one where the log lost facts. */
async function catalogAnew(
  { signal, notices }: CommandContext,
  dir: string,
  { before, mended, restored, missing }: Repaired,
): Promise<CatalogAnew> {
  const untouched = mended.length + restored.length + missing.length === 0;
  if (untouched && (before.catalog === 'equal' || before.catalog === 'behind')) {
    return { catalogRebuilt: false, unread: null };
  }
  const keepAs = before.found > 0 ? freeName(`${catalogFile(dir)}.before-repair`) : undefined;
  notices.say('Rebuilding the catalog.');
  const extractor = openExtractorPool();
  const attachments = openAttachmentExtractor();
  try {
    const seen = reachedBy(dir)?.number;
    const rebuilt = await rebuildCatalog({ dir, extractor, attachments, signal, seen, keepAs });
    const { unread: reason } = rebuilt;
    const moved = keepAs === undefined || reason === null ? null : { file: keepAs, reason };
    return { catalogRebuilt: true, unread: moved };
  } finally {
    await Promise.all([extractor.close(), attachments.close()]);
  }
}

function freeName(stem: string): string {
  for (let n = 1; ; n += 1) if (!existsSync(`${stem}-${n}`)) return `${stem}-${n}`;
}

function repairReport(
  { before, mended, restored, missing, unwritable, skippedCopies, skippedSegments }: Repaired,
  { catalogRebuilt, unread }: CatalogAnew,
  after: Verification,
  colours: Colours,
): string {
  const isAllRead = skippedCopies.length + skippedSegments.length === 0;
  const where = isAllRead ? 'found nowhere' : 'not found in what could be read';
  return [
    `Found ${counted(before.found, 'finding')}.`,
    ...skippedCopies.map(
      ({ copy, reason }) => `The copy ${copy} was skipped: ${reasonText(reason)}.`,
    ),
    ...skippedSegments.map(
      ({ file, reason }) => `The file ${file} was skipped: ${reasonText(reason)}.`,
    ),
    ...mended.map(({ segment, generation, putAside }) => {
      const aside = putAside.length === 0 ? '' : `; put aside: ${putAside.join(', ')}`;
      return `Segment ${segment} is whole again, as generation ${generation}${aside}`;
    }),
    ...restored.map(({ kind, hash, from }) => `Found ${kind} ${hash} again, in the ${from}.`),
    ...missing.map(({ kind, hash }) => `MISSING ${kind} ${hash}: ${where}.`),
    ...(missing.length === 0 || isAllRead
      ? []
      : ['Make readable what was skipped and repair again: it may hold what is missing.']),
    ...(unwritable === null
      ? []
      : [
          'The last segment is damaged beyond mending: nothing can be appended. Use a second copy.',
        ]),
    ...(catalogRebuilt ? ['The catalog was rebuilt.'] : []),
    ...(unread === null
      ? []
      : [
          `The old one could not be read (${reasonText(unread.reason)}); what is left of it: ${unread.file}`,
        ]),
    ...verdict(after.found, after.findings, colours),
  ].join('\n');
}
