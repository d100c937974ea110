/** Entry point of the threads that read sources for the Mailbox API; content-threads.ts starts them. */

import { realFiles } from '../archive/file-system.ts';
import type { LogReader } from '../archive/log-reader.ts';
import { segmentsHere } from '../archive/segment-files.ts';
import { openReaderOf } from '../catalog/open-reader.ts';
import { hasCode, type Thrown, thrownBy } from '../core/errors.ts';
import { serveJobs } from '../core/in-thread.ts';
import { renderText } from '../service/message-view.ts';
import { needsBody, sourceTest } from '../service/surface.ts';
import type { ContentJob, ContentResult } from './content-threads.ts';
import { listedAttachment, matchingSources } from './source-jobs.ts';

const HEADER_BYTES = 262_144;

async function answer(job: ContentJob, sources: LogReader): Promise<ContentResult> {
  switch (job.kind) {
    case 'match':
      return matching(job, sources);
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
): Extract<ContentResult, { kind: 'match' }> {
  const test = sourceTest(criteria) ?? (() => true);
  const deadline = performance.now() + withinMs;
  const damaged: number[] = [];
  let why: Thrown | null = null;
  const read = (position: number): Buffer | null => {
    const id = ids[position] ?? '';
    try {
      return needsBody(criteria)
        ? sources.readMessage(id)
        : sources.readSource(id, HEADER_BYTES).bytes;
    } catch (error) {
      if (!hasCode(error, 'message-damaged') && !hasCode(error, 'blob-damaged')) throw error;
      // The client gets all damaged messages, so that it can leave them out.
      damaged.push(position);
      why ??= thrownBy(error);
      return null;
    }
  };
  const isOver = () => performance.now() > deadline;
  const positions = matchingSources(ids.length, read, test, isOver);
  return { kind: 'match', positions, damaged, why };
}

serveJobs<ContentJob, ContentResult>(async (job) => {
  // Reopened for each job: a rebuild or a purge may have replaced files.
  const { dataDir, isPartial = false } = job;
  const segments = isPartial ? segmentsHere(realFiles, dataDir) : undefined;
  const reader = openReaderOf(dataDir, {}, segments);
  try {
    return await answer(job, reader.sources());
  } finally {
    reader.close();
  }
});
