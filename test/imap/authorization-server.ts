import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

export interface ServerOptions {
  readonly user: string;
  readonly clientId?: string;
  readonly clientSecret?: string;
  /** Answers to polls of the device flow, in order; after them, the sign-in succeeds. */
  readonly polls?: readonly string[];
  readonly hasDeviceFlow?: boolean;
  /** Seconds, an hour by default; null names none. */
  readonly expiresIn?: number | null;
  /** Seconds between polls. */
  readonly interval?: number;
  readonly rotates?: boolean;
  /** Called before each answer to a request for tokens. */
  readonly onToken?: () => void;
  readonly grantedScope?: string;
  /** Only has the metadata of RFC 8414. */
  readonly isPlainOAuth?: boolean;
}

interface Grant {
  readonly challenge: string;
  readonly redirect: string;
}

/** An authorization server on this machine: device flow, authorization code with PKCE, refresh, client credentials. */
export class AuthorizationServer {
  /** Parameters of each request for tokens. */
  readonly requests: URLSearchParams[] = [];
  readonly options: Required<Pick<ServerOptions, 'user' | 'clientId' | 'interval'>> & ServerOptions;
  /** Instead of answers to requests for tokens: an HTTP status with a body, or `cut`. */
  readonly faults: (readonly [status: number, body: string] | 'cut')[] = [];
  #polls: string[];
  readonly #codes = new Map<string, Grant>();
  readonly #access = new Set<string>();
  readonly #refresh = new Set<string>();
  readonly #server = createServer((request, response) => {
    this.#answer(request, response).catch((error: unknown) => response.destroy(Object(error)));
  });

  private constructor(options: ServerOptions) {
    this.options = { clientId: 'client-1', interval: 0.01, ...options };
    this.#polls = [...(options.polls ?? [])];
  }

  static async start(options: ServerOptions): Promise<AuthorizationServer> {
    const server = new AuthorizationServer(options);
    server.#server.listen(0, '127.0.0.1');
    await once(server.#server, 'listening');
    return server;
  }

  get issuer(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  accepts(accessToken: string): boolean {
    return this.#access.has(accessToken);
  }

  /** Ends all access tokens; with `all`, the sign-in as well. */
  revoke(all = false): void {
    this.#access.clear();
    if (all) this.#refresh.clear();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', this.issuer);
    const json = (status: number, value: object): void => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(value));
    };
    const { isPlainOAuth = false, hasDeviceFlow = true } = this.options;
    const metadata = isPlainOAuth
      ? '/.well-known/oauth-authorization-server'
      : '/.well-known/openid-configuration';
    const body = new URLSearchParams(await text(request));
    switch (`${request.method} ${url.pathname}`) {
      case `GET ${metadata}`:
        return json(200, {
          issuer: this.issuer,
          authorization_endpoint: `${this.issuer}/authorize`,
          token_endpoint: `${this.issuer}/token`,
          ...(hasDeviceFlow ? { device_authorization_endpoint: `${this.issuer}/device` } : {}),
          response_types_supported: ['code'],
          token_endpoint_auth_methods_supported: ['client_secret_post', 'none'],
        });
      case 'POST /device':
        return json(200, {
          device_code: 'device-1',
          user_code: 'WDJB-MJHT',
          verification_uri: `${this.issuer}/activate`,
          expires_in: 600,
          interval: this.options.interval,
        });
      case 'GET /authorize': {
        const code = randomUUID();
        const redirect = new URL(url.searchParams.get('redirect_uri') ?? '');
        const challenge = url.searchParams.get('code_challenge') ?? '';
        this.#codes.set(code, { challenge, redirect: redirect.href });
        redirect.searchParams.set('code', code);
        redirect.searchParams.set('state', url.searchParams.get('state') ?? '');
        response.writeHead(302, { location: redirect.href });
        response.end();
        return;
      }
      case 'POST /token': {
        this.requests.push(body);
        this.options.onToken?.();
        const fault = this.faults.shift();
        if (fault === 'cut') return void response.destroy();
        if (fault !== undefined) {
          response.writeHead(fault[0], { 'content-type': 'application/json' });
          return void response.end(fault[1]);
        }
        const error = this.#refusal(body);
        return error === undefined ? json(200, this.#tokens(body)) : json(400, { error });
      }
      // What Dovecot asks (RFC 7662).
      case 'POST /introspect': {
        const token = body.get('token') ?? '';
        return json(
          200,
          this.accepts(token) ? { active: true, email: this.options.user } : { active: false },
        );
      }
      default:
        return json(404, {});
    }
  }

  #refusal(body: URLSearchParams): string | undefined {
    const { clientId, clientSecret } = this.options;
    if (body.get('client_id') !== clientId) return 'invalid_client';
    if (clientSecret !== undefined && body.get('client_secret') !== clientSecret) {
      return 'invalid_client';
    }
    switch (body.get('grant_type')) {
      case 'urn:ietf:params:oauth:grant-type:device_code':
        return this.#polls.shift();
      case 'authorization_code': {
        const grant = this.#codes.get(body.get('code') ?? '');
        this.#codes.delete(body.get('code') ?? '');
        const verifier = body.get('code_verifier') ?? '';
        const challenge = createHash('sha256').update(verifier).digest('base64url');
        const isSame =
          grant?.challenge === challenge && grant.redirect === body.get('redirect_uri');
        return isSame ? undefined : 'invalid_grant';
      }
      case 'refresh_token':
        return this.#refresh.has(body.get('refresh_token') ?? '') ? undefined : 'invalid_grant';
      case 'client_credentials':
        return clientSecret === undefined ? 'unauthorized_client' : undefined;
      default:
        return 'unsupported_grant_type';
    }
  }

  #tokens(body: URLSearchParams): object {
    const { rotates = true, grantedScope, expiresIn = 3_600 } = this.options;
    const access = `access-${randomUUID()}`;
    this.#access.add(access);
    const old = body.get('refresh_token');
    const isPersonal = body.get('grant_type') !== 'client_credentials';
    const isNew = isPersonal && (old === null || rotates);
    const next = `refresh-${randomUUID()}`;
    if (isNew) {
      if (old !== null) this.#refresh.delete(old);
      this.#refresh.add(next);
    }
    return {
      access_token: access,
      token_type: 'Bearer',
      ...(expiresIn === null ? {} : { expires_in: expiresIn }),
      ...(isNew ? { refresh_token: next } : {}),
      ...(grantedScope === undefined ? {} : { scope: grantedScope }),
    };
  }
}
