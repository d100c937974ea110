/** Entry of a thread that seals segments; sealer.ts is its other side. */

import { serveJobs } from '../../threads/in-thread.ts';
import { realFiles } from '../files/real-files.ts';
import type { SealedSegment } from './seal-segment.ts';
import { type SealJob, sealerInProcess } from './sealer.ts';

const sealer = sealerInProcess(realFiles);
serveJobs<SealJob, SealedSegment>((job) => sealer.seal(job));
