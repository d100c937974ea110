import type { VNode } from 'preact';
import type { LaterPage, Page } from '../pages/page.ts';

type Loaded = typeof import('../pages/later-pages.tsx');
let loaded: Loaded | undefined;

const FIRST: ReadonlySet<Page['kind']> = new Set(['mail', 'message', 'no-message']);

/**
 * Loads the code of a page where it is not part of the first script.
 *
 * @throws where the server is another version by now, whose parts have other names, or cannot be reached
 */
export async function loadLater({ kind }: Pick<Page, 'kind'>): Promise<void> {
  if (!FIRST.has(kind)) loaded ??= await import('../pages/later-pages.tsx');
}

/** A page whose code was loaded before it is shown. */
export function LiveLater({ page }: { readonly page: LaterPage }): VNode | null {
  return loaded === undefined ? null : <loaded.LaterPages page={page} />;
}
