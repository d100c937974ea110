import { createHash, randomBytes } from 'node:crypto';
import { hasCode, MailkeepError } from '../core/errors.ts';
import { objectKey, type S3Target } from '../core/s3-target.ts';
import { split } from '../core/streams.ts';
import { objectError } from './errors.ts';
import {
  checkObjectName,
  type GetOptions,
  isObjectName,
  isPlainName,
  type ObjectFact,
  type ObjectStore,
  type PutOptions,
  requireLength,
  type StoreCapabilities,
  type Upload,
  type UploadingStore,
} from './object-store.ts';
import {
  type Answer,
  childrenOf,
  isTransient,
  retryAfterMs,
  S3Client,
  type S3Options,
  type S3Reply,
  textOf,
  type XmlElement,
  xmlText,
} from './s3-client.ts';

/** Lock time of test objects. Must exceed the difference between the server's clock and ours. */
const TRIED_LOCK_MS = 60 * 60_000;
/** Limit set by the S3 protocol. */
const MAX_PARTS = 10_000;
/** In a row. */
const MAX_EMPTY_PAGES = 100;
const MAX_PAGES = 1000;
/** Objects are written once, so additional versions come from another writer. */
const MAX_VERSIONS = 32;
const MIB = 1024 * 1024;
/** Metadata that identifies the `writeObject` call that stored an object, in case its response is lost. */
const MARK = 'x-amz-meta-mailkeep-put';
/** Time limit for aborting a failed upload. After that, aborting is left to a later cleanup. */
const GIVING_UP_MS = 15_000;
const LISTING = 'ListObjectsV2';
const READING = 'GetObject';
const XMLNS = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"';

/** Reads keys in a listing. Returns an undecodable key unchanged; it is not a valid name. */
function keyReader(listing: XmlElement) {
  const isEncoded = textOf(listing, 'EncodingType') === 'url';
  return (element: XmlElement, field: string): string => {
    const key = textOf(element, field);
    try {
      return isEncoded ? decodeURIComponent(key.replaceAll('+', ' ')) : key;
    } catch {
      return key;
    }
  };
}

/** Range and total length of a partial response. */
const CONTENT_RANGE = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15})$/;

interface ObjectState {
  readonly length: number;
  readonly etag: string;
}

function rangeHeaders(position: number, { etag }: ObjectState): Readonly<Record<string, string>> {
  if (position === 0) return etag === '' ? {} : { 'if-match': etag };
  return { range: `bytes=${position}-`, 'if-match': etag };
}

interface Lock {
  readonly mode: 'COMPLIANCE' | 'GOVERNANCE';
  /** Milliseconds since 1970, in whole seconds as on the server. */
  readonly until: number;
}

function lockOf(until: number, mode: Lock['mode']): Lock {
  return { mode, until: Math.ceil(until / 1000) * 1000 };
}

function lockText({ mode, until }: Lock): string {
  return `${mode.toLowerCase()} until ${new Date(until).toISOString()}`;
}

function lockExpiry(headers: S3Reply['headers']): Date | undefined {
  const until = new Date(String(headers['x-amz-object-lock-retain-until-date']));
  return Number.isNaN(until.getTime()) ? undefined : until;
}

/** Returns a Content-MD5 value. */
function md5(bytes: Buffer): string {
  return createHash('md5').update(bytes).digest('base64');
}

interface Write {
  readonly name: string;
  readonly length: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/** Returns undefined if the server does not report a version. */
function versionOf({ headers }: S3Reply): string | undefined {
  const version = headers['x-amz-version-id'];
  return typeof version === 'string' && version !== '' ? version : undefined;
}

async function* noBytes(): AsyncGenerator<Uint8Array> {}

export function s3Store(target: S3Target, options: S3Options = {}): UploadingStore {
  return new S3Store(target, options);
}

export class S3Store extends S3Client implements ObjectStore {
  #abilities: Promise<StoreCapabilities> | undefined;
  #keepsVersions: boolean | undefined;
  #isSwept = false;

