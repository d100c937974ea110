import { z } from 'zod';
import { realFiles } from '../archive/file-system.ts';
import type { EngineContext } from '../catalog/open-reader.ts';
import type { Writer } from '../catalog/open-writer.ts';
import type { RetentionSettings } from '../core/config-schema.ts';
import { EXIT, MailkeepError } from '../core/errors.ts';
import { retentionError, verifyError } from '../verify/errors.ts';
import type { RunReport } from '../verify/facts.ts';
import { type Compacted, compactPurged, decidedPurge, endPurge } from '../verify/prune.ts';
import { journalPrune, plannedPrune } from '../verify/purge.ts';
import { type ChildOptions, runChild } from './child-command.ts';
import type { DaemonLog } from './daemon-log.ts';
import { choreReport } from './runs.ts';

interface ScheduledPruningOptions {
  readonly context: EngineContext;
  readonly writer: Writer;
  /** Those in force: a reload changes them. */
  readonly retention: () => RetentionSettings;
  readonly log: DaemonLog;
  readonly onRun: (report: RunReport) => void;
}

/** Lets go by the clock of what `mailkeep prune --apply` would let go of, with the archive as the daemon has it. */
export class ScheduledPruning {
  readonly #options: ScheduledPruningOptions;
  constructor(options: ScheduledPruningOptions) {
    this.#options = options;
  }

  /** One pruning, while nobody else writes. What keeps it from being made is logged and reported, and not thrown. */
  run = async (signal: AbortSignal): Promise<void> => {
    const { context, log, onRun } = this.#options;
    const startedAt = context.now();
    let failure: MailkeepError | null = null;
    let messages: number | undefined;
    try {
      messages = await this.#prune(signal);
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
      failure = error;
      // The next pruning, or one by hand, finishes what is decided. By code alone: the query of a hold may name people.
      const { code, family } = error;
      const text = 'nothing more could be pruned; "mailkeep prune" shows why';
      if (!signal.aborted) log.say('error', text, { code, family });
    }
    if (!signal.aborted) onRun(choreReport('prune', startedAt, context.now(), failure, messages));
  };

  /** Returns how many messages it removed. */
  async #prune(signal: AbortSignal): Promise<number> {
    const { context, writer, log, retention } = this.#options;
    const startedAt = context.now();
    const before = await this.#finish(signal);
    const plan = plannedPrune(context, writer.catalog, writer.state, retention());
    if (plan.prune.length > 0) await journalPrune(writer, plan, signal);
    const done = await this.#finish(signal);
    log.say('info', 'pruning finished', {
      messages: plan.prune.length,
      segments: before.segments + done.segments,
      bytesFreed: freed(before) + freed(done),
      durationMs: context.now() - startedAt,
    });
    return plan.prune.length;
  }

  async #finish(signal: AbortSignal): Promise<Compacted> {
    const { writer } = this.#options;
    const { dataDir, sealer, sources } = writer;
    const work = await decidedPurge(realFiles, dataDir, writer);
    if (work === undefined) return { segments: 0, bytesBefore: 0, bytesAfter: 0 };
    if (work.reason === 'forgotten') throw retentionError('forget-unfinished', {});
    try {
      const compacted = await compactPurged(realFiles, dataDir, writer, work, signal);
      await endPurge(realFiles, dataDir, writer);
      return compacted;
    } finally {
      await sealer.close();
      sources.refresh();
    }
  }
}

function freed({ bytesBefore, bytesAfter }: Compacted): number {
  return bytesBefore - bytesAfter;
}

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

interface ScheduledVerificationOptions extends ChildOptions {
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
