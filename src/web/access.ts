import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Reached } from '../core/listener.ts';
import { SESSION_MS } from './sessions.ts';

/** The cookies of one server, as it was reached: two servers on one machine share a name's cookies, whatever the port. */
export interface CookieNames {
  readonly session: string;
  /** Of a browser that is not signed in: what the token of the sign-in form is bound to. */
  readonly form: string;
  readonly secure: boolean;
}

/** @param secure whether browsers reach the server by HTTPS */
export function cookieNames(port: number, secure: boolean): CookieNames {
  return secure
    ? { session: '__Host-mailkeep', form: '__Host-mailkeep-form', secure }
    : { session: `mailkeep-${port}`, form: `mailkeep-form-${port}`, secure };
}

/** Returns the value of a cookie; undefined where there is none, or several of the name. */
export function cookieValue(header: string | null, name: string): string | undefined {
  const values = (header ?? '').split(';').flatMap((pair) => {
    const at = pair.indexOf('=');
    return at > 0 && pair.slice(0, at).trim() === name ? [pair.slice(at + 1).trim()] : [];
  });
  return values.length === 1 ? values[0] : undefined;
}

export function sessionCookie({ session, secure }: CookieNames, token: string): string {
  return cookie(session, token, secure, SESSION_MS / 1000);
}

export function removedCookie(name: string, secure: boolean): string {
  return cookie(name, '', secure, 0);
}

/** Returns the `Set-Cookie` of the form cookie, which ends with the browser's session. */
export function formCookie({ form, secure }: CookieNames, value: string): string {
  return cookie(form, value, secure, null);
}

function cookie(name: string, value: string, secure: boolean, maxAge: number | null): string {
  return [
    `${name}=${value}`,
    'Path=/',
    'HttpOnly',
    'SameSite=Strict',
    ...(secure ? ['Secure'] : []),
    ...(maxAge === null ? [] : [`Max-Age=${maxAge}`]),
  ].join('; ');
}

/**
 * Tokens that forms carry, so that no page of another origin can send them: bound to what only the browser's own cookie
 * names, and to the key of this run of the server.
 */
export class FormTokens {
  readonly #key = randomBytes(32);

  /** @param subject what the browser is known by: the key of its session, or the value of its form cookie */
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

export function newFormCookie(): string {
  return randomBytes(32).toString('base64url');
}

/** The header that requests of our own script carry; a form cannot set it. */
const OWN_HEADER = 'x-mailkeep';

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
type Asker = 'own' | 'link' | 'foreign';

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

/**
 * What a sign-in that is limited to mailboxes may ask for: answers that come from a catalog of these mailboxes, or obey
 * `ServedReader.mailboxes`. Anything else is refused, so that a new page is before somebody decides what it shows.
 */
const PATHS: readonly RegExp[] = [
  /^\/(?:mail|dashboard|export|you|sign-out|you\/end)?$/,
  // Runs, verifications and retention are about all mailboxes.
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
