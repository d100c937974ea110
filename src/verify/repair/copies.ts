import { type FileLayer, openIfFile } from '../../archive/files/file-layer.ts';
import { segmentPath } from '../../archive/format/layout.ts';
import { checkFormat } from '../../archive/read/format-file.ts';
import { openLogReader } from '../../archive/read/log-reader.ts';
import { scanLog } from '../../archive/read/scan-log.ts';
import { listSegments } from '../../archive/read/segment-files.ts';
import { type ImpliedCatalog, openImplied } from '../../catalog/implied.ts';
import { errnoOf, hasCode, MailkeepError } from '../../errors/mailkeep-error.ts';

export interface SkippedCopy {
  readonly copy: string;
  /** The system's name of the reason, or our code. */
  readonly reason: string;
}

/** A segment of a copy that cannot be opened. The copy's other segments still help. */
export interface SkippedSegment extends SkippedCopy {
  readonly file: string;
}

interface ReadableCopies {
  readonly copies: readonly string[];
  readonly skippedCopies: readonly SkippedCopy[];
  readonly skippedSegments: readonly SkippedSegment[];
  /** Files of the copies that cannot be read. */
  readonly hidden: ReadonlySet<string>;
}

/**
 * Sorts out copies, and segments of copies, that cannot be read: one hostile or broken copy must not keep the others
 * from helping, nor one segment the rest of its copy. Damage is no reason to skip anything, and neither is a pipe or a
 * folder instead of a segment.
 */
export function readableCopies(files: FileLayer, given: readonly string[]): ReadableCopies {
  const copies: string[] = [];
  const skippedCopies: SkippedCopy[] = [];
  const skippedSegments: SkippedSegment[] = [];
  const hidden = new Set<string>();
  for (const copy of given) {
    try {
      const { all, unreadable, refused } = segmentsOf(files, copy);
      const [first] = refused;
      if (first !== undefined && unreadable.length === all) {
        skippedCopies.push({ copy, reason: first.reason });
        continue;
      }
      for (const path of unreadable) hidden.add(path);
      skippedSegments.push(...refused);
      copies.push(copy);
    } catch (error) {
      skippedCopies.push({ copy, reason: reasonOf(error) });
    }
  }
  return { copies, skippedCopies, skippedSegments, hidden };
}

/** Counts the files of a copy's segments, and names those that cannot be read and those that were refused. */
function segmentsOf(files: FileLayer, copy: string) {
  try {
    checkFormat(files, copy);
  } catch (error) {
    // Its segments are worth what they always were.
    if (!hasCode(error, 'archive-format-unreadable')) throw error;
  }
  let all = 0;
  const unreadable: string[] = [];
  const refused: SkippedSegment[] = [];
  for (const [segment, generations] of listSegments(files, copy)) {
    const paths = generations.map((generation) => segmentPath(copy, { segment, generation }));
    all += paths.length;
    const closed = paths.flatMap((file) => {
      const reason = whyClosed(files, file);
      return reason === undefined ? [] : [{ copy, file, reason }];
    });
    refused.push(...closed);
    // An older generation may hold mail that the unreadable one has purged.
    if (closed.length > 0) unreadable.push(...paths);
  }
  return { all, unreadable, refused };
}

function whyClosed(files: FileLayer, path: string): string | undefined {
  try {
    openIfFile(files, path)?.close();
    return undefined;
  } catch (error) {
    return reasonOf(error);
  }
}

/** @throws what is neither an error of the system nor one of ours */
function reasonOf(error: unknown): string {
  const reason = error instanceof MailkeepError ? error.code : errnoOf(error);
  if (reason === undefined) throw error;
  return reason;
}

export interface Wanted {
  readonly kind: 'message' | 'blob';
  readonly hash: string;
}

export interface OtherCopy {
  /** The bytes, whose hash is not compared yet; undefined where the copy has none. */
  read(wanted: Wanted): Buffer | undefined;
  close(): void;
}

interface OpenedCopies {
  readonly others: readonly OtherCopy[];
  readonly skipped: readonly SkippedCopy[];
}

/** Opens copies by what their logs record: they may have no catalog. */
export async function openCopies(
  files: FileLayer,
  copies: readonly string[],
): Promise<OpenedCopies> {
  const others: OtherCopy[] = [];
  const skipped: SkippedCopy[] = [];
  for (const dir of copies) {
    const implied = await openImplied();
    try {
      await foldAll(files, dir, implied);
    } catch (error) {
      implied.close();
      skipped.push({ copy: dir, reason: reasonOf(error) });
      continue;
    }
    const reader = openLogReader({ dir, files, locator: implied.locator });
    others.push({
      read({ kind, hash }) {
        try {
          return kind === 'message' ? reader.readMessage(hash) : reader.readBlob(hash);
        } catch (error) {
          if (error instanceof MailkeepError) return undefined;
          throw error;
        }
      },
      close() {
        reader.close();
        implied.close();
      },
    });
  }
  return { others, skipped };
}

async function foldAll(files: FileLayer, dir: string, implied: ImpliedCatalog): Promise<void> {
  for await (const event of scanLog({ dir, files })) {
    if (event.what !== 'batch' || event.batch.commit.number <= implied.reached().number) continue;
    implied.fold([event.batch], true);
  }
}
