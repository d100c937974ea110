import { atAnyNode } from './at-any-node.ts';
import { READ_ONLY_COMMANDS } from './reading-commands.ts';
import { runProcess } from './run.ts';

/** The program with only the reading commands, which the launcher runs as a script. */
runProcess(Object.values(READ_ONLY_COMMANDS).map(atAnyNode)).catch((error: unknown) => {
  // All errors are already reported. This one is a bug in the reporting, so let it end the process.
  setImmediate(() => {
    throw error;
  });
});
