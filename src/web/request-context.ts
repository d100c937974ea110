import type { Context, Hono } from 'hono';
import { h, type VNode } from 'preact';
import { renderToString } from 'preact-render-to-string';
import type { SearchNode } from '../catalog/query-ast.ts';
import { Semaphore } from '../core/concurrency.ts';
import type { Reached } from '../core/listener.ts';
import type { ArchivePolicy } from '../verify/archive-status.ts';
import { type CookieNames, cookieValue, type FormTokens } from './access.ts';
import type { Assets } from './assets.ts';
import type { DownloadHooks } from './downloads.ts';
import type { EventStreams } from './event-streams.ts';
import type { McpSurface } from './mcp.ts';
import type { MirrorSurface } from './mirror.ts';
import { ChosenTheme, THEME_COOKIE, themeCookie, themeOf } from './pages/theme.ts';
import type { ServedArchive, ServedReader } from './served-archive.ts';
import type { Session, Sessions, SignInCodes } from './sessions.ts';

export interface ArchiveParts {
  readonly archive: ServedArchive;
  readonly assets: Assets;
  /** Whether a browser is still signed in: asked while something is sent to it. */
  readonly sessions: Pick<Sessions, 'isOpen'>;
  readonly forms: FormTokens;
  readonly events: EventStreams;
  readonly accounts: (node: SearchNode) => ReadonlyMap<string, string>;
  /** Has the daemon of the archive look for new mail; resolves with whether there is one. */
  readonly look: () => Promise<boolean>;
  /** Returns whether a daemon runs for the archive; null where there can be none. */
  readonly hasDaemon: () => Promise<boolean | null>;
  /** What the configuration decides; null where there is none for this archive. */
  readonly policy: () => ArchivePolicy | null;
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
}

/** What is behind the sign-in: the archive, wherever it is. */
export interface Behind {
  /** Adds its routes; a request that reaches them has a session. */
  readonly routes: (app: WebApp) => void;
  /** Answers the API, which knows tokens and no browsers. */
  readonly mirror: Pick<MirrorSurface, 'fetch'>;
  /** Answers assistants, by the same tokens. */
  readonly mcp: Pick<McpSurface, 'fetch'>;
  /** Returns the addresses of mailboxes by their keys: of all, or of these. */
  readonly names: (
    mailboxes: readonly string[] | null,
  ) => ReadonlyMap<string, string> | Promise<ReadonlyMap<string, string>>;
}

export interface DoorParts extends Pick<ArchiveParts, 'assets' | 'forms' | 'now' | 'onError'> {
  readonly codes: SignInCodes;
  readonly sessions: Sessions;
  readonly behind: Behind;
  readonly port: number;
}

export interface RequestFacts {
  Bindings: {
    reached: Reached;
    /** Breaks the connection: for an answer that turns out wrong once its beginning has gone. */
    breakOff: () => void;
    /** Of a browser that another server let in. */
    session?: Session;
  };
  Variables: {
    reached: Reached;
    cookies: CookieNames;
    /** Of the browser that is signed in; only routes behind the sign-in have it. */
    session: Session;
  };
}

/** A parameter of the address that a page was asked for; undefined where it has none. */
export type Parameter = (name: string) => string | undefined;

export type RequestContext = Context<RequestFacts>;
export type WebApp = Hono<RequestFacts>;

/**
 * Runs `act` with the archive as the browser that asks may read it. Whatever an answer shows of the archive is read by
 * this reader: a sign-in may be limited to mailboxes.
 */
export function withReader<T>(
  { archive }: Pick<ArchiveParts, 'archive'>,
  context: RequestContext,
  act: (reader: ServedReader) => T | Promise<T>,
): Promise<T> {
  return archive.use(context.get('session').mailboxes, act);
}

