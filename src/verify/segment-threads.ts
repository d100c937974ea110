import { availableParallelism } from 'node:os';
import { Readable } from 'node:stream';
import { JobPool } from '../threads/job-pool.ts';
import { builtWorker } from '../threads/worker-thread.ts';
import type { SegmentChecker } from './segment-checker.ts';
import type { FileToProve, SegmentReport, ThreadJob } from './segment-report.ts';

/** More threads wait for the disk, and each holds what one segment says. */
const MOST_THREADS = 4;

/** One for the catalog's file, one for the first segment. */
const NEEDED_THREADS = 2;

/**
 * Reads on threads of their own. Two start at once, so that they load while the caller opens the archive, or loads the
 * code that does; others start when they are needed.
 */
export function checkerOnThreads(): SegmentChecker {
  const { width, pool } = threads();
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

/** Reads files of segments on threads of their own. */
export interface SegmentProver {
  /** Reads every byte of a file. @throws `log-damaged` unless it is intact, and sealed where it should be */
  intact(file: FileToProve): Promise<void>;
  close(): Promise<void>;
}

/** @param atOnce threads that start now, so that they load while the first segments come; others when they are needed */
export function proverOnThreads(atOnce = 0): SegmentProver {
  const { pool } = threads();
  if (atOnce > 0) pool.start(atOnce);
  return {
    intact: async (file) => {
      await pool.run({ what: 'intact', file });
    },
    close: () => pool.end(),
  };
}

function threads() {
  const width = Math.min(MOST_THREADS, availableParallelism());
  const pool = new JobPool<ThreadJob, readonly string[], SegmentReport>(width, {
    name: 'mailkeep-verify',
    file: builtWorker('verify-worker'),
  });
  return { width, pool };
}
