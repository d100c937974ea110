import { isLoopback, type ListenAddress } from '../../config/address.ts';

/** The addresses that a server answers to: what a page of another host's name (DNS rebinding) does not have. */
export interface OwnAddresses {
  /** What `Host` may be, in lower case, with the port unless it is the scheme's own. */
  readonly hosts: ReadonlySet<string>;
  /** The address behind a reverse proxy with TLS, without a path; null without one. */
  readonly publicOrigin: string | null;
}

/**
 * Returns the addresses of a server: the names of this machine for itself, and the public one.
 *
 * @param listen where the server listens, with the port it got
 */
export function ownAddresses(
  { host, port }: ListenAddress,
  publicUrl: string | null,
): OwnAddresses {
  const own = publicUrl === null ? null : new URL(publicUrl);
  const names = ['127.0.0.1', 'localhost', '[::1]'];
  if (isLoopback(host) && !host.includes(':')) names.push(host.toLowerCase());
  const hosts = new Set(names.map((name) => (port === 80 ? name : `${name}:${port}`)));
  if (own !== null) hosts.add(own.host);
  return { hosts, publicOrigin: own?.origin ?? null };
}

/** How a request reached the server. */
export interface Reached {
  readonly host: string;
  /** Of the pages that it serves there. */
  readonly origin: string;
  /** Whether a browser came by HTTPS, through the proxy. */
  readonly secure: boolean;
}

/** Returns how a request with this `Host` reached the server; null where the name is none of the server's. */
export function reachedBy(host: string | null, own: OwnAddresses): Reached | null {
  const name = host?.toLowerCase() ?? '';
  if (!own.hosts.has(name)) return null;
  const secure = own.publicOrigin !== null && new URL(own.publicOrigin).host === name;
  return { host: name, origin: secure ? (own.publicOrigin ?? '') : `http://${name}`, secure };
}

/** The header that requests of our own script carry; a form cannot set it. */
export const OWN_HEADER = 'x-mailkeep';

/**
 * Returns whether a request to `/api` comes from a page of this server: by what the browser says of it, which no page
 * can change. Whatever changes something carries our own header as well.
 */
export function isOwnApiRequest(request: Request, { origin }: Reached): boolean {
  const { headers, method } = request;
  if (headers.get('sec-fetch-site') !== 'same-origin') return false;
  const from = headers.get('origin');
  if (from !== null && from !== origin) return false;
  return method === 'GET' || method === 'HEAD' || headers.get(OWN_HEADER) === '1';
}

/** Who has a browser ask for a page: this server or the user, a link elsewhere, or what a page elsewhere loads. */
export type Asker = 'own' | 'link' | 'foreign';

/**
 * Returns who has a browser ask for a page. Another port of this machine is elsewhere: it is the same site, whose
 * requests carry our cookies. Old browsers, and programs, do not say.
 */
export function askerOf({ headers }: Request): Asker {
  const site = headers.get('sec-fetch-site') ?? 'none';
  // A bookmark, an address that was typed, a link in a terminal or a program of the user's.
  if (site === 'none' || site === 'same-origin') return 'own';
  const mode = headers.get('sec-fetch-mode');
  const isWindow = mode === 'navigate' && headers.get('sec-fetch-dest') === 'document';
  return isWindow ? 'link' : 'foreign';
}

/**
 * Returns whether a form may come from a page of this server. Its token decides; this refuses what a browser marks as
 * foreign. A page without a referrer sends its forms with the origin `null`.
 */
export function mayBeOwnForm({ headers }: Request, { origin }: Reached): boolean {
  const site = headers.get('sec-fetch-site');
  if (site !== null && site !== 'same-origin') return false;
  const from = headers.get('origin');
  return from === null || from === 'null' || from === origin;
}
