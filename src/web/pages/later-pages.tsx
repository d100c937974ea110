import type { VNode } from 'preact';
import { DashboardPage } from './dashboard-page.tsx';
import { ExportPage } from './export-page.tsx';
import { FilesPage } from './files-page.tsx';
import { HealthPage } from './health/health-page.tsx';
import type { LaterPage } from './page.ts';

/** Pages that few visits open. */
export function LaterPages({ page }: { readonly page: LaterPage }): VNode {
  switch (page.kind) {
    case 'health':
      return <HealthPage page={page} />;
    case 'dashboard':
      return <DashboardPage page={page} />;
    case 'export':
      return <ExportPage page={page} />;
    case 'files':
      return <FilesPage page={page} />;
  }
}
