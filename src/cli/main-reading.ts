import { inFleet } from './in-fleet.ts';
import { READ_ONLY_COMMANDS } from './reading-commands.ts';
import { runProcess } from './run.ts';

/** The program with only the read-only commands, which the launcher runs as a single script. */
runProcess(READ_ONLY_COMMANDS.map(inFleet)).catch((error: unknown) => {
  // All other errors have been reported. This is a bug in the reporting, so it ends the process.
  setImmediate(() => {
    throw error;
  });
});
