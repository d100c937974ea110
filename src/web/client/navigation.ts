import type { Page } from '../pages/page.ts';

/** What must be asked for to show an address, given what is shown. */
export type Step =
  /** All of the page. */
  | { readonly kind: 'page' }
  /** Only the list has another query. */
  | { readonly kind: 'list' }
  /** Only another message, or another view of it, is open next to the list. */
  | { readonly kind: 'message' }
  /** The list alone stays. */
  | { readonly kind: 'close' };

/** Addresses that the script shows in place; all others are loaded. */
const OWN = /^\/(?:mail|files|m\/[0-9a-f]{4,64})$/;

export function isOwnPage({ pathname }: Pick<URL, 'pathname'>): boolean {
  return OWN.test(pathname);
}

/** Parameters of `/mail` that choose the message, not the list. */
const OF_MESSAGE = ['m', 'view', 'from', 'find', 'hit'];

export function stepTo(to: URL, from: URL, shown: Page): Step {
  if (to.pathname !== '/mail' || from.pathname !== '/mail' || shown.kind !== 'mail')
    return { kind: 'page' };
  if (listParameters(to) !== listParameters(from)) return { kind: 'list' };
  return to.searchParams.has('m') ? { kind: 'message' } : { kind: 'close' };
}

function listParameters(address: URL): string {
  const parameters = new URLSearchParams(address.search);
  for (const name of [...OF_MESSAGE, 'at']) parameters.delete(name);
  parameters.sort();
  return parameters.toString();
}
