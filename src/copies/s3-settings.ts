import path from 'node:path';
import { errnoName } from '../core/errors.ts';
import { readRegularFile } from '../core/files.ts';
import type { ParsedTarget, S3Credentials, S3Target } from '../core/s3-target.ts';
import { objectError } from './errors.ts';

/** Settings from a file used by Amazon's tools, by section. Nested settings have names such as `above.name`. */
type Profiles = ReadonlyMap<string, ReadonlyMap<string, string>>;

/** Parses `[section]` and `name = value` lines. Ignores others, such as comments, which start with # or ;. */
function parseProfiles(text: string): Profiles {
  const profiles = new Map<string, Map<string, string>>();
  let settings: Map<string, string> | undefined;
  let section = '';
  for (const raw of text.split('\n')) {
    const line = raw.trim();
    if (line === '' || line.startsWith('#') || line.startsWith(';')) continue;
    if (line.startsWith('[')) {
      const name = line.slice(1, line.indexOf(']')).trim();
      settings = line.includes(']') ? (profiles.get(name) ?? new Map()) : undefined;
      if (settings !== undefined) profiles.set(name, settings);
      section = '';
      continue;
    }
    const equals = line.indexOf('=');
    if (equals < 0) continue;
    const name = line.slice(0, equals).trim().toLowerCase();
    const isBelow = /^[ \t]/.test(raw) && section !== '';
    if (!isBelow) section = name;
    settings?.set(isBelow ? `${section}.${name}` : name, line.slice(equals + 1).trim());
  }
  return profiles;
}

export interface S3Settings {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Directory that contains `.aws`. */
  readonly home: string;
  /** Like the fields below, takes precedence over the environment and the files. */
  readonly endpoint?: string | undefined;
  readonly region?: string | undefined;
  readonly profile?: string | undefined;
  readonly bytesPerSecond?: number | undefined;
}

const MAX_FILE_BYTES = 1024 * 1024;
const REGION = /^[A-Za-z0-9-]{1,64}$/;
/** Characters that a header can contain. */
const PRINTABLE = /^[\x21-\x7e]{1,4096}$/;
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;
/** Settings for obtaining keys from other programs or services. */
const OTHER_WAYS = ['credential_process', 'sso_session', 'sso_start_url', 'role_arn'];

/**
 * Finds a bucket's settings in the environment and in files used by Amazon's tools. Reads the files again for each
 * request, so that keys can be replaced.
 * @throws store-no-credentials, store-setting-invalid
 */
export async function resolveS3(
  { bucket, prefix }: Extract<ParsedTarget, { kind: 's3' }>,
  settings: S3Settings,
): Promise<S3Target> {
  const { env, bytesPerSecond } = settings;
  const profile = profileSettings(settings);
  const endpoint =
    settings.endpoint ||
    env.AWS_ENDPOINT_URL_S3 ||
    env.AWS_ENDPOINT_URL ||
    profile.get('endpoint_url') ||
    undefined;
  const region =
    settings.region ||
    env.AWS_REGION ||
    env.AWS_DEFAULT_REGION ||
    profile.get('region') ||
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
    // No certificate matches a host name that contains dots or upper-case letters from the bucket's name.
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
    return check('the environment', (name) => env[`AWS_${name}`]);
  }
  const found = profileSettings(settings);
  const source = `the profile "${profile}"`;
  if ((found.get('aws_access_key_id') ?? '') !== '') {
    return check(source, (name) => found.get(`aws_${name.toLowerCase()}`));
  }
  const method = OTHER_WAYS.find((name) => found.has(name));
  if (method !== undefined) {
    throw settingInvalid(source, `it uses ${method}, which mailkeep does not support`);
  }
  const files = filesOf(settings).map((file) => `${source} in ${file}`);
  throw objectError('store-no-credentials', { searched: ['AWS_ACCESS_KEY_ID', ...files] });
}

/** Keeps values out of errors. */
function check(source: string, read: (name: string) => string | undefined): S3Credentials {
  const [accessKeyId = '', secretAccessKey = '', sessionToken = ''] = [
    read('ACCESS_KEY_ID'),
    read('SECRET_ACCESS_KEY'),
    read('SESSION_TOKEN'),
  ];
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

/** The credentials file takes precedence. Sections of the configuration file have names such as `profile NAME`. */
function profileSettings(settings: S3Settings): ReadonlyMap<string, string> {
  const name = profileName(settings);
  const [credentials = '', configuration = ''] = filesOf(settings);
  const profiles = readProfiles(configuration);
  return new Map([
    ...(profiles.get(`profile ${name}`) ?? (name === 'default' ? profiles.get(name) : []) ?? []),
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
    return parseProfiles(readRegularFile(file, MAX_FILE_BYTES).toString('utf8'));
  } catch (error) {
    const errno = errnoName(error);
    if (errno === 'ENOENT' || errno === 'ENOTDIR') return new Map();
    throw objectError('store-unreadable', { file, errno }, error);
  }
}

function settingInvalid(source: string, problem: string): Error {
  return objectError('store-setting-invalid', { source, problem });
}
