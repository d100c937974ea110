/** Requests answered, counted by the service itself. The control endpoint's own are not among them. */
export interface RequestCounts {
  readonly total: number;
  readonly byOperation: Readonly<Record<string, number>>;
  /** By HTTP status; `0` for connections closed or cut on purpose. */
  readonly byStatus: Readonly<Record<string, number>>;
  /** `operation status`, such as `getMessageSource 429`. */
  readonly byOutcome: Readonly<Record<string, number>>;
}

/** One line of the log. No addresses, subjects or tokens. */
export interface LoggedRequest {
  readonly at: string;
  readonly operation: string;
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly durationMs: number;
}

const KEPT = 1000;

/** Counts requests and remembers the last thousand. */
export class RequestLog {
  readonly #outcomes = new Map<string, number>();
  readonly #last: LoggedRequest[] = [];
  #next = 0;

  /** Begins to time a request. The returned function, called once with its status, counts it and adds its line. */
  begin(
    request: Pick<LoggedRequest, 'operation' | 'method' | 'path'>,
    now: () => number,
  ): (status: number) => void {
    const started = performance.now();
    return (status) => {
      const durationMs = Math.round((performance.now() - started) * 1000) / 1000;
      this.#record({ at: new Date(now()).toISOString(), ...request, status, durationMs });
    };
  }

  counts(): RequestCounts {
    let total = 0;
    const byOperation: Record<string, number> = {};
    const byStatus: Record<string, number> = {};
    for (const [outcome, count] of this.#outcomes) {
      const [operation = '', status = ''] = outcome.split(' ');
      total += count;
      byOperation[operation] = (byOperation[operation] ?? 0) + count;
      byStatus[status] = (byStatus[status] ?? 0) + count;
    }
    return { total, byOperation, byStatus, byOutcome: Object.fromEntries(this.#outcomes) };
  }

  /** The last requests, oldest first. */
  last(): LoggedRequest[] {
    return this.#last.length < KEPT
      ? [...this.#last]
      : [...this.#last.slice(this.#next), ...this.#last.slice(0, this.#next)];
  }

  reset(): void {
    this.#outcomes.clear();
    this.#last.length = 0;
    this.#next = 0;
  }

  #record(line: LoggedRequest): void {
    const outcome = `${line.operation} ${line.status}`;
    this.#outcomes.set(outcome, (this.#outcomes.get(outcome) ?? 0) + 1);
    if (this.#last.length < KEPT) this.#last.push(line);
    else this.#last[this.#next] = line;
    this.#next = (this.#next + 1) % KEPT;
  }
}
