import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { errnoName, hasCode } from '../core/errors.ts';
import { readRegularFile } from '../core/files.ts';
import type { ParsedTarget, S3Credentials, S3Target } from '../core/s3-target.ts';
import { objectError } from './errors.ts';
import {
  type Abilities,
  checkObjectName,
  countedBytes,
  type GetOptions,
  isObjectName,
  type ObjectFact,
  type PutOptions,
  type Upload,
  type UploadingStore,
} from './object-store.ts';
import { S3Client, type S3Options, textOf, xmlText } from './s3-client.ts';
import {
  beginParts,
  completeParts,
  deleteObject,
  deleteVersions,
  giveUpUpload,
  hasVersions,
  listObjects,
  lockObject,
  readObject,
  sendParts,
  unfinishedUploads,
  versionsWithBytes,
  writeObject,
} from './s3-objects.ts';

/** How long objects of tries are locked: the server's clock may differ from ours. */
const TRIED_LOCK_MS = 60 * 60_000;

/**
 * Creates a bucket, unless it is ours already.
 *
 * @param lock makes a new bucket one whose objects can be locked; of an existing bucket, nothing is changed
 * @returns whether it was created
 * @throws store-bucket-taken; see `S3Client.request`
 */
export async function ensureBucket(
  target: S3Target,
  signal: AbortSignal,
  { lock = false, ...options }: S3Options & { readonly lock?: boolean } = {},
): Promise<boolean> {
  const client = new S3Client(target, options);
  try {
    const found = await client.request({ operation: 'HeadBucket', method: 'HEAD' }, signal);
    if (found.status === 200) return false;
    if (found.status !== 404) throw client.refused('HeadBucket', found);
    return await createBucket(client, lock, signal);
  } finally {
    client.close();
  }
}

