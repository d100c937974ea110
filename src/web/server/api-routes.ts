import type { ArchiveParts, WebApp } from './request-context.ts';

/** What the script of a page listens to. */
export function apiRoutes(app: WebApp, { events }: Pick<ArchiveParts, 'events'>): void {
  app.get('/api/events', (context) => {
    // Nobody reads the stream of a HEAD, nor ends it.
    if (context.req.method === 'HEAD')
      return context.body(null, 200, { 'content-type': 'text/event-stream' });
    const stream = events.open(context.get('session'));
    return stream ?? context.json({ error: { code: 'too-many-streams' } }, 503);
  });
}
