import { realFiles } from '../archive/files/real-files.ts';
import type { RetentionSettings } from '../config/settings.ts';
import type { Writer } from '../engine/archive/writer.ts';
import type { EngineContext } from '../engine/context.ts';
import { journalPrune, plannedPrune } from '../engine/purge.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import { retentionError } from '../errors/retention.ts';
import type { RunReport } from '../health/run-report.ts';
import { type Compacted, compactPurged, decidedPurge, endPurge } from '../retention/carry-out.ts';
import type { DaemonLog } from './daemon-log.ts';
import { choreReport } from './run-reports.ts';

export interface ScheduledPruningOptions {
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
