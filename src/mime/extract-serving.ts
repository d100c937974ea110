import { isWorn, openThreadPort } from '../threads/in-thread.ts';
import { extractHeaders, extractMessage } from './extract-message.ts';
import { type Extraction, emptyExtraction } from './extraction.ts';
import { type IndexEntry, indexEntry } from './index-entry.ts';
import type { MimeLimits } from './limits.ts';
import { sendEntries } from './sent-entries.ts';
import type { ExtractWorkerData, GroupedJob, GroupResults, JobGroup } from './worker-protocol.ts';

/** Answers job groups, one message after the other, and shows in `current` which one it is on. */
export function serveExtraction(data: ExtractWorkerData): void {
  const current = new Int32Array(data.current);
  let previous: Promise<void> = Promise.resolve();
  const port = openThreadPort<JobGroup, GroupResults>((group) => {
    previous = previous.then(async () => {
      const results: { seq: number; entry: IndexEntry }[] = [];
      for (const job of group.jobs) {
        Atomics.store(current, 0, job.seq);
        const extraction = await extractJob(group, job, data.limits);
        results.push({ seq: job.seq, entry: indexEntry(extraction) });
      }
      Atomics.store(current, 0, 0);
      const worn = isWorn(data.limits.wornBytes);
      const sent = sendEntries(results);
      port.send({ ...sent, worn }, [sent.bytes]);
    });
  });
}

async function extractJob(
  group: JobGroup,
  job: GroupedJob,
  limits: MimeLimits,
): Promise<Extraction> {
  const source = Buffer.from(group.buffer, job.offset, job.length);
  let reason = job.unparsed;
  if (reason === null) {
    try {
      return await withStrayErrors(() => extractMessage(source, job.cut, limits));
    } catch {
      // The parser failed in a way it does not report; which way is of no use to anybody but its authors.
      reason = 'malformed';
    }
  }
  try {
    return extractHeaders(source, job.cut, reason, limits);
  } catch {
    return emptyExtraction(reason);
  }
}

/** Also fails when something is thrown in a callback that nobody waits for, as stream code may. */
function withStrayErrors<T>(run: () => Promise<T>): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    process.once('uncaughtException', reject);
    run()
      .then(resolve, reject)
      .finally(() => process.off('uncaughtException', reject));
  });
}
