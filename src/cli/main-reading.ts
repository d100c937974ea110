import { atAnyNode } from './at-any-node.ts';
import { READING } from './reading-commands.ts';
import { runProcess } from './run.ts';

/** The program with the reading commands alone; the launcher starts it as a script. */
runProcess(Object.values(READING).map(atAnyNode)).catch((error: unknown) => {
  // Every error was reported already: what comes here is a bug in the reporting, which ends the process.
  setImmediate(() => {
    throw error;
  });
});
