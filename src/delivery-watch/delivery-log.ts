import type { StateFile } from '../state/state-file.ts';
import type { DeliveryLogRecord } from '../wire/platform-records.ts';

/** Where the log is kept: the archive's state. */
export type LogMemory = Pick<StateFile, 'get' | 'set'>;

const SCOPE = 'delivery-log';
/** Entries of one account; about 100 kB. */
const MOST = 500;

/** The deliveries of an account's webhooks that are remembered, newest first. */
export function keptDeliveries(memory: Pick<LogMemory, 'get'>, account: string): LoggedDelivery[] {
  return memory.get(SCOPE, account) ?? [];
}

/** Adds what the service lists now; of a delivery that is listed again, the later entry counts. */
export function keepDeliveries(
  memory: LogMemory,
  account: string,
  logged: readonly LoggedDelivery[],
): LoggedDelivery[] {
  const before = keptDeliveries(memory, account);
  const kept = mergedDeliveries(before, logged);
  if (JSON.stringify(kept) !== JSON.stringify(before)) memory.set(SCOPE, account, kept);
  return kept;
}

/** Merges deliveries, newest first; of one that is in both, the later entry counts. */
export function mergedDeliveries(
  before: readonly LoggedDelivery[],
  later: readonly LoggedDelivery[],
): LoggedDelivery[] {
  const all = new Map([...before, ...later].map((entry) => [deliveryKey(entry), entry]));
  return [...all.values()].sort((a, b) => b.at - a.at).slice(0, MOST);
}

/** Returns a key that distinguishes one entry of the log from the others: it has no id of its own. */
export function deliveryKey({ at, mailbox, url }: LoggedDelivery): string {
  return JSON.stringify([at, mailbox, url]);
}

/**
 * Returns how many attempts an entry of the delivery log reports.
 *
 * The service counts retries, of which the first attempt is none, and has no state "pending": a delivery that was never
 * tried has neither succeeded, nor been retried, nor taken any time.
 */
export function attemptsOf({
  is_successful: isSuccessful,
  duration,
  retry_count: retries,
}: DeliveryLogRecord): number {
  const isUntried = !isSuccessful && retries === 0 && duration === 0;
  return isUntried ? 0 : retries + 1;
}

/** A delivery as the service's log shows it. Times in milliseconds since the epoch. */
export interface LoggedDelivery {
  readonly at: number;
  /** Address of the mailbox. */
  readonly mailbox: string;
  readonly url: string;
  readonly success: boolean;
  /** Attempts that were made, and that may be; none where the delivery waits for its first. */
  readonly attempts: number;
  readonly mostAttempts: number;
  readonly durationMs: number;
}
