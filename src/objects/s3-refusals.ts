import type { IncomingHttpHeaders } from 'node:http';
import { objectError } from '../errors/objects.ts';
import { textOf, type XmlElement } from './s3-xml.ts';

interface Refusal {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly xml: XmlElement | undefined;
  readonly code: string;
}

const TRANSIENT_STATUS: ReadonlySet<number> = new Set([408, 429, 500, 502, 503, 504]);
const TRANSIENT_CODE: ReadonlySet<string> = new Set([
  'InternalError',
  'ServiceUnavailable',
  'SlowDown',
  'RequestTimeout',
  // Two of us wrote one object at once.
  'OperationAborted',
  'ConditionalRequestConflict',
  'ConcurrentModification',
]);
/** Insufficient Storage, of WebDAV: what servers answer whose disks are full. */
const NO_ROOM = 507;
/** `QuotaExceeded` of Ceph comes with 403; `XMinioStorageFull` and `XMinioAdminBucketQuotaExceeded` are MinIO's. */
const FULL_CODE =
  /^(?:QuotaExceeded|InsufficientStorage|XMinioStorageFull|XMinioAdminBucketQuotaExceeded)$/;
const REGION = /^[a-z0-9-]{1,64}$/;
const LONGEST_ASKED_MS = 120_000;

/** Returns whether the same request may succeed later. */
export function isTransient({ status, code }: Pick<Refusal, 'status' | 'code'>): boolean {
  return TRANSIENT_STATUS.has(status) || TRANSIENT_CODE.has(code);
}

/** Returns how long a server asks to wait, in milliseconds, as far as that is believed. */
export function retryAfterMs(headers: IncomingHttpHeaders, now: number): number {
  const asked = headers['retry-after'] ?? '';
  const ms = /^\d{1,9}$/.test(asked) ? Number(asked) * 1000 : Date.parse(asked) - now;
  return Number.isFinite(ms) ? Math.max(0, Math.min(LONGEST_ASKED_MS, ms)) : 0;
}

/** Returns the error of an answer that says no. */
export function refusalError(store: string, operation: string, refusal: Refusal): Error {
  const { status, code } = refusal;
  const facts = { store, operation, status, answer: code };
  if (status === NO_ROOM || FULL_CODE.test(code)) return objectError('store-full', facts);
  if (isTransient(refusal)) return objectError('store-busy', { ...facts, tries: 1 });
  const region = regionOf(refusal);
  if ((status >= 300 && status < 400 && status !== 304) || (status === 400 && region !== null)) {
    return objectError('store-redirects', { store, operation, status, region });
  }
  if (status === 401 || status === 403) return objectError('store-access-denied', facts);
  if (status >= 400) return objectError('store-refused', facts);
  const problem = `HTTP ${status}`;
  return objectError('store-answer-invalid', { store, operation, problem });
}

function regionOf({ headers, xml }: Refusal): string | null {
  const header = headers['x-amz-bucket-region'];
  const named =
    typeof header === 'string' ? header : xml === undefined ? '' : textOf(xml, 'Region');
  return REGION.test(named) ? named : null;
}
