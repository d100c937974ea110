/** Entry of the threads that read sources for the mirror; content-threads.ts is its other side. */

import type { LogReader } from '../archive/read/log-reader.ts';
import { openReaderOf } from '../engine/archive/reader.ts';
import { needsBody, sourceTest } from '../mailbox-surface/criteria.ts';
import { renderText } from '../mailbox-surface/message/rendering.ts';
import { serveJobs } from '../threads/in-thread.ts';
import { listedAttachment } from './attachment-parts.ts';
import type { ContentJob, ContentResult } from './content-job.ts';
import { matchingSources } from './source-search.ts';

/** Headers are looked at no further than this, in bytes. */
const HEADER_BYTES = 262_144;

async function answer(job: ContentJob, sources: LogReader): Promise<ContentResult> {
  switch (job.kind) {
    case 'match':
      return { kind: 'match', positions: matching(job, sources) };
    case 'text':
      return { kind: 'text', rendered: await renderText(sources.readMessage(job.id)) };
    case 'attachment':
      return {
        kind: 'attachment',
        bytes: listedAttachment(sources.readMessage(job.id), job.listed, job.attachmentId),
      };
  }
}

function matching(
  { criteria, ids, withinMs }: Extract<ContentJob, { kind: 'match' }>,
  sources: LogReader,
): number[] | null {
  const test = sourceTest(criteria);
  if (test === null) return ids.map((_, position) => position);
  const deadline = performance.now() + withinMs;
  return matchingSources(
    ids.length,
    (position) => {
      const id = ids[position] ?? '';
      return needsBody(criteria)
        ? sources.readMessage(id)
        : sources.readSource(id, HEADER_BYTES).bytes;
    },
    test,
    () => performance.now() > deadline,
  );
}

serveJobs<ContentJob, ContentResult>(async (job) => {
  // Opened for each job: a rebuild or a purge may have put other files in their place.
  const reader = openReaderOf(job.dataDir);
  try {
    return await answer(job, reader.sources());
  } finally {
    reader.close();
  }
});
