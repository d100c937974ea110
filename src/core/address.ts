import { isIP } from 'node:net';

/** A host and port to listen on; port 0 selects any free port. */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** Parses `127.0.0.1:8025`, `[::1]:8025`, `localhost:0` or `:8025` (all interfaces). Undefined if invalid. */
export function parseListen(text: string): ListenAddress | undefined {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]*)):(\d{1,5})$/.exec(text);
  if (match === null) return undefined;
  const port = Number(match[3]);
  if (port > 65_535) return undefined;
  const [bracketed, plain] = [match[1], match[2]];
  if (bracketed !== undefined && isIP(bracketed) !== 6) return undefined;
  return { host: bracketed ?? (plain === undefined || plain === '' ? '0.0.0.0' : plain), port };
}

/** Reports whether a host is loopback (RFC 6761 `localhost`, RFC 5735 127/8, RFC 4291 ::1). */
export function isLoopback(hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$/g, '').toLowerCase();
  if (host === 'localhost' || host.endsWith('.localhost') || host === '::1') return true;
  return isIP(host) === 4 && host.startsWith('127.');
}

/** Reports whether a text is a host name or an IP address, without brackets, scheme and port. */
export function isImapHost(text: string): boolean {
  return /^[A-Za-z0-9_.-]{1,253}$/.test(text) || (isIP(text) === 6 && !text.includes('%'));
}

/** Parses an http(s) service address. Rejects credentials (which belong in the token), queries and fragments. */
export function parseServiceUrl(text: string): URL | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  const plain = url.username === '' && url.password === '' && url.search === '' && url.hash === '';
  return plain && (url.protocol === 'https:' || url.protocol === 'http:') ? url : undefined;
}

/** Adds a missing scheme: `http://` for this machine, otherwise `https://`. Null if the text is not a bare address. */
export function withScheme(text: string): string | null {
  const match = /^(\[[0-9a-f:.]{2,45}\]|[a-z0-9.-]{1,253})(:\d{1,5})?(\/[^\s?#@]{0,200})?$/i.exec(
    text,
  );
  if (match === null) return null;
  const [, host = '', port, path] = match;
  const hasDomain = host.includes('.') || host.startsWith('[') || port !== undefined;
  const url = `${isLoopback(host) ? 'http' : 'https'}://${text}`;
  return (hasDomain || isLoopback(host)) && path !== '/' && URL.canParse(url) ? url : null;
}
