import type { Context, Hono } from 'hono';
import { h, type VNode } from 'preact';
import { renderToString } from 'preact-render-to-string';
import type { ArchivePolicy } from '../../engine/status/archive-policy.ts';
import type { Reached } from '../../listener/admission.ts';
import type { MirrorSurface } from '../../mirror/mirror-surface.ts';
import type { SearchNode } from '../../search/ast.ts';
import { type CookieNames, cookieValue } from '../access/cookies.ts';
import type { FormTokens } from '../access/form-tokens.ts';
import type { Session, Sessions } from '../access/sessions.ts';
import type { SignInCodes } from '../access/sign-in-codes.ts';
import type { McpSurface } from '../mcp/mcp-surface.ts';
import { ChosenTheme } from '../pages/chosen-theme.ts';
import { THEME_COOKIE, themeCookie, themeOf } from '../pages/theme.ts';
import type { ServedArchive, ServedReader } from '../reading/served-archive.ts';
import type { Assets } from './assets.ts';
import type { EventStreams } from './event-streams.ts';

/** What the routes behind the sign-in work with. */
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

/** What lets browsers in. */
export interface DoorParts extends Pick<ArchiveParts, 'assets' | 'forms' | 'now' | 'onError'> {
  readonly codes: SignInCodes;
  readonly sessions: Sessions;
  readonly behind: Behind;
  /** Where the server listens. */
  readonly port: number;
}

/** What is known of a request before its route runs. */
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

/** Returns an answer that a browser follows by a GET, on a path of this server. */
export function seeOther(context: RequestContext, path: string): Response {
  return context.body(null, 303, { location: path });
}
