/** Entry of the mime worker thread; extractor-thread.ts and reading-thread.ts are its other sides. */
import { parentPort, workerData } from 'node:worker_threads';
import { serveExtraction } from './extract-serving.ts';
import { serveReading } from './read-serving.ts';
import type { ExtractWorkerData, ReadWorkerData } from './worker-protocol.ts';

const data: ExtractWorkerData | ReadWorkerData = workerData;
if (parentPort === null) throw new Error('runs as a worker thread only');
if (data.mode === 'extract') serveExtraction(parentPort, data);
else await serveReading(parentPort, data);
