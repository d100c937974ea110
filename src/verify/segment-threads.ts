import { availableParallelism } from 'node:os';
import { Readable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FileLayer } from '../archive/files/file-layer.ts';
import { contradictingTables } from '../catalog/structure.ts';
import type { MessageId } from '../mail/words.ts';
import { JobPool } from '../threads/job-pool.ts';
import { builtWorker } from '../threads/worker-thread.ts';
import { foundInStructure } from './catalog-structure.ts';
import { checkSegment } from './check-segment.ts';
import { rebuildMessages } from './rebuild-messages.ts';
import { RecentBlobs } from './recent-blobs.ts';
import type { MessagesJob, SegmentJob, SegmentReport, ThreadJob } from './segment-report.ts';
import { Settling } from './settling.ts';

/** Reads what an archive is made of, several pieces at a time where there are threads. */
export interface SegmentChecker {
  /** How many are worth asking for at a time. */
  readonly width: number;
  /** What a file of the log says, while it is read. Its failure comes to who takes the reports. */
  check(job: SegmentJob): AsyncIterable<SegmentReport>;
  /** Those messages that could not be rebuilt, or are not what they should be. */
  rebuild(job: MessagesJob): Promise<readonly MessageId[]>;
  /** What SQLite finds wrong in the file of an archive's catalog. */
  structure(dir: string): Promise<readonly string[]>;
  /** See `contradictingTables`, whose errors it throws. */
  contradictions(dir: string): Promise<readonly string[]>;
  close(): Promise<void>;
}

/** More threads wait for the disk, and each holds what one segment says. */
const MOST_THREADS = 4;

/** Reads on this thread, through any files. */
export function checkerInProcess(files: FileLayer): SegmentChecker {
  return {
    width: 1,
    async *check(job) {
      await nextTurn();
      const { dir, settleUpTo } = job;
      const settling = settleUpTo === undefined ? undefined : new Settling(dir, settleUpTo);
      try {
        yield* checkSegment(files, job, new RecentBlobs(), settling);
      } finally {
        settling?.close();
      }
    },
    rebuild: (job) => rebuildMessages(files, job),
    structure: async (dir) => foundInStructure(dir),
    contradictions: async (dir) => contradictingTables(dir),
    async close() {},
  };
}

/** One for the catalog's file, one for the first segment. */
const NEEDED_THREADS = 2;

/**
 * Reads on threads of their own. Two start at once, so that they load while the caller opens the archive; others start
 * when they are needed.
 */
export function checkerOnThreads(): SegmentChecker {
  const width = Math.min(MOST_THREADS, availableParallelism());
  const pool = new JobPool<ThreadJob, readonly string[], SegmentReport>(width, {
    name: 'mailkeep-verify',
    file: builtWorker('verify-worker'),
  });
  pool.start(NEEDED_THREADS);
  return {
    width,
    check(job) {
      const reports = new Readable({ objectMode: true, read() {} });
      // The consumer of the reports gets the error; until then it must not count as unhandled.
      reports.on('error', () => undefined);
      pool
        .run({ what: 'segment', job }, (report) => reports.push(report))
        .then(
          () => reports.push(null),
          (error: unknown) =>
            reports.destroy(error instanceof Error ? error : new Error(String(error))),
        );
      return reports;
    },
    rebuild: (job) => pool.run({ what: 'messages', job }),
    structure: (dir) => pool.run({ what: 'structure', dir }),
    contradictions: (dir) => pool.run({ what: 'contradictions', dir }),
    close: () => pool.end(),
  };
}
