/** A thread that runs three things, the first of which leaves errors behind for the second; tells what came of each. */

import { setImmediate } from 'node:timers/promises';
import { parentPort } from 'node:worker_threads';
import { catchStrayErrors } from '../../src/core/in-thread.ts';

const withStrayErrors = catchStrayErrors();
let release = (): void => {};
const released = new Promise<void>((resolve) => {
  release = resolve;
});

const leavesErrors = async (): Promise<string> => {
  void released.then(() => {
    throw new Error('late rejection');
  });
  void released.then(() =>
    setTimeout(() => {
      throw new Error('late callback');
    }),
  );
  return 'first';
};
const isInnocent = async (): Promise<string> => {
  release();
  for (let turn = 0; turn < 50; turn += 1) await setImmediate();
  await new Promise((resolve) => setTimeout(resolve, 5));
  return 'second';
};
const failsAstray = (): Promise<string> => {
  setTimeout(() => {
    throw new Error('its own');
  });
  return new Promise(() => {});
};

const outcomes: string[] = [];
for (const run of [leavesErrors, isInnocent, failsAstray]) {
  outcomes.push(await withStrayErrors(run).catch((error: unknown) => String(error)));
}
parentPort?.postMessage(outcomes);
