/**
 * Signing in with OAuth: the device authorization flow (RFC 8628), the authorization code with PKCE over a loopback
 * address (RFC 8252) where a provider has no device flow for mail, refreshing, and client credentials.
 *
 * `openid-client` sends and validates; this file chooses the flow, limits what a server can send, and translates errors.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import * as client from 'openid-client';
import { isLoopback } from '../core/address.ts';
import { type Clock, sleep } from '../core/concurrency.ts';
import type { OAuthSettings } from '../core/config-schema.ts';
import { errnoOf, MailkeepError } from '../core/errors.ts';
import { Secret } from '../core/secrets.ts';
import { bytesAtMost } from '../core/streams.ts';
import { imapError } from './errors.ts';
import type { AccessToken, StoredTokens } from './oauth-tokens.ts';

const MAX_ANSWER = 1024 * 1024;
const ANSWER_SECONDS = 30;
const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';
/** Seconds between polls if the server names none, and what `slow_down` adds (RFC 8628, 3.5). */
const POLL_SECONDS = 5;
/** Longest time between polls, whatever the server asks for. */
const MAX_POLL_SECONDS = 60;
/** Longest time to wait for a person, whatever the server allows. */
const MAX_LOGIN_MS = 3_600_000;
const BROWSER_MS = 600_000;
const LOOPBACK = 'http://127.0.0.1';

export interface OAuthClient {
  /** Name in the configuration, for errors. */
  readonly account: string;
  readonly settings: OAuthSettings;
  readonly clientSecret: Secret | null;
  readonly clock: Clock;
}

/** What the user must do. `code` is null if the address contains everything. */
export interface LoginPrompt {
  readonly url: string;
  readonly code: string | null;
  readonly minutes: number;
}

interface LoginDialogue {
  /** Prints where to sign in; called once. */
  readonly show: (prompt: LoginPrompt) => void;
  /** Asks for the address at which a browser on another machine ended, until the signal aborts. */
  readonly paste?: (signal: AbortSignal) => Promise<string>;
}

type Tokens = client.TokenEndpointResponse;

/**
 * Signs a person in. Uses the device flow if the server has one, and otherwise waits for a browser on this machine.
 *
 * @throws imap.oauth-refused, imap.oauth-not-signed-in, imap.oauth-scope, imap.oauth-unreachable, imap.oauth-malformed;
 *   the signal's reason
 */
export async function login(
  oauth: OAuthClient,
  dialogue: LoginDialogue,
  signal: AbortSignal,
): Promise<StoredTokens> {
  const server = await AuthorizationServer.discover(oauth, signal);
  const tokens = server.hasDeviceFlow
    ? await server.device(dialogue)
    : await server.browser(dialogue);
  const refresh = tokens.refresh_token;
  if (refresh === undefined) throw server.malformed('no refresh token');
  server.checkScope(tokens);
  return { refresh: new Secret(refresh), access: server.accessToken(tokens) };
}

/**
 * Exchanges a refresh token. The result has a new one if the server rotates them.
 *
 * @throws imap.login-needed if the sign-in has ended; otherwise like `login`
 */
export async function refresh(
  oauth: OAuthClient,
  stored: StoredTokens,
  signal: AbortSignal,
): Promise<StoredTokens> {
  const server = await AuthorizationServer.discover(oauth, signal);
  const tokens = await server.refresh(stored.refresh.reveal());
  return {
    refresh: tokens.refresh_token === undefined ? stored.refresh : new Secret(tokens.refresh_token),
    access: server.accessToken(tokens),
  };
}

/** Returns an access token of the application itself. */
export async function appToken(oauth: OAuthClient, signal: AbortSignal): Promise<AccessToken> {
  const server = await AuthorizationServer.discover(oauth, signal);
  return server.accessToken(await server.clientCredentials());
}

class AuthorizationServer {
  private constructor(
    private readonly config: client.Configuration,
    private readonly oauth: OAuthClient,
    private readonly exchange: Exchange,
    private readonly signal: AbortSignal,
  ) {}

