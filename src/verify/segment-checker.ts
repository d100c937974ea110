import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FileLayer } from '../archive/files/file-layer.ts';
import { contradictingTables } from '../catalog/structure.ts';
import type { MessageId } from '../mail/words.ts';
import { foundInStructure } from './catalog-structure.ts';
import { checkSegment } from './check-segment.ts';
import { rebuildMessages } from './rebuild-messages.ts';
import { RecentBlobs } from './recent-blobs.ts';
import type { MessagesJob, SegmentJob, SegmentReport } from './segment-report.ts';
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
