import { MailkeepError } from '../../errors/mailkeep-error.ts';
import { JobPool } from '../../threads/job-pool.ts';
import { builtWorker, type HeapLimits } from '../../threads/worker-thread.ts';
import type { FileLayer } from '../files/file-layer.ts';
import { realFiles } from '../files/real-files.ts';
import { type ArchiveCodec, DEFAULT_CODEC } from '../format/stored-payload.ts';
import { listSegments, openInForce } from '../read/segment-files.ts';
import { type SealedSegment, sealSegment } from './seal-segment.ts';

/** A segment to be rewritten; see `sealSegment`. */
export interface SealJob {
  readonly dir: string;
  readonly segment: number;
  readonly codec: ArchiveCodec;
  /** Ordinals of the records whose payloads are to be removed for good. */
  readonly purged?: ReadonlySet<number>;
}

/** Rewrites segments, one at a time. Whoever opened it closes it. */
export interface Sealer {
  /** @throws as `sealSegment` does */
  seal(job: SealJob): Promise<SealedSegment>;
  close(): Promise<void>;
}

/** Seals on this thread, through any files. */
export function sealerInProcess(files: FileLayer): Sealer {
  return {
    seal: ({ purged, ...job }) =>
      sealSegment({ ...job, files, purge: (_, ordinal) => purged?.has(ordinal) === true }),
    async close() {},
  };
}

/** Little of what sealing takes lies in V8's heap; without a limit, the young generation alone grows to 48 MB. */
const HEAP: HeapLimits = { oldGenerationMb: 256, youngGenerationMb: 6 };

/**
 * Seals on a thread of its own, which starts with the first segment: reading, compressing and hashing 64 MiB takes a
 * second or more of one core, and this thread may have requests and searches to answer.
 */
export function sealerOnThread(): Sealer {
  const pool = new JobPool<SealJob, SealedSegment>(1, {
    name: 'mailkeep-seal',
    file: builtWorker('seal-worker'),
    heap: HEAP,
  });
  return { seal: (job) => pool.run(job), close: () => pool.end() };
}

export interface SealingOutcome {
  readonly sealed: readonly SealedSegment[];
  /** Segments that could not be sealed because they are damaged: they stay as they are. */
  readonly damaged: readonly MailkeepError[];
}

/** Seals every closed segment that is not sealed yet: those before `before`, the segment of the writer. */
export async function sealClosedSegments(options: {
  readonly dir: string;
  readonly before: number;
  readonly files?: FileLayer;
  readonly codec?: ArchiveCodec;
  /** Seals the files of `dir`; on this thread if not said. */
  readonly sealer?: Sealer;
  /** Checked between segments. */
  readonly signal?: AbortSignal;
}): Promise<SealingOutcome> {
  const { dir, before, files = realFiles, codec = DEFAULT_CODEC, signal } = options;
  const sealer = options.sealer ?? sealerInProcess(files);
  const sealed: SealedSegment[] = [];
  const damaged: MailkeepError[] = [];
  for (const [segment, generations] of listSegments(files, dir)) {
    if (segment >= before || signal?.aborted === true) break;
    try {
      const opened = openInForce(files, dir, segment, generations);
      opened.file.close();
      if (opened.sealed === undefined) sealed.push(await sealer.seal({ dir, segment, codec }));
    } catch (error) {
      if (!(error instanceof MailkeepError) || error.family !== 'damage') throw error;
      damaged.push(error);
    }
  }
  return { sealed, damaged };
}
