import { isIP } from 'node:net';
import { isLoopback, type ListenAddress } from '../config/address.ts';

/** Who may ask a listener, and under which names. */
export type Clients =
  /** Browsers show its pages: at this machine's own names, or at the https address of a reverse proxy. */
  | { readonly kind: 'browsers'; readonly publicUrl: string | null }
  /**
   * Programs only, such as monitoring: at any IP address and at these host names, whatever the port. Null allows every
   * name: a secret decides instead, and a proxy may pass on any name.
   */
  | { readonly kind: 'programs'; readonly names: readonly string[] | null };

/** How a request reached a listener. */
export interface Reached {
  readonly host: string;
  /** Origin of the pages that are served there. */
  readonly origin: string;
  /** Whether the browser used HTTPS, through the proxy. */
  readonly secure: boolean;
}

/** The status that refuses a request before anything of it is read. */
export type Admission = { readonly refused: 403 | 421 } | ({ readonly refused: null } & Reached);

/**
 * Returns the function that admits requests to a listener. A request is refused with 421 if its `Host` is a name that
 * somebody else made point here (DNS rebinding). If the listener is for programs, a request from a page is refused with
 * 403.
 *
 * @param at where it listens, with the port it got
 */
export function admissionTo(clients: Clients, at: ListenAddress): (request: Request) => Admission {
  if (clients.kind === 'browsers') {
    const own = clients.publicUrl === null ? null : new URL(clients.publicUrl);
    const hosts = ownHosts(at);
    return (request) => {
      const host = hostOf(request);
      if (own !== null && host === own.host) {
        return { refused: null, host, origin: own.origin, secure: true };
      }
      if (!hosts.has(host)) return { refused: 421 };
      return { refused: null, host, origin: `http://${host}`, secure: false };
    };
  }
  const names = clients.names === null ? null : new Set([...clients.names, at.host].map(nameOf));
  return (request) => {
    const host = hostOf(request);
    const name = nameOf(host);
    const isOwn = names === null || names.has(name) || isAddress(name) || isLoopback(name);
    if (!isOwn) return { refused: 421 };
    if (isForeign(request, null)) return { refused: 403 };
    return { refused: null, host, origin: `http://${host}`, secure: false };
  };
}

/**
 * Returns whether a page elsewhere had a browser send a request: by its headers, which no page can change. Another port
 * of this machine is elsewhere. Programs send neither header.
 *
 * @param ownOrigin of the pages that may ask; null for none
 */
export function isForeign({ headers }: Request, ownOrigin: string | null): boolean {
  const site = headers.get('sec-fetch-site') ?? 'none';
  if (site !== 'none' && site !== 'same-origin') return true;
  const from = headers.get('origin');
  return from !== null && from !== ownOrigin;
}

function hostOf({ headers }: Request): string {
  return headers.get('host')?.toLowerCase() ?? '';
}

/** The names of this machine for itself, with the port unless it is the scheme's own. */
function ownHosts({ host, port }: ListenAddress): Set<string> {
  const names = ['127.0.0.1', 'localhost', '[::1]'];
  if (isLoopback(host) && !host.includes(':')) names.push(host.toLowerCase());
  return new Set(names.map((name) => (port === 80 ? name : `${name}:${port}`)));
}

/** A host in lower case, without port, brackets and the dot of a complete name; empty if it is none. */
function nameOf(host: string): string {
  const match = /^(?:\[([0-9a-f:.]+)\]|([^:@/[\]]+?)\.?)(?::\d{1,5})?$/.exec(host.toLowerCase());
  return match?.[1] ?? match?.[2] ?? (isIP(host) === 6 ? host.toLowerCase() : '');
}

function isAddress(name: string): boolean {
  return isIP(name) !== 0;
}
