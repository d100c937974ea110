import { apiRoutes } from './api-routes.ts';
import { byLimit } from './by-limit.ts';
import { exportRoutes } from './export-routes.ts';
import { lookRoutes } from './look-routes.tsx';
import { MailPages } from './mail-pages.ts';
import { mailRoutes } from './mail-routes.tsx';
import type { ArchiveParts, WebApp } from './request-context.ts';
import { savedRoutes } from './saved-routes.ts';
import { searchRoutes } from './search-api.ts';

/** Adds everything that is read from an archive: pages, and what their scripts ask for. */
export function archiveRoutes(app: WebApp, parts: ArchiveParts): void {
  apiRoutes(app, parts);
  lookRoutes(app, parts);
  const pages = byLimit(() => new MailPages(parts));
  searchRoutes(app, parts, pages);
  exportRoutes(app, parts);
  mailRoutes(app, parts, pages);
  savedRoutes(app, parts);
}
