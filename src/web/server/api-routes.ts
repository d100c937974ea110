import type { WebApp, WebParts } from './request-context.ts';

/** What the script of a page asks for. */
export function apiRoutes(app: WebApp, { sessions, look, events }: WebParts): void {
  app.get('/api/session', (context) => {
    const { createdAt, usedAt, mailboxes } = context.get('session');
    return context.json({
      createdAt: new Date(createdAt).toISOString(),
      usedAt: new Date(usedAt).toISOString(),
      isLimited: mailboxes !== null,
    });
  });
  app.post('/api/look', async (context) => {
    // Who may read some mailboxes starts nothing for all of them.
    if (context.get('session').mailboxes !== null) return context.json({ looking: false }, 403);
    return context.json({ data: { looking: await look() } });
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
