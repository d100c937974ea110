import { readdirSync } from 'node:fs';
import path from 'node:path';
import { replaceFile } from '../archive/files/file-layer.ts';
import { realFiles } from '../archive/files/real-files.ts';
import { formatPath, logFolder } from '../archive/format/layout.ts';
import { refuseUnknownFormat } from '../archive/read/format-file.ts';
import { listSegments } from '../archive/read/segment-files.ts';
import { readRegularFile } from '../disk/regular-file.ts';
import { copiesError } from '../errors/copies.ts';
import { errnoName, MailkeepError } from '../errors/mailkeep-error.ts';
import { severalAtOnce } from './at-once.ts';
import { copiedSegments, fetchSegment, type SegmentSource } from './fetch-segment.ts';
import type { SecretManifest } from './format/secret-manifest.ts';

export interface BringBackOptions extends SegmentSource {
  /** The folder to bring the archive back into: empty, or that of a run that was interrupted. */
  readonly to: string;
  readonly progress?: (done: { readonly segments: number; readonly of: number }) => void;
}

export interface BroughtBack {
  readonly segments: number;
  readonly bytes: number;
  /** Segments that could not be brought back, each with the reason. */
  readonly lost: readonly { readonly segment: number; readonly error: MailkeepError }[];
}

/** In a folder while an archive is brought back into it: what was begun there, and may be continued. */
const UNFINISHED = 'copy-from.json';
/** As many travel, are decrypted, written and read at a time: each waits for the network or the disk in turn. */
const AT_ONCE = 4;

/**
 * Brings the log of an archive back from a copy: each segment under a temporary name, read completely before it gets
 * its own. What cannot be brought back is reported at the end; the rest is there then.
 *
 * @throws offsite-not-empty; `disk-full` and its like; what the store throws
 */
export async function bringBack(options: BringBackOptions): Promise<BroughtBack> {
  const { to, manifest, signal, progress } = options;
  refuseUnknownFormat(to, manifest.format);
  await begin(to, manifest);
  const jobs = copiedSegments(manifest);
  const there = listSegments(realFiles, to);
  const lost: { segment: number; error: MailkeepError }[] = [];
  let [done, bytes] = [0, 0];
  await severalAtOnce(jobs, AT_ONCE, async (job) => {
    signal.throwIfAborted();
    try {
      if (!there.has(job.segment)) {
        const fetched = await fetchSegment(options, to, job);
        bytes += fetched.bytes;
      }
    } catch (error) {
      if (!(error instanceof MailkeepError) || error.family !== 'damage') throw error;
      lost.push({ segment: job.segment, error });
    }
    done += 1;
    progress?.({ segments: done, of: jobs.length });
  });
  // What was lost may be brought back by another run, from a copy that was mended.
  if (lost.length === 0) await realFiles.remove(path.join(to, UNFINISHED));
  return { segments: jobs.length - lost.length, bytes, lost };
}

/** Lays an empty folder out, or finds one that an earlier run has left. */
async function begin(to: string, manifest: SecretManifest): Promise<void> {
  realFiles.makeFolder(to);
  const names = readdirSync(to).filter((name) => !MEANINGLESS.has(name));
  const mark = `${JSON.stringify({ archiveId: manifest.archiveId, commit: manifest.commit })}\n`;
  const file = path.join(to, UNFINISHED);
  if (names.length > 0 && readText(file) !== mark) {
    const stranger = names.find((name) => name !== UNFINISHED) ?? UNFINISHED;
    throw copiesError('offsite-not-empty', { dir: to, stranger });
  }
  await replaceFile(realFiles, file, Buffer.from(mark, 'utf8'));
  realFiles.makeFolder(logFolder(to));
  // FORMAT comes first: a log without it is damage.
  await replaceFile(realFiles, formatPath(to), Buffer.from(`${manifest.format}\n`, 'latin1'));
}

/** What a file system puts into every disk, and what the lock of an archive leaves. */
const MEANINGLESS = new Set(['lost+found', 'lock', 'lock.json', 'lock-journal']);

function readText(file: string): string | undefined {
  try {
    return readRegularFile(file, LARGEST_MARK).toString('utf8');
  } catch (error) {
    if (errnoName(error) === 'ENOENT') return undefined;
    throw error;
  }
}

const LARGEST_MARK = 4096;