  async put(
    name: string,
    length: number,
    bytes: AsyncIterable<Uint8Array>,
    options: PutOptions,
  ): Promise<void> {
    checkObjectName(name, isObjectName);
    if (options.lockUntil !== undefined) await this.#refuseUnlocked(options.signal);
    if (length > this.partBytes) await this.#sweep(name, options.signal);
    await this.writeObject(name, length, bytes, options);
  }

  async versions(name: string, signal: AbortSignal): Promise<readonly string[]> {
    checkObjectName(name, isObjectName);
    return (await this.#hasVersions(signal)) ? await this.#versionsWithBytes(name, signal) : [];
  }

  async head(name: string, signal: AbortSignal): Promise<ObjectFact | undefined> {
    checkObjectName(name, isObjectName);
    const operation = 'HeadObject';
    const reply = await this.request({ operation, method: 'HEAD', name }, signal);
    if (reply.status === 404) return undefined;
    if (reply.status !== 200) throw this.refused(operation, reply);
    const { 'content-length': length = '', 'last-modified': time = '' } = reply.headers;
    return this.#factOf(operation, name, length, time);
  }

  async delete(name: string, signal: AbortSignal): Promise<void> {
    checkObjectName(name, isObjectName);
    if (await this.#hasVersions(signal)) await this.#deleteVersions(name, signal);
    else await this.deleteVersion(name, undefined, signal);
  }

  async abilities(signal: AbortSignal): Promise<StoreCapabilities> {
    signal.throwIfAborted();
    this.#abilities ??= this.#tryOut(signal);
    try {
      return await this.#abilities;
    } catch (error) {
      this.#abilities = undefined;
      throw error;
    }
  }

  /** @param metadata stored with the object; names consist of lower-case letters and hyphens */
  async beginUpload(
    name: string,
    metadata: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<Upload> {
    checkObjectName(name, isObjectName);
    const entries = Object.entries(metadata).map(([key, value]) => [`x-amz-meta-${key}`, value]);
    const headers = { 'content-type': 'application/octet-stream', ...Object.fromEntries(entries) };
    return await this.#beginParts(name, headers, signal);
  }

  /**
   * Requests assembly of the object. Also resolves if a response was lost and the server has forgotten the upload, so
   * it does not prove that the object exists.
   */
  async completeUpload(upload: Upload, parts: readonly string[], signal: AbortSignal) {
    await this.#completeParts(upload, parts, signal);
  }

  async #refuseUnlocked(signal: AbortSignal): Promise<void> {
    if ((await this.abilities(signal)).locks) return;
    throw objectError('store-unable', { store: this.label, ability: 'lock' });
  }

  /**
   * Aborts uploads left behind by interrupted processes, once. Without a prefix, others may share the bucket, so only
   * names with the directory and length of `like` are treated as ours.
   */
  async #sweep(like: string, signal: AbortSignal): Promise<void> {
    if (this.#isSwept) return;
    this.#isSwept = true;
    const folder = like.slice(0, like.lastIndexOf('/') + 1);
    for (const upload of await this.unfinishedUploads(folder, signal)) {
      const isOurs = upload.name.length === like.length;
      if (isOurs && upload.age >= this.abandonedMs) await this.giveUpUpload(upload, signal);
    }
  }

  /** @throws store-answer-invalid if the listing is unsorted, endless or outside the prefix */
  async *list(prefix: string, signal: AbortSignal): AsyncGenerator<ObjectFact> {
    const base = objectKey(this.target, '');
    const root = `${base}${prefix}`;
    let token: string | undefined;
    let last: Buffer | undefined;
    let emptyPages = 0;
    do {
      const page = await this.#listPage(root, token, signal);
      const objects = childrenOf(page, 'Contents');
      const keyIn = keyReader(page);
      for (const object of objects) {
        const key = keyIn(object, 'Key');
        // Servers sort by bytes, JavaScript by UTF-16 code units.
        const bytes = Buffer.from(key);
        if (last !== undefined && Buffer.compare(last, bytes) >= 0) {
          throw this.invalid(LISTING, 'keys out of order');
        }
        last = bytes;
        if (!key.startsWith(root)) throw this.invalid(LISTING, 'keys that were not asked for');
        const name = key.slice(base.length);
        if (isPlainName(name))
          yield this.#factOf(LISTING, name, textOf(object, 'Size'), textOf(object, 'LastModified'));
      }
      emptyPages = objects.length === 0 ? emptyPages + 1 : 0;
      token = this.#nextToken(page);
      if (emptyPages > MAX_EMPTY_PAGES) throw this.invalid(LISTING, 'a listing without an end');
    } while (token !== undefined);
  }

  async #listPage(
    prefix: string,
    token: string | undefined,
    signal: AbortSignal,
  ): Promise<XmlElement> {
    const query = {
      'list-type': '2',
      // Other programs' keys can contain characters that XML cannot represent.
      'encoding-type': 'url',
      ...(prefix === '' ? {} : { prefix }),
      ...(token === undefined ? {} : { 'continuation-token': token }),
    };
    const reply = await this.ok({ operation: LISTING, method: 'GET', query }, signal);
    if (reply.xml?.name !== 'ListBucketResult') throw this.invalid(LISTING, 'no listing');
    return reply.xml;
  }

  #nextToken(page: XmlElement): string | undefined {
    if (textOf(page, 'IsTruncated') !== 'true') return undefined;
    const token = textOf(page, 'NextContinuationToken');
    if (token === '' || token.length > 8192)
      throw this.invalid(LISTING, 'a page without a next one');
    return token;
  }

