import { logDamaged, logEndsEarly } from '../../errors/archive.ts';
import type { FileLayer } from '../files/file-layer.ts';
import { realFiles } from '../files/real-files.ts';
import { logFolder } from '../format/layout.ts';
import { checkFormat } from './format-file.ts';
import type { ExpectedCommit } from './recovery.ts';
import { segmentBatches } from './segment-batches.ts';
import { listSegments, openInForce } from './segment-files.ts';

/** The last commit of a log, and whose it is. */
export interface LogHead {
  /** Hexadecimal. */
  readonly archiveId: string;
  /** 0 before the first commit. */
  readonly number: number;
  readonly hash: string;
}

/**
 * Reads the last segment and returns the log's last commit. Needs no lock.
 *
 * @param expected a commit that has to be there: the one that the catalog has reached
 * @throws `archive-missing` and its like; `log-damaged` when the last segment is not whole; `log-ends-early`
 */
export function logHead(
  dir: string,
  expected?: ExpectedCommit,
  files: FileLayer = realFiles,
): LogHead {
  checkFormat(files, dir);
  const last = [...listSegments(files, dir)].at(-1);
  const nothing = { file: logFolder(dir), segment: 1, offset: 0 };
  if (last === undefined) throw logDamaged({ ...nothing, reason: 'segment-missing' });
  const opened = openInForce(files, dir, ...last);
  try {
    const { path: file, header, name } = opened;
    let [number, hash] = [header.previousNumber, header.previousHash];
    for (const item of segmentBatches(opened, { digest: true }, () => undefined)) {
      if (item.what === 'remainder') break;
      const [problem] = item.problems;
      if (problem !== undefined) {
        const { offset, reason } = problem;
        throw logDamaged({ file, segment: name.segment, offset, reason });
      }
      ({ number, hash } = item.commit);
    }
    if (expected !== undefined && expected.number > number) {
      const { number: expectedNumber, hash: expectedHash } = expected;
      throw logEndsEarly({ file, expectedNumber, expectedHash, lastNumber: number });
    }
    return { archiveId: header.archiveId.toString('hex'), number, hash };
  } finally {
    opened.file.close();
  }
}
