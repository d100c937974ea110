import { type ErrorFamily, MailkeepError } from './mailkeep-error.ts';

/** The exit codes of every command, as `--help` lists them. */
export const EXIT = {
  done: 0,
  failures: 1,
  usage: 2,
  damage: 3,
  held: 4,
  inUse: 5,
  refused: 6,
  interrupted: 130,
} as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** The one table from what went wrong to how the process ends. */
export const EXIT_OF_FAMILY: Readonly<Record<ErrorFamily, ExitCode>> = {
  usage: EXIT.usage,
  config: EXIT.usage,
  damage: EXIT.damage,
  held: EXIT.held,
  'in-use': EXIT.inUse,
  auth: EXIT.refused,
  origin: EXIT.failures,
  disk: EXIT.failures,
  mail: EXIT.failures,
  interrupted: EXIT.interrupted,
};

/** What counts most where several apply; an interruption, a wrong command or a held archive never meet these. */
const PRECEDENCE: readonly ExitCode[] = [
  EXIT.interrupted,
  EXIT.usage,
  EXIT.inUse,
  EXIT.damage,
  EXIT.refused,
  EXIT.held,
  EXIT.failures,
];

/** The one exit code for all that happened: 3 before 6 before 4 before 1. */
export function combinedExit(codes: Iterable<ExitCode>): ExitCode {
  const all = new Set(codes);
  return PRECEDENCE.find((code) => all.has(code)) ?? EXIT.done;
}

/** Returns the exit code of an error. */
export function exitOf(error: unknown): ExitCode {
  return error instanceof MailkeepError ? EXIT_OF_FAMILY[error.family] : EXIT.failures;
}

/** The EXIT STATUS part of the help: what any command may end with. */
export const EXIT_STATUS_HELP = `
EXIT STATUS
  0    done
  1    done, with failures that the output lists
  2    wrong usage or configuration
  3    damage found in the archive
  4    pending deletions: messages disappeared at the service
  5    the archive is in use by another process
  6    the service refused the token
  130  interrupted`;
