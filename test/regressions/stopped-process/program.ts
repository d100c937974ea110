/** A program that gives a thread 400 ms of work, and says what came of it. Linux only. */
import { readFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';
import { openThreadPort } from '../../../src/core/in-thread.ts';
import { WorkerThread } from '../../../src/core/worker-thread.ts';

const WORK_MS = 400;

interface Said {
  readonly said: 'working' | 'done';
}

if (isMainThread) {
  const say = (word: string) => process.stdout.write(`${word}\n`);
  const thread = new WorkerThread<'work', Said>(
    { name: 'test-work', file: new URL(import.meta.url) },
    {
      started: () => say('started'),
      message: ({ said }) => {
        say(said);
        if (said === 'done') void thread.end();
      },
      ended: ({ facts }) => say(`ended: ${facts.reason}`),
    },
  );
  thread.limitWork(Number(process.argv[2]));
  thread.post('work');
  say('spawned');
} else {
  const port = openThreadPort<'work', Said>(() => {
    port.send({ said: 'working' });
    const until = cpuMs() + WORK_MS;
    while (cpuMs() < until);
    port.send({ said: 'done' });
  });
}

function cpuMs(): number {
  const stat = readFileSync('/proc/thread-self/stat', 'latin1').split(') ')[1] ?? '';
  const fields = stat.split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}
