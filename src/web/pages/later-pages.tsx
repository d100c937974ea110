import type { VNode } from 'preact';
import { DashboardPage } from './dashboard-page.tsx';
import { ExportPage } from './export-page.tsx';
import { FilesPage } from './files-page.tsx';
import { HealthPage } from './health-page.tsx';
import { MessagePage, NoMessagePage } from './message-pane.tsx';
import type { LaterPage } from './page.ts';

/** All pages but the list of mail. */
export function LaterPages({ page }: { readonly page: LaterPage }): VNode | null {
  switch (page.kind) {
    case 'message':
      return <MessagePage page={page} />;
    case 'no-message':
      return <NoMessagePage page={page} />;
    case 'health':
      return <HealthPage page={page} />;
    case 'dashboard':
      return <DashboardPage page={page} />;
    case 'export':
      return <ExportPage page={page} />;
    case 'files':
      return <FilesPage page={page} />;
    case 'still':
      // What a script shows of a page that was made here.
      return null;
  }
}
