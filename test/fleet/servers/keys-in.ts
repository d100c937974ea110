import type { S3Client } from '../../../src/copies/s3-client.ts';
import { childrenOf, textOf } from '../../../src/copies/s3-client.ts';
import { objectKey } from '../../../src/core/s3-target.ts';
import { signal } from '../../objects/store-contract.ts';

/** Every object below the prefix of a target, up to 1,000: `list` of a store leaves out names with a dot. */
export async function keysIn(client: S3Client): Promise<string[]> {
  const prefix = objectKey(client.target, '');
  const query = { 'list-type': '2', prefix };
  const request = { operation: 'ListObjectsV2', method: 'GET', query } as const;
  const { xml } = await client.request(request, signal);
  const found = xml === undefined ? [] : childrenOf(xml, 'Contents');
  return found.map((object) => textOf(object, 'Key').slice(prefix.length)).toSorted();
}
