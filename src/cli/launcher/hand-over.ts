import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { isNewEnough, reportOldNode } from './node-version.ts';

/** Fields of /proc/PID/stat (proc(5)) after the name of the program: the process group is the third. */
const GROUP = 2;
const TERMINAL = 4;
const FOREGROUND_GROUP = 5;

/** Returns whether this process has a controlling terminal; where the system does not say, that it has. */
function hasTerminal(): boolean {
  const fields = stat();
  return fields === undefined || fields[TERMINAL] !== '0';
}

/** Returns whether what is typed at the terminal is sent to this process now. */
function inForeground(): boolean {
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

/** Name of a file in dist/; the build puts it in. */
declare const HANDED_OVER: string;

/** Sent from the keyboard, they go to all processes in the foreground of the terminal. */
const KEYBOARD: readonly NodeJS.Signals[] = ['SIGINT', 'SIGQUIT'];
const OTHERS: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2'];

/**
 * Has the program run by the Node.js in .runtime/, which the npm scripts of a clone bring where that on the PATH is too
 * old (src/bootstrap/runtime.cjs). This process then only waits: it passes signals on, and ends as the other ends.
 * Without such a Node.js it reports what is needed.
 */
function handOver(): void {
  const folder = path.join(__dirname, '..', '.runtime');
  if (!holdsRuntime(folder)) {
    const hint =
      'Install a newer one (https://nodejs.org). In a clone of the repository, npm start brings one that mailkeep alone uses.';
    reportOldNode('node-too-old', '', hint);
    return;
  }
  const runtime = path.join(folder, 'bin', 'node');
  const args = [path.join(__dirname, HANDED_OVER)].concat(process.argv.slice(2));
  const child = spawn(runtime, args, {
    // The program ends when this process does, however it does: the pipe is closed then. See handed-over.ts.
    stdio: [0, 1, 2, 'pipe'],
    // Signals to the process group then reach the program once, from here. On a terminal it must stay in the group that
    // the keyboard belongs to.
    detached: !hasTerminal(),
  });
  for (const signal of KEYBOARD.concat(OTHERS)) {
    process.on(signal, () => {
      const sentToBoth = KEYBOARD.indexOf(signal) >= 0 && inForeground();
      if (!sentToBoth) child.kill(signal);
    });
  }
  child.on('error', (error: NodeJS.ErrnoException) => {
    const hint = `Remove ${folder} and run npm start in the clone, or install a newer Node.js (https://nodejs.org).`;
    reportOldNode('runtime-not-started', `, and ${runtime} does not start (${error.code})`, hint);
    process.exit();
  });
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code ?? 1);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

/** Whether the folder has a Node.js for this platform that is new enough; its `version` says so. */
function holdsRuntime(folder: string): boolean {
  let words: string[];
  try {
    words = readFileSync(path.join(folder, 'version'), 'utf8').trim().split(' ');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return false;
    throw error;
  }
  return isNewEnough(words[0] ?? '') && words[1] === `${process.platform}-${process.arch}`;
}

handOver();
