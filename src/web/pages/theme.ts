import { createContext } from 'preact';

/**
 * Cookie with the theme chosen in a browser. The server applies it to the document, so that no script has to run before
 * the first paint. It is not bound to a port: servers on one machine share the theme.
 */
export const THEME_COOKIE = 'mailkeep-theme';

const THEMES = ['light', 'dark'] as const;
export type Theme = (typeof THEMES)[number];

/** The longest lifetime that browsers allow for a cookie, in seconds: 400 days. */
const SECONDS = 34_560_000;

/** Returns the cookie of a theme, for a script or a response; without a theme, the one that deletes it. */
export function themeCookie(theme: string | null, secure: boolean): string {
  const seconds = theme === null ? 0 : SECONDS;
  return `${THEME_COOKIE}=${theme ?? ''}; Path=/; SameSite=Lax; Max-Age=${seconds}${secure ? '; Secure' : ''}`;
}

export function themeOf(text: string | undefined): Theme | undefined {
  return THEMES.find((theme) => theme === text);
}

/** The theme chosen in the browser; undefined for the system's. */
export const ChosenTheme = createContext<Theme | undefined>(undefined);
