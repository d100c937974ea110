import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { isNewEnough, reportOldNode } from './node-version.ts';

/** Indexes of fields in /proc/PID/stat (proc(5)), counted from the field after the name. */
const GROUP = 2;
const TERMINAL = 4;
const FOREGROUND_GROUP = 5;

/** Returns true if unknown. */
function hasTerminal(): boolean {
  const fields = stat();
  return fields === undefined || fields[TERMINAL] !== '0';
}

/** Returns whether this process is in the terminal's foreground; true if unknown. */
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
  // The name is in parentheses and can contain any character.
  return text.slice(text.lastIndexOf(')') + 2).split(' ');
}

/** Name of a file in dist/, set by the build. */
declare const HANDED_OVER: string;

/** A terminal sends these signals to every process in its foreground. */
const KEYBOARD: readonly NodeJS.Signals[] = ['SIGINT', 'SIGQUIT'];
const OTHERS: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2'];

/**
 * Runs the program with the Node.js in .runtime/, which a clone's npm scripts install if the one on the PATH is too old
 * (src/bootstrap/runtime.cjs). This process then waits, forwards signals, and exits in the same way as its child. If
 * .runtime/ has no suitable Node.js, reports the required version.
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
  // Listen first: the program may start, and print, before this process gets to run again.
  for (const signal of KEYBOARD.concat(OTHERS)) {
    process.on(signal, () => {
      const sentToBoth = KEYBOARD.indexOf(signal) >= 0 && inForeground();
      if (!sentToBoth) child.kill(signal);
    });
  }
  const child = spawn(runtime, args, {
    // When this process exits, the pipe closes and the program exits too. See handed-over.ts.
    stdio: [0, 1, 2, 'pipe'],
    // In its own group, the program receives each group signal once, forwarded from here. On a terminal it must stay in
    // the foreground group.
    detached: !hasTerminal(),
  });
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

/** Returns whether the folder's `version` file specifies a recent enough Node.js for this platform. */
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
