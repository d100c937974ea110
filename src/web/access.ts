import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { RequestOrigin } from '../core/listener.ts';

/** Cookie names contain the port, because cookies ignore ports and one machine can run several servers. */
export interface CookieNames {
  readonly session: string;
  /** Identifies a browser that is not signed in. The sign-in form's token is bound to it. */
  readonly form: string;
  readonly secure: boolean;
}

export function cookieNames(port: number, secure: boolean): CookieNames {
  return secure
    ? { session: '__Host-mailkeep', form: '__Host-mailkeep-form', secure }
    : { session: `mailkeep-${port}`, form: `mailkeep-form-${port}`, secure };
}

/** Returns undefined unless the header contains exactly one cookie with this name. */
export function cookieValue(header: string | null, name: string): string | undefined {
  const values = (header ?? '').split(';').flatMap((pair) => {
    const at = pair.indexOf('=');
    return at > 0 && pair.slice(0, at).trim() === name ? [pair.slice(at + 1).trim()] : [];
  });
  return values.length === 1 ? values[0] : undefined;
}

/** @param maxAge in seconds; 0 removes the cookie. Without it, the cookie lasts until the browser closes. */
export function cookieText(name: string, value: string, secure: boolean, maxAge?: number): string {
  return [
    `${name}=${value}`,
    'Path=/',
    'HttpOnly',
    'SameSite=Strict',
    ...(secure ? ['Secure'] : []),
    ...(maxAge === undefined ? [] : [`Max-Age=${maxAge}`]),
  ].join('; ');
}

/**
 * Issues and checks tokens that protect forms against cross-site requests. Each page gets a token of its own, because
 * pages are compressed: the length of a page cannot tell a token that changes (BREACH).
 */
export class FormTokens {
  readonly #key: Buffer;

  /** @param key shared by servers that accept each other's forms; by default, one generated at startup */
  constructor(key: Buffer = randomBytes(32)) {
    this.#key = key;
  }

  /** @param subject the browser's session key, or the value of its form cookie */
  of(subject: string): string {
    const mask = randomBytes(32);
    return Buffer.concat([mask, masked(this.#sign(subject), mask)]).toString('base64url');
  }

  isOf(subject: string, token: string): boolean {
    const given = Buffer.from(token, 'base64url');
    const right = this.#sign(subject);
    return (
      given.length === 2 * right.length &&
      timingSafeEqual(masked(given.subarray(right.length), given), right)
    );
  }

  #sign(subject: string): Buffer {
    return createHmac('sha256', this.#key).update(subject).digest();
  }
}

function masked(bytes: Buffer, mask: Buffer): Buffer {
  return bytes.map((byte, at) => byte ^ (mask[at] ?? 0)) as Buffer;
}

/** A form cannot set this header; only our own scripts send it. */
const OWN_HEADER = 'x-mailkeep';

/** Trusts only headers that a page cannot set. Requests that change data must also carry our own header. */
export function isOwnApiRequest(request: Request, { origin }: RequestOrigin): boolean {
  const { headers, method } = request;
  if (headers.get('sec-fetch-site') !== 'same-origin') return false;
  const from = headers.get('origin');
  if (from !== null && from !== origin) return false;
  return method === 'GET' || method === 'HEAD' || headers.get(OWN_HEADER) === '1';
}

/** `own`: this server or the user. `link`: a link on another site. `foreign`: a resource loaded by another page. */
type RequestSource = 'own' | 'link' | 'foreign';

/** Other ports on this machine are foreign, even though they receive our cookies. Only browsers send the header. */
export function requestSource({ headers }: Request): RequestSource {
  const site = headers.get('sec-fetch-site') ?? 'none';
  // A bookmark, a typed address, or a link from a terminal or another program.
  if (site === 'none' || site === 'same-origin') return 'own';
  const mode = headers.get('sec-fetch-mode');
  const isWindow = mode === 'navigate' && headers.get('sec-fetch-dest') === 'document';
  return isWindow ? 'link' : 'foreign';
}

/**
 * Rejects forms that the browser reports as cross-site. The real protection is the form's token. Without a referrer,
 * the origin is `null`.
 */
export function mayBeOwnFormPost({ headers }: Request, { origin }: RequestOrigin): boolean {
  const site = headers.get('sec-fetch-site');
  if (site !== null && site !== 'same-origin') return false;
  const from = headers.get('origin');
  return from === null || from === 'null' || from === origin;
}

/**
 * The only paths available to a session limited to some mailboxes. Their responses use a limited catalog or respect
 * `ServedReader.mailboxes`.
 */
const PATHS: readonly RegExp[] = [
  /^\/(?:mail|dashboard|export|you|sign-out|you\/end)?$/,
  // Runs, verifications and retention cover all mailboxes.
  /^(?:\/api\/page)?\/health(?:\/(?:folders|quarantine|held))?$/,
  /^\/m\/[^/]+(?:\/html|\/source|\/attachments\/[^/]+)?$/,
  /^\/files(?:\/[0-9a-f]{64}\/preview)?$/,
  /^\/api\/page\/(?:mail|dashboard|export|files|m\/[^/]+)$/,
  /^\/api\/(?:session|sign-out|rows|position|counts|frame|message|complete|timeline|moment|export|events)$/,
  /^\/api\/changes(?:\/next|\/previous)?$/,
];

export function allowsLimitedAccess(path: string): boolean {
  return PATHS.some((allowed) => allowed.test(path));
}
