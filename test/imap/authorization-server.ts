import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import Provider, { type KoaContextWithOIDC } from 'oidc-provider';
import type { Introspection } from './dovecot.ts';

export interface ServerOptions {
  /** Who signs in, and for whom an application does. */
  readonly user: string;
  readonly clientSecret?: string;
  /** How clients send their secret; in the body by default. */
  readonly clientAuth?: 'client_secret_post' | 'client_secret_basic';
  /** What the client may ask for; by default everything that the server knows. */
  readonly clientScope?: string;
  /** What the server knows besides `openid` and `offline_access`; `imap` by default. It grants nothing else. */
  readonly scopes?: readonly string[];
  readonly hasDeviceFlow?: boolean;
  /** Seconds, an hour by default; null names none. */
  readonly expiresIn?: number | null;
  /** Seconds between polls; the server names none by default. */
  readonly interval?: number;
  /** Called before each answer to a request for tokens, and awaited. */
  readonly onToken?: () => unknown;
  /** Called with the address at which a person approves the sign-in of a device. */
  readonly onDevice?: (address: string) => void;
  /** Only has the metadata of RFC 8414. */
  readonly isPlainOAuth?: boolean;
}

export interface Visit {
  /** `user` of the server's options by default. */
  readonly user?: string;
  readonly denies?: boolean;
}

/** What the server has stored, and can end. */
interface Stored {
  readonly jti: string;
  exp?: number | undefined;
  save(): Promise<string>;
}

const CLIENT = 'client-1';
const JUDGE = { clientId: 'mail-server', clientSecret: 'may-ask', scope: 'imap' };
const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';
/** Seconds for which what has expired is kept: without them, the server would no longer know that it was there. */
const KEPT = 86_400;

/**
 * An authorization server on this machine, `oidc-provider`: device flow, authorization code with PKCE, client
 * credentials, refresh tokens that are accepted once, revocation and introspection. What it never answers is put in its
 * place with `faults`.
 */
export class AuthorizationServer {
  /** Parameters of each request for tokens that it answered. */
  readonly requests: URLSearchParams[] = [];
  /** Instead of answers to requests for tokens: an HTTP status with a body, or `cut`. */
  readonly faults: (readonly [status: number, body: string] | 'cut')[] = [];
  readonly #server = createServer();
  /** Access tokens and device codes. */
  readonly #stored = new Map<string, Stored>();
  #refreshToken = '';
  #provider: Provider | undefined;

  private constructor(private readonly options: ServerOptions) {}

  static async start(options: ServerOptions): Promise<AuthorizationServer> {
    const server = new AuthorizationServer(options);
    server.#server.listen(0, '127.0.0.1');
    await once(server.#server, 'listening');
    const provider = server.#configured();
    server.#provider = provider;
    const answer = provider.callback();
    const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
      if (!(await server.#breaks(request, response))) await answer(request, response);
    };
    server.#server.on('request', (request, response) => {
      respond(request, response).catch((error: unknown) => response.destroy(Object(error)));
    });
    return server;
  }

