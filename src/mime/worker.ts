/** Entry of the mime worker thread; see extractor-pool.ts for the other side. */
import { parentPort, workerData } from 'node:worker_threads';
import { serveExtraction } from './extract-serving.ts';
import type { ExtractWorkerData } from './worker-protocol.ts';

const data: ExtractWorkerData = workerData;
if (parentPort === null) throw new Error('runs as a worker thread only');
serveExtraction(parentPort, data);
