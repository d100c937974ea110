import type { IncomingHttpHeaders } from 'node:http';

/** The type without its parameters, in lower case; empty where none was sent. */
export function contentTypeOf(headers: IncomingHttpHeaders): string {
  return (headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
}

/** Content-Length, or null where it is missing or not a number. */
export function contentLengthOf(headers: IncomingHttpHeaders): number | null {
  const text = headers['content-length'];
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

/** Returns true for a body that was encoded although the request did not ask for that. */
export function isEncoded(headers: IncomingHttpHeaders): boolean {
  const coding = headers['content-encoding'];
  return coding !== undefined && coding !== '' && coding.toLowerCase() !== 'identity';
}

/**
 * Retry-After in milliseconds (RFC 9110, 10.2.3: seconds or an HTTP date), or null where there is none that can
 * be read. Not capped here: whoever waits caps it.
 */
export function retryAfterOf(headers: IncomingHttpHeaders, now: number): number | null {
  const text = headers['retry-after']?.trim() ?? '';
  if (/^\d{1,12}(\.\d{1,6})?$/.test(text)) return Math.round(Number(text) * 1000);
  // HTTP dates begin with the name of a day; Date.parse alone would take nearly anything.
  if (!/^(mon|tue|wed|thu|fri|sat|sun)/i.test(text)) return null;
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : Math.max(0, at - now);
}

/** A count in a header such as X-RateLimit-Limit, or null. */
export function countOf(headers: IncomingHttpHeaders, name: string): number | null {
  const value = headers[name];
  const text = (Array.isArray(value) ? value[0] : value)?.trim() ?? '';
  return /^\d{1,9}$/.test(text) ? Number(text) : null;
}
