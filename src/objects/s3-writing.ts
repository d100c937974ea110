import { randomBytes } from 'node:crypto';
import { objectError } from '../errors/objects.ts';
import { countedBytes } from './counted-bytes.ts';
import { MOST_NEW_BYTES } from './limits.ts';
import type { S3Client, S3Reply } from './s3-client.ts';
import { checkLock, lockHeaders, lockOf } from './s3-locks.ts';
import { beginParts, completeParts, md5, sendParts } from './s3-parts.ts';
import { giveUpUpload } from './s3-uploads.ts';
import type { PutOptions } from './store.ts';

/**
 * Names one call of `writeObject` in the object that it stores: an object that is there after an answer was lost is
 * ours, or somebody else's.
 */
const MARK = 'x-amz-meta-mailkeep-put';
/** How long a failed upload is tried to be given up. What is left then is swept later. */
const GIVING_UP_MS = 15_000;

/** One call of `writeObject`. */
interface Write {
  readonly name: string;
  readonly length: number;
  readonly mark: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/**
 * Stores an object, in one request or in parts, and checks that its lock was kept. The caller has tried out that the
 * bucket keeps locks.
 *
 * @throws object-length, object-exists, object-lock-dropped, store-unable; see `S3Client.request`
 */
export async function writeObject(
  client: S3Client,
  name: string,
  length: number,
  bytes: AsyncIterable<Uint8Array>,
  options: PutOptions,
): Promise<void> {
  const { signal, onlyNew = false } = options;
  signal.throwIfAborted();
  const lock = lockOf(options);
  const mark = randomBytes(16).toString('hex');
  const headers = {
    'content-type': 'application/octet-stream',
    [MARK]: mark,
    ...(lock === undefined ? {} : lockHeaders(lock)),
  };
  const write: Write = { name, length, mark, headers, signal };
  const single =
    length <= (onlyNew ? Math.max(MOST_NEW_BYTES, client.partBytes) : client.partBytes);
  if (onlyNew && !single) {
    throw objectError('store-unable', { store: client.label, ability: 'refuse-existing' });
  }
  const counted = countedBytes({ store: client.label, name }, length, bytes, signal);
  const version = single
    ? await writeAtOnce(client, write, counted, onlyNew)
    : await writeInParts(client, write, counted);
  if (lock !== undefined) await checkLock(client, name, version, lock, { isSet: !single }, signal);
}

/** Returns the version that was stored, if the server names it. */
async function writeAtOnce(
  client: S3Client,
  write: Write,
  bytes: AsyncIterable<Uint8Array>,
  onlyNew: boolean,
): Promise<string | undefined> {
  const { name, signal } = write;
  const collected: Uint8Array[] = [];
  for await (const chunk of bytes) collected.push(Uint8Array.from(chunk));
  const body = Buffer.concat(collected);
  const operation = 'PutObject';
  const headers = {
    ...write.headers,
    // Wanted with locks, and in buckets that lock everything.
    'content-md5': md5(body),
    ...(onlyNew ? { 'if-none-match': '*' } : {}),
  };
  const reply = await client.request({ operation, method: 'PUT', name, headers, body }, signal);
  if (reply.status === 200 && reply.code === '') return versionOf(reply);
  if (onlyNew && reply.status === 412) {
    if (reply.isUncertain) {
      const own = await ownObject(client, write);
      if (own !== undefined) return versionOf(own);
    }
    throw objectError('object-exists', { store: client.label, name });
  }
  if (onlyNew && reply.status === 501) {
    throw objectError('store-unable', { store: client.label, ability: 'refuse-existing' });
  }
  throw client.refused(operation, reply);
}

async function writeInParts(
  client: S3Client,
  write: Write,
  bytes: AsyncIterable<Uint8Array>,
): Promise<string | undefined> {
  const { name, length, headers, signal } = write;
  const upload = await beginParts(client, name, headers, signal);
  try {
    const etags = await sendParts(client, upload, length, bytes, signal);
    const { reply, isAcknowledged } = await completeParts(client, upload, etags, signal);
    const own = isAcknowledged ? reply : await ownObject(client, write);
    if (own === undefined) throw client.refused('CompleteMultipartUpload', reply);
    return versionOf(own);
  } catch (error) {
    // The signal may have aborted already.
    await giveUpUpload(client, upload, AbortSignal.timeout(GIVING_UP_MS)).catch(() => {});
    throw error;
  }
}

/** Returns the answer about the object if it is the one of this call, and complete. */
async function ownObject(
  client: S3Client,
  { name, length, mark, signal }: Write,
): Promise<S3Reply | undefined> {
  const reply = await client.request({ operation: 'HeadObject', method: 'HEAD', name }, signal);
  const isOwn =
    reply.status === 200 &&
    reply.headers[MARK] === mark &&
    reply.headers['content-length'] === String(length);
  return isOwn ? reply : undefined;
}

function versionOf({ headers }: S3Reply): string | undefined {
  const version = headers['x-amz-version-id'];
  return typeof version === 'string' && version !== '' ? version : undefined;
}