  static async discover(oauth: OAuthClient, signal: AbortSignal): Promise<AuthorizationServer> {
    const { settings, clientSecret } = oauth;
    const url = new URL(settings.issuer);
    const exchange = new Exchange(oauth.account, url.host, signal);
    const secret = clientSecret?.reveal();
    const authentication: client.ClientAuth = (server, ...rest) => {
      const methods = server.token_endpoint_auth_methods_supported ?? [];
      if (secret === undefined) return client.None()(server, ...rest);
      return methods.includes('client_secret_post')
        ? client.ClientSecretPost(secret)(server, ...rest)
        : client.ClientSecretBasic(secret)(server, ...rest);
    };
    const discover = (algorithm: 'oidc' | 'oauth2') =>
      client.discovery(url, settings.clientId, {}, authentication, {
        algorithm,
        timeout: ANSWER_SECONDS,
        [client.customFetch]: exchange.fetch,
        execute: url.protocol === 'http:' ? [client.allowInsecureRequests] : [],
      });
    const config = await exchange.guard(async () => {
      try {
        return await discover('oidc');
      } catch (error) {
        // A server without OpenID Connect has its metadata elsewhere (RFC 8414).
        if (exchange.lastStatus !== 404) throw error;
        return discover('oauth2');
      }
    });
    return new AuthorizationServer(config, oauth, exchange, signal);
  }

  /** Google's device flow refuses scopes for mail. */
  get hasDeviceFlow(): boolean {
    const { device_authorization_endpoint: endpoint } = this.config.serverMetadata();
    return endpoint !== undefined && this.oauth.settings.provider !== 'google';
  }

  async device({ show }: LoginDialogue): Promise<Tokens> {
    const { clock, settings, account } = this.oauth;
    const started = await this.exchange.guard(() =>
      client.initiateDeviceAuthorization(this.config, { scope: settings.scope }),
    );
    const url = started.verification_uri_complete ?? started.verification_uri;
    this.#checkShown(url, started.user_code);
    const ms = Math.min(started.expires_in * 1_000, MAX_LOGIN_MS);
    const until = clock.now() + ms;
    const minutes = Math.max(1, Math.round(ms / 60_000));
    show({ url, code: started.user_code, minutes });
    let seconds = started.interval ?? POLL_SECONDS;
    for (;;) {
      seconds = Math.min(Math.max(seconds, 1), MAX_POLL_SECONDS);
      await sleep(clock, Math.min(seconds * 1_000, until - clock.now()), this.signal);
      if (clock.now() >= until)
        throw imapError('imap.oauth-not-signed-in', { account, reason: 'expired' });
      try {
        const { device_code } = started;
        return await this.exchange.guard(() =>
          client.genericGrantRequest(this.config, DEVICE_GRANT, { device_code }),
        );
      } catch (error) {
        if (!(error instanceof MailkeepError)) throw error;
        const { code, facts } = error;
        if (code === 'imap.oauth-unreachable') seconds = seconds * 2 + 1;
        else if (facts.error === 'slow_down') seconds += POLL_SECONDS;
        else if (facts.error !== 'authorization_pending') throw error;
      }
    }
  }

