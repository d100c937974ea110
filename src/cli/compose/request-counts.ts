import type { ProgressListener } from '../../sync/progress.ts';

/** Requests that were sent, by operation; those that were tried again count again. */
export class RequestCounts {
  readonly #byOperation = new Map<string, number>();
  readonly #byAccount = new Map<string, number>();
  readonly #progress: ProgressListener;

  constructor(progress: ProgressListener) {
    this.#progress = progress;
  }

  add(account: string, operation: string): void {
    this.#byOperation.set(operation, (this.#byOperation.get(operation) ?? 0) + 1);
    const requests = (this.#byAccount.get(account) ?? 0) + 1;
    this.#byAccount.set(account, requests);
    this.#progress({ event: 'requests', account, requests });
  }

  byOperation(): Record<string, number> {
    return Object.fromEntries([...this.#byOperation].sort(([a], [b]) => (a < b ? -1 : 1)));
  }
}
