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
      const blobs = await blobsFor(segment);
      const reports = checkSegment(realFiles, segment, blobs, comparisonFor(segment));
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

/** Blobs in one archive's active log. */
let recent: { readonly dir: string; readonly blobs: RecentBlobs } | undefined;

async function blobsFor({ dir, full, generation }: SegmentJob): Promise<RecentBlobs> {
  // A replaced generation can contain data that the log has lost.
  if (!full || generation !== undefined) return new RecentBlobs();
  if (recent?.dir !== dir) {
    const { CatalogBlobs } = await import('./read-log.ts');
    const blobs = new CatalogBlobs(realFiles, dir);
    recent = { dir, blobs: new RecentBlobs((hash) => blobs.find(hash)) };
  }
  return recent.blobs;
}

/** A repair verifies twice with the same threads. */
let opened: { readonly key: string; readonly comparison: FastComparison } | undefined;

function comparisonFor({ dir, settleUpTo }: SegmentJob): FastComparison | undefined {
  if (settleUpTo === undefined) return undefined;
  const key = `${settleUpTo} ${dir}`;
  if (opened?.key !== key) {
    opened?.comparison.close();
    opened = { key, comparison: new FastComparison(dir, settleUpTo) };
  }
  return opened.comparison;
}