  #factOf(operation: string, name: string, length: string, time: string): ObjectFact {
    const modified = Date.parse(time);
    if (!/^\d{1,15}$/.test(length) || Number.isNaN(modified)) {
      throw this.invalid(operation, 'an object without length or time');
    }
    return { name, length: Number(length), modified };
  }

  /** Returns whether the bucket keeps or once kept versions; true if the server does not report it. */
  async #hasVersions(signal: AbortSignal): Promise<boolean> {
    if (this.#keepsVersions !== undefined) return this.#keepsVersions;
    const operation = 'GetBucketVersioning';
    const query = { versioning: '' };
    const reply = await this.request({ operation, method: 'GET', query }, signal);
    if (reply.code === 'NoSuchBucket') throw this.refused(operation, reply);
    const { status, xml } = reply;
    const isReported = status === 200 && xml?.name === 'VersioningConfiguration';
    this.#keepsVersions = !isReported || textOf(xml, 'Status') !== '';
    return this.#keepsVersions;
  }

  /** @param bypass also deletes versions with a governance lock, if the credentials allow it */
  async #deleteVersions(name: string, signal: AbortSignal, bypass = false): Promise<void> {
    // Listed in full first, because each page continues from a version that must still exist.
    const versions: string[] = [];
    for await (const { version } of this.#versionsOf(name, signal)) versions.push(version);
    for (const version of versions) await this.deleteVersion(name, version, signal, bypass);
  }

