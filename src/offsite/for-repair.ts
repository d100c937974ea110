import { replaceFile } from '../archive/files/file-layer.ts';
import { realFiles } from '../archive/files/real-files.ts';
import { formatPath, logFolder } from '../archive/format/layout.ts';
import { refuseUnknownFormat } from '../archive/read/format-file.ts';
import { listSegments, withSegment } from '../archive/read/segment-files.ts';
import { NEVER_TORN, segmentState } from '../copy/segment-state.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import { severalAtOnce } from './at-once.ts';
import {
  type CopiedSegment,
  copiedSegments,
  fetchSegment,
  type SegmentSource,
} from './fetch-segment.ts';

export interface FetchedForRepair {
  /** Segments that are damaged or missing here, and were fetched. */
  readonly fetched: readonly number[];
  /** Those that the copy does not give back either, with the name of their first object and the reason. */
  readonly lost: readonly { readonly name: string; readonly error: MailkeepError }[];
}

const AT_ONCE = 2;

/**
 * Fetches from an off-site copy the segments that a repair of the archive may need, into a folder that is a copy with
 * gaps: those that are not intact here, and those that reach beyond the end of the log here.
 *
 * @param into an empty folder
 * @throws what the store throws
 */
export async function fetchForRepair(
  source: SegmentSource,
  dir: string,
  into: string,
): Promise<FetchedForRepair> {
  const { manifest, signal } = source;
  refuseUnknownFormat(into, manifest.format);
  realFiles.makeFolder(logFolder(into));
  await replaceFile(realFiles, formatPath(into), Buffer.from(`${manifest.format}\n`, 'latin1'));
  const all = copiedSegments(manifest);
  const end = endHere(dir);
  const fetched: number[] = [];
  const lost: { name: string; error: MailkeepError }[] = [];
  await severalAtOnce(all, AT_ONCE, async (copied) => {
    signal.throwIfAborted();
    const { segment } = copied;
    const reachesFurther = segment === all.at(-1)?.segment && end < manifest.commit.number;
    if (!reachesFurther && (await isIntact(source, dir, copied))) return;
    try {
      await fetchSegment(source, into, copied);
      fetched.push(segment);
    } catch (error) {
      if (!(error instanceof MailkeepError) || error.family !== 'damage') throw error;
      lost.push({ name: copied.pieces[0]?.name ?? '', error });
    }
  });
  return { fetched: fetched.sort((a, b) => a - b), lost };
}

async function isIntact(
  { prover }: SegmentSource,
  dir: string,
  { segment }: CopiedSegment,
): Promise<boolean> {
  const generations = listSegments(realFiles, dir).get(segment);
  if (generations === undefined) return false;
  try {
    const file = withSegment(realFiles, dir, segment, generations, ({ name, path, sealed }) => ({
      ...name,
      path,
      sealed: sealed !== undefined,
    }));
    // Of the segment that is written to, what follows its last commit is nobody's matter.
    if (!file.sealed) return isWalkable(dir, segment);
    await prover.intact(file);
    return true;
  } catch (error) {
    if (error instanceof MailkeepError && error.family === 'damage') return false;
    throw error;
  }
}

function isWalkable(dir: string, segment: number): boolean {
  const state = segmentState(realFiles, dir, segment, listSegments(realFiles, dir), NEVER_TORN);
  return state?.damaged === false;
}

/** The number of the last commit of the log here, as far as it can be read; 0 for none. */
function endHere(dir: string): number {
  const listing = listSegments(realFiles, dir);
  const last = [...listing.keys()].at(-1);
  if (last === undefined) return 0;
  return segmentState(realFiles, dir, last, listing, NEVER_TORN)?.end.number ?? 0;
}
