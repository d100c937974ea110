import { join } from 'node:path';
import { realFiles } from '../archive/files/real-files.ts';
import { isTemporary, logFolder } from '../archive/format/layout.ts';
import type { ArchiveCodec } from '../archive/format/stored-payload.ts';
import {
  type Compactable,
  compactableSegments,
  compactSegment,
  dropOldGenerations,
  isDamage,
} from '../archive/write/compact-segments.ts';
import { writing } from '../archive/write/hot-segment.ts';
import { acquireLock } from '../archive/write/lock.ts';
import { sealerOnThread } from '../archive/write/sealer.ts';
import type { MailkeepError } from '../errors/mailkeep-error.ts';
import { refuseNetworkFileSystem } from './archive/archive-folder.ts';
import type { EngineContext } from './context.ts';

export interface CompactResult {
  readonly codec: ArchiveCodec;
  readonly dryRun: boolean;
  /** Segments that were rewritten, or would be, and bytes of their files. */
  readonly segments: number;
  readonly bytesBefore: number;
  /** Null for a dry run. */
  readonly bytesAfter: number | null;
  /** Segments that another codec compressed and that were not reached. */
  readonly remaining: number;
  readonly interrupted: boolean;
  readonly damaged: readonly MailkeepError[];
}

/** Returns what `compactArchive` would rewrite, and writes nothing. */
export function planCompaction(dir: string, codec: ArchiveCodec): CompactResult {
  const { segments, damaged } = survey(dir, codec);
  return {
    codec,
    dryRun: true,
    segments: segments.length,
    bytesBefore: segments.reduce((total, segment) => total + segment.bytes, 0),
    bytesAfter: null,
    remaining: segments.length,
    interrupted: false,
    damaged,
  };
}

/**
 * Rewrites the sealed segments that are compressed otherwise than with `codec`, holding the archive's lock.
 *
 * @param progress called after each segment with how many were examined, of how many
 * @throws archive-in-use, network-file-system: nothing was changed
 * @throws disk-full and the other errors of writing: what was rewritten stays, and the next run continues
 */
export async function compactArchive(
  { surroundings, signal }: Pick<EngineContext, 'surroundings' | 'signal'>,
  dir: string,
  codec: ArchiveCodec,
  progress: (examined: number, of: number) => void,
): Promise<CompactResult> {
  refuseNetworkFileSystem(dir, surroundings.env);
  const lock = acquireLock(dir);
  try {
    return await compactAll(dir, codec, signal, progress);
  } finally {
    lock.release();
  }
}

async function compactAll(
  dir: string,
  codec: ArchiveCodec,
  signal: AbortSignal,
  progress: (examined: number, of: number) => void,
): Promise<CompactResult> {
  await clearRemains(dir);
  const { segments, damaged } = survey(dir, codec);
  const sealer = sealerOnThread();
  let [done, bytesBefore, bytesAfter] = [0, 0, 0];
  let examined = 0;
  try {
    for (const { segment } of segments) {
      if (signal.aborted) break;
      examined += 1;
      try {
        const sealed = await compactSegment(realFiles, sealer, { dir, segment, codec });
        done += 1;
        bytesBefore += sealed.bytesBefore;
        bytesAfter += sealed.bytesAfter;
      } catch (error) {
        if (!isDamage(error)) throw error;
        damaged.push(error);
      }
      progress(examined, segments.length);
    }
  } finally {
    await sealer.close();
  }
  const remaining = segments.length - examined;
  const interrupted = remaining > 0;
  return {
    ...{ codec, dryRun: false, segments: done, bytesBefore, bytesAfter },
    ...{ remaining, interrupted, damaged },
  };
}

/** Removes what a killed run left: unfinished files, and generations that a sealed one has replaced. */
async function clearRemains(dir: string): Promise<void> {
  const folder = logFolder(dir);
  for (const name of realFiles.list(folder).filter(isTemporary)) {
    await writing(folder, 0, () => realFiles.remove(join(folder, name)));
  }
  await writing(folder, 0, () =>
    dropOldGenerations({ dir, now: Number.POSITIVE_INFINITY, keepMs: 0 }),
  );
}

function survey(dir: string, codec: ArchiveCodec) {
  const segments: Compactable[] = [];
  const damaged: MailkeepError[] = [];
  for (const found of compactableSegments(realFiles, dir, codec)) {
    if ('bytes' in found) segments.push(found);
    else damaged.push(found.damage);
  }
  return { segments, damaged };
}
