import { hasCode } from '../errors/mailkeep-error.ts';
import { objectError } from '../errors/objects.ts';
import type { S3Client, S3Reply } from './s3-client.ts';
import { decodedKey } from './s3-listing.ts';
import { keyOf } from './s3-target.ts';
import { textOf, type XmlElement } from './s3-xml.ts';

const MOST_PAGES = 1000;
/** Our objects are written once: more versions than a few are somebody else's. */
const MOST_VERSIONS = 32;

/** Returns whether the bucket keeps, or once kept, versions of objects; true where the server does not say. */
export async function hasVersions(client: S3Client, signal: AbortSignal): Promise<boolean> {
  const operation = 'GetBucketVersioning';
  const query = { versioning: '' };
  const reply = await client.request({ operation, method: 'GET', query }, signal);
  if (reply.code === 'NoSuchBucket') throw client.refused(operation, reply);
  if (reply.status !== 200 || reply.xml?.name !== 'VersioningConfiguration') return true;
  return textOf(reply.xml, 'Status') !== '';
}

/** Deletes an object in a bucket without versions. */
export async function deleteObject(
  client: S3Client,
  name: string,
  signal: AbortSignal,
): Promise<void> {
  await deleteVersion(client, name, undefined, signal);
}

/**
 * Deletes all versions of an object, and the marks of its deletions.
 *
 * @param bypass deletes also what is locked in governance mode, if the credentials allow it
 * @throws object-locked
 */
export async function deleteVersions(
  client: S3Client,
  name: string,
  signal: AbortSignal,
  bypass = false,
): Promise<void> {
  // All first: pages go on from versions that must still be there.
  const versions: string[] = [];
  for await (const { version } of versionsOf(client, name, signal)) versions.push(version);
  for (const version of versions) await deleteVersion(client, name, version, signal, bypass);
}

/**
 * Returns the versions of an object, the newest first, without the marks of its deletions; none where the server does not
 * list them, or the credentials do not allow it.
 */
export async function versionsWithBytes(
  client: S3Client,
  name: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const versions: string[] = [];
  try {
    for await (const { version, isMark } of versionsOf(client, name, signal)) {
      if (!isMark) versions.push(version);
      if (versions.length === MOST_VERSIONS) break;
    }
  } catch (error) {
    if (!hasCode(error, 'store-access-denied') && !hasCode(error, 'store-refused')) throw error;
  }
  return versions;
}

async function* versionsOf(
  client: S3Client,
  name: string,
  signal: AbortSignal,
): AsyncGenerator<{ readonly version: string; readonly isMark: boolean }> {
  const operation = 'ListObjectVersions';
  const key = keyOf(client.target, name);
  let marker: Readonly<Record<string, string>> = {};
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const query = { versions: '', 'encoding-type': 'url', prefix: key, ...marker };
    const reply = await client.request({ operation, method: 'GET', query }, signal);
    if (reply.status !== 200) throw client.refused(operation, reply);
    const { xml } = reply;
    if (xml?.name !== 'ListVersionsResult') throw invalid(client, operation, 'no listing');
    const isEncoded = textOf(xml, 'EncodingType') === 'url';
    const keyIn = (element: XmlElement, field: string) =>
      decodedKey(textOf(element, field), isEncoded);
    for (const element of xml.children) {
      if (element.name !== 'Version' && element.name !== 'DeleteMarker') continue;
      const version = textOf(element, 'VersionId');
      if (keyIn(element, 'Key') !== key || version === '') continue;
      yield { version, isMark: element.name === 'DeleteMarker' };
    }
    if (textOf(xml, 'IsTruncated') !== 'true') return;
    const nextKey = keyIn(xml, 'NextKeyMarker');
    // Objects whose names begin with this one come after it.
    if (nextKey > key) return;
    const next = { 'key-marker': nextKey, 'version-id-marker': textOf(xml, 'NextVersionIdMarker') };
    if (JSON.stringify(next) === JSON.stringify(marker)) break;
    marker = next;
  }
  throw invalid(client, operation, 'a listing without an end');
}

async function deleteVersion(
  client: S3Client,
  name: string,
  version: string | undefined,
  signal: AbortSignal,
  bypass = false,
): Promise<void> {
  const operation = 'DeleteObject';
  const query = version === undefined ? {} : { versionId: version };
  const headers = bypass ? { 'x-amz-bypass-governance-retention': 'true' } : {};
  const request = { operation, method: 'DELETE', name, query, headers } as const;
  const reply = await client.request(request, signal);
  if (reply.status < 300 || reply.code === 'NoSuchKey' || reply.code === 'NoSuchVersion') return;
  if (reply.status === 404 && reply.code !== 'NoSuchBucket') return;
  const until = version === undefined ? undefined : await lockedUntil(client, name, query, signal);
  if (reply.status === 403 && until !== undefined) {
    throw objectError('object-locked', { store: client.label, name, until });
  }
  throw client.refused(operation, reply);
}

/** Returns until when a version is kept, null where it is kept until somebody says otherwise; undefined if it is not. */
async function lockedUntil(
  client: S3Client,
  name: string,
  query: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<string | null | undefined> {
  const request = { operation: 'HeadObject', method: 'HEAD', name, query } as const;
  const reply: S3Reply = await client.request(request, signal);
  if (reply.status !== 200) return undefined;
  const until = Date.parse(String(reply.headers['x-amz-object-lock-retain-until-date']));
  if (reply.headers['x-amz-object-lock-legal-hold'] === 'ON') return null;
  return Number.isNaN(until) ? undefined : new Date(until).toISOString();
}

function invalid(client: S3Client, operation: string, problem: string): Error {
  return objectError('store-answer-invalid', { store: client.label, operation, problem });
}