  /** Receives the authorization code at a loopback address, with PKCE (RFC 8252, 7.3). */
  async browser({ show, paste }: LoginDialogue): Promise<Tokens> {
    const { settings, clock, account } = this.oauth;
    const pkceCodeVerifier = client.randomPKCECodeVerifier();
    const expectedState = client.randomState();
    const received = Promise.withResolvers<URL>();
    // Unless the sign-in is over, it is awaited below.
    received.promise.catch(() => {});
    const isAnswerAt = (url: URL): boolean => url.searchParams.get('state') === expectedState;
    const listener = createServer((request, response) => {
      const target = request.url ?? '/';
      const url = URL.canParse(target, LOOPBACK) ? new URL(target, LOOPBACK) : undefined;
      const isAnswer = url !== undefined && isAnswerAt(url);
      response.writeHead(isAnswer ? 200 : 404, {
        'content-type': 'text/plain; charset=utf-8',
        'cache-control': 'no-store',
        connection: 'close',
      });
      response.end(
        isAnswer ? 'mailkeep has the answer. You can close this page.\n' : 'Not found.\n',
      );
      if (isAnswer) received.resolve(url);
    });
    listener.listen(0, '127.0.0.1');
    await once(listener, 'listening');
    const { port } = listener.address() as AddressInfo;
    const redirect = new URL(`${LOOPBACK}:${port}/`);
    const over = new AbortController();
    const stopped = AbortSignal.any([this.signal, over.signal]);
    try {
      const url = client.buildAuthorizationUrl(this.config, {
        redirect_uri: redirect.href,
        scope: settings.scope,
        state: expectedState,
        code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier),
        code_challenge_method: 'S256',
        // Otherwise servers ignore offline_access, and issue no refresh token (OpenID Connect Core 1.0, 11).
        ...(settings.scope.split(/\s+/).includes('offline_access') ? { prompt: 'consent' } : {}),
        // Google issues a refresh token only with both.
        ...(settings.provider === 'google' ? { access_type: 'offline', prompt: 'consent' } : {}),
      });
      this.#checkShown(url.href, '');
      show({ url: url.href, code: null, minutes: BROWSER_MS / 60_000 });
      const tooLate = sleep(clock, BROWSER_MS, stopped).then(() => {
        throw imapError('imap.oauth-not-signed-in', { account, reason: 'expired' });
      });
      const pasted = async (): Promise<URL> => {
        for (;;) {
          const text = (await paste?.(stopped)) ?? '';
          if (URL.canParse(text) && isAnswerAt(new URL(text))) return new URL(text);
        }
      };
      const answers = paste === undefined ? [] : [pasted()];
      const answer = await Promise.race([received.promise, tooLate, ...answers]);
      const current = new URL(`${redirect.href}${answer.search}`);
      const checks = { pkceCodeVerifier, expectedState };
      return await this.exchange.guard(() =>
        client.authorizationCodeGrant(this.config, current, checks),
      );
    } finally {
      over.abort();
      listener.close();
      listener.closeAllConnections();
    }
  }

  async refresh(refreshToken: string): Promise<Tokens> {
    const { account } = this.oauth;
    try {
      return await this.exchange.guard(() => client.refreshTokenGrant(this.config, refreshToken));
    } catch (error) {
      const isOver = error instanceof MailkeepError && error.facts.error === 'invalid_grant';
      if (!isOver) throw error;
      throw imapError('imap.login-needed', { account, reason: 'ended' }, error);
    }
  }

  clientCredentials(): Promise<Tokens> {
    const { scope } = this.oauth.settings;
    return this.exchange.guard(() => client.clientCredentialsGrant(this.config, { scope }));
  }

  accessToken({ access_token: token, expires_in: seconds }: Tokens): AccessToken {
    const { clock } = this.oauth;
    // It is sent in a line of IMAP.
    if (!/^[\x21-\x7e]{1,65536}$/.test(token)) throw this.malformed('an access token');
    const expiresAt = seconds === undefined ? null : clock.now() + seconds * 1_000;
    return { secret: new Secret(token), expiresAt };
  }

  /** A person can refuse single scopes. Servers need not name those that they grant (RFC 6749, 5.1). */
  checkScope({ scope }: Tokens): void {
    if (scope === undefined) return;
    const granted = new Set(scope.toLowerCase().split(' '));
    const { account, settings } = this.oauth;
    const missing = settings.scope
      .split(/\s+/)
      .filter((one) => !/^(?:offline_access|openid|)$/.test(one))
      .filter((one) => !granted.has(one.toLowerCase()));
    if (missing.length > 0)
      throw imapError('imap.oauth-scope', { account, missing: missing.join(' ') });
  }

  malformed(found: string): MailkeepError {
    return imapError('imap.oauth-malformed', { host: this.exchange.host, found });
  }

  /** The server decides what the user sees and opens. */
  #checkShown(url: string, code: string): void {
    const parsed = URL.canParse(url) ? new URL(url) : undefined;
    const isSafe =
      parsed?.protocol === 'https:' ||
      (parsed?.protocol === 'http:' && isLoopback(parsed.hostname));
    if (!isSafe || url.length > 4_096) throw this.malformed('an address for the sign-in');
    if (!/^[\x20-\x7e]{0,64}$/.test(code)) throw this.malformed('a code for the sign-in');
  }
}

