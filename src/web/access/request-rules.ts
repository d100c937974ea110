import type { Reached } from '../../listener/admission.ts';

/** The header that requests of our own script carry; a form cannot set it. */
export const OWN_HEADER = 'x-mailkeep';

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
export type Asker = 'own' | 'link' | 'foreign';

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
