import type { Context, Hono } from 'hono';
import { h, type VNode } from 'preact';
import { renderToString } from 'preact-render-to-string';
import { Semaphore } from '../core/concurrency.ts';
import { type RequestOrigin, readAtMost } from '../core/listener.ts';
import type { ArchivePolicy } from '../verify/archive-status.ts';
import { type CookieNames, cookieValue, type FormTokens } from './access.ts';
import type { Assets } from './assets.ts';
import type { EventStreams } from './event-streams.ts';
import type { MessageContent } from './pages/message-props.ts';
import { ChosenTheme } from './pages/page.ts';
import {
  TEXT_COOKIE,
  THEME_COOKIE,
  textCookie,
  themeCookie,
  themeOf,
  ZONE_COOKIE,
} from './pages/theme.ts';
import {
  type AccountsOf,
  canonicalZone,
  type ServedArchive,
  type ServedReader,
} from './served-archive.ts';
import type { BrowserSessions, Session, Sessions } from './sessions.ts';

export interface ArchiveParts {
  readonly archive: ServedArchive;
  readonly assets: Assets;
  /** Used to check that a browser is still signed in while a response is being sent. */
  readonly sessions: Pick<Sessions, 'isOpen'>;
  readonly forms: FormTokens;
  readonly events: EventStreams;
  readonly accounts: AccountsOf;
  /** Asks the archive's daemon to check for new mail. Resolves to false if there is no daemon. */
  readonly look: () => Promise<boolean>;
  /** Reports whether a daemon is running for the archive; null if it cannot have one. */
  readonly hasDaemon: () => Promise<boolean | null>;
  readonly policy: () => ArchivePolicy | null;
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
}

/** Answers requests with a bearer token. */
interface TokenSurface {
  /** @param breakOff drops the connection if an answer fails after it has started */
  fetch(request: Request, ownOrigin: string, breakOff: () => void): Promise<Response>;
}

export interface SignedInPart {
  readonly routes: (app: WebApp) => void;
  readonly mirror: TokenSurface;
  readonly mcp: TokenSurface;
  /** Returns the addresses of mailboxes by key; null stands for all mailboxes. */
  readonly names: (
    mailboxes: readonly string[] | null,
  ) => ReadonlyMap<string, string> | Promise<ReadonlyMap<string, string>>;
}

export interface SignInParts extends Pick<ArchiveParts, 'assets' | 'forms' | 'now' | 'onError'> {
  readonly sessions: BrowserSessions;
  readonly behind: SignedInPart;
  readonly port: number;
}

export interface RequestFacts {
  Bindings: {
    reached: RequestOrigin;
    /** Drops the connection if a response fails after it has started. */
    breakOff: () => void;
    session?: Session;
  };
  Variables: {
    reached: RequestOrigin;
    cookies: CookieNames;
    session: Session;
  };
}

/**
 * Two parameters are not in the address: `zone` is the browser's time zone; undefined stands for this machine's. `text` is
 * defined if the user wants the text of messages rather than their HTML.
 */
export type Parameter = (name: 'zone' | 'text' | (string & {})) => string | undefined;

export function parametersOf(context: RequestContext): Parameter {
  return (name) => {
    if (name === 'zone') return zoneOf(context);
    return name === 'text' ? textOf(context) : context.req.query(name);
  };
}

function textOf(context: RequestContext): string | undefined {
  return cookieValue(context.req.header('cookie') ?? null, TEXT_COOKIE) || undefined;
}

/** Remembers that the user left HTML that opened by itself for the text, until HTML is chosen again. */
export function rememberView(context: RequestContext, { opensAs, content }: MessageContent): void {
  const isText = opensAs === 'html' && (content.view === 'thread' || content.view === 'plain');
  const isHtml = content.view === 'html' && textOf(context) !== undefined;
  if (!isText && !isHtml) return;
  const { secure } = context.get('cookies');
  context.header('set-cookie', textCookie(isText, secure), { append: true });
}

export function zoneOf(context: RequestContext): string | undefined {
  const typed = cookieValue(context.req.header('cookie') ?? null, ZONE_COOKIE);
  return canonicalZone(typed) === undefined ? undefined : typed;
}

export function wholeNumber(typed: string | undefined): number | undefined {
  const number = Number(typed ?? 'none');
  return Number.isSafeInteger(number) && number >= 0 ? number : undefined;
}

