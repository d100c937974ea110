import { readFileSync } from 'node:fs';

/** Fields of /proc/PID/stat (proc(5)) after the name of the program: the process group is the third. */
const GROUP = 2;
const TERMINAL = 4;
const FOREGROUND_GROUP = 5;

/** Returns whether this process has a controlling terminal; where the system does not say, that it has. */
export function hasTerminal(): boolean {
  const fields = stat();
  return fields === undefined || fields[TERMINAL] !== '0';
}

/** Returns whether what is typed at the terminal is sent to this process now. */
export function inForeground(): boolean {
  const fields = stat();
  return fields === undefined || fields[GROUP] === fields[FOREGROUND_GROUP];
}

function stat(): string[] | undefined {
  let text: string;
  try {
    text = readFileSync('/proc/self/stat', 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
  // The name stands in parentheses, and may have any character in it.
  return text.slice(text.lastIndexOf(')') + 2).split(' ');
}
