/** Entry of the mime worker thread; extractor-thread.ts and reading.ts are its other sides. */
import { workerData } from 'node:worker_threads';
import { serveExtraction } from './extract-serving.ts';
import { serveReading } from './read-serving.ts';
import type { ExtractWorkerData, ReadWorkerData } from './worker-protocol.ts';

const data: ExtractWorkerData | ReadWorkerData = workerData;
if (data.mode === 'extract') serveExtraction(data);
else await serveReading(data);
