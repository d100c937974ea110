/** Entry of a thread that seals segments; sealer.ts is its other side. */

import { parentPort } from 'node:worker_threads';
import { thrownBy } from '../../errors/mailkeep-error.ts';
import { realFiles } from '../files/real-files.ts';
import { type SealAnswer, type SealJob, sealerInProcess } from './sealer.ts';

const port = parentPort;
if (port === null) throw new Error('runs as a worker thread only');
const answer = (what: SealAnswer): void => port.postMessage(what);
const sealer = sealerInProcess(realFiles);

port.on('message', (job: SealJob) => {
  sealer.seal(job).then(
    (sealed) => answer({ sealed }),
    (error: unknown) => answer({ thrown: thrownBy(error) }),
  );
});
