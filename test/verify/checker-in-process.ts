import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FileLayer } from '../../src/archive/file-system.ts';
import { findContradictingTables } from '../../src/catalog/implied.ts';
import {
  checkSegment,
  FastComparison,
  RecentBlobs,
  rebuildMessages,
  type SegmentChecker,
  structuralErrors,
} from '../../src/verify/check-segment.ts';

/** Reads on this thread, through any files. */
export function checkerInProcess(files: FileLayer): SegmentChecker {
  return {
    width: 1,
    async *check(job) {
      await nextTurn();
      const { dir, settleUpTo } = job;
      const fastComparison =
        settleUpTo === undefined ? undefined : new FastComparison(dir, settleUpTo);
      try {
        yield* checkSegment(files, job, new RecentBlobs(), fastComparison);
      } finally {
        fastComparison?.close();
      }
    },
    rebuild: (job) => rebuildMessages(files, job),
    structure: async (dir) => structuralErrors(dir),
    contradictions: async (dir) => findContradictingTables(dir),
    async close() {},
  };
}
