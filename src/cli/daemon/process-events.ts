import { EXIT, type ExitCode } from '../exit-codes.ts';
import type { DaemonLog } from './daemon-log.ts';

export interface ProcessWatch {
  /** Cuts the process off when it has not ended after `ms`; the returned function takes it back. */
  endWithin(ms: number, code: ExitCode): () => void;
  release(): void;
}

/** What reaches the daemon's process from outside, and mistakes that nobody caught: those end it loudly. */
export function watchProcess(options: {
  readonly hangup: () => void;
  readonly signal: AbortSignal;
  readonly interrupted: (code: ExitCode) => void;
  readonly log: DaemonLog;
}): ProcessWatch {
  const { hangup, signal, interrupted, log } = options;
  const end = (): void => interrupted(EXIT.done);
  const mistake = (error: unknown): void => {
    log.fail('fatal', 'a mistake of the program: nobody expected this error', error);
    process.exit(EXIT.failures);
  };
  process.on('SIGHUP', hangup);
  process.on('unhandledRejection', mistake);
  process.on('uncaughtException', mistake);
  signal.addEventListener('abort', end, { once: true });
  if (signal.aborted) end();
  return {
    endWithin(ms, code) {
      const timer = setTimeout(() => {
        log.say('warn', 'what was under way did not end in time and was cut off');
        process.exit(code);
      }, ms);
      return () => clearTimeout(timer);
    },
    release() {
      process.off('SIGHUP', hangup);
      process.off('unhandledRejection', mistake);
      process.off('uncaughtException', mistake);
      signal.removeEventListener('abort', end);
    },
  };
}
