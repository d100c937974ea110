/**
 * The cookie in which a browser keeps the theme that was chosen in it. The server puts it on the document, so that no
 * script has to run before the first paint. It is not bound to a port: servers on one machine have the theme together.
 */
export const THEME_COOKIE = 'mailkeep-theme';

const THEMES = ['light', 'dark'] as const;
export type Theme = (typeof THEMES)[number];

/** Returns the theme of that name; undefined for any other text. */
export function themeOf(text: string | undefined): Theme | undefined {
  return THEMES.find((theme) => theme === text);
}
