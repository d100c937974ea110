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
    const stream = events.open(context.get('session'));
    return stream ?? context.json({ error: { code: 'too-many-streams' } }, 503);
  });
  app.post('/api/sign-out', (context) => {
    sessions.end(context.get('session').key);
    return context.json({ signedOut: true });
  });
}
