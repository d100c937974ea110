/** Entry of a thread that reads archives; segment-threads.ts is its other side. */
import { parentPort } from 'node:worker_threads';
import { realFiles } from '../archive/real-files.ts';
import { checkSegment } from './check-segment.ts';
import { rebuildMessages } from './rebuild-messages.ts';
import { type ThreadAnswer, type ThreadJob, thrownBy } from './thread-protocol.ts';

const port = parentPort;
if (port === null) throw new Error('runs as a worker thread only');
const answer = (what: ThreadAnswer): void => port.postMessage(what);

async function work(job: ThreadJob): Promise<readonly string[]> {
  switch (job.what) {
    case 'segment':
      for (const report of checkSegment(realFiles, job.job)) answer({ report });
      return [];
    case 'messages':
      return await rebuildMessages(realFiles, job.job);
    case 'structure': {
      // SQLite is loaded by the one thread that needs it.
      const { foundInStructure } = await import('./catalog-structure.ts');
      return foundInStructure(job.dir);
    }
  }
}

port.on('message', (job: ThreadJob) => {
  work(job).then(
    (found) => answer({ found }),
    (error: unknown) => answer({ thrown: thrownBy(error) }),
  );
});
