import { z } from 'zod';
import { EXIT } from '../errors/exit-codes.ts';
import type { MailkeepError } from '../errors/mailkeep-error.ts';
import { verifyError } from '../errors/verify.ts';
import type { RunReport } from '../health/run-report.ts';
import { type ChildOptions, runChild } from './child-command.ts';
import type { DaemonLog } from './daemon-log.ts';
import { choreReport } from './run-reports.ts';

/** What is read of `mailkeep verify --json`. */
const verified = z.object({
  ok: z.boolean(),
  found: z.number(),
  segments: z.number(),
  messages: z.number(),
  fileBytes: z.number(),
  durationMs: z.number(),
});
/** What is read of `mailkeep verify --drill --json`. */
const drilled = z
  .object({
    ok: z.boolean(),
    findings: z.array(z.unknown()),
    messages: z.number(),
    files: z.number(),
    bytes: z.number(),
    durationMs: z.number(),
  })
  .transform(({ findings, ...numbers }) => ({ ...numbers, found: findings.length }));

export interface ScheduledVerificationOptions extends ChildOptions {
  readonly dataDir: string;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly log: DaemonLog;
  readonly onRun: (report: RunReport) => void;
}

/** What a check found, and how many messages it read back; undefined where it could not be made. */
interface Checked {
  readonly failure: MailkeepError | null;
  readonly messages?: number | undefined;
}

/**
 * Verifies the archive by the clock, and then tries an export as a drill. Each has a process of its own: reading
 * everything again and comparing the catalog takes minutes of a processor and much memory, and passes and hints go on
 * meanwhile. That process remembers what it found.
 */
export class ScheduledVerification {
  readonly #options: ScheduledVerificationOptions;
  #underway = false;

  constructor(options: ScheduledVerificationOptions) {
    this.#options = options;
  }

  /** One verification, unless the last one is not over. What it finds is logged and reported, and never thrown. */
  run = async (signal: AbortSignal): Promise<void> => {
    const { log, now, onRun } = this.#options;
    if (this.#underway) {
      log.say('warn', 'the previous verification is still running; this one is skipped');
      return;
    }
    this.#underway = true;
    const startedAt = now();
    try {
      log.say('info', 'verification started');
      const { failure, messages } = await this.#verify(signal);
      if (!signal.aborted) onRun(choreReport('verify', startedAt, now(), failure, messages));
    } finally {
      this.#underway = false;
    }
  };

  async #verify(signal: AbortSignal): Promise<Checked> {
    const all = await this.#check(signal, [], verified, 'verification finished');
    if (all.failure !== null || signal.aborted) return all;
    const { failure } = await this.#check(signal, ['--drill'], drilled, 'drill finished');
    return { ...all, failure };
  }

  async #check(
    signal: AbortSignal,
    args: readonly string[],
    shape: z.ZodType<{ readonly ok: boolean; readonly found: number; readonly messages: number }>,
    finished: string,
  ): Promise<Checked> {
    const { log, dataDir } = this.#options;
    const line = ['verify', ...args, '--data', dataDir];
    const { code, result: printed, error: refused } = await runChild(this.#options, line, signal);
    if (signal.aborted) return { failure: null };
    const result = shape.safeParse(printed).data;
    if (result === undefined || (code !== EXIT.done && code !== EXIT.damage)) {
      const said = refused?.code;
      const error = verifyError('verification-not-made', { reason: said ?? `code ${code}` });
      log.say('error', 'the archive could not be verified', { reason: said ?? null, exit: code });
      return { failure: error };
    }
    const { ok, ...numbers } = result;
    const { messages } = result;
    if (ok) {
      log.say('info', finished, numbers);
      return { failure: null, messages };
    }
    log.say('error', 'the archive is damaged: "mailkeep verify" shows where', numbers);
    return { failure: verifyError('archive-damaged', { found: result.found }), messages };
  }
}
