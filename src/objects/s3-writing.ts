import { createHash, randomBytes } from 'node:crypto';
import { objectError } from '../errors/objects.ts';
import { countedBytes } from './counted-bytes.ts';
import { MOST_NEW_BYTES, MOST_PARTS } from './limits.ts';
import type { S3Client, S3Reply } from './s3-client.ts';
import { checkLock, lockHeaders, lockOf } from './s3-locks.ts';
import { giveUpUpload, unfinishedUploads } from './s3-uploads.ts';
import { textOf, xmlText } from './s3-xml.ts';
import type { PutOptions } from './store.ts';

/**
 * Names one call of `writeObject` in the object that it stores: an object that is there after an answer was lost is
 * ours, or somebody else's.
 */
const MARK = 'x-amz-meta-mailkeep-put';
const MIB = 1024 * 1024;
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
  const uploadId = await beginParts(client, name, headers, signal);
  try {
    const etags: string[] = [];
    for await (const body of inParts(bytes, partLength(length, client.partBytes))) {
      etags.push(await writePart(client, write, uploadId, etags.length + 1, body));
    }
    return await completeParts(client, write, uploadId, etags);
  } catch (error) {
    // The signal may have aborted already.
    const signalOfAbort = AbortSignal.timeout(GIVING_UP_MS);
    await giveUpUpload(client, { name, uploadId }, signalOfAbort).catch(() => {});
    throw error;
  }
}

async function beginParts(
  client: S3Client,
  name: string,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<string> {
  const operation = 'CreateMultipartUpload';
  const query = { uploads: '' };
  const reply = await client.request({ operation, method: 'POST', name, query, headers }, signal);
  if (reply.status !== 200) throw client.refused(operation, reply);
  const uploadId = reply.xml === undefined ? '' : textOf(reply.xml, 'UploadId');
  if (reply.isUncertain) await giveUpOthers(client, name, uploadId, signal);
  if (uploadId === '' || uploadId.length > 2048) {
    const facts = { store: client.label, operation, problem: 'no id of the upload' };
    throw objectError('store-answer-invalid', facts);
  }
  return uploadId;
}

/** An upload whose beginning was not acknowledged would stay for ever. Nobody else stores an object of this name. */
async function giveUpOthers(
  client: S3Client,
  name: string,
  uploadId: string,
  signal: AbortSignal,
): Promise<void> {
  for (const upload of await unfinishedUploads(client, name, signal)) {
    if (upload.name !== name || upload.uploadId === uploadId) continue;
    await giveUpUpload(client, upload, signal);
  }
}

async function writePart(
  client: S3Client,
  { name, signal }: Write,
  uploadId: string,
  partNumber: number,
  body: Buffer,
): Promise<string> {
  const operation = 'UploadPart';
  const query = { partNumber: String(partNumber), uploadId };
  const headers = { 'content-md5': md5(body) };
  const request = { operation, method: 'PUT', name, query, headers, body } as const;
  const reply = await client.request(request, signal);
  if (reply.status !== 200) throw client.refused(operation, reply);
  const { etag = '' } = reply.headers;
  if (etag !== '' && etag.length <= 256) return etag;
  throw objectError('store-answer-invalid', { store: client.label, operation, problem: 'no ETag' });
}

/** An upload that was completed is unknown afterwards: if an answer was lost, the object shows what happened. */
async function completeParts(
  client: S3Client,
  write: Write,
  uploadId: string,
  etags: readonly string[],
): Promise<string | undefined> {
  const { name, signal } = write;
  const operation = 'CompleteMultipartUpload';
  const parts = etags.map(
    (etag, i) => `<Part><PartNumber>${i + 1}</PartNumber><ETag>${xmlText(etag)}</ETag></Part>`,
  );
  const body = Buffer.from(
    `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${parts.join('')}</CompleteMultipartUpload>`,
  );
  const request = { operation, method: 'POST', name, query: { uploadId }, body } as const;
  const reply = await client.request(request, signal);
  if (reply.status === 200 && reply.xml?.name === 'CompleteMultipartUploadResult') {
    return versionOf(reply);
  }
  const isUnknown = reply.status === 404 || reply.code === 'NoSuchUpload';
  const own = isUnknown && reply.isUncertain ? await ownObject(client, write) : undefined;
  if (own === undefined) throw client.refused(operation, reply);
  return versionOf(own);
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

function md5(bytes: Buffer): string {
  return createHash('md5').update(bytes).digest('base64');
}

/** There are 10,000 parts at most. */
function partLength(length: number, partBytes: number): number {
  return Math.max(partBytes, Math.ceil(length / MOST_PARTS / MIB) * MIB);
}

/** Yields the bytes in buffers of one length; the last may be shorter. They stay as they are until the next is asked for. */
async function* inParts(bytes: AsyncIterable<Uint8Array>, length: number): AsyncGenerator<Buffer> {
  const part = Buffer.allocUnsafeSlow(length);
  let filled = 0;
  for await (const chunk of bytes) {
    for (let at = 0; at < chunk.length; ) {
      const piece = chunk.subarray(at, at + length - filled);
      part.set(piece, filled);
      filled += piece.length;
      at += piece.length;
      if (filled < length) continue;
      yield part;
      filled = 0;
    }
  }
  if (filled > 0) yield part.subarray(0, filled);
}
