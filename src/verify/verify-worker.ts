/** Entry point for verification threads, which check-segment.ts starts. */

import { archiveError } from '../archive/errors.ts';
import { realFiles } from '../archive/file-system.ts';
import { verifyWrittenSegment } from '../archive/segment-reader.ts';
import { findContradictingTables } from '../catalog/implied.ts';
import { serveJobs } from '../core/in-thread.ts';
import {
  checkSegment,
  FastComparison,
  RecentBlobs,
  rebuildMessages,
  type SegmentJob,
  type SegmentReport,
  structuralErrors,
  type ThreadJob,
} from './check-segment.ts';

serveJobs<ThreadJob, readonly string[], SegmentReport>(async (job, report) => {
  switch (job.what) {
    case 'segment': {
      const { job: segment } = job;
      const reports = checkSegment(realFiles, segment, blobsFor(segment), comparisonFor(segment));
      for (const found of reports) report(found);
      return [];
    }
    case 'messages':
      return await rebuildMessages(realFiles, job.job);
    case 'intact': {
      const { path, sealed, segment, generation } = job.file;
      const damaged = () =>
        archiveError('log-damaged', { file: path, segment, offset: 0, reason: 'bytes' });
      verifyWrittenSegment(realFiles, { segment, generation }, path, sealed, damaged);
      return [];
    }
    case 'structure':
      return structuralErrors(job.dir);
    case 'contradictions':
      return findContradictingTables(job.dir);
  }
});

/** Blobs in the archive's active log. A thread serves a single verification. */
const recent = new RecentBlobs();

function blobsFor({ full, generation }: SegmentJob): RecentBlobs {
  // A replaced generation can contain data that the log has lost.
  return full && generation === undefined ? recent : new RecentBlobs();
}

let comparison: FastComparison | undefined;

function comparisonFor({ dir, settleUpTo }: SegmentJob): FastComparison | undefined {
  if (settleUpTo === undefined) return undefined;
  comparison ??= new FastComparison(dir, settleUpTo);
  return comparison;
}
