/** Entry point of the threads that read sources for the Mailbox API; content-threads.ts starts them. */

import { openReaderAt } from '../catalog/open-reader.ts';
import { serveJobs } from '../core/in-thread.ts';
import type { ContentJob } from './content-threads.ts';
import { SOURCE_JOBS } from './source-jobs.ts';

serveJobs<ContentJob, unknown>(async ({ job, dataDir }) => {
  // Reopened for each job: a rebuild or a purge may have replaced files.
  const reader = openReaderAt(dataDir);
  try {
    const sources = reader.sources();
    switch (job.kind) {
      case 'match':
        return SOURCE_JOBS.match(sources, job);
      case 'text':
        return await SOURCE_JOBS.text(sources, job);
      case 'attachment':
        return SOURCE_JOBS.attachment(sources, job);
    }
  } finally {
    reader.close();
  }
});
