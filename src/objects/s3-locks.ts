import { createHash } from 'node:crypto';
import { objectError } from '../errors/objects.ts';
import type { S3Client } from './s3-client.ts';
import { versionsWithBytes } from './s3-versions.ts';
import type { PutOptions } from './store.ts';

/** Until when a version of an object cannot be deleted. */
interface Lock {
  readonly mode: 'COMPLIANCE' | 'GOVERNANCE';
  /** Milliseconds since 1970, whole seconds: servers keep no more. */
  readonly until: number;
}

/** Returns the lock that an object is to have. */
export function lockOf({ lockUntil, lockMode = 'compliance' }: PutOptions): Lock | undefined {
  if (lockUntil === undefined) return undefined;
  return {
    mode: lockMode === 'compliance' ? 'COMPLIANCE' : 'GOVERNANCE',
    until: wholeSeconds(lockUntil),
  };
}

/** Returns what asks for a lock while an object is stored. */
export function lockHeaders({ mode, until }: Lock): Readonly<Record<string, string>> {
  return {
    'x-amz-object-lock-mode': mode,
    'x-amz-object-lock-retain-until-date': new Date(until).toISOString(),
  };
}

/**
 * Reads the lock of an object back: some servers answer 200 to what they do not know.
 *
 * @param isSet locks the object afterwards if it is not locked, as RadosGW does with objects that come in parts. Only for
 *   buckets that were seen to lock: other servers would take the request for the bytes of an object.
 * @throws object-lock-dropped
 */
export async function checkLock(
  client: S3Client,
  name: string,
  version: string | undefined,
  lock: Lock,
  { isSet }: { readonly isSet: boolean },
  signal: AbortSignal,
): Promise<void> {
  let found = await keptLock(client, name, version, signal);
  if (isSet && version !== undefined && !isKept(lock, found)) {
    await setLock(client, name, version, lock, signal);
    found = await keptLock(client, name, version, signal);
  }
  if (isKept(lock, found)) return;
  throw objectError('object-lock-dropped', {
    store: client.label,
    name,
    wanted: lockText(lock),
    found: found === undefined ? null : lockText(found),
  });
}

/**
 * Locks the versions of an object that hold bytes, in a bucket that was seen to lock.
 *
 * @throws object-missing where there is none; object-lock-dropped
 */
export async function lockObject(
  client: S3Client,
  name: string,
  until: number,
  signal: AbortSignal,
): Promise<void> {
  const lock = { mode: 'COMPLIANCE', until: wholeSeconds(until) } as const;
  const versions = await versionsWithBytes(client, name, signal);
  if (versions.length === 0) throw objectError('object-missing', { store: client.label, name });
  for (const version of versions) {
    await checkLock(client, name, version, lock, { isSet: true }, signal);
  }
}

function wholeSeconds(ms: number): number {
  return Math.ceil(ms / 1000) * 1000;
}

function isKept(lock: Lock, found: Lock | undefined): boolean {
  return found?.mode === lock.mode && found.until >= lock.until;
}

async function keptLock(
  client: S3Client,
  name: string,
  version: string | undefined,
  signal: AbortSignal,
): Promise<Lock | undefined> {
  const operation = 'HeadObject';
  const query = version === undefined ? {} : { versionId: version };
  const reply = await client.request({ operation, method: 'HEAD', name, query }, signal);
  if (reply.status !== 200) throw client.refused(operation, reply);
  const mode = reply.headers['x-amz-object-lock-mode'];
  const until = Date.parse(String(reply.headers['x-amz-object-lock-retain-until-date']));
  if (Number.isNaN(until) || (mode !== 'COMPLIANCE' && mode !== 'GOVERNANCE')) return undefined;
  return { mode, until };
}

async function setLock(
  client: S3Client,
  name: string,
  version: string,
  { mode, until }: Lock,
  signal: AbortSignal,
): Promise<void> {
  const operation = 'PutObjectRetention';
  const body = Buffer.from(
    `<Retention xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Mode>${mode}</Mode><RetainUntilDate>${new Date(until).toISOString()}</RetainUntilDate></Retention>`,
  );
  const query = { retention: '', versionId: version };
  const headers = { 'content-md5': createHash('md5').update(body).digest('base64') };
  const request = { operation, method: 'PUT', name, query, headers, body } as const;
  const reply = await client.request(request, signal);
  if (reply.status !== 200) throw client.refused(operation, reply);
}

function lockText({ mode, until }: Lock): string {
  return `${mode.toLowerCase()} until ${new Date(until).toISOString()}`;
}
