import type { VNode } from 'preact';
import { useContext } from 'preact/hooks';
import { MailPage } from './mail-page.tsx';
import { MessagePage, NoMessagePage } from './message-page.tsx';
import type { Page } from './page.ts';
import { Parts } from './parts.ts';

/** Shows a page of the archive. */
export function PageView({ page }: { readonly page: Page }): VNode {
  const { Later } = useContext(Parts);
  switch (page.kind) {
    case 'mail':
      return <MailPage page={page} />;
    case 'message':
      return <MessagePage page={page} />;
    case 'no-message':
      return <NoMessagePage page={page} />;
    case 'health':
    case 'dashboard':
    case 'export':
    case 'files':
      return <Later page={page} />;
  }
}