  /** Returns an object's versions, newest first, without delete markers. Empty if versions cannot be listed. */
  async #versionsWithBytes(name: string, signal: AbortSignal): Promise<readonly string[]> {
    const versions: string[] = [];
    try {
      for await (const { version, isMark } of this.#versionsOf(name, signal)) {
        if (!isMark) versions.push(version);
        if (versions.length === MAX_VERSIONS) break;
      }
    } catch (error) {
      if (!hasCode(error, 'store-access-denied') && !hasCode(error, 'store-refused')) throw error;
    }
    return versions;
  }

  async *#versionsOf(
    name: string,
    signal: AbortSignal,
  ): AsyncGenerator<{ readonly version: string; readonly isMark: boolean }> {
    const operation = 'ListObjectVersions';
    const key = objectKey(this.target, name);
    let marker: Readonly<Record<string, string>> = {};
    for (let page = 0; page < MAX_PAGES; page += 1) {
      const query = { versions: '', 'encoding-type': 'url', prefix: key, ...marker };
      const reply = await this.ok({ operation, method: 'GET', query }, signal);
      const { xml } = reply;
      if (xml?.name !== 'ListVersionsResult') throw this.invalid(operation, 'no listing');
      const keyIn = keyReader(xml);
      for (const element of xml.children) {
        if (element.name !== 'Version' && element.name !== 'DeleteMarker') continue;
        const version = textOf(element, 'VersionId');
        if (keyIn(element, 'Key') !== key || version === '') continue;
        yield { version, isMark: element.name === 'DeleteMarker' };
      }
      if (textOf(xml, 'IsTruncated') !== 'true') return;
      const nextKey = keyIn(xml, 'NextKeyMarker');
      // All other keys are longer names with this prefix.
      if (nextKey > key) return;
      const next = {
        'key-marker': nextKey,
        'version-id-marker': textOf(xml, 'NextVersionIdMarker'),
      };
      if (JSON.stringify(next) === JSON.stringify(marker)) break;
      marker = next;
    }
    throw this.invalid(operation, 'a listing without an end');
  }

  async deleteVersion(
    name: string,
    version: string | undefined,
    signal: AbortSignal,
    bypass = false,
  ): Promise<void> {
    const operation = 'DeleteObject';
    const query = version === undefined ? {} : { versionId: version };
    const headers = bypass ? { 'x-amz-bypass-governance-retention': 'true' } : {};
    const request = { operation, method: 'DELETE', name, query, headers } as const;
    const reply = await this.request(request, signal);
    if (reply.status < 300 || reply.code === 'NoSuchKey' || reply.code === 'NoSuchVersion') return;
    if (reply.status === 404 && reply.code !== 'NoSuchBucket') return;
    if (version !== undefined && reply.status === 403) {
      const head = { operation: 'HeadObject', method: 'HEAD', name, query } as const;
      const { status, headers: found } = await this.request(head, signal);
      // A legal hold has no expiry.
      const isHeld = found['x-amz-object-lock-legal-hold'] === 'ON';
      const lockedUntil = isHeld ? null : lockExpiry(found)?.toISOString();
      if (status === 200 && lockedUntil !== undefined) {
        throw objectError('object-locked', { store: this.label, name, until: lockedUntil });
      }
    }
    throw this.refused(operation, reply);
  }

  async *get(name: string, { signal, version }: GetOptions): AsyncGenerator<Buffer> {
    checkObjectName(name, isObjectName);
    const query = version === undefined ? {} : { versionId: version };
    const patience = this.patience(signal);
    let whole: ObjectState | undefined;
    let position = 0;
    for (;;) {
      let askedMs = 0;
      let answer: Answer | undefined;
      try {
        const headers = whole === undefined ? {} : rangeHeaders(position, whole);
        const request = { operation: READING, method: 'GET', name, query, headers } as const;
        answer = await this.open(request, signal);
        if (answer.status !== 200 && answer.status !== 206) {
          askedMs = retryAfterMs(answer.headers, this.clock.now());
          throw await this.#refusal(name, answer);
        }
        const found = this.#wholeOf(answer, position);
        whole ??= found;
        if (found.length !== whole.length) {
          throw objectError('object-changed', { store: this.label, name });
        }
        for await (const chunk of answer.chunks()) {
          position += chunk.length;
          if (position > whole.length) throw this.invalid(READING, 'more bytes than announced');
          patience.progressed();
          yield chunk;
        }
        if (position < whole.length) throw this.invalid(READING, 'fewer bytes than announced');
        return;
      } catch (error) {
        answer?.discard();
        // Without an ETag, the next bytes could be from another object.
        if (position > 0 && whole?.etag === '' && error instanceof MailkeepError) throw error;
        await patience.afterFailure(error, askedMs);
      } finally {
        // The reader may have stopped early.
        answer?.discard();
      }
    }
  }

  async #refusal(name: string, answer: Answer): Promise<Error> {
    const reply = await this.read(READING, answer);
    const facts = { store: this.label, name };
    if (isTransient(reply) || reply.code === 'NoSuchBucket') return this.refused(READING, reply);
    if (reply.status === 404) return objectError('object-missing', facts);
    // The object is now shorter than the resume position, or has another ETag.
    if (reply.status === 412 || reply.status === 416) return objectError('object-changed', facts);
    return this.refused(READING, reply);
  }

  #wholeOf({ status, headers }: Answer, position: number): ObjectState {
    const etag = headers.etag ?? '';
    if (status === 200) {
      // The server ignored the range and would repeat bytes.
      if (position > 0) throw this.invalid(READING, 'no part of the object, as was asked for');
      const length = headers['content-length'] ?? '';
      if (!/^\d{1,15}$/.test(length)) throw this.invalid(READING, 'no length');
      return { length: Number(length), etag };
    }
    const [, from, to, length] = CONTENT_RANGE.exec(headers['content-range'] ?? '') ?? [];
    if (Number(from) !== position || Number(to) !== Number(length) - 1) {
      throw this.invalid(READING, 'another part of the object than was asked for');
    }
    return { length: Number(length), etag };
  }

  /**
   * Reads an object's lock back, because some servers return 200 for unsupported requests.
   * @param setsLock locks the object now if needed, as for multipart objects in RadosGW. Only for buckets known to
   * support locks: other servers would store the request as the object's bytes.
   * @throws object-lock-dropped
   */
  async #checkLock(
    name: string,
    version: string | undefined,
    lock: Lock,
    setsLock: boolean,
    signal: AbortSignal,
  ): Promise<void> {
    const isKept = (one: Lock | undefined) => one?.mode === lock.mode && one.until >= lock.until;
    let found = await this.#keptLock(name, version, signal);
    if (setsLock && version !== undefined && !isKept(found)) {
      await this.#setLock(name, version, lock, signal);
      found = await this.#keptLock(name, version, signal);
    }
    if (isKept(found)) return;
    throw objectError('object-lock-dropped', {
      store: this.label,
      name,
      wanted: lockText(lock),
      found: found === undefined ? null : lockText(found),
    });
  }

  async lock(name: string, until: number, signal: AbortSignal): Promise<void> {
    checkObjectName(name, isObjectName);
    await this.#refuseUnlocked(signal);
    const lock = lockOf(until, 'COMPLIANCE');
    const versions = await this.#versionsWithBytes(name, signal);
    if (versions.length === 0) throw objectError('object-missing', { store: this.label, name });
    for (const version of versions) {
      await this.#checkLock(name, version, lock, true, signal);
    }
  }

  async #keptLock(
    name: string,
    version: string | undefined,
    signal: AbortSignal,
  ): Promise<Lock | undefined> {
    const operation = 'HeadObject';
    const query = version === undefined ? {} : { versionId: version };
    const reply = await this.ok({ operation, method: 'HEAD', name, query }, signal);
    const mode = reply.headers['x-amz-object-lock-mode'];
    const until = lockExpiry(reply.headers);
    if (until === undefined || (mode !== 'COMPLIANCE' && mode !== 'GOVERNANCE')) return undefined;
    return { mode, until: until.getTime() };
  }

  async #setLock(
    name: string,
    version: string,
    { mode, until }: Lock,
    signal: AbortSignal,
  ): Promise<void> {
    const operation = 'PutObjectRetention';
    const time = new Date(until).toISOString();
    const body = Buffer.from(
      `<Retention ${XMLNS}><Mode>${mode}</Mode><RetainUntilDate>${time}</RetainUntilDate></Retention>`,
    );
    const query = { retention: '', versionId: version };
    const headers = { 'content-md5': md5(body) };
    await this.ok({ operation, method: 'PUT', name, query, headers, body }, signal);
  }

  /**
   * Returns up to 1,000 unfinished uploads, with their ages in milliseconds by the server's clock. Empty if listing
   * uploads is forbidden or unsupported.
   */
  async unfinishedUploads(prefix: string, signal: AbortSignal) {
    const base = objectKey(this.target, '');
    const query = {
      uploads: '',
      'encoding-type': 'url',
      ...(base === '' && prefix === '' ? {} : { prefix: `${base}${prefix}` }),
    };
    const request = { operation: 'ListMultipartUploads', method: 'GET', query } as const;
    const { status, headers, xml } = await this.request(request, signal);
    if (status !== 200 || xml?.name !== 'ListMultipartUploadsResult') return [];
    const keyIn = keyReader(xml);
    const now = Date.parse(headers.date ?? '');
    return childrenOf(xml, 'Upload').flatMap((upload) => {
      const key = keyIn(upload, 'Key');
      const name = key.slice(base.length);
      const uploadId = textOf(upload, 'UploadId');
      // The header is in whole seconds.
      const age = Math.max(0, now - Date.parse(textOf(upload, 'Initiated')));
      const isOurs = key.startsWith(base) && name.startsWith(prefix) && isObjectName(name);
      return isOurs && uploadId !== '' && !Number.isNaN(age) ? [{ name, uploadId, age }] : [];
    });
  }

  /** Aborts an upload that the server still has. Drops its parts. */
  async giveUpUpload({ name, uploadId }: Upload, signal: AbortSignal): Promise<void> {
    checkObjectName(name, isObjectName);
    const operation = 'AbortMultipartUpload';
    const request = { operation, method: 'DELETE', name, query: { uploadId } } as const;
    const reply = await this.request(request, signal);
    if (reply.status >= 300 && reply.status !== 404) throw this.refused(operation, reply);
  }

  async #beginParts(
    name: string,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<Upload> {
    const operation = 'CreateMultipartUpload';
    const query = { uploads: '' };
    const reply = await this.ok({ operation, method: 'POST', name, query, headers }, signal);
    const uploadId = reply.xml === undefined ? '' : textOf(reply.xml, 'UploadId');
    if (reply.isUncertain) {
      // Nobody else uses this name, so an unacknowledged upload would remain forever, and its parts cost money.
      for (const upload of await this.unfinishedUploads(name, signal)) {
        if (upload.name !== name || upload.uploadId === uploadId) continue;
        await this.giveUpUpload(upload, signal);
      }
    }
    if (uploadId === '' || uploadId.length > 2048) {
      throw this.invalid(operation, 'no id of the upload');
    }
    return { name, uploadId };
  }

  /**
   * Sends all bytes of an upload. Returns the server's part IDs.
   * @param length at least 1; determines the size of the parts, because there can be at most 10,000
   * @throws object-length
   */
  async sendParts(
    upload: Upload,
    length: number,
    bytes: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<readonly string[]> {
    const partBytes = Math.max(this.partBytes, Math.ceil(length / MAX_PARTS / MIB) * MIB);
    const etags: string[] = [];
    const counted = requireLength({ store: this.label, name: upload.name }, length, bytes, signal);
    for await (const part of split(counted, Math.min(partBytes, length))) {
      etags.push(await this.#sendPart(upload, etags.length + 1, part.bytes, signal));
    }
    return etags;
  }

  async #sendPart(
    { name, uploadId }: Upload,
    partNumber: number,
    body: Buffer,
    signal: AbortSignal,
  ): Promise<string> {
    const operation = 'UploadPart';
    const query = { partNumber: String(partNumber), uploadId };
    const headers = { 'content-md5': md5(body) };
    const request = { operation, method: 'PUT', name, query, headers, body } as const;
    const reply = await this.ok(request, signal);
    const { etag = '' } = reply.headers;
    if (etag !== '' && etag.length <= 256) return etag;
    throw this.invalid(operation, 'no ETag');
  }

  /** If a response was lost, the server no longer has the upload, and the caller must look for the object. */
  async #completeParts({ name, uploadId }: Upload, etags: readonly string[], signal: AbortSignal) {
    const operation = 'CompleteMultipartUpload';
    const parts = etags.map(
      (etag, i) => `<Part><PartNumber>${i + 1}</PartNumber><ETag>${xmlText(etag)}</ETag></Part>`,
    );
    const body = Buffer.from(
      `<CompleteMultipartUpload ${XMLNS}>${parts.join('')}</CompleteMultipartUpload>`,
    );
    const request = { operation, method: 'POST', name, query: { uploadId }, body } as const;
    const reply = await this.request(request, signal);
    if (reply.status === 200 && reply.xml?.name === 'CompleteMultipartUploadResult') {
      return { reply, isAcknowledged: true };
    }
    const isUnknown = reply.status === 404 || reply.code === 'NoSuchUpload';
    if (!isUnknown || !reply.isUncertain) throw this.refused(operation, reply);
    return { reply, isAcknowledged: false };
  }

  /**
   * Stores an object and checks that its lock was applied. Does not check whether the bucket supports locks.
   * @throws object-length, object-lock-dropped; errors from `S3Client.request`
   */
  async writeObject(
    name: string,
    length: number,
    bytes: AsyncIterable<Uint8Array>,
    options: PutOptions,
  ): Promise<void> {
    const { signal, lockUntil, lockMode = 'compliance' } = options;
    signal.throwIfAborted();
    const mode = lockMode === 'compliance' ? 'COMPLIANCE' : 'GOVERNANCE';
    const lock = lockUntil === undefined ? undefined : lockOf(lockUntil, mode);
    const headers = {
      'content-type': 'application/octet-stream',
      [MARK]: randomBytes(16).toString('hex'),
      ...(lock && {
        'x-amz-object-lock-mode': lock.mode,
        'x-amz-object-lock-retain-until-date': new Date(lock.until).toISOString(),
      }),
    };
    const write: Write = { name, length, headers, signal };
    const single = length <= this.partBytes;
    const version = single
      ? await this.#writeAtOnce(write, bytes)
      : await this.#writeInParts(write, bytes);
    if (lock !== undefined) await this.#checkLock(name, version, lock, !single, signal);
  }

  async #writeAtOnce(write: Write, bytes: AsyncIterable<Uint8Array>): Promise<string | undefined> {
    const { name, length, signal } = write;
    const collected: Uint8Array[] = [];
    const counted = requireLength({ store: this.label, name }, length, bytes, signal);
    for await (const chunk of counted) collected.push(Uint8Array.from(chunk));
    const body = Buffer.concat(collected);
    const operation = 'PutObject';
    // Buckets that lock everything, and requests with locks, require Content-MD5.
    const headers = { ...write.headers, 'content-md5': md5(body) };
    const reply = await this.request({ operation, method: 'PUT', name, headers, body }, signal);
    if (reply.status === 200 && reply.code === '') return versionOf(reply);
    throw this.refused(operation, reply);
  }

  async #writeInParts(write: Write, bytes: AsyncIterable<Uint8Array>): Promise<string | undefined> {
    const { name, length, headers, signal } = write;
    const upload = await this.#beginParts(name, headers, signal);
    try {
      const etags = await this.sendParts(upload, length, bytes, signal);
      const { reply, isAcknowledged } = await this.#completeParts(upload, etags, signal);
      const result = isAcknowledged ? reply : await this.#ownObject(write);
      if (result === undefined) throw this.refused('CompleteMultipartUpload', reply);
      return versionOf(result);
    } catch (error) {
      // The caller's signal may already have aborted.
      await this.giveUpUpload(upload, AbortSignal.timeout(GIVING_UP_MS)).catch(() => {});
      throw error;
    }
  }

  /** Returns the server's response about the object, if this call stored it in full. */
  async #ownObject({ name, length, headers, signal }: Write): Promise<S3Reply | undefined> {
    const reply = await this.request({ operation: 'HeadObject', method: 'HEAD', name }, signal);
    const isOwn =
      reply.status === 200 &&
      reply.headers[MARK] === headers[MARK] &&
      reply.headers['content-length'] === String(length);
    return isOwn ? reply : undefined;
  }

  /** Tests a bucket with small objects under `probe/`, then deletes them if allowed. */
  async #tryOut(signal: AbortSignal): Promise<StoreCapabilities> {
    const name = `probe/${randomBytes(16).toString('hex')}`;
    try {
      // Buckets that lock everything require Content-MD5.
      const headers = { 'content-md5': md5(Buffer.alloc(0)) };
      const request = { operation: 'PutObject', method: 'PUT', name, headers } as const;
      const version = (await this.ok(request, signal)).headers['x-amz-version-id'];
      return {
        keepsVersions: typeof version === 'string' && version !== 'null',
        locks: await this.#tryToLock(signal),
      };
    } finally {
      await this.#deleteTest(name, signal);
    }
  }

  /** Tests locks if the bucket reports that they are enabled. */
  async #tryToLock(signal: AbortSignal): Promise<boolean> {
    const query = { 'object-lock': '' };
    const request = { operation: 'GetObjectLockConfiguration', method: 'GET', query } as const;
    const { status, xml } = await this.request(request, signal);
    if (status !== 200 || xml === undefined) return false;
    if (textOf(xml, 'ObjectLockEnabled') !== 'Enabled') return false;
    const name = `probe/${randomBytes(16).toString('hex')}`;
    const lockUntil = this.clock.now() + TRIED_LOCK_MS;
    try {
      const options = { signal, lockUntil, lockMode: 'governance' } as const;
      await this.writeObject(name, 0, noBytes(), options);
      return true;
    } catch (error) {
      if (hasCode(error, 'object-lock-dropped') || hasCode(error, 'store-access-denied'))
        return false;
      throw error;
    } finally {
      await this.#deleteTest(name, signal);
    }
  }

  /** Deletes a test object, if allowed. It is empty, so it does no harm if it remains. */
  async #deleteTest(name: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#deleteVersions(name, signal, true);
    } catch (error) {
      const isExpected = ['object-locked', 'store-access-denied', 'store-refused'].some((code) =>
        hasCode(error, code),
      );
      if (!isExpected) throw error;
    }
  }
}

