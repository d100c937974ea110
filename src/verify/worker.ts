/** Entry of a thread that reads archives; segment-threads.ts is its other side. */

import { parentPort } from 'node:worker_threads';
import { realFiles } from '../archive/files/real-files.ts';
import { thrownBy } from '../errors/mailkeep-error.ts';
import { checkSegment } from './check-segment.ts';
import { RecentBlobs } from './find-blobs.ts';
import { rebuildMessages } from './rebuild-messages.ts';
import type { SegmentJob } from './segment-report.ts';
import type { ThreadAnswer, ThreadJob } from './thread-protocol.ts';

const port = parentPort;
if (port === null) throw new Error('runs as a worker thread only');
const answer = (what: ThreadAnswer): void => port.postMessage(what);

async function work(job: ThreadJob): Promise<readonly string[]> {
  switch (job.what) {
    case 'segment': {
      const blobs = await blobsFor(job.job);
      for (const report of checkSegment(realFiles, job.job, blobs)) answer({ report });
      return [];
    }
    case 'messages':
      return await rebuildMessages(realFiles, job.job);
    case 'structure': {
      const { foundInStructure } = await import('./grown-catalog.ts');
      return foundInStructure(job.dir);
    }
  }
}

/** Of the log in force of one archive: a thread serves one verification. */
let recent: { readonly dir: string; readonly blobs: RecentBlobs } | undefined;

async function blobsFor({ dir, full, generation }: SegmentJob): Promise<RecentBlobs> {
  // Another generation than the one in force may have what the log lost.
  if (!full || generation !== undefined) return new RecentBlobs();
  if (recent?.dir !== dir) {
    // SQLite is loaded by threads that rebuild messages.
    const { BlobsByCatalog } = await import('./find-blobs.ts');
    const known = new BlobsByCatalog(realFiles, dir);
    recent = { dir, blobs: new RecentBlobs((hash) => known.find(hash)) };
  }
  return recent.blobs;
}

port.on('message', (job: ThreadJob) => {
  work(job).then(
    (found) => answer({ found }),
    (error: unknown) => answer({ thrown: thrownBy(error) }),
  );
});
