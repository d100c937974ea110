import type { WebApp, WebParts } from './request-context.ts';

/** What the script of a page asks for. */
export function apiRoutes(app: WebApp, { sessions }: WebParts): void {
  app.get('/api/session', (context) => {
    const { createdAt, usedAt, mailboxes } = context.get('session');
    return context.json({
      createdAt: new Date(createdAt).toISOString(),
      usedAt: new Date(usedAt).toISOString(),
      isLimited: mailboxes !== null,
    });
  });
  app.post('/api/sign-out', (context) => {
    sessions.end(context.get('session').key);
    return context.json({ signedOut: true });
  });
}