/**
 * Returns a page as the answer to a request, in the theme of the browser that asks. The cookie is set again, because Safari
 * ends one that a script has set after seven days.
 */
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
  const themed = h(ChosenTheme.Provider, { value: theme }, content);
  return context.html(`<!doctype html>${renderToString(themed)}`, status);
}

export function seeOther(context: RequestContext, path: string): Response {
  return context.body(null, 303, { location: path });
}

/** Searches run one after the other: they hold the thread, and each may find that its browser has left. */
const searches = new Semaphore(1);

/**
 * Answers a request when it has its turn; one that the browser has left before is not begun. What `make` does until it
 * first waits belongs to the turn. What it waits for, such as a message that is parsed, holds up no other request, and is
 * given up when the browser leaves.
 *
 * @param make gets the signal that is aborted when the connection closes
 */
export async function inTurn(
  context: RequestContext,
  make: (signal: AbortSignal) => Response | Promise<Response>,
): Promise<Response> {
  const { signal } = context.req.raw;
  try {
    // Within an object, the turn does not wait for the answer.
    const { answer } = await searches.run(() => ({ answer: make(signal) }), signal);
    return await answer;
  } catch (error) {
    if (!signal.aborted) throw error;
    // Nobody hears it.
    return context.body(null, 503);
  }
}

export type AddData = (
  path: string,
  make: (reader: ServedReader, parameter: Parameter) => object | null,
) => void;

export function dataRoute(app: WebApp, parts: Pick<ArchiveParts, 'archive'>): AddData {
  return (path, make) => {
    app.get(path, (context) => {
      const parameter: Parameter = (name) => context.req.query(name);
      return inTurn(context, () =>
        withReader(parts, context, (reader) => context.json({ data: make(reader, parameter) })),
      );
    });
  };
}

/** Returns what a download obeys while it is sent: it breaks off where its session ends. */
export function downloadHooks(
  context: RequestContext,
  { sessions, now, onError }: Pick<ArchiveParts, 'sessions' | 'now' | 'onError'>,
  release: () => void,
): DownloadHooks {
  const { key } = context.get('session');
  const { signal } = context.req.raw;
  return {
    release,
    mayContinue: () => sessions.isOpen(key, now()),
    breakOff: context.env.breakOff,
    failed(error) {
      // That a browser left is no failure.
      if (!signal.aborted) onError(error);
    },
  };
}

/** Bytes of a form with two short fields. */
const MOST_BYTES = 4_096;

/** Returns the fields of a form; null for a body that is none of ours: of another type, or too long. */
export async function formBody(
  request: Request,
  most = MOST_BYTES,
): Promise<URLSearchParams | null> {
  const type = request.headers.get('content-type') ?? '';
  if (!/^application\/x-www-form-urlencoded(?:;|$)/i.test(type)) return null;
  if (Number(request.headers.get('content-length') ?? '0') > most) return null;
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of request.body ?? []) {
    size += piece.byteLength;
    if (size > most) return null;
    pieces.push(piece);
  }
  return new URLSearchParams(Buffer.concat(pieces).toString('utf8'));
}

/** Returns the fields of a form that a page of this session has sent; null for any other. */
export async function ownForm(
  { forms }: Pick<ArchiveParts, 'forms'>,
  context: RequestContext,
): Promise<URLSearchParams | null> {
  const fields = await formBody(context.req.raw);
  return forms.isOf(context.get('session').key, fields?.get('token') ?? '') ? fields : null;
}

const MOST_LIMITS = 64;

/**
 * Returns a function that gives each reader something of its own: what is kept of one limit to mailboxes is never shown
 * to a reader with another.
 */
export function byLimit<T>(make: (reader: ServedReader) => T): (reader: ServedReader) => T {
  const known = new Map<string, T>();
  return (reader) => {
    const key = JSON.stringify(reader.mailboxes);
    const kept = known.get(key) ?? make(reader);
    if (known.size >= MOST_LIMITS) known.clear();
    known.set(key, kept);
    return kept;
  };
}
