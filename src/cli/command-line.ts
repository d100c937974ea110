import { COMMANDS } from './commands.ts';
import type { CommandEntry } from './reading-commands.ts';
import { run, type Surface } from './run.ts';

/** For the scripts of `completion`, not for people. */
const COMPLETE: CommandEntry = {
  name: 'complete',
  summary: 'what may stand next in a line',
  hidden: true,
  load: () => import('./commands/completion-answer.ts'),
};

/** For the build, which ships what it prints. */
const MANUAL: CommandEntry = {
  name: 'manual',
  summary: 'the man page',
  hidden: true,
  load: () => import('./commands/manual.ts'),
};

export const ALL_COMMANDS: readonly CommandEntry[] = [...COMMANDS, COMPLETE, MANUAL];

/** Runs one line of the whole program in this process, which it does not touch. */
export const runCommandLine = (args: readonly string[], surface: Surface) =>
  run(args, ALL_COMMANDS, surface);
