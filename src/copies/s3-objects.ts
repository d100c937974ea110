import { createHash, randomBytes } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { hasCode, MailkeepError } from '../core/errors.ts';
import { keyOf } from '../core/s3-target.ts';
import { objectError } from './errors.ts';
import {
  countedBytes,
  isObjectName,
  isPlainName,
  MOST_EMPTY_PAGES,
  MOST_NEW_BYTES,
  MOST_PARTS,
  type ObjectFact,
  type PutOptions,
  type Upload,
} from './object-store.ts';
import {
  type Answer,
  childrenOf,
  isTransient,
  retryAfterMs,
  type S3Client,
  type S3Reply,
  textOf,
  type XmlElement,
  xmlText,
} from './s3-client.ts';

const LIST_OPERATION = 'ListObjectsV2';

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
        throw invalidListing(client, 'keys out of order');
      }
      last = bytes;
      if (!key.startsWith(wanted)) throw invalidListing(client, 'keys that were not asked for');
      const name = key.slice(above.length);
      if (isPlainName(name)) yield factOf(client, name, object);
    }
    emptyPages = objects.length === 0 ? emptyPages + 1 : 0;
    token = nextToken(client, page);
    if (emptyPages > MOST_EMPTY_PAGES) throw invalidListing(client, 'a listing without an end');
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
  const reply = await client.request({ operation: LIST_OPERATION, method: 'GET', query }, signal);
  if (reply.status !== 200) throw client.refused(LIST_OPERATION, reply);
  if (reply.xml?.name !== 'ListBucketResult') throw invalidListing(client, 'no listing');
  return reply.xml;
}

function nextToken(client: S3Client, page: XmlElement): string | undefined {
  if (textOf(page, 'IsTruncated') !== 'true') return undefined;
  const token = textOf(page, 'NextContinuationToken');
  if (token === '' || token.length > 8192)
    throw invalidListing(client, 'a page without a next one');
  return token;
}

/** Returns a key as it is in the bucket; one that cannot be decoded stays what no name of ours is. */
function decodedKey(key: string, isEncoded: boolean): string {
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
    throw invalidListing(client, 'an object without length or time');
  }
  return { name, length: Number(length), modified };
}

function invalidListing(client: S3Client, problem: string): Error {
  return objectError('store-answer-invalid', {
    store: client.label,
    operation: LIST_OPERATION,
    problem,
  });
}

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

const OPERATION = 'GetObject';
/** Of a part of an object: where it begins and ends, and the length of everything. */
const CONTENT_RANGE = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15})$/;

interface Whole {
  readonly length: number;
  /** Names these bytes: other bytes have another one. */
  readonly etag: string;
}

/**
 * Yields the bytes of an object, or of one of its versions. A connection that breaks is continued where it stopped, if the object is still the same.
 *
 * @throws object-missing; object-changed; see `S3Client.request`
 */
export async function* readObject(
  client: S3Client,
  { name, version }: { readonly name: string; readonly version?: string | undefined },
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const query = version === undefined ? {} : { versionId: version };
  const patience = client.patience(signal);
  let whole: Whole | undefined;
  let position = 0;
  for (;;) {
    let askedMs = 0;
    let answer: Answer | undefined;
    try {
      const headers = whole === undefined ? {} : continuing(position, whole);
      const request = { operation: OPERATION, method: 'GET', name, query, headers } as const;
      answer = await client.open(request, signal);
      if (answer.status !== 200 && answer.status !== 206) {
        askedMs = retryAfterMs(answer.headers, client.clock.now());
        throw await refusal(client, name, answer);
      }
      const found = wholeOf(client, answer, position);
      whole ??= found;
      if (found.length !== whole.length) {
        throw objectError('object-changed', { store: client.label, name });
      }
      for await (const chunk of answer.chunks()) {
        position += chunk.length;
        if (position > whole.length) throw invalidS3Reading(client, 'more bytes than announced');
        patience.progressed();
        yield chunk;
      }
      if (position < whole.length) throw invalidS3Reading(client, 'fewer bytes than announced');
      return;
    } catch (error) {
      answer?.discard();
      // Without a name for its bytes, nobody knows whether the rest would be of the same object.
      if (position > 0 && whole?.etag === '' && error instanceof MailkeepError) throw error;
      await patience.afterFailure(error, askedMs);
    } finally {
      // The reader may have left.
      answer?.discard();
    }
  }
}

function continuing(position: number, { etag }: Whole): Readonly<Record<string, string>> {
  if (position === 0) return etag === '' ? {} : { 'if-match': etag };
  return { range: `bytes=${position}-`, 'if-match': etag };
}

async function refusal(client: S3Client, name: string, answer: Answer): Promise<Error> {
  const reply = await client.read(OPERATION, answer);
  const facts = { store: client.label, name };
  if (isTransient(reply)) return client.refused(OPERATION, reply);
  if (reply.code === 'NoSuchBucket') return client.refused(OPERATION, reply);
  if (reply.status === 404) return objectError('object-missing', facts);
  // It is shorter now than the position where the reading continues, or has another ETag.
  if (reply.status === 412 || reply.status === 416) return objectError('object-changed', facts);
  return client.refused(OPERATION, reply);
}

function wholeOf(client: S3Client, { status, headers }: Answer, position: number): Whole {
  const etag = headers.etag ?? '';
  if (status === 200) {
    // Bytes that were read already must not come twice.
    if (position > 0) throw invalidS3Reading(client, 'no part of the object, as was asked for');
    return { length: lengthOf(client, headers), etag };
  }
  const [, from, to, length] = CONTENT_RANGE.exec(headers['content-range'] ?? '') ?? [];
  if (Number(from) !== position || Number(to) !== Number(length) - 1) {
    throw invalidS3Reading(client, 'another part of the object than was asked for');
  }
  return { length: Number(length), etag };
}

function lengthOf(client: S3Client, headers: IncomingHttpHeaders): number {
  const length = headers['content-length'] ?? '';
  if (!/^\d{1,15}$/.test(length)) throw invalidS3Reading(client, 'no length');
  return Number(length);
}

function invalidS3Reading(client: S3Client, problem: string): Error {
  const facts = { store: client.label, operation: OPERATION, problem };
  return objectError('store-answer-invalid', facts);
}

/** Until when a version of an object cannot be deleted. */
interface Lock {
  readonly mode: 'COMPLIANCE' | 'GOVERNANCE';
  /** Milliseconds since 1970, whole seconds: servers keep no more. */
  readonly until: number;
}

/** Returns the lock that an object is to have. */
function lockOf({ lockUntil, lockMode = 'compliance' }: PutOptions): Lock | undefined {
  if (lockUntil === undefined) return undefined;
  return {
    mode: lockMode === 'compliance' ? 'COMPLIANCE' : 'GOVERNANCE',
    until: wholeSeconds(lockUntil),
  };
}

/** Returns what asks for a lock while an object is stored. */
function lockHeaders({ mode, until }: Lock): Readonly<Record<string, string>> {
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
async function checkLock(
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

/** An upload in parts that was begun, and neither completed nor given up. Its parts are paid for. */
interface UnfinishedUpload extends Upload {
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
interface Completion {
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
function md5(bytes: Buffer): string {
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
