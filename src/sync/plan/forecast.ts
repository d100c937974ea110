/** The remaining work of a sync, estimated from listings. */
export interface Forecast {
  readonly mailboxes: number;
  readonly folders: number;
  readonly messages: number;
  /** 0 where neither a quota nor the listings so far show how large most of the messages are. */
  readonly bytes: number;
  /** One per message, one per page of 100, and the folder listings. */
  readonly requests: number;
  /** The rate in force. */
  readonly requestsPerMinute: number;
  /** Hours at this rate; the service may be slower. */
  readonly hours: number;
}

export interface FolderAhead {
  /** Messages the origin counts in the folder. */
  readonly messages: number;
  /** Those of them that are in the archive already. */
  readonly known: number;
  /** Mean size in bytes of the messages ahead, if the origin reports it. */
  readonly meanBytes?: number | undefined;
}

export const PAGE_SIZE = 100;

/** The newest messages are no sample of the rest: their mean size counts once it covers this share of the messages. */
const LISTED_SHARE = 0.9;

/**
 * Adds up the remaining work. `sizes` are the sizes of the messages ahead that were listed so far, of folders without
 * a reported mean.
 */
export function forecast(input: {
  readonly mailboxes: number;
  readonly folders: readonly FolderAhead[];
  readonly sizes: { readonly count: number; readonly bytes: number };
  readonly requestsPerMinute: number;
}): Forecast {
  const ahead = input.folders.map(({ messages, known }) => Math.max(0, messages - known));
  const messages = ahead.reduce((sum, count) => sum + count, 0);
  const { sizes } = input;
  let unreported = 0;
  let bytes = 0;
  for (const [i, { meanBytes }] of input.folders.entries()) {
    if (meanBytes === undefined) unreported += ahead[i] ?? 0;
    else bytes += (ahead[i] ?? 0) * meanBytes;
  }
  if (unreported > 0) {
    const isKnown = sizes.count >= unreported * LISTED_SHARE;
    bytes = isKnown ? bytes + (unreported * sizes.bytes) / sizes.count : 0;
  }
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
