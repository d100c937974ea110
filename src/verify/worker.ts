/** Entry of a thread that reads segments; segment-threads.ts is its other side. */
import { parentPort } from 'node:worker_threads';
import { realFiles } from '../archive/real-files.ts';
import { checkSegment } from './check-segment.ts';
import type { SegmentJob } from './segment-report.ts';
import { type ThreadAnswer, thrownBy } from './thread-protocol.ts';

const port = parentPort;
if (port === null) throw new Error('runs as a worker thread only');
port.on('message', (job: SegmentJob) => {
  let answer: ThreadAnswer;
  try {
    answer = { reports: [...checkSegment(realFiles, job)] };
  } catch (error) {
    answer = { thrown: thrownBy(error) };
  }
  port.postMessage(answer);
});