  get issuer(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** What a mail server needs to ask it for tokens (RFC 7662). */
  get introspection(): Introspection {
    return { url: `${this.issuer}/token/introspection`, ...JUDGE };
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  async accepts(accessToken: string): Promise<boolean> {
    const token = await this.#provider?.AccessToken.find(accessToken);
    return token?.isValid === true;
  }

  /** Ends access tokens and device codes, as time would. Sign-ins remain. */
  async expire(): Promise<void> {
    for (const stored of [...this.#stored.values()]) {
      stored.exp = Math.floor(Date.now() / 1_000) - 1;
      await stored.save();
    }
  }

  /** Ends the last sign-in, with all its tokens (RFC 7009). */
  async revoke(): Promise<void> {
    const { clientSecret } = this.options;
    const body = new URLSearchParams({ client_id: CLIENT, token: this.#refreshToken });
    if (clientSecret !== undefined) body.set('client_secret', clientSecret);
    const { status } = await fetch(`${this.issuer}/token/revocation`, { method: 'POST', body });
    if (status !== 200) throw new Error(`HTTP ${status} instead of a revocation`);
  }

  /** Does what a person does in a browser: opens the address and submits forms. Returns the address where it ends. */
  async visit(address: string, { user = this.options.user, denies }: Visit = {}): Promise<string> {
    const cookies = new Map<string, string>();
    let url = address;
    let form: URLSearchParams | undefined;
    for (let pages = 0; pages < 20; pages += 1) {
      const answer = await fetch(url, {
        redirect: 'manual',
        headers: { cookie: [...cookies].map((cookie) => cookie.join('=')).join('; ') },
        ...(form === undefined ? {} : { method: 'POST', body: form }),
      });
      for (const cookie of answer.headers.getSetCookie()) {
        const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(cookie) ?? [];
        cookies.set(name, value);
      }
      const page = await answer.text();
      const location = answer.headers.get('location');
      const isOver = form?.has('abort') === true;
      form = undefined;
      if (location !== null) {
        url = new URL(location, url).href;
        if (new URL(url).origin !== this.issuer) return url;
        continue;
      }
      if (isOver) return url;
      if (answer.status !== 200) throw new Error(`HTTP ${answer.status} at ${url}: ${page}`);
      const action = /<form [^>]*action="([^"]+)"/.exec(page)?.[1];
      if (action === undefined) return url;
      const abort = /href="([^"]+\/abort)"/.exec(page)?.[1];
      if (denies === true && abort !== undefined) {
        url = new URL(abort, url).href;
        continue;
      }
      url = new URL(action, url).href;
      form = new URLSearchParams({ login: user, password: 'any' });
      for (const [, name = '', value = ''] of page.matchAll(/ name="(\w+)" value="([^"]*)"/g))
        form.set(name, value);
      if (denies === true && form.has('confirm')) {
        form.delete('confirm');
        form.set('abort', 'yes');
      }
    }
    throw new Error(`the sign-in did not end: ${url}`);
  }

  /** Answers in place of the provider, if that is wanted. */
  async #breaks(request: IncomingMessage, response: ServerResponse): Promise<boolean> {
    if (this.options.isPlainOAuth === true && request.url?.endsWith('/openid-configuration')) {
      response.writeHead(404).end();
      return true;
    }
    if (request.url !== '/token') return false;
    await this.options.onToken?.();
    const fault = this.faults.shift();
    if (fault === 'cut') response.destroy();
    else if (fault !== undefined)
      response.writeHead(fault[0], { 'content-type': 'application/json' }).end(fault[1]);
    return fault !== undefined;
  }

  #configured(): Provider {
    const { user, clientSecret, clientScope, scopes = ['imap'] } = this.options;
    const { hasDeviceFlow = true, expiresIn = 3_600, interval, onDevice } = this.options;
    const { clientAuth = 'client_secret_post' } = this.options;
    const provider = new Provider(this.issuer, {
      clients: [
        {
          client_id: CLIENT,
          application_type: 'native',
          // Loopback addresses are equal whatever their port (RFC 8252, 7.3).
          redirect_uris: ['http://127.0.0.1/'],
          grant_types: [
            'authorization_code',
            'refresh_token',
            ...(hasDeviceFlow ? [DEVICE_GRANT] : []),
            ...(clientSecret === undefined ? [] : ['client_credentials']),
          ],
          ...(clientSecret === undefined
            ? { token_endpoint_auth_method: 'none' }
            : { token_endpoint_auth_method: clientAuth, client_secret: clientSecret }),
          ...(clientScope === undefined ? {} : { scope: clientScope }),
        },
        {
          client_id: JUDGE.clientId,
          client_secret: JUDGE.clientSecret,
          token_endpoint_auth_method: clientAuth,
          ...{ grant_types: [], response_types: [], redirect_uris: [] },
        },
      ],
      clientAuthMethods: ['none', clientAuth],
      scopes: ['openid', 'offline_access', ...scopes],
      features: {
        deviceFlow: { enabled: hasDeviceFlow },
        clientCredentials: { enabled: true },
        introspection: { enabled: true },
        revocation: { enabled: true },
      },
      findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
      extraTokenClaims: (_context, token) => ({
        email: token.kind === 'AccessToken' ? token.accountId : user,
      }),
      rotateRefreshToken: true,
      ttl: { AccessToken: expiresIn ?? 3_600, ClientCredentials: expiresIn ?? 3_600 },
      clockTolerance: KEPT,
      cookies: { keys: ['only-here'] },
    });
    const store = (stored: Stored): unknown => this.#stored.set(stored.jti, stored);
    provider.on('access_token.saved', store);
    provider.on('client_credentials.saved', store);
    provider.on('device_code.saved', store);
    provider.on('refresh_token.saved', ({ jti }) => {
      this.#refreshToken = jti;
    });
    const answered = (context: KoaContextWithOIDC): void => {
      this.requests.push(new URLSearchParams(context.oidc.body as Record<string, string>));
      if (expiresIn === null) Reflect.deleteProperty(Object(context.body), 'expires_in');
    };
    provider.on('grant.success', answered);
    provider.on('grant.error', answered);
    provider.on('device_authorization.success', (_context, body) => {
      if (interval !== undefined) body.interval = interval;
      onDevice?.(String(body.verification_uri_complete));
    });
    return provider;
  }
}
