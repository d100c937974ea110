/** How the service behaves; everything has a default in `defaultSettings`. */
export interface ServiceSettings {
  /** Requests per minute and token on the mailbox surface; null for no limit. */
  readonly requestsPerMinute: number | null;
  /** With a limit, so many requests refused in a row block the address for a while; null for never. */
  readonly block: RateBlock | null;
  /** Milliseconds every answer is held back. */
  readonly latencyMs: number;
  /** Largest request body, in bytes. */
  readonly maxBodyBytes: number;
  /** Addresses (`a@example.org`) and domains (`@example.org`) mail may be sent to; null for all. */
  readonly outgoingAllowList: readonly string[] | null;
  /** Bytes a mailbox may hold. */
  readonly storageQuotaBytes: number;
  /** Messages a mailbox may hold. */
  readonly messageQuota: number;
  /** Between two submissions of feedback by a customer. */
  readonly feedbackIntervalMs: number;
  /** Webhook URLs may be http, and may name this machine. */
  readonly localWebhooks: boolean;
  /** A webhook's receiver that takes longer has failed. */
  readonly webhookTimeoutMs: number;
  /** Attempts at a delivery, the first one included. */
  readonly webhookAttempts: number;
  /** Before the second attempt; the wait doubles with each further one, up to the longest. */
  readonly webhookFirstRetryMs: number;
  readonly webhookLongestRetryMs: number;
  /** Test deliveries a minute and webhook over the platform surface; the other one declares no limit. */
  readonly webhookTestsPerMinute: number;
  /** Requests per minute and IP address on the platform surface; null for no limit. */
  readonly platformRequestsPerMinute: number | null;
  /** So many requests refused in a row block the address for a while; null for never. */
  readonly platformBlock: RateBlock | null;
}

/** Requests refused in a row, with no request allowed in between, and how long they block their address. */
export interface RateBlock {
  readonly refusals: number;
  readonly forMs: number;
}

export const defaultSettings: ServiceSettings = {
  requestsPerMinute: null,
  block: { refusals: 100, forMs: 60_000 },
  latencyMs: 0,
  maxBodyBytes: 35 * 1024 * 1024,
  outgoingAllowList: null,
  storageQuotaBytes: 10 * 1024 ** 3,
  messageQuota: 2_000_000,
  feedbackIntervalMs: 10_000,
  localWebhooks: true,
  webhookTimeoutMs: 10_000,
  webhookAttempts: 6,
  webhookFirstRetryMs: 1000,
  webhookLongestRetryMs: 300_000,
  webhookTestsPerMinute: 10,
  platformRequestsPerMinute: 90,
  platformBlock: { refusals: 100, forMs: 60_000 },
};
