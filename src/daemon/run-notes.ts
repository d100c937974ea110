import { keepRun, NO_NUMBERS, type RunFrame, recordOfPass } from '../engine/pass/run-record.ts';
import type { RunReport } from '../health/run-report.ts';
import type { RunRecord } from '../state/runs.ts';
import type { StateFile } from '../state/state-file.ts';
import type { SyncResult } from '../sync/result.ts';
import { sayFacts, sentenceOf } from '../wording/sentence-of.ts';
import type { DaemonLog } from './daemon-log.ts';
import type { DaemonEvent } from './ports.ts';

/** Shorter rounds of tidying found nothing to do. */
const WORTH_NOTING_MS = 100;

/** Keeps what the daemon does in the archive's state, for the web interface. */
export class RunNotes {
  constructor(
    private readonly options: {
      readonly state: Pick<StateFile, 'runs'>;
      /** Returns milliseconds since the epoch. */
      readonly now: () => number;
      readonly log: Pick<DaemonLog, 'say'>;
    },
  ) {}

  onEvent(event: DaemonEvent): void {
    if (event.event === 'run-finished') {
      const { kind, account, startedAt } = event.run;
      this.#pass(event.result, { kind, account, startedAt, endedAt: this.options.now() });
    } else if (event.event === 'pass-finished' && event.kind === 'backlog') {
      // No run reports a backlog: it continues alongside them.
      const endedAt = this.options.now();
      const startedAt = endedAt - event.result.durationMs;
      const { account } = event.mailbox;
      this.#pass(event.result, { kind: 'backlog', account, startedAt, endedAt });
    }
  }

  /** What is done by the clock and is no pass. */
  onRun({ kind, startedAt, endedAt, outcome, failures, messages }: RunReport): void {
    const frame = { kind, account: null, startedAt, endedAt };
    const troubles = failures.map(({ mailbox, code, message: text }) => {
      return { mailbox, folder: null, code, text };
    });
    const { length } = failures;
    const counts = { messages: messages ?? null, failures: length };
    this.#keep({ ...frame, ...NO_NUMBERS, ...counts, outcome, troubles });
  }

  /** Attachments were read and segments sealed, in idle time. */
  onTidied(startedAt: number): void {
    const endedAt = this.options.now();
    if (endedAt - startedAt < WORTH_NOTING_MS) return;
    this.#keep({ kind: 'index', account: null, startedAt, endedAt, ...NO_NUMBERS });
  }

  #pass(result: SyncResult, frame: RunFrame): void {
    this.#keep(recordOfPass(result, frame, ({ code, facts }) => sayFacts(code, facts).message));
  }

  #keep(run: RunRecord): void {
    const { state, log } = this.options;
    keepRun(state, run, (error) => {
      const { code } = sentenceOf(error);
      log.say('warn', 'a run could not be kept in state.sqlite', { kind: run.kind, code });
    });
  }
}
