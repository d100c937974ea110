/** The remaining work of a sync, estimated from listings. */
export interface Forecast {
  readonly mailboxes: number;
  readonly folders: number;
  readonly messages: number;
  /** Estimated from the mean message sizes of the mailboxes, or of the messages listed so far. */
  readonly bytes: number;
  /** One per message, one per page of 100, and the folder listings. */
  readonly requests: number;
  readonly requestsPerMinute: number;
  /** Hours at the configured rate; the service may be slower. */
  readonly hours: number;
}

export interface FolderAhead {
  /** Messages the origin counts in the folder. */
  readonly messages: number;
  /** Those of them that are in the archive already. */
  readonly known: number;
  /** Mean message size in bytes, if the origin reports it for the mailbox. */
  readonly meanBytes?: number | undefined;
}

export const PAGE_SIZE = 100;

/**
 * Adds up the remaining work. `sizes` are the sizes of the messages listed so far; their mean is used for mailboxes
 * without a reported mean.
 */
export function forecast(input: {
  readonly mailboxes: number;
  readonly folders: readonly FolderAhead[];
  readonly sizes: { readonly count: number; readonly bytes: number };
  readonly requestsPerMinute: number;
}): Forecast {
  const ahead = input.folders.map(({ messages, known }) => Math.max(0, messages - known));
  const sampled = input.sizes.count === 0 ? 0 : input.sizes.bytes / input.sizes.count;
  const bytes = input.folders.reduce(
    (sum, { meanBytes = sampled }, i) => sum + (ahead[i] ?? 0) * meanBytes,
    0,
  );
  const messages = ahead.reduce((sum, count) => sum + count, 0);
  const pages = ahead.reduce((sum, count) => sum + Math.max(1, Math.ceil(count / PAGE_SIZE)), 0);
  const requests = messages + pages + input.mailboxes + 1;
  return {
    mailboxes: input.mailboxes,
    folders: input.folders.length,
    messages,
    bytes: Math.round(bytes),
    requests,
    requestsPerMinute: input.requestsPerMinute,
    hours: requests / input.requestsPerMinute / 60,
  };
}
