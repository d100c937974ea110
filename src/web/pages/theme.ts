import { createContext } from 'preact';

/**
 * The cookie in which a browser keeps the theme that was chosen in it. The server puts it on the document, so that no
 * script has to run before the first paint. It is not bound to a port: servers on one machine have the theme together.
 */
export const THEME_COOKIE = 'mailkeep-theme';

const THEMES = ['light', 'dark'] as const;
export type Theme = (typeof THEMES)[number];

/** The longest that browsers keep a cookie, in seconds: 400 days. */
const SECONDS = 34_560_000;

/** Returns the cookie of a theme, as a script or an answer sets it; of none, the one that removes it. */
export function themeCookie(theme: string | null, secure: boolean): string {
  const seconds = theme === null ? 0 : SECONDS;
  return `${THEME_COOKIE}=${theme ?? ''}; Path=/; SameSite=Lax; Max-Age=${seconds}${secure ? '; Secure' : ''}`;
}

/** Returns the theme of that name; undefined for any other text. */
export function themeOf(text: string | undefined): Theme | undefined {
  return THEMES.find((theme) => theme === text);
}

/** The theme that was chosen in the browser that asks; undefined for that of its system. */
export const ChosenTheme = createContext<Theme | undefined>(undefined);
