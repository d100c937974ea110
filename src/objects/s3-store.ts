import { objectError } from '../errors/objects.ts';
import { countedBytes } from './counted-bytes.ts';
import { checkObjectName, isObjectName } from './names.ts';
import { tryOut } from './s3-bucket.ts';
import { S3Client, type S3Options } from './s3-client.ts';
import { listObjects } from './s3-listing.ts';
import { lockObject } from './s3-locks.ts';
import { beginParts, completeParts, sendParts } from './s3-parts.ts';
import { readObject } from './s3-reading.ts';
import type { S3Target } from './s3-target.ts';
import { giveUpUpload, unfinishedUploads } from './s3-uploads.ts';
import { deleteObject, deleteVersions, hasVersions, versionsWithBytes } from './s3-versions.ts';
import { writeObject } from './s3-writing.ts';
import type {
  Abilities,
  GetOptions,
  ObjectFact,
  PutOptions,
  Upload,
  UploadingStore,
} from './store.ts';

/** Returns a store in a bucket of S3, or of a server that speaks its protocol. */
export function s3Store(target: S3Target, options: S3Options = {}): UploadingStore {
  return new S3Store(new S3Client(target, options), options.abandonedMs ?? ABANDONED_MS);
}

const ABANDONED_MS = 3 * 24 * 60 * 60_000;

class S3Store implements UploadingStore {
  #abilities: Promise<Abilities> | undefined;
  #hasVersions: boolean | undefined;

  #isSwept = false;

  constructor(
    private readonly client: S3Client,
    private readonly abandonedMs: number,
  ) {}

  get label(): string {
    return this.client.label;
  }

  async put(
    name: string,
    length: number,
    bytes: AsyncIterable<Uint8Array>,
    options: PutOptions,
  ): Promise<void> {
    checkObjectName(name, isObjectName);
    if (options.lockUntil !== undefined) await this.#refuseUnlocked(options.signal);
    if (length > this.client.partBytes) await this.#sweep(name, options.signal);
    await writeObject(this.client, name, length, bytes, options);
  }

  async lock(name: string, until: number, signal: AbortSignal): Promise<void> {
    checkObjectName(name, isObjectName);
    await this.#refuseUnlocked(signal);
    await lockObject(this.client, name, until, signal);
  }

  async *get(name: string, { signal, version }: GetOptions): AsyncGenerator<Buffer> {
    checkObjectName(name, isObjectName);
    yield* readObject(this.client, { name, version }, signal);
  }

  async versions(name: string, signal: AbortSignal): Promise<readonly string[]> {
    checkObjectName(name, isObjectName);
    this.#hasVersions ??= await hasVersions(this.client, signal);
    return this.#hasVersions ? await versionsWithBytes(this.client, name, signal) : [];
  }

  async head(name: string, signal: AbortSignal): Promise<ObjectFact | undefined> {
    checkObjectName(name, isObjectName);
    const operation = 'HeadObject';
    const reply = await this.client.request({ operation, method: 'HEAD', name }, signal);
    if (reply.status === 404) return undefined;
    if (reply.status !== 200) throw this.client.refused(operation, reply);
    const { 'content-length': length = '', 'last-modified': time = '' } = reply.headers;
    const modified = Date.parse(time);
    if (/^\d{1,15}$/.test(length) && !Number.isNaN(modified)) {
      return { name, length: Number(length), modified };
    }
    const problem = 'an object without length or time';
    throw objectError('store-answer-invalid', { store: this.label, operation, problem });
  }

  list(prefix: string, signal: AbortSignal): AsyncIterable<ObjectFact> {
    return listObjects(this.client, prefix, signal);
  }

  async delete(name: string, signal: AbortSignal): Promise<void> {
    checkObjectName(name, isObjectName);
    this.#hasVersions ??= await hasVersions(this.client, signal);
    if (this.#hasVersions) await deleteVersions(this.client, name, signal);
    else await deleteObject(this.client, name, signal);
  }

  async abilities(signal: AbortSignal): Promise<Abilities> {
    signal.throwIfAborted();
    this.#abilities ??= tryOut(this.client, signal);
    try {
      return await this.#abilities;
    } catch (error) {
      this.#abilities = undefined;
      throw error;
    }
  }

  async beginUpload(
    name: string,
    metadata: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<Upload> {
    checkObjectName(name, isObjectName);
    const kept = Object.entries(metadata).map(([key, value]) => [`x-amz-meta-${key}`, value]);
    const headers = { 'content-type': 'application/octet-stream', ...Object.fromEntries(kept) };
    return await beginParts(this.client, name, headers, signal);
  }

  async sendParts(
    upload: Upload,
    length: number,
    bytes: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<readonly string[]> {
    const { client } = this;
    const counted = countedBytes({ store: client.label, name: upload.name }, length, bytes, signal);
    return await sendParts(client, upload, length, counted, signal);
  }

  async completeUpload(
    upload: Upload,
    parts: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    await completeParts(this.client, upload, parts, signal);
  }

  async giveUpUpload(upload: Upload, signal: AbortSignal): Promise<void> {
    checkObjectName(upload.name, isObjectName);
    await giveUpUpload(this.client, upload, signal);
  }

  async #refuseUnlocked(signal: AbortSignal): Promise<void> {
    if ((await this.abilities(signal)).locks) return;
    throw objectError('store-unable', { store: this.label, ability: 'lock' });
  }

  /**
   * Gives up what processes left that ended while they sent parts; once. Without a prefix, the bucket may be one of others
   * as well: only names like the one that is written are ours, in the same folder and of the same length.
   */
  async #sweep(like: string, signal: AbortSignal): Promise<void> {
    if (this.#isSwept) return;
    this.#isSwept = true;
    const folder = like.slice(0, like.lastIndexOf('/') + 1);
    for (const upload of await unfinishedUploads(this.client, folder, signal)) {
      const isOurs = upload.name.length === like.length;
      if (isOurs && upload.age >= this.abandonedMs) await giveUpUpload(this.client, upload, signal);
    }
  }

  async close(): Promise<void> {
    this.client.close();
  }
}