/**
 * Creates a bucket, unless it exists and is ours. Returns whether it was created.
 * @param lock enables Object Lock, which cannot be changed in an existing bucket
 * @throws store-bucket-taken; errors from `S3Client.request`
 */
export async function ensureBucket(
  target: S3Target,
  signal: AbortSignal,
  { lock = false, ...options }: S3Options & { readonly lock?: boolean } = {},
): Promise<boolean> {
  const client = new S3Store(target, options);
  try {
    const found = await client.request({ operation: 'HeadBucket', method: 'HEAD' }, signal);
    if (found.status === 200) return false;
    if (found.status !== 404) throw client.refused('HeadBucket', found);
    return await createBucket(client, lock, signal);
  } finally {
    await client.close();
  }
}

async function createBucket(client: S3Store, lock: boolean, signal: AbortSignal): Promise<boolean> {
  const operation = 'CreateBucket';
  const { region, bucket } = client.target;
  const headers = lock ? { 'x-amz-bucket-object-lock-enabled': 'true' } : {};
  const body = Buffer.from(
    `<CreateBucketConfiguration ${XMLNS}><LocationConstraint>${xmlText(region)}</LocationConstraint></CreateBucketConfiguration>`,
  );
  // Amazon refuses the name of its first region, and other servers may have no regions.
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
