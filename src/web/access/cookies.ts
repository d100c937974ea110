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

/** Returns the `Set-Cookie` of a new session. */
export function sessionCookie({ session, secure }: CookieNames, token: string): string {
  return cookie(session, token, secure, SESSION_MS / 1000);
}

/** Returns the `Set-Cookie` that removes a cookie. */
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
