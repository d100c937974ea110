import { randomBytes } from 'node:crypto';
import { domainToUnicode } from 'node:url';
import { cookieText, cookieValue, requestSource } from './access.ts';
import {
  FailurePage,
  LeavePage,
  SettingsPage,
  SignInPage,
  type SignInProblem,
} from './pages/plain-pages.tsx';
import {
  formBody,
  ownForm,
  page,
  type RequestContext,
  type SignInParts,
  seeOther,
  type WebApp,
} from './request-context.ts';
import { SESSION_MS, type Session } from './sessions.ts';

const ID_LENGTH = 24;
/** An asset's name changes with its content, so a year is safe. */
const FOR_EVER = 'public, max-age=31536000, immutable';

/** Adds routes that need no sign-in and reveal nothing about the archive: assets, sign-in, and links in messages. */
export function publicRoutes(app: WebApp, parts: SignInParts): void {
  const { assets, sessions, forms, now } = parts;
  assetRoute(app, assets, async (context) => (await sessionIn(context, parts)) !== undefined);
  app.get('/away', (context) => {
    const to = linkTarget(context.req.query('to') ?? '');
    return page(
      context,
      <LeavePage assets={assets} to={to} writtenAs={to === null ? '' : writtenHost(to)} />,
      to === null ? 400 : 200,
    );
  });
  const enterPage = (context: RequestContext, problem: SignInProblem): Response => {
    const { form, secure } = context.get('cookies');
    const known = cookieValue(context.req.header('cookie') ?? null, form);
    const value = known ?? randomBytes(32).toString('base64url');
    if (known === undefined) context.header('set-cookie', cookieText(form, value, secure));
    const content = <SignInPage assets={assets} token={forms.of(value)} problem={problem} />;
    return page(context, content, problem === null ? 200 : 403);
  };
  app.get('/enter', (context) => enterPage(context, null));
  app.post('/enter', async (context) => {
    const fields = await formBody(context.req.raw);
    if (fields === null) return context.body(null, 400);
    const { session, form, secure } = context.get('cookies');
    const header = context.req.header('cookie') ?? null;
    const value = cookieValue(header, form);
    if (value === undefined || !forms.isOf(value, fields.get('token') ?? ''))
      return enterPage(context, 'stale-form');
    const agent = context.req.header('user-agent') ?? '';
    const token = await sessions.enter(fields.get('code') ?? '', agent, now());
    if (token === null) return enterPage(context, 'wrong-code');
    // Ends the browser's previous session: only the user who typed the code gets the new one.
    const before = cookieValue(header, session);
    const old = before === undefined ? undefined : await sessions.find(before, now());
    if (old !== undefined) await sessions.end(old.key);
    context.header('set-cookie', cookieText(session, token, secure, SESSION_MS / 1000));
    context.header('set-cookie', cookieText(form, '', secure, 0), { append: true });
    return seeOther(context, '/mail');
  });
}

/** Returns the session of a request, unless a link on another site caused it. */
export async function sessionIn(
  context: RequestContext,
  { sessions, now }: Pick<SignInParts, 'sessions' | 'now'>,
): Promise<Session | undefined> {
  const { session: name } = context.get('cookies');
  const cookie = cookieValue(context.req.header('cookie') ?? null, name);
  // A link on another site sends no cookie; one on another port does, but is treated the same.
  const token = requestSource(context.req.raw) === 'own' ? cookie : undefined;
  return token === undefined ? undefined : sessions.find(token, now());
}

export function assetRoute(
  app: WebApp,
  assets: SignInParts['assets'],
  mayAskOthers: (context: RequestContext) => boolean | Promise<boolean>,
): void {
  app.get('/assets/:name', async (context, next) => {
    const asset = assets.file(context.req.param('name'));
    if (asset === undefined)
      return (await mayAskOthers(context)) ? next() : context.body(null, 404);
    const headers = { 'content-type': asset.type, 'cache-control': FOR_EVER };
    const { brotli } = asset;
    if (brotli === undefined) return context.body(asset.bytes, 200, headers);
    const vary = { ...headers, vary: 'accept-encoding' };
    // Browsers accept it over HTTPS and from this machine; others get gzip.
    return /(?:^|,)\s*br\s*(?:,|$)/.test(context.req.header('accept-encoding') ?? '')
      ? context.body(brotli, 200, { ...vary, 'content-encoding': 'br' })
      : context.body(asset.bytes, 200, vary);
  });
}

export function signedInRoutes(app: WebApp, parts: SignInParts): void {
  const { assets, behind, sessions, forms, now } = parts;
  app.get('/api/session', (context) => {
    const { createdAt, usedAt, mailboxes } = context.get('session');
    return context.json({
      createdAt: new Date(createdAt).toISOString(),
      usedAt: new Date(usedAt).toISOString(),
      isLimited: mailboxes !== null,
    });
  });
  app.post('/api/sign-out', async (context) => {
    await sessions.end(context.get('session').key);
    return context.json({ signedOut: true });
  });
  app.get('/you', async (context) => {
    const session = context.get('session');
    const names = await behind.names(session.mailboxes);
    // A limited session must not list other browsers or mailboxes.
    const visible = session.mailboxes === null ? await sessions.list(now()) : [session];
    const browsers = visible.map(({ key, mailboxes, ...browser }) => ({
      ...browser,
      id: key.slice(0, ID_LENGTH),
      isThis: key === session.key,
      mailboxes:
        mailboxes?.map((mailbox) => names.get(mailbox) ?? 'a mailbox that is gone') ?? null,
    }));
    const token = forms.of(session.key);
    return page(context, <SettingsPage assets={assets} token={token} browsers={browsers} />);
  });
  app.post('/sign-out', async (context) => {
    if ((await ownForm(parts, context)) === null)
      return page(context, <FailurePage assets={assets} kind="stale-form" />, 403);
    await sessions.end(context.get('session').key);
    const { session, secure } = context.get('cookies');
    context.header('set-cookie', cookieText(session, '', secure, 0));
    return seeOther(context, '/enter');
  });
  app.post('/you/end', async (context) => {
    const fields = await ownForm(parts, context);
    if (fields === null)
      return page(context, <FailurePage assets={assets} kind="stale-form" />, 403);
    const id = fields.get('id') ?? '';
    const { mailboxes } = context.get('session');
    const known = await sessions.list(now());
    const ended = known.find(({ key }) => key.slice(0, ID_LENGTH) === id);
    if (ended !== undefined && mailboxes === null) await sessions.end(ended.key);
    return seeOther(context, '/you');
  });
}

/** Returns a permitted link target as browsers write it (hosts in ASCII); null for any other address. */
/** Returns a host name in its own letters if they are not all of ASCII; otherwise an empty string. */
function writtenHost(to: string): string {
  const { hostname } = new URL(to);
  const written = domainToUnicode(hostname);
  return written === hostname ? '' : written;
}

function linkTarget(text: string): string | null {
  if (!URL.canParse(text)) return null;
  const url = new URL(text);
  return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null;
}
