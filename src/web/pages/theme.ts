/**
 * Cookie for the theme chosen in a browser. The server applies it to the document, so that no script has to run before
 * the first paint. It is not bound to a port: servers on one machine share the theme.
 */
export const THEME_COOKIE = 'mailkeep-theme';

const THEMES = ['light', 'dark'] as const;
export type Theme = (typeof THEMES)[number];

/** 400 days, the longest lifetime that browsers allow for a cookie. */
const SECONDS = 34_560_000;

/** Returns the cookie as text for a script or a response. Null deletes it. */
export function themeCookie(theme: string | null, secure: boolean): string {
  const seconds = theme === null ? 0 : SECONDS;
  return `${THEME_COOKIE}=${theme ?? ''}; Path=/; SameSite=Lax; Max-Age=${seconds}${secure ? '; Secure' : ''}`;
}

/** Cookie for the browser's time zone, in which the server reads dates in queries. Browsers without a script have none. */
export const ZONE_COOKIE = 'mailkeep-zone';

/** @param zone IANA name */
export function zoneCookie(zone: string, secure: boolean): string {
  return `${ZONE_COOKIE}=${zone}; Path=/; SameSite=Strict; Max-Age=${SECONDS}${secure ? '; Secure' : ''}`;
}

/** Cookie of a browser whose user has left HTML that opened by itself for the text. */
export const TEXT_COOKIE = 'mailkeep-text';

export function textCookie(isText: boolean, secure: boolean): string {
  return `${TEXT_COOKIE}=${isText ? 'first' : ''}; Path=/; SameSite=Strict; Max-Age=${isText ? SECONDS : 0}${secure ? '; Secure' : ''}`;
}

export function themeOf(text: string | undefined): Theme | undefined {
  return THEMES.find((theme) => theme === text);
}
