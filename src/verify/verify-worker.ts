/** Entry point of verification threads, which check-segment.ts starts. */

import { archiveError } from '../archive/errors.ts';
import { realFiles } from '../archive/file-system.ts';
import { provenEnd } from '../archive/segment-reader.ts';
import { serveJobs } from '../core/in-thread.ts';
import type { SegmentJob, SegmentReport, Settling, ThreadJob } from './check-segment.ts';
import { checkSegment, RecentBlobs, rebuildMessages } from './check-segment.ts';

serveJobs<ThreadJob, readonly string[], SegmentReport>(async (job, report) => {
  switch (job.what) {
    case 'segment': {
      const blobs = await blobsFor(job.job);
      const settling = await settlingFor(job.job);
      for (const found of checkSegment(realFiles, job.job, blobs, settling)) report(found);
      return [];
    }
    case 'messages':
      return await rebuildMessages(realFiles, job.job);
    case 'intact': {
      const { path, sealed, segment, generation } = job.file;
      const damaged = () =>
        archiveError('log-damaged', { file: path, segment, offset: 0, reason: 'bytes' });
      provenEnd(realFiles, { segment, generation }, path, sealed, damaged);
      return [];
    }
    case 'structure': {
      const { foundInStructure } = await import('./check-segment.ts');
      return foundInStructure(job.dir);
    }
    case 'contradictions': {
      const { contradictingTables } = await import('../catalog/implied.ts');
      return contradictingTables(job.dir);
    }
  }
});

/** Blobs in one archive's active log, because a thread serves one verification. */
let recent: { readonly dir: string; readonly blobs: RecentBlobs } | undefined;

async function blobsFor({ dir, full, generation }: SegmentJob): Promise<RecentBlobs> {
  // A replaced generation may contain data that the log has lost.
  if (!full || generation !== undefined) return new RecentBlobs();
  if (recent?.dir !== dir) {
    const { BlobsByCatalog } = await import('./read-log.ts');
    const known = new BlobsByCatalog(realFiles, dir);
    recent = { dir, blobs: new RecentBlobs((hash) => known.find(hash)) };
  }
  return recent.blobs;
}

let opened:
  | { readonly dir: string; readonly upTo: number; readonly settling: Settling }
  | undefined;

async function settlingFor({ dir, settleUpTo: upTo }: SegmentJob): Promise<Settling | undefined> {
  if (upTo === undefined) return undefined;
  if (opened?.dir !== dir || opened.upTo !== upTo) {
    opened?.settling.close();
    const { Settling } = await import('./check-segment.ts');
    opened = { dir, upTo, settling: new Settling(dir, upTo) };
  }
  return opened.settling;
}
