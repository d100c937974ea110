import { isatty } from 'node:tty';
import { EXIT, type ExitCode } from '../errors/exit-codes.ts';
import type { DaemonLog } from './daemon-log.ts';

const STANDARD_OUTPUT = 1;
/** A terminal that closes sends SIGHUP first, and is gone a moment later: it is looked at so often, and so many times. */
const LOOK_EVERY_MS = 500;
const LOOKS = 20;

export interface ProcessWatch {
  /** Cuts the process off when it has not ended after `ms`. */
  endWithin(ms: number, code: ExitCode): void;
  release(): void;
}

/** Signals to the daemon's process, and uncaught errors: those end it loudly. */
export function watchProcess(options: {
  /** SIGHUP by somebody's hand. */
  readonly hangup: () => void;
  /** It was started on a terminal: a SIGHUP is also what a terminal sends that was closed. */
  readonly onTerminal: boolean;
  readonly signal: AbortSignal;
  readonly interrupted: (code: ExitCode) => void;
  readonly log: DaemonLog;
}): ProcessWatch {
  const { hangup, onTerminal, signal, interrupted, log } = options;
  const end = (): void => interrupted(EXIT.done);
  const hungUp = (): void => {
    hangup();
    if (onTerminal) watchTerminal(end);
  };
  const mistake = (error: unknown): void => {
    log.fail('fatal', 'internal error: this is a bug in mailkeep', error);
    process.exit(EXIT.failures);
  };
  process.on('SIGHUP', hungUp);
  process.on('unhandledRejection', mistake);
  process.on('uncaughtException', mistake);
  signal.addEventListener('abort', end, { once: true });
  if (signal.aborted) end();
  return {
    endWithin(ms, code) {
      setTimeout(() => {
        log.say('warn', 'work in progress did not finish in time and was aborted');
        process.exit(code);
      }, ms).unref();
    },
    release() {
      process.off('SIGHUP', hungUp);
      process.off('unhandledRejection', mistake);
      process.off('uncaughtException', mistake);
      signal.removeEventListener('abort', end);
    },
  };
}

/** Calls `gone` when the terminal closes within the next seconds. */
function watchTerminal(gone: () => void): void {
  let left = LOOKS;
  const timer = setInterval(() => {
    left -= 1;
    const closed = !isatty(STANDARD_OUTPUT);
    if (closed || left === 0) clearInterval(timer);
    if (closed) gone();
  }, LOOK_EVERY_MS);
  timer.unref();
}
