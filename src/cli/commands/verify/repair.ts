import { existsSync, rmSync } from 'node:fs';
import path from 'node:path';
import { holdsArchive } from '../../../engine/archive/archive-folder.ts';
import {
  type SegmentsForRepair,
  segmentsForRepair,
} from '../../../engine/offsite/segments-for-repair.ts';
import {
  type CatalogOutcome,
  type OtherCopies,
  repairAndVerify,
} from '../../../engine/verify/repair.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { hasCode } from '../../../errors/mailkeep-error.ts';
import { usageError } from '../../../errors/usage.ts';
import type { Repaired } from '../../../verify/repair/repair-archive.ts';
import type { Verification } from '../../../verify/verify-archive.ts';
import { counted } from '../../../wording/amounts.ts';
import { reasonText } from '../../../wording/sentence.ts';
import type { CommandContext } from '../../context.ts';
import { isEncrypted, withStore } from '../../copy-target.ts';
import { type Colours, present } from '../../output.ts';
import { openActivity } from '../../progress/activity.ts';
import { exitOfVerification, printUnread, readText, verdict } from './verify.ts';

/** `mailkeep verify --repair`. @throws archive-in-use; usage-no-archive for a copy that is none */
export async function repair(
  context: CommandContext,
  dataDir: string,
  from: readonly string[],
  trustsCopies: boolean,
): Promise<ExitCode> {
  const { surroundings } = context;
  const folders = from
    .filter((copy) => !isEncrypted(context, dataDir, copy))
    .map((copy) => path.resolve(surroundings.cwd, copy));
  for (const copy of folders) {
    // One that is there and cannot be read is named and skipped.
    if (!existsSync(copy) || isAbsent(copy))
      throw usageError('usage-no-archive', { dataDir: copy });
  }
  const fetched: Fetched[] = [];
  try {
    for (const copy of from.filter((one) => isEncrypted(context, dataDir, one))) {
      fetched.push(await fetchedFrom(context, dataDir, copy));
    }
    const copies = [...folders, ...fetched.map(({ folder }) => folder)];
    const vouched = fetched.flatMap(({ commit }) => commit ?? []);
    return await repairWith(context, dataDir, { copies, vouched, trustsCopies }, fetched);
  } finally {
    for (const { folder } of fetched) rmSync(folder, { recursive: true, force: true });
  }
}

interface Fetched extends SegmentsForRepair {
  /** Of the store. */
  readonly label: string;
}

/** Fetches what an encrypted copy has of the segments that are damaged here. */
function fetchedFrom(context: CommandContext, dataDir: string, target: string): Promise<Fetched> {
  const { signal } = context;
  return withStore(context, target, {}, async (store) => {
    const { label } = store;
    const activity = openActivity(context, 'looking for damage, and fetching those segments');
    const fetched = await segmentsForRepair({ dataDir, store, signal }).finally(activity.stop);
    return { ...fetched, label };
  });
}

/** @param fetched copies whose folders are temporary */
async function repairWith(
  context: CommandContext,
  dataDir: string,
  others: OtherCopies,
  fetched: readonly Fetched[],
): Promise<ExitCode> {
  const { output, now } = context;
  const startedAt = now();
  const outcome = await repairAndVerify(context, dataDir, others, async (part, act) => {
    const mending = part === 'mending';
    const what = mending ? 'reading the log and looking for damage' : 'reading the log';
    const activity = openActivity(context, what);
    return act((progress) => activity.show(() => readText(progress))).finally(activity.stop);
  });
  const { catalog, after, remembered } = outcome;
  const names = new Map(fetched.map(({ folder, label }) => [folder, label]));
  const named = <T extends { readonly copy: string }>(found: T): T => ({
    ...found,
    copy: names.get(found.copy) ?? found.copy,
  });
  const repaired = {
    ...outcome.repaired,
    skippedCopies: outcome.repaired.skippedCopies.map(named),
    skippedSegments: [
      ...outcome.repaired.skippedSegments.map(named),
      ...fetched.flatMap(({ label: copy, lost }) =>
        lost.map(({ name, error }) => ({ copy, file: `${copy}/${name}`, reason: error.code })),
      ),
    ],
    unproven: outcome.repaired.unproven.map(named),
  };
  const { catalogRebuilt, unread } = catalog;
  const exit = exitOfVerification(after);
  const { before, ...done } = repaired;
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
  await output.object(result, () => repairReport(repaired, catalog, after, output.colours));
  printUnread(context, dataDir, after);
  return exit;
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

function repairReport(
  { before, mended, restored, missing, unwritable, unproven, ...skipped }: Repaired,
  { catalogRebuilt, unread }: CatalogOutcome,
  after: Verification,
  colours: Colours,
): string {
  const { skippedCopies, skippedSegments } = skipped;
  const isAllRead = skippedCopies.length + skippedSegments.length === 0;
  const where = isAllRead ? 'found nowhere' : 'not found in what could be read';
  return present([
    `${counted(before.found, 'finding')}.`,
    skippedCopies.map(({ copy, reason }) => `The copy ${copy} was skipped: ${reasonText(reason)}.`),
    skippedSegments.map(
      ({ file, reason }) => `The file ${file} was skipped: ${reasonText(reason)}.`,
    ),
    mended.map(({ segment, generation, putAside }) => {
      const aside = putAside.length === 0 ? '' : `; put aside: ${putAside.join(', ')}`;
      return `Segment ${segment} is intact again, as generation ${generation}${aside}`;
    }),
    unproven.map(
      ({ copy, number, known }) =>
        `The copy ${copy} has commits up to ${number}, and nothing here proves those behind ${known}. ` +
        'If you know that only you could write to it, --trust-copy takes them.',
    ),
    restored.map(({ kind, hash, from }) => `Found ${kind} ${hash} again, in the ${from}.`),
    missing.map(({ kind, hash }) => `MISSING ${kind} ${hash}: ${where}.`),
    missing.length > 0 &&
      !isAllRead &&
      'Make the skipped files readable and repair again: they may contain what is missing.',
    unwritable !== null &&
      'The last segment is damaged beyond repair: nothing can be appended. Use a second copy.',
    catalogRebuilt && 'The catalog was rebuilt.',
    unread !== null &&
      `The old one could not be read (${reasonText(unread.reason)}); what is left of it: ${unread.file}`,
    verdict(after.found, after.findings, colours),
  ]).join('\n');
}
