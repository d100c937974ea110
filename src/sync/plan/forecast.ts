/** What a first sync has ahead of it, as far as listings tell. */
export interface Forecast {
  readonly mailboxes: number;
  readonly folders: number;
  readonly messages: number;
  /** Bytes by the sizes of the listed messages, extrapolated to all: an estimate. */
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
  /** Messages of them that are in the archive already. */
  readonly known: number;
}

export const PAGE_SIZE = 100;

/**
 * Adds up what is ahead. `sizes` are the sizes of the messages listed so far; their mean stands for the rest.
 */
export function forecast(input: {
  readonly mailboxes: number;
  readonly folders: readonly FolderAhead[];
  readonly sizes: { readonly count: number; readonly bytes: number };
  readonly requestsPerMinute: number;
}): Forecast {
  const ahead = input.folders.map(({ messages, known }) => Math.max(0, messages - known));
  const messages = ahead.reduce((sum, count) => sum + count, 0);
  const pages = ahead.reduce((sum, count) => sum + Math.max(1, Math.ceil(count / PAGE_SIZE)), 0);
  const mean = input.sizes.count === 0 ? 0 : input.sizes.bytes / input.sizes.count;
  const requests = messages + pages + input.mailboxes + 1;
  return {
    mailboxes: input.mailboxes,
    folders: input.folders.length,
    messages,
    bytes: Math.round(messages * mean),
    requests,
    requestsPerMinute: input.requestsPerMinute,
    hours: requests / input.requestsPerMinute / 60,
  };
}
