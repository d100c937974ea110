import type { WebApp, WebParts } from './request-context.ts';

/** What the script of a page asks for. */
export function apiRoutes(app: WebApp, { sessions, events }: WebParts): void {
  app.get('/api/session', (context) => {
    const { createdAt, usedAt, mailboxes } = context.get('session');
    return context.json({
      createdAt: new Date(createdAt).toISOString(),
      usedAt: new Date(usedAt).toISOString(),
      isLimited: mailboxes !== null,
    });
  });
  app.get('/api/events', (context) => {
    // Nobody reads the stream of a HEAD, nor ends it.
    if (context.req.method === 'HEAD')
      return context.body(null, 200, { 'content-type': 'text/event-stream' });
    const stream = events.open(context.get('session'));
    return stream ?? context.json({ error: { code: 'too-many-streams' } }, 503);
  });
  app.post('/api/sign-out', (context) => {
    sessions.end(context.get('session').key);
    return context.json({ signedOut: true });
  });
}
