import { randomBytes } from 'node:crypto';
import { hasCode } from '../errors/mailkeep-error.ts';
import { objectError } from '../errors/objects.ts';
import { S3Client, type S3Options } from './s3-client.ts';
import type { S3Target } from './s3-target.ts';
import { deleteVersions } from './s3-versions.ts';
import { writeObject } from './s3-writing.ts';
import { textOf, xmlText } from './s3-xml.ts';
import type { Abilities } from './store.ts';

/** How long objects of tries are locked: the server's clock may differ from ours. */
const TRIED_LOCK_MS = 60 * 60_000;

/**
 * Creates a bucket, unless it is ours already.
 *
 * @param lock makes a new bucket one whose objects can be locked; of an existing bucket, nothing is changed
 * @returns whether it was created
 * @throws store-bucket-taken; see `S3Client.request`
 */
export async function ensureBucket(
  target: S3Target,
  signal: AbortSignal,
  { lock = false, ...options }: S3Options & { readonly lock?: boolean } = {},
): Promise<boolean> {
  const client = new S3Client(target, options);
  try {
    const found = await client.request({ operation: 'HeadBucket', method: 'HEAD' }, signal);
    if (found.status === 200) return false;
    if (found.status !== 404) throw client.refused('HeadBucket', found);
    return await createBucket(client, lock, signal);
  } finally {
    client.close();
  }
}

async function createBucket(
  client: S3Client,
  lock: boolean,
  signal: AbortSignal,
): Promise<boolean> {
  const operation = 'CreateBucket';
  const { region, bucket } = client.target;
  const headers = lock ? { 'x-amz-bucket-object-lock-enabled': 'true' } : {};
  const body = Buffer.from(
    `<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><LocationConstraint>${xmlText(region)}</LocationConstraint></CreateBucketConfiguration>`,
  );
  // Amazon's first region has no name there, and other servers may have none at all.
  const requests = region === 'us-east-1' ? [{}] : [{ body }, {}];
  for (const request of requests) {
    const reply = await client.request({ operation, method: 'PUT', headers, ...request }, signal);
    if (reply.status === 200) return true;
    if (reply.code === 'BucketAlreadyOwnedByYou') return false;
    if (reply.code === 'BucketAlreadyExists') {
      throw objectError('store-bucket-taken', { store: client.label, bucket });
    }
    const isRegion = /LocationConstraint/.test(reply.code) && 'body' in request;
    if (!isRegion) throw client.refused(operation, reply);
  }
  return false;
}

/** Tries out what a bucket can do, with small objects below `probe/` that are deleted if that is allowed. */
export async function tryOut(client: S3Client, signal: AbortSignal): Promise<Abilities> {
  const name = `probe/${randomBytes(16).toString('hex')}`;
  try {
    const first = await tryToPut(client, name, signal);
    const second = first.isTaken ? await tryToPut(client, name, signal) : first;
    return {
      refusesExisting: first.isTaken && !second.isTaken,
      keepsVersions: first.isVersion,
      locks: await tryToLock(client, signal),
    };
  } finally {
    await deleteTried(client, name, signal);
  }
}

async function tryToPut(
  client: S3Client,
  name: string,
  signal: AbortSignal,
): Promise<{ readonly isTaken: boolean; readonly isVersion: boolean }> {
  const operation = 'PutObject';
  // MD5 of nothing: wanted where a bucket locks everything.
  const headers = { 'if-none-match': '*', 'content-md5': '1B2M2Y8AsgTpgAmY7PhCfg==' };
  const reply = await client.request({ operation, method: 'PUT', name, headers }, signal);
  const version = reply.headers['x-amz-version-id'];
  const isVersion = typeof version === 'string' && version !== 'null';
  if (reply.status === 200) return { isTaken: true, isVersion };
  if (reply.status !== 412 && reply.status !== 501) throw client.refused(operation, reply);
  return { isTaken: false, isVersion: false };
}

/** A bucket that says that it can lock is tried; what others say does not matter. */
async function tryToLock(client: S3Client, signal: AbortSignal): Promise<boolean> {
  const query = { 'object-lock': '' };
  const request = { operation: 'GetObjectLockConfiguration', method: 'GET', query } as const;
  const { status, xml } = await client.request(request, signal);
  if (status !== 200 || xml === undefined) return false;
  if (textOf(xml, 'ObjectLockEnabled') !== 'Enabled') return false;
  const name = `probe/${randomBytes(16).toString('hex')}`;
  const lockUntil = client.clock.now() + TRIED_LOCK_MS;
  try {
    const options = { signal, lockUntil, lockMode: 'governance' } as const;
    await writeObject(client, name, 0, nothing(), options);
    return true;
  } catch (error) {
    if (hasCode(error, 'object-lock-dropped') || hasCode(error, 'store-access-denied'))
      return false;
    throw error;
  } finally {
    await deleteTried(client, name, signal);
  }
}

/** What may not be deleted stays: it is empty, and nobody looks there. */
async function deleteTried(client: S3Client, name: string, signal: AbortSignal): Promise<void> {
  try {
    await deleteVersions(client, name, signal, true);
  } catch (error) {
    const isExpected = ['object-locked', 'store-access-denied', 'store-refused'].some((code) =>
      hasCode(error, code),
    );
    if (!isExpected) throw error;
  }
}

async function* nothing(): AsyncGenerator<Uint8Array> {}