/** Requests to one server: limited in time and size, with errors in the terms of this program. */
class Exchange {
  lastStatus = 0;
  #failure: MailkeepError | undefined;

  constructor(
    private readonly account: string,
    readonly host: string,
    private readonly signal: AbortSignal,
  ) {}

  readonly fetch: client.CustomFetch = async (url, { body, ...options }) => {
    const { host, signal } = this;
    let response: Response;
    let bytes: Buffer | null;
    try {
      response = await fetch(url, {
        ...options,
        ...(body === undefined || body === null ? {} : { body }),
        signal: options.signal ? AbortSignal.any([options.signal, signal]) : signal,
      } as RequestInit);
      bytes = await bytesAtMost(response.body, MAX_ANSWER);
    } catch (error) {
      signal.throwIfAborted();
      this.#failure = imapError('imap.oauth-unreachable', { host, reason: reasonOf(error) }, error);
      throw this.#failure;
    }
    const { status, headers } = response;
    this.lastStatus = status;
    if (status >= 500 || status === 429) {
      this.#failure = imapError('imap.oauth-unreachable', { host, reason: `HTTP ${status}` });
      throw this.#failure;
    }
    if (bytes === null) {
      const found = `more than ${MAX_ANSWER} bytes`;
      this.#failure = imapError('imap.oauth-malformed', { host, found });
      throw this.#failure;
    }
    return new Response(status === 204 ? null : new Uint8Array(bytes), { status, headers });
  };

  async guard<T>(act: () => Promise<T>): Promise<T> {
    this.#failure = undefined;
    try {
      return await act();
    } catch (error) {
      this.signal.throwIfAborted();
      if (error instanceof MailkeepError) throw error;
      throw this.#failure ?? this.#translate(error);
    }
  }

  #translate(error: unknown): unknown {
    const { host, account } = this;
    // A client that sent its secret in a header is refused in one (RFC 6749, 5.2).
    const named =
      error instanceof client.WWWAuthenticateChallengeError
        ? 'invalid_client'
        : error instanceof client.ResponseBodyError ||
            error instanceof client.AuthorizationResponseError
          ? error.error
          : undefined;
    if (named === undefined) {
      const code: unknown = Reflect.get(Object(error), 'code');
      if (typeof code !== 'string') return error;
      return imapError('imap.oauth-malformed', { host, found: code }, error);
    }
    if (named === 'access_denied' || named === 'expired_token') {
      const reason = named === 'access_denied' ? 'denied' : 'expired';
      return imapError('imap.oauth-not-signed-in', { account, reason }, error);
    }
    if (named === 'temporarily_unavailable' || named === 'server_error') {
      return imapError('imap.oauth-unreachable', { host, reason: named }, error);
    }
    const shown = /^[a-z0-9_.-]{1,64}$/i.test(named) ? named : 'unknown';
    return imapError('imap.oauth-refused', { host, account, error: shown }, error);
  }
}

function reasonOf(error: unknown): string {
  const { cause, name } = Object(error) as { cause?: unknown; name?: unknown };
  if (name === 'TimeoutError') return 'ETIMEDOUT';
  return errnoOf(cause) ?? errnoOf(error) ?? 'no answer';
}
