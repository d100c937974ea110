/** Entry point for verification threads, which check-segment.ts starts. */

import { archiveError } from '../archive/errors.ts';
import { realFiles } from '../archive/file-system.ts';
import { verifyWrittenSegment } from '../archive/segment-reader.ts';
import { serveJobs } from '../core/in-thread.ts';
import type { FastComparison, SegmentJob, SegmentReport, ThreadJob } from './check-segment.ts';
import { checkSegment, RecentBlobs, rebuildMessages } from './check-segment.ts';

serveJobs<ThreadJob, readonly string[], SegmentReport>(async (job, report) => {
  switch (job.what) {
    case 'segment': {
      const blobs = blobsFor(job.job);
      const fastComparison = await settlingFor(job.job);
      for (const found of checkSegment(realFiles, job.job, blobs, fastComparison)) report(found);
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
    case 'structure': {
      const { structuralErrors: foundInStructure } = await import('./check-segment.ts');
      return foundInStructure(job.dir);
    }
    case 'contradictions': {
      const { findContradictingTables: contradictingTables } = await import(
        '../catalog/implied.ts'
      );
      return contradictingTables(job.dir);
    }
  }
});

/** Blobs in the archive's active log. A thread serves a single verification. */
const recent = new RecentBlobs();

function blobsFor({ full, generation }: SegmentJob): RecentBlobs {
  // A replaced generation can contain data that the log has lost.
  return full && generation === undefined ? recent : new RecentBlobs();
}

let opened:
  | { readonly dir: string; readonly upTo: number; readonly fastComparison: FastComparison }
  | undefined;

async function settlingFor({
  dir,
  settleUpTo: upTo,
}: SegmentJob): Promise<FastComparison | undefined> {
  if (upTo === undefined) return undefined;
  if (opened?.dir !== dir || opened.upTo !== upTo) {
    opened?.fastComparison.close();
    const { FastComparison } = await import('./check-segment.ts');
    opened = { dir, upTo, fastComparison: new FastComparison(dir, upTo) };
  }
  return opened.fastComparison;
}
