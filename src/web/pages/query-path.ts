import type { Here } from './page.ts';

/** Returns the page that shows what a query finds, from where it is typed. */
export function queriedPath(here: Here): '/mail' | '/files' {
  return here === 'files' ? '/files' : '/mail';
}
