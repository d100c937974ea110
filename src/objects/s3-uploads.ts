import { isObjectName } from './names.ts';
import type { S3Client } from './s3-client.ts';
import { decodedKey } from './s3-listing.ts';
import { keyOf } from './s3-target.ts';
import { childrenOf, textOf } from './s3-xml.ts';
import type { Upload } from './store.ts';

/** An upload in parts that was begun, and neither completed nor given up. Its parts are paid for. */
export interface UnfinishedUpload extends Upload {
  /** In milliseconds, by the server's clock. */
  readonly age: number;
}

/**
 * Returns unfinished uploads of objects whose names begin with a text, up to 1,000; none if that may not be listed, or
 * the server cannot.
 */
export async function unfinishedUploads(
  client: S3Client,
  prefix: string,
  signal: AbortSignal,
): Promise<UnfinishedUpload[]> {
  const above = keyOf(client.target, '');
  const query = {
    uploads: '',
    'encoding-type': 'url',
    ...(above === '' && prefix === '' ? {} : { prefix: `${above}${prefix}` }),
  };
  const request = { operation: 'ListMultipartUploads', method: 'GET', query } as const;
  const { status, headers, xml } = await client.request(request, signal);
  if (status !== 200 || xml?.name !== 'ListMultipartUploadsResult') return [];
  const isEncoded = textOf(xml, 'EncodingType') === 'url';
  const now = Date.parse(headers.date ?? '');
  return childrenOf(xml, 'Upload').flatMap((upload) => {
    const key = decodedKey(textOf(upload, 'Key'), isEncoded);
    const name = key.slice(above.length);
    const uploadId = textOf(upload, 'UploadId');
    // The header has whole seconds.
    const age = Math.max(0, now - Date.parse(textOf(upload, 'Initiated')));
    const isOurs = key.startsWith(above) && name.startsWith(prefix) && isObjectName(name);
    return isOurs && uploadId !== '' && !Number.isNaN(age) ? [{ name, uploadId, age }] : [];
  });
}

/** Lets the server forget an upload and its parts. */
export async function giveUpUpload(
  client: S3Client,
  { name, uploadId }: Upload,
  signal: AbortSignal,
): Promise<void> {
  const operation = 'AbortMultipartUpload';
  const request = { operation, method: 'DELETE', name, query: { uploadId } } as const;
  const reply = await client.request(request, signal);
  if (reply.status >= 300 && reply.status !== 404) throw client.refused(operation, reply);
}