async function createBucket(
  client: S3Client,
  lock: boolean,
  signal: AbortSignal,
): Promise<boolean> {
  const operation = 'CreateBucket';
  const { region, bucket } = client.target;
  const headers = lock ? { 'x-amz-bucket-object-lock-enabled': 'true' } : {};
  const body = Buffer.from(
    `<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><LocationConstraint>${xmlText(region)}</LocationConstraint></CreateBucketConfiguration>`,
  );
  // Amazon's first region has no name there, and other servers may have none at all.
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

/** Tries out what a bucket can do, with small objects below `probe/` that are deleted if that is allowed. */
async function tryOut(client: S3Client, signal: AbortSignal): Promise<Abilities> {
  const name = `probe/${randomBytes(16).toString('hex')}`;
  try {
    const first = await tryToPut(client, name, signal);
    const second = first.isTaken ? await tryToPut(client, name, signal) : first;
    return {
      refusesExisting: first.isTaken && !second.isTaken,
      keepsVersions: first.isVersion,
      locks: await tryToLock(client, signal),
    };
  } finally {
    await deleteTried(client, name, signal);
  }
}

async function tryToPut(
  client: S3Client,
  name: string,
  signal: AbortSignal,
): Promise<{ readonly isTaken: boolean; readonly isVersion: boolean }> {
  const operation = 'PutObject';
  // MD5 of nothing: wanted where a bucket locks everything.
  const headers = { 'if-none-match': '*', 'content-md5': '1B2M2Y8AsgTpgAmY7PhCfg==' };
  const reply = await client.request({ operation, method: 'PUT', name, headers }, signal);
  const version = reply.headers['x-amz-version-id'];
  const isVersion = typeof version === 'string' && version !== 'null';
  if (reply.status === 200) return { isTaken: true, isVersion };
  if (reply.status !== 412 && reply.status !== 501) throw client.refused(operation, reply);
  return { isTaken: false, isVersion: false };
}

/** A bucket that says that it can lock is tried; what others say does not matter. */
async function tryToLock(client: S3Client, signal: AbortSignal): Promise<boolean> {
  const query = { 'object-lock': '' };
  const request = { operation: 'GetObjectLockConfiguration', method: 'GET', query } as const;
  const { status, xml } = await client.request(request, signal);
  if (status !== 200 || xml === undefined) return false;
  if (textOf(xml, 'ObjectLockEnabled') !== 'Enabled') return false;
  const name = `probe/${randomBytes(16).toString('hex')}`;
  const lockUntil = client.clock.now() + TRIED_LOCK_MS;
  try {
    const options = { signal, lockUntil, lockMode: 'governance' } as const;
    await writeObject(client, name, 0, nothing(), options);
    return true;
  } catch (error) {
    if (hasCode(error, 'object-lock-dropped') || hasCode(error, 'store-access-denied'))
      return false;
    throw error;
  } finally {
    await deleteTried(client, name, signal);
  }
}

/** What may not be deleted stays: it is empty, and nobody looks there. */
async function deleteTried(client: S3Client, name: string, signal: AbortSignal): Promise<void> {
  try {
    await deleteVersions(client, name, signal, true);
  } catch (error) {
    const isExpected = ['object-locked', 'store-access-denied', 'store-refused'].some((code) =>
      hasCode(error, code),
    );
    if (!isExpected) throw error;
  }
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

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

/** Settings of the sections of a file of Amazon's tools; those indented below another are named `above.name`. */
type Profiles = ReadonlyMap<string, ReadonlyMap<string, string>>;

/**
 * Reads a file of credentials or of configuration: sections in brackets, `name = value`, comments that begin with # or ;.
 * Lines that are none of these are left out, as Amazon's tools do.
 */
function parseProfiles(text: string): Profiles {
  const profiles = new Map<string, Map<string, string>>();
  let settings: Map<string, string> | undefined;
  let above = '';
  for (const raw of text.split('\n')) {
    const line = raw.trim();
    if (line === '' || line.startsWith('#') || line.startsWith(';')) continue;
    if (line.startsWith('[')) {
      const name = line.slice(1, line.indexOf(']')).trim();
      settings = line.includes(']') ? (profiles.get(name) ?? new Map()) : undefined;
      if (settings !== undefined) profiles.set(name, settings);
      above = '';
      continue;
    }
    const equals = line.indexOf('=');
    if (equals < 0) continue;
    const name = line.slice(0, equals).trim().toLowerCase();
    const isBelow = /^[ \t]/.test(raw) && above !== '';
    if (!isBelow) above = name;
    settings?.set(isBelow ? `${above}.${name}` : name, line.slice(equals + 1).trim());
  }
  return profiles;
}

export interface S3Settings {
  /** The environment. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The user's home, where `.aws` is. */
  readonly home: string;
  /** Each overrides what environment and files say. */
  readonly endpoint?: string | undefined;
  readonly region?: string | undefined;
  readonly profile?: string | undefined;
  readonly bytesPerSecond?: number | undefined;
}

type Settings = ReadonlyMap<string, string>;

const MOST_FILE_BYTES = 1024 * 1024;
const REGION = /^[A-Za-z0-9-]{1,64}$/;
/** What is sent in a header. */
const PRINTABLE = /^[\x21-\x7e]{1,4096}$/;
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;
/** Other ways to get keys, which need programs or services. */
const OTHER_WAYS = ['credential_process', 'sso_session', 'sso_start_url', 'role_arn'];

/**
 * Returns how to reach a bucket, from the environment and from the files of Amazon's tools. The files are read again for
 * each request, so that keys can be replaced.
 *
 * @throws store-no-credentials, store-setting-invalid
 */
export async function resolveS3(
  { bucket, prefix }: Extract<ParsedTarget, { kind: 's3' }>,
  settings: S3Settings,
): Promise<S3Target> {
  const { env, bytesPerSecond } = settings;
  const profile = profileSettings(settings);
  const first = (...values: readonly (string | undefined)[]) =>
    values.find((value) => value !== undefined && value !== '');
  const endpoint = first(
    settings.endpoint,
    env.AWS_ENDPOINT_URL_S3,
    env.AWS_ENDPOINT_URL,
    profile.get('endpoint_url'),
  );
  const region =
    first(settings.region, env.AWS_REGION, env.AWS_DEFAULT_REGION, profile.get('region')) ??
    'us-east-1';
  if (!REGION.test(region)) {
    throw settingInvalid('the region', `"${region}" is no name of a region`);
  }
  if (endpoint !== undefined) checkEndpoint(endpoint);
  const style = profile.get('s3.addressing_style');
  const target: S3Target = {
    bucket,
    prefix,
    region,
    ...(endpoint === undefined ? {} : { endpoint }),
    credentials: async () => credentialsOf(settings),
    // Names with dots, or of old buckets, do not fit a certificate.
    pathStyle: style === 'virtual' ? false : endpoint !== undefined || !/^[a-z0-9-]+$/.test(bucket),
    ...(bytesPerSecond === undefined ? {} : { bytesPerSecond }),
  };
  await target.credentials();
  return target;
}

function checkEndpoint(endpoint: string): void {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  const source = 'the address of the S3 server';
  if (url === undefined || !['http:', 'https:'].includes(url.protocol)) {
    throw settingInvalid(source, 'it has to begin with https://');
  }
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw settingInvalid(source, 'it may consist of host, port and path only');
  }
  if (url.protocol === 'http:' && !LOOPBACK.test(url.hostname)) {
    throw settingInvalid(source, `http:// is for servers on this machine, not for ${url.host}`);
  }
}

function credentialsOf(settings: S3Settings): S3Credentials {
  const { env } = settings;
  const profile = profileName(settings);
  if (settings.profile === undefined && (env.AWS_ACCESS_KEY_ID ?? '') !== '') {
    return checked('the environment', {
      accessKeyId: env.AWS_ACCESS_KEY_ID,
      secretAccessKey: env.AWS_SECRET_ACCESS_KEY,
      sessionToken: env.AWS_SESSION_TOKEN,
    });
  }
  const found = profileSettings(settings);
  const source = `the profile "${profile}"`;
  if ((found.get('aws_access_key_id') ?? '') !== '') {
    return checked(source, {
      accessKeyId: found.get('aws_access_key_id'),
      secretAccessKey: found.get('aws_secret_access_key'),
      sessionToken: found.get('aws_session_token'),
    });
  }
  const other = OTHER_WAYS.find((name) => found.has(name));
  if (other !== undefined) {
    throw settingInvalid(source, `it uses ${other}, which mailkeep does not support`);
  }
  const files = filesOf(settings).map((file) => `${source} in ${file}`);
  throw objectError('store-no-credentials', { searched: ['AWS_ACCESS_KEY_ID', ...files] });
}

/** Names what is wrong, and never what it is. */
function checked(
  source: string,
  found: { readonly [Name in keyof S3Credentials]-?: string | undefined },
): S3Credentials {
  const { accessKeyId = '', secretAccessKey = '', sessionToken = '' } = found;
  if (secretAccessKey === '') throw settingInvalid(source, 'it has an access key without a secret');
  const all = [accessKeyId, secretAccessKey, ...(sessionToken === '' ? [] : [sessionToken])];
  if (!all.every((text) => PRINTABLE.test(text))) {
    throw settingInvalid(source, 'a key has blanks or control characters in it');
  }
  return {
    accessKeyId,
    secretAccessKey,
    ...(sessionToken === '' ? {} : { sessionToken }),
  };
}

function profileName({ env, profile }: S3Settings): string {
  return profile ?? (env.AWS_PROFILE || env.AWS_DEFAULT_PROFILE || 'default');
}

/** Credentials come first; sections of the configuration are named `profile NAME`. */
function profileSettings(settings: S3Settings): Settings {
  const name = profileName(settings);
  const [credentials = '', configuration = ''] = filesOf(settings);
  const configured = readProfiles(configuration);
  return new Map([
    ...(configured.get(`profile ${name}`) ??
      (name === 'default' ? configured.get(name) : []) ??
      []),
    ...(readProfiles(credentials).get(name) ?? []),
  ]);
}

function filesOf({ env, home }: S3Settings): readonly [credentials: string, configuration: string] {
  return [
    env.AWS_SHARED_CREDENTIALS_FILE || path.join(home, '.aws', 'credentials'),
    env.AWS_CONFIG_FILE || path.join(home, '.aws', 'config'),
  ];
}

function readProfiles(file: string): Profiles {
  try {
    return parseProfiles(readRegularFile(file, MOST_FILE_BYTES).toString('utf8'));
  } catch (error) {
    const errno = errnoName(error);
    if (errno === 'ENOENT' || errno === 'ENOTDIR') return new Map();
    throw objectError('store-unreadable', { file, errno }, error);
  }
}

function settingInvalid(source: string, problem: string): Error {
  return objectError('store-setting-invalid', { source, problem });
}
