import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Reached } from '../core/listener.ts';

/** Cookie names of one server. Cookies ignore ports, so two servers on one machine need different names. */
export interface CookieNames {
  readonly session: string;
  /** Identifies a browser that is not signed in; the token of the sign-in form is bound to it. */
  readonly form: string;
  readonly secure: boolean;
}

/** @param secure whether browsers reach the server by HTTPS */
export function cookieNames(port: number, secure: boolean): CookieNames {
  return secure
    ? { session: '__Host-mailkeep', form: '__Host-mailkeep-form', secure }
    : { session: `mailkeep-${port}`, form: `mailkeep-form-${port}`, secure };
}

/** Returns the value of a cookie; undefined if there is none, or several with the name. */
export function cookieValue(header: string | null, name: string): string | undefined {
  const values = (header ?? '').split(';').flatMap((pair) => {
    const at = pair.indexOf('=');
    return at > 0 && pair.slice(0, at).trim() === name ? [pair.slice(at + 1).trim()] : [];
  });
  return values.length === 1 ? values[0] : undefined;
}

/** Returns a `Set-Cookie`. @param maxAge in seconds; 0 removes the cookie, and without it the cookie ends with the browser */
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

/** Form tokens against cross-site requests, bound to the browser's own cookie and to a random key of this run. */
export class FormTokens {
  readonly #key = randomBytes(32);

  /** @param subject identifies the browser: the key of its session, or the value of its form cookie */
  of(subject: string): string {
    return this.#sign(subject).toString('base64url');
  }

  isOf(subject: string, token: string): boolean {
    const given = Buffer.from(token, 'base64url');
    const right = this.#sign(subject);
    return given.length === right.length && timingSafeEqual(given, right);
  }

  #sign(subject: string): Buffer {
    return createHmac('sha256', this.#key).update(subject).digest();
  }
}

/** Header sent by our own scripts; a form cannot set it. */
const OWN_HEADER = 'x-mailkeep';

/**
 * Returns whether a request to `/api` comes from a page of this server. It relies on headers set by the browser, which
 * no page can change. Requests that change data must also have our own header.
 */
export function isOwnApiRequest(request: Request, { origin }: Reached): boolean {
  const { headers, method } = request;
  if (headers.get('sec-fetch-site') !== 'same-origin') return false;
  const from = headers.get('origin');
  if (from !== null && from !== origin) return false;
  return method === 'GET' || method === 'HEAD' || headers.get(OWN_HEADER) === '1';
}

/** Origin of a browser's request: this server or the user, a link elsewhere, or a resource load by another page. */
type Asker = 'own' | 'link' | 'foreign';

/**
 * Returns the origin of a browser's request. Another port of this machine counts as elsewhere: it is the same site, so
 * its requests carry our cookies. Old browsers, and other programs, do not send the header.
 */
export function askerOf({ headers }: Request): Asker {
  const site = headers.get('sec-fetch-site') ?? 'none';
  // A bookmark, a typed address, a link in a terminal or another program of the user.
  if (site === 'none' || site === 'same-origin') return 'own';
  const mode = headers.get('sec-fetch-mode');
  const isWindow = mode === 'navigate' && headers.get('sec-fetch-dest') === 'document';
  return isWindow ? 'link' : 'foreign';
}

/**
 * Returns whether a form may come from a page of this server. The token decides; this check refuses requests that a
 * browser marks as foreign. A page without a referrer sends forms with the origin `null`.
 */
export function mayBeOwnForm({ headers }: Request, { origin }: Reached): boolean {
  const site = headers.get('sec-fetch-site');
  if (site !== null && site !== 'same-origin') return false;
  const from = headers.get('origin');
  return from === null || from === 'null' || from === origin;
}

/**
 * Paths open to a sign-in that is limited to mailboxes: their responses use a catalog of these mailboxes, or obey
 * `ServedReader.mailboxes`. All other paths are refused, including new ones until their access has been decided.
 */
const PATHS: readonly RegExp[] = [
  /^\/(?:mail|dashboard|export|you|sign-out|you\/end)?$/,
  // Runs, verifications and retention cover all mailboxes.
  /^(?:\/api\/page)?\/health(?:\/(?:folders|quarantine|held))?$/,
  /^\/m\/[^/]+(?:\/html|\/source|\/attachments\/[^/]+)?$/,
  /^\/files(?:\/[0-9a-f]{64}\/preview)?$/,
  /^\/api\/page\/(?:mail|dashboard|export|files|m\/[^/]+)$/,
  /^\/api\/(?:session|sign-out|rows|position|counts|frame|message|complete|spine|moment|export|events)$/,
  /^\/api\/changes(?:\/next|\/previous)?$/,
];

/** @param path of an address, without its query */
export function mayBeAskedWithLimit(path: string): boolean {
  return PATHS.some((allowed) => allowed.test(path));
}
