import { restoreError } from '../errors/restore.ts';

/** An IMAP server and the user there. */
export interface ImapAddress {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly tls: boolean;
}

const PORTS = { 'imaps:': 993, 'imap:': 143 } as const;

/**
 * Reads the value of `--to` (RFC 5092, the server's part).
 *
 * @throws restore-target-invalid, restore-needs-tls
 */
export function imapAddress(text: string): ImapAddress {
  const url = URL.canParse(text) ? new URL(text) : null;
  const found = withoutSecret(text);
  const invalid = (problem: string) => restoreError('restore-target-invalid', { found, problem });
  if (url === null || (url.protocol !== 'imaps:' && url.protocol !== 'imap:'))
    throw invalid('it does not begin with imaps://');
  if (url.password !== '')
    throw invalid('a password in it can be read by every user of this machine');
  if (url.username === '') throw invalid('it names no user');
  if (url.hostname === '') throw invalid('it names no host');
  if (!['', '/'].includes(url.pathname) || url.search !== '' || url.hash !== '')
    throw invalid('something follows the host');
  const tls = url.protocol === 'imaps:';
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (!tls && !isLoopback(host)) throw restoreError('restore-needs-tls', { host });
  const port = url.port === '' ? PORTS[url.protocol] : Number(url.port);
  return { host, port, user: decodedUser(url.username, invalid), tls };
}

/** The address as it is shown and journaled: without a password, with its port. */
export function addressText({ host, port, user, tls }: ImapAddress): string {
  const named = host.includes(':') ? `[${host}]` : host;
  return `${tls ? 'imaps' : 'imap'}://${encodeURIComponent(user)}@${named}:${port}`;
}

function decodedUser(user: string, invalid: (problem: string) => Error): string {
  try {
    return decodeURIComponent(user);
  } catch {
    throw invalid('its user has a % that is no escape');
  }
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(?:\.\d{1,3}){3}$/.test(host);
}

/** Whatever it is, what stands between a colon and the last @ may be a password. */
function withoutSecret(text: string): string {
  const [scheme] = /^[a-z]*:\/\//i.exec(text) ?? [''];
  const at = text.lastIndexOf('@');
  return text.slice(scheme.length, at).includes(':') ? `${scheme}…${text.slice(at)}` : text;
}
