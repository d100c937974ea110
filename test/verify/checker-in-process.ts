import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FileLayer } from '../../src/archive/file-system.ts';
import { contradictingTables } from '../../src/catalog/implied.ts';
import {
  checkSegment,
  foundInStructure,
  RecentBlobs,
  rebuildMessages,
  type SegmentChecker,
  Settling,
} from '../../src/verify/check-segment.ts';

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
