import type { Context, Hono } from 'hono';
import type { VNode } from 'preact';
import { renderToString } from 'preact-render-to-string';
import type { SearchNode } from '../../search/ast.ts';
import type { CookieNames } from '../access/cookies.ts';
import type { FormTokens } from '../access/form-tokens.ts';
import type { OwnAddresses, Reached } from '../access/request-rules.ts';
import type { Session, Sessions } from '../access/sessions.ts';
import type { SignInCodes } from '../access/sign-in-codes.ts';
import type { ServedArchive } from '../reading/served-archive.ts';
import type { Assets } from './assets.ts';

/** What the routes work with. */
export interface WebParts {
  readonly archive: ServedArchive;
  readonly assets: Assets;
  readonly codes: SignInCodes;
  readonly sessions: Sessions;
  readonly forms: FormTokens;
  readonly own: OwnAddresses;
  /** Where the server listens. */
  readonly port: number;
  readonly accounts: (node: SearchNode) => ReadonlyMap<string, string>;
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
}

/** What is known of a request before its route runs. */
export interface RequestFacts {
  Bindings: {
    reached: Reached;
    /** Breaks the connection: for an answer that turns out wrong once its beginning has gone. */
    breakOff: () => void;
  };
  Variables: {
    reached: Reached;
    cookies: CookieNames;
    /** Of the browser that is signed in; only routes behind the sign-in have it. */
    session: Session;
  };
}

export type RequestContext = Context<RequestFacts>;
export type WebApp = Hono<RequestFacts>;

/** Returns a page as the answer to a request. */
export function page(
  context: RequestContext,
  content: VNode,
  status: 200 | 400 | 403 | 404 | 410 | 500 = 200,
): Response {
  return context.html(`<!doctype html>${renderToString(content)}`, status);
}

/** Returns an answer that a browser follows by a GET, on a path of this server. */
export function seeOther(context: RequestContext, path: string): Response {
  return context.body(null, 303, { location: path });
}
