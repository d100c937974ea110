import children from 'node:child_process';
import { syncBuiltinESMExports } from 'node:module';

/**
 * While a test waits synchronously for a child process, no watchdog of the test runner can act: a child that never ends
 * would hold the whole suite. Such a child is killed after a while, and its test fails and is named. What a call states
 * itself comes first.
 */
const MAX_MS = 10 * 60_000;
const BOUND = { timeout: MAX_MS, killSignal: 'SIGKILL' } as const;

const { spawnSync, execFileSync, execSync } = children;

/** Options are the last argument, after the command and an array of arguments that may be left out. */
function bounded(args: readonly unknown[]): unknown[] {
  const given = args.at(-1);
  const isOptions = args.length > 1 && typeof given === 'object' && !Array.isArray(given);
  return isOptions ? [...args.slice(0, -1), { ...BOUND, ...given }] : [...args, BOUND];
}

Object.assign(children, {
  spawnSync: (...args: unknown[]) => Reflect.apply(spawnSync, children, bounded(args)),
  execFileSync: (...args: unknown[]) => Reflect.apply(execFileSync, children, bounded(args)),
  execSync: (...args: unknown[]) => Reflect.apply(execSync, children, bounded(args)),
});
syncBuiltinESMExports();
