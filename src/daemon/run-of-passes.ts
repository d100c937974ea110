import type { ProgressListener, SyncProgress } from '../sync/progress.ts';
import {
  emptyResult,
  type MailboxResult,
  NOTHING_DONE,
  type SyncFailure,
  type SyncResult,
  totalsOf,
} from '../sync/result.ts';
import type { RunInfo } from './ports.ts';

/** Some passes that were started for one reason, and what they came to together. */
export class Run {
  readonly done: Promise<SyncResult>;
  readonly #results: SyncResult[] = [];
  readonly #failures: SyncFailure[] = [];
  #open = 0;
  #resolve: (result: SyncResult) => void = () => {};

  constructor(
    readonly info: RunInfo,
    private readonly now: () => number,
    /** Receives the events of its passes. */
    private readonly progress: ProgressListener = () => {},
  ) {
    this.done = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  /** Counts a pass, or the survey before the passes, that the run waits for. */
  begin(): void {
    this.#open += 1;
  }

  /** Takes the result of one of them, or of a part of one. */
  add(result: SyncResult): void {
    const whole = result.failures.filter(({ mailbox }) => mailbox === null);
    this.fail(whole);
    const failures = result.failures.filter(({ mailbox }) => mailbox !== null);
    this.#results.push(whole.length === 0 ? result : { ...result, failures });
  }

  /** Receives a failure that ended more than one of them; it is reported once. */
  fail(failures: readonly SyncFailure[]): void {
    for (const failure of failures) {
      const known = this.#failures.some(
        ({ account, code }) => account === failure.account && code === failure.code,
      );
      if (!known) this.#failures.push(failure);
    }
  }

  /** One of them is over; the last one ends the run. */
  end(): void {
    this.#open -= 1;
    if (this.#open > 0) return;
    const merged = mergeResults(this.#results, this.now() - this.info.startedAt);
    this.#resolve({ ...merged, failures: [...this.#failures, ...merged.failures] });
  }

  report(event: SyncProgress): void {
    this.progress(event);
  }
}

/** The result of passes together. Passes over the same mailbox become one line, the last one's proofs. */
export function mergeResults(results: readonly SyncResult[], durationMs: number): SyncResult {
  const mailboxes = new Map<string, MailboxResult>();
  const certificates = new Map<string, SyncResult['certificates'][number]>();
  const excluded = new Map<string, SyncResult['excluded'][number]>();
  const requestsByOperation: Record<string, number> = {};
  for (const result of results) {
    for (const mailbox of result.mailboxes) {
      const before = mailboxes.get(mailbox.address);
      mailboxes.set(mailbox.address, before === undefined ? mailbox : together(before, mailbox));
    }
    for (const one of result.certificates) {
      certificates.set(JSON.stringify([one.mailbox, one.folder]), one);
    }
    for (const one of result.excluded) {
      excluded.set(JSON.stringify([one.mailbox, one.folder]), one);
    }
    for (const [operation, count] of Object.entries(result.requestsByOperation)) {
      requestsByOperation[operation] = (requestsByOperation[operation] ?? 0) + count;
    }
  }
  const sum = (of: (result: SyncResult) => number): number =>
    results.reduce((total, result) => total + of(result), 0);
  const indexMs = sum(({ timings }) => timings.indexMs);
  return {
    mailboxes: [...mailboxes.values()].sort((a, b) => (a.address < b.address ? -1 : 1)),
    requests: sum(({ requests }) => requests),
    requestsByOperation,
    // Passes overlap: their indexing cannot have taken longer than all of them.
    timings: {
      fetchMs: Math.max(0, durationMs - indexMs),
      indexMs: Math.min(indexMs, durationMs),
    },
    durationMs,
    failures: results.flatMap(({ failures }) => failures),
    certificates: [...certificates.values()],
    excluded: [...excluded.values()],
  };
}

/** What changed adds up; what there is now is what the later one says. */
function together(before: MailboxResult, after: MailboxResult): MailboxResult {
  const both = [before, after];
  return {
    ...after,
    ...totalsOf(both, 'added', 'ended', 'flagsChanged', 'relinked', 'verified', 'corrected'),
    ...totalsOf(both, 'bytes'),
  };
}

/** What is known of a pass that was interrupted: messages and bytes that became durable. */
export function partialResult(
  { address }: { readonly address: string },
  { messages: added, bytes }: { readonly messages: number; readonly bytes: number },
): SyncResult {
  return {
    ...emptyResult(0),
    mailboxes: added === 0 ? [] : [{ ...NOTHING_DONE, address, added, bytes }],
  };
}
