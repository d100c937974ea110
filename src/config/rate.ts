/** Ceiling of `rateLimit.requestsPerMinute`: what only a service on the same machine can answer. */
export const MOST_REQUESTS_PER_MINUTE = 10_000_000;
/** Requests a minute of a configuration that does not say otherwise. */
export const DEFAULT_REQUESTS_PER_MINUTE = 60;
