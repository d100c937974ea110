/** What is promised of a log holds whoever writes it: the same tests, with the code of the log thread. */
import { writeByThread } from './sample-log.ts';

writeByThread();
await import('./faults.test.ts');
await import('./log-writer.test.ts');
await import('./recovery.test.ts');
