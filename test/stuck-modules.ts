import { spawnSync } from 'node:child_process';
import type { UserConsoleLog } from 'vitest';
import type { Reporter, TestModule } from 'vitest/node';

const MINUTE = 60_000;
/** The slowest file takes about five minutes; a machine may be several times slower. Longer runs print what they did. */
const STUCK_MINUTES = 25;

/**
 * Ends a run in which a test file is stuck, and names it. The test runner bounds what a test awaits, but a thread that
 * never returns, or a runner that waits for one that is gone, would hold the suite until somebody looks.
 */
export default class StuckModules implements Reporter {
  readonly #running = new Map<string, { readonly name: string; readonly since: number }>();
  #timer: NodeJS.Timeout | undefined;

  onTestModuleQueued({ id, relativeModuleId: name }: TestModule): void {
    this.#running.set(id, { name, since: performance.now() });
    this.#timer ??= setInterval(() => this.#look(), MINUTE).unref();
  }

  /** A file that prints something is not stuck. */
  onUserConsoleLog({ taskId = '' }: UserConsoleLog): void {
    for (const [id, { name }] of this.#running) {
      if (taskId.startsWith(id)) this.#running.set(id, { name, since: performance.now() });
    }
  }

  onTestModuleEnd({ id }: TestModule): void {
    this.#running.delete(id);
  }

  onTestRunEnd(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    const now = performance.now();
    const stuck = [...this.#running.values()].filter(
      ({ since }) => now - since > STUCK_MINUTES * MINUTE,
    );
    if (stuck.length === 0) return;
    const { stdout } = spawnSync('ps', ['-eo', 'pid,ppid,stat,etimes,time,args'], {
      encoding: 'utf8',
    });
    console.error(stdout);
    for (const { name } of stuck)
      console.error(`${name}: no end, and no word for ${STUCK_MINUTES} minutes`);
    process.exit(1);
  }
}
