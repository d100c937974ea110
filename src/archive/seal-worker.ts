/** Entry of the thread that seals segments, for seal.ts. */

import { serveJobs } from '../core/in-thread.ts';
import { realFiles } from './file-system.ts';
import type { SealedSegment } from './seal.ts';
import { type SealJob, sealerInProcess } from './seal.ts';

const sealer = sealerInProcess(realFiles);
serveJobs<SealJob, SealedSegment>((job) => sealer.seal(job));
