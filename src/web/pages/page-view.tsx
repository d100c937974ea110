import type { VNode } from 'preact';
import { MailPage } from './mail-page.tsx';
import type { Page } from './page.ts';
import { useParts } from './parts.ts';

/** Shows a page of the archive. */
export function PageView({ page }: { readonly page: Page }): VNode {
  const { Later } = useParts();
  return page.kind === 'mail' ? <MailPage page={page} /> : <Later page={page} />;
}
