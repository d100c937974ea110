import { originError } from '../errors/origin.ts';

/** Where a surface is served. */
export interface BaseUrl {
  /** Scheme, host and port. */
  readonly origin: string;
  /** Host and port as the URL writes them: the port is left out where it is the scheme's own. */
  readonly host: string;
  /** The path before `/api/…`, without a slash at its end. */
  readonly prefix: string;
}

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/**
 * Reads a base address. Plain http would show the token to everyone on the way, so it is taken for this
 * machine only, unless `insecure`.
 *
 * @throws base-url-invalid
 */
export function readBaseUrl(text: string, insecure = false): BaseUrl {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null)
    throw originError('base-url-invalid', { url: withoutSecrets(text), problem: 'no-url' });
  const fail = (problem: 'scheme' | 'extras' | 'insecure') =>
    originError('base-url-invalid', { url: `${url.protocol}//${url.host}`, problem });
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw fail('scheme');
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw fail('extras');
  }
  if (url.protocol === 'http:' && !insecure && !LOOPBACK.test(url.hostname)) throw fail('insecure');
  return { origin: url.origin, host: url.host, prefix: url.pathname.replace(/\/+$/, '') };
}

/** What cannot be read as a URL may still hold credentials before an `@`. */
function withoutSecrets(text: string): string {
  return text.slice(text.lastIndexOf('@') + 1).slice(0, 200);
}
