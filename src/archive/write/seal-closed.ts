import { MailkeepError } from '../../errors/mailkeep-error.ts';
import type { FileLayer } from '../files/file-layer.ts';
import { realFiles } from '../files/real-files.ts';
import { listSegments, openInForce } from '../read/segment-files.ts';
import { type ArchiveCodec, DEFAULT_CODEC } from './compress-payload.ts';
import type { SealedSegment } from './seal-segment.ts';
import { type Sealer, sealerInProcess } from './sealer.ts';

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