export type RequestContext = Context<RequestFacts>;
export type WebApp = Hono<RequestFacts>;

/** Runs `act` with a reader limited to the browser's mailboxes. Every response must read the archive through it. */
export function withReader<T>(
  { archive }: Pick<ArchiveParts, 'archive'>,
  context: RequestContext,
  act: (reader: ServedReader) => T | Promise<T>,
): Promise<T> {
  return archive.use(context.get('session').mailboxes, act);
}

/** Renders a page in the browser's theme. Renews the theme cookie: Safari deletes scripts' cookies after a week. */
export function page(
  context: RequestContext,
  content: VNode,
  status: 200 | 400 | 403 | 404 | 410 | 500 | 503 = 200,
): Response {
  const theme = themeOf(cookieValue(context.req.header('cookie') ?? null, THEME_COOKIE));
  if (theme !== undefined) {
    const { secure } = context.get('cookies');
    context.header('set-cookie', themeCookie(theme, secure), { append: true });
  }
  const tree = h(ChosenTheme.Provider, { value: theme }, content);
  return context.html(`<!doctype html>${renderToString(tree)}`, status);
}

export function seeOther(context: RequestContext, path: string): Response {
  return context.body(null, 303, { location: path });
}

/** Runs searches one at a time, because they block the thread. Each stops if its browser has disconnected. */
const searches = new Semaphore(1);

/**
 * Answers a request when its turn comes, unless the browser has disconnected. The turn ends when `make` first waits,
 * for example for a message to be parsed.
 *
 * @param make gets a signal that aborts when the connection closes
 */
export async function takeTurn(
  context: RequestContext,
  make: (signal: AbortSignal) => Response | Promise<Response>,
): Promise<Response> {
  const { signal } = context.req.raw;
  try {
    // Wrapped in an object, so that the turn does not wait for the answer.
    const { answer } = await searches.run(() => ({ answer: make(signal) }), signal);
    return await answer;
  } catch (error) {
    if (!signal.aborted) throw error;
    // The client has disconnected.
    return context.body(null, 503);
  }
}

export interface Asked {
  readonly reader: ServedReader;
  readonly parameter: Parameter;
  readonly context: RequestContext;
  readonly signal: AbortSignal;
}

export function answered(
  parts: Pick<ArchiveParts, 'archive'>,
  context: RequestContext,
  make: (asked: Asked) => Response | Promise<Response>,
): Promise<Response> {
  const parameter = parametersOf(context);
  return takeTurn(context, (signal) =>
    withReader(parts, context, (reader) => make({ reader, parameter, context, signal })),
  );
}

export function dataRoute(app: WebApp, parts: Pick<ArchiveParts, 'archive'>) {
  return (path: string, make: (reader: ServedReader, parameter: Parameter) => object | null) => {
    app.get(path, (context) =>
      answered(parts, context, ({ reader, parameter }) =>
        context.json({ data: make(reader, parameter) }),
      ),
    );
  };
}

/** Maximum size of a form with two short fields, in bytes. */
const MAX_BYTES = 4_096;

export async function formBody(
  request: Request,
  most = MAX_BYTES,
): Promise<URLSearchParams | null> {
  const type = request.headers.get('content-type') ?? '';
  if (!/^application\/x-www-form-urlencoded(?:;|$)/i.test(type)) return null;
  const bytes = await readAtMost(request, most);
  return bytes === null ? null : new URLSearchParams(bytes.toString('utf8'));
}

export async function ownForm(
  { forms }: Pick<ArchiveParts, 'forms'>,
  context: RequestContext,
): Promise<URLSearchParams | null> {
  const fields = await formBody(context.req.raw);
  return forms.isOf(context.get('session').key, fields?.get('token') ?? '') ? fields : null;
}

const MAX_LIMITS = 64;

/** Caches one value per set of mailboxes, so that readers with different limits never share one. */
export function byLimit<T>(make: (reader: ServedReader) => T): (reader: ServedReader) => T {
  const cache = new Map<string, T>();
  return (reader) => {
    const key = JSON.stringify(reader.mailboxes);
    const value = cache.get(key) ?? make(reader);
    if (cache.size >= MAX_LIMITS) cache.clear();
    cache.set(key, value);
    return value;
  };
}
