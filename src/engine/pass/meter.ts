import type { RequestReport } from '../../api/exchange.ts';
import type { ProgressListener } from '../../sync/progress.ts';

/** Counts requests by operation; those that were retried count again. */
export class Meter {
  readonly #byOperation = new Map<string, number>();
  requests = 0;

  add({ operation }: RequestReport): void {
    this.requests += 1;
    this.#byOperation.set(operation, (this.#byOperation.get(operation) ?? 0) + 1);
  }

  byOperation(): Record<string, number> {
    return Object.fromEntries([...this.#byOperation].sort(([a], [b]) => (a < b ? -1 : 1)));
  }
}

/** Counts the requests of passes that run at the same time: a mailbox has one pass at a time, so its requests are that pass's. */
export class Meters {
  readonly #open = new Map<string, { readonly meter: Meter; readonly report: () => void }>();

  /** @param perMinute returns the requests per minute that an account may make now */
  constructor(private readonly perMinute: (account: string) => number) {}

  /** Counts a request for the pass it belongs to, if it belongs to one. */
  count(account: string, report: RequestReport): void {
    const open = this.#open.get(keyOf(account, report.key));
    open?.meter.add(report);
    open?.report();
  }

  /** Calls `act` while requests about a mailbox (`''`: about the account) are counted by `meter`. */
  async during<T>(
    account: string,
    mailbox: string,
    meter: Meter,
    progress: ProgressListener,
    act: () => Promise<T>,
  ): Promise<T> {
    const key = keyOf(account, mailbox);
    const report = (): void => {
      const { requests } = meter;
      progress({ event: 'requests', account, requests, perMinute: this.perMinute(account) });
    };
    this.#open.set(key, { meter, report });
    try {
      return await act();
    } finally {
      this.#open.delete(key);
    }
  }
}

function keyOf(account: string, mailbox: string): string {
  return `${account} ${mailbox}`;
}
