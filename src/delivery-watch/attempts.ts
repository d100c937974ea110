import type { DeliveryLogRecord } from '../wire/platform-records.ts';

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
