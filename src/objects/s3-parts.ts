import { createHash } from 'node:crypto';
import { objectError } from '../errors/objects.ts';
import { MOST_PARTS } from './limits.ts';
import type { S3Client, S3Reply } from './s3-client.ts';
import { giveUpUpload, unfinishedUploads } from './s3-uploads.ts';
import { textOf, xmlText } from './s3-xml.ts';
import type { Upload } from './store.ts';

const MIB = 1024 * 1024;

/**
 * Begins an upload in parts. Nothing is visible under the name before it is completed.
 *
 * @throws see `S3Client.request`
 */
export async function beginParts(
  client: S3Client,
  name: string,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<Upload> {
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
  return { name, uploadId };
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

/**
 * Sends all parts of an upload, one after another, and returns what the server calls them.
 *
 * @param length of all bytes: there are 10,000 parts at most, so it decides how large they are
 */
export async function sendParts(
  client: S3Client,
  upload: Upload,
  length: number,
  bytes: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const partBytes = Math.max(client.partBytes, Math.ceil(length / MOST_PARTS / MIB) * MIB);
  const etags: string[] = [];
  for await (const body of inParts(bytes, Math.min(partBytes, length))) {
    etags.push(await sendPart(client, upload, etags.length + 1, body, signal));
  }
  return etags;
}

async function sendPart(
  client: S3Client,
  { name, uploadId }: Upload,
  partNumber: number,
  body: Buffer,
  signal: AbortSignal,
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

/** What is known of an upload after it was to be completed. */
export interface Completion {
  readonly reply: S3Reply;
  /** False if the server no longer knows the upload after an answer was lost: the object shows what happened. */
  readonly isAcknowledged: boolean;
}

/** Makes an object of the parts. An upload that was completed is unknown to the server afterwards. */
export async function completeParts(
  client: S3Client,
  { name, uploadId }: Upload,
  etags: readonly string[],
  signal: AbortSignal,
): Promise<Completion> {
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
    return { reply, isAcknowledged: true };
  }
  const isUnknown = reply.status === 404 || reply.code === 'NoSuchUpload';
  if (!isUnknown || !reply.isUncertain) throw client.refused(operation, reply);
  return { reply, isAcknowledged: false };
}

/** Returns the header by which a server notices that bytes changed on the way. */
export function md5(bytes: Buffer): string {
  return createHash('md5').update(bytes).digest('base64');
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
