import { targetError } from './error-tables.ts';

export interface S3Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

export interface S3Target {
  readonly bucket: string;
  /** Prepended to every name. Has no leading or trailing slash, and can be empty. */
  readonly prefix: string;
  /** Defaults to Amazon's endpoint for the region. */
  readonly endpoint?: string;
  readonly region: string;
  /** Called before every request, because credentials can change. */
  readonly credentials: () => Promise<S3Credentials>;
  /** True to put the bucket in the URL's path rather than in its host name. */
  readonly pathStyle: boolean;
  /** In each direction, across all connections. */
  readonly bytesPerSecond?: number;
}

export type ParsedTarget =
  | { readonly kind: 's3'; readonly bucket: string; readonly prefix: string }
  | { readonly kind: 'folder'; readonly path: string };

/** Bucket names are used in host names. Old ones in Amazon's first region may have uppercase letters or underscores. */
const BUCKET = /^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$/;
const PREFIX = /^[A-Za-z0-9._-]+(?:\/[A-Za-z0-9._-]+)*$/;
const MAX_PREFIX = 500;
const S3 = /^s3:\/\//i;
const SCHEME = /^[a-z][a-z0-9+.-]+:\/\//i;
/** `s3:/bucket`, `s3//bucket`, an ARN or another misspelt S3 address. */
const MISTYPED_S3 = /^(?:s3[an]?[:;]+[/\\]*|s3[an]?[/\\]{2,}|arn:aws[\w-]*:s3:+)/i;
const AMAZON = /^(?:https?:\/\/)?([\w.-]*)\.amazonaws\.com[/\\]/i;
/** A scheme has at least two letters, because a single letter is a Windows drive. */
const ADDRESS = /^(?:[a-z][a-z0-9+.-]+:|[^/\\:@]+@[^/\\:]+:|\\\\\S)/i;

/**
 * Returns why text looks like a mistyped or unsupported address rather than a path. A leading "./" makes it a path.
 */
function addressProblem(text: string): string | undefined {
  if (S3.test(text)) return undefined;
  // Strips quotes that were pasted along with the address.
  const input = text.replace(/^["'<\s]+/, '');
  const mistyped = S3.exec(input)?.[0] ?? MISTYPED_S3.exec(input)?.[0] ?? findHost(input);
  if (mistyped !== undefined) {
    const after = input.slice(mistyped.length).replaceAll('\\', '/');
    const name = /^[\w./-]+/.exec(after)?.[0] ?? '';
    const isWhole = /^["'>\s]*$/.test(after.slice(name.length));
    return `it looks like s3://${isWhole && name !== '' ? name : 'BUCKET/PREFIX'}`;
  }
  if (!ADDRESS.test(input)) return undefined;
  const file = /^file:(?:\/\/(?:localhost)?)?(?=\/)/i.exec(input)?.[0];
  return file === undefined
    ? 'only s3:// is known; a folder with a colon in its name is written with "./" before it'
    : `only s3:// is known; the folder is ${input.slice(file.length)}`;
}

function findHost(text: string): string | undefined {
  const [whole, host = ''] = AMAZON.exec(text) ?? [];
  const isS3 = host.split('.').some((label) => label === 's3' || label.startsWith('s3-'));
  return isS3 ? whole : undefined;
}

/** Like `addressProblem`, but also rejects buckets. */
export function pathProblem(text: string): string | undefined {
  return S3.test(text) ? 'a bucket cannot be used here' : addressProblem(text);
}

/** @throws store-target-invalid */
export function parseTarget(text: string): ParsedTarget {
  if (text === '' || text.includes('\0')) throw invalid(text, 'a path is missing');
  if (!S3.test(text)) {
    const problem = addressProblem(text);
    if (problem !== undefined) throw invalid(text, problem);
    return { kind: 'folder', path: text };
  }
  const name = text.slice('s3://'.length);
  if (name.includes('@')) throw invalid(text, 'credentials do not belong into the address');
  const slash = name.indexOf('/');
  const bucket = slash < 0 ? name : name.slice(0, slash);
  const prefix = slash < 0 ? '' : name.slice(slash + 1).replace(/\/$/, '');
  if (!BUCKET.test(bucket) || bucket.includes('..')) {
    throw invalid(text, `"${bucket}" is no name of a bucket`);
  }
  const levels = prefix.split('/');
  if (levels.includes('.') || levels.includes('..') || (prefix !== '' && !PREFIX.test(prefix))) {
    throw invalid(text, 'a prefix consists of letters, digits and "-_./"');
  }
  if (prefix.length > MAX_PREFIX) {
    throw invalid(text, `a prefix has at most ${MAX_PREFIX} characters`);
  }
  return { kind: 's3', bucket, prefix };
}

/** Masks the text before an @, which can be a password. */
function invalid(text: string, problem: string): Error {
  const at = text.lastIndexOf('@');
  const found = at < 0 ? text : `${SCHEME.exec(text)?.[0] ?? ''}***${text.slice(at)}`;
  return targetError('store-target-invalid', { found, problem });
}

export function targetLabel({ bucket, prefix }: Pick<S3Target, 'bucket' | 'prefix'>): string {
  return prefix === '' ? `s3://${bucket}` : `s3://${bucket}/${prefix}`;
}

export function objectKey({ prefix }: Pick<S3Target, 'prefix'>, name: string): string {
  return prefix === '' ? name : `${prefix}/${name}`;
}

/** Returns the URL of an object. An empty key returns the bucket's URL. */
export function objectUrl(target: S3Target, key: string): URL {
  const { bucket, region, endpoint, pathStyle } = target;
  const domain = region.startsWith('cn-') ? 'amazonaws.com.cn' : 'amazonaws.com';
  const url = new URL(endpoint ?? `https://s3.${region}.${domain}`);
  const base = url.pathname.replace(/\/$/, '');
  if (!pathStyle) url.hostname = `${bucket}.${url.hostname}`;
  const path = pathStyle ? `/${bucket}${key === '' ? '' : `/${key}`}` : `/${key}`;
  url.pathname = `${base}${path}`;
  return url;
}
