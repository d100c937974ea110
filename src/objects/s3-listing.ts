import { objectError } from '../errors/objects.ts';
import { MOST_EMPTY_PAGES } from './limits.ts';
import { isPlainName } from './names.ts';
import type { S3Client } from './s3-client.ts';
import { keyOf } from './s3-target.ts';
import { childrenOf, textOf, type XmlElement } from './s3-xml.ts';
import type { ObjectFact } from './store.ts';

const OPERATION = 'ListObjectsV2';

/**
 * Yields the objects whose names begin with a text, in order. Keys that are no names of ours are left out.
 *
 * @throws store-answer-invalid for a listing that is out of order, does not end, or lists what was not asked for
 */
export async function* listObjects(
  client: S3Client,
  prefix: string,
  signal: AbortSignal,
): AsyncGenerator<ObjectFact> {
  const { target } = client;
  const above = keyOf(target, '');
  const wanted = `${above}${prefix}`;
  let token: string | undefined;
  let last: Buffer | undefined;
  let emptyPages = 0;
  do {
    const page = await listPage(client, wanted, token, signal);
    const objects = childrenOf(page, 'Contents');
    const isEncoded = textOf(page, 'EncodingType') === 'url';
    for (const object of objects) {
      const key = decodedKey(textOf(object, 'Key'), isEncoded);
      // By bytes, as servers sort: texts of JavaScript sort otherwise.
      const bytes = Buffer.from(key);
      if (last !== undefined && Buffer.compare(last, bytes) >= 0) {
        throw invalid(client, 'keys out of order');
      }
      last = bytes;
      if (!key.startsWith(wanted)) throw invalid(client, 'keys that were not asked for');
      const name = key.slice(above.length);
      if (isPlainName(name)) yield factOf(client, name, object);
    }
    emptyPages = objects.length === 0 ? emptyPages + 1 : 0;
    token = nextToken(client, page);
    if (emptyPages > MOST_EMPTY_PAGES) throw invalid(client, 'a listing without an end');
  } while (token !== undefined);
}

async function listPage(
  client: S3Client,
  prefix: string,
  token: string | undefined,
  signal: AbortSignal,
): Promise<XmlElement> {
  const query = {
    'list-type': '2',
    // XML has no way to write some characters, which others may have in their keys.
    'encoding-type': 'url',
    ...(prefix === '' ? {} : { prefix }),
    ...(token === undefined ? {} : { 'continuation-token': token }),
  };
  const reply = await client.request({ operation: OPERATION, method: 'GET', query }, signal);
  if (reply.status !== 200) throw client.refused(OPERATION, reply);
  if (reply.xml?.name !== 'ListBucketResult') throw invalid(client, 'no listing');
  return reply.xml;
}

function nextToken(client: S3Client, page: XmlElement): string | undefined {
  if (textOf(page, 'IsTruncated') !== 'true') return undefined;
  const token = textOf(page, 'NextContinuationToken');
  if (token === '' || token.length > 8192) throw invalid(client, 'a page without a next one');
  return token;
}

/** Returns a key as it is in the bucket; one that cannot be decoded stays what no name of ours is. */
export function decodedKey(key: string, isEncoded: boolean): string {
  if (!isEncoded) return key;
  try {
    return decodeURIComponent(key.replaceAll('+', ' '));
  } catch {
    return key;
  }
}

function factOf(client: S3Client, name: string, object: XmlElement): ObjectFact {
  const length = textOf(object, 'Size');
  const modified = Date.parse(textOf(object, 'LastModified'));
  if (!/^\d{1,15}$/.test(length) || Number.isNaN(modified)) {
    throw invalid(client, 'an object without length or time');
  }
  return { name, length: Number(length), modified };
}

function invalid(client: S3Client, problem: string): Error {
  return objectError('store-answer-invalid', {
    store: client.label,
    operation: OPERATION,
    problem,
  });
}
