import { type Clock, systemClock } from '../core/concurrency.ts';
import type { ImapAccount, OAuthSettings } from '../core/config-schema.ts';
import { readPassword, type Secret } from '../core/secrets.ts';
import type { Credential } from './connection.ts';
import type { ConnectionsOptions } from './connections.ts';
import { imapError } from './errors.ts';
import type { OAuthClient } from './oauth.ts';
import {
  type AccessToken,
  readTokens,
  type StoredTokens,
  tokensFile,
  withTokensLocked,
  writeTokens,
} from './oauth-tokens.ts';

/** A token is not used in its last minute, because clocks differ and a connection takes time. */
const SPARE_MS = 60_000;

export interface CredentialOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Directory of the archive, which has the tokens of accounts that sign in with OAuth. */
  readonly dataDir: string;
  readonly clock?: Clock;
}

/**
 * Returns a function that reads an account's credential for each connection, and refreshes its access token if needed.
 *
 * @throws (the function) token-missing and the like, imap.login-needed, and the errors of `refresh` in oauth.ts
 */
export function imapCredential(
  { name, imap: { signIn } }: Pick<ImapAccount, 'name' | 'imap'>,
  { env, dataDir, clock = systemClock }: CredentialOptions,
): ConnectionsOptions['credential'] {
  if (signIn.kind !== 'oauth') {
    const { kind, secret } = signIn;
    return async (_, signal) => ({ kind, secret: await readPassword(secret, env, kind, signal) });
  }
  const client = () => oauthClient(name, signIn, { env, clock });
  const tokens = new AccessTokens(name, client, signIn, tokensFile(dataDir, name));
  return async (refused): Promise<Credential> => {
    const { secret } = await tokens.read(refused);
    return { kind: 'token', secret, ...(signIn.appOnly ? {} : { login: name }) };
  };
}

/** Returns an account's OAuth client with its secret. */
export async function oauthClient(
  account: string,
  settings: OAuthSettings,
  { env, clock = systemClock }: Omit<CredentialOptions, 'dataDir'>,
): Promise<OAuthClient> {
  const { clientSecret } = settings;
  const secret =
    clientSecret === null ? null : await readPassword(clientSecret, env, 'client secret');
  return { account, settings, clientSecret: secret, clock };
}

/** An account's access token. Connections that need one at the same time share a refresh. */
class AccessTokens {
  #pending: Promise<AccessToken> | undefined;
  #app: AccessToken | undefined;
  /** Tokens of a refresh that could not be stored, and the refresh token that they replace. */
  #unstored: { readonly from: Secret; readonly next: StoredTokens } | undefined;

  constructor(
    private readonly account: string,
    private readonly client: () => Promise<OAuthClient>,
    private readonly settings: OAuthSettings,
    private readonly file: string,
  ) {}

  /** @param refused the token that the IMAP server has just refused, or null */
  async read(refused: Secret | null): Promise<AccessToken> {
    // The connection that waits may ask for another token than the one whose refresh is running.
    await this.#pending?.catch(() => {});
    this.#pending ??= this.#read(refused).finally(() => {
      this.#pending = undefined;
    });
    return this.#pending;
  }

  async #read(refused: Secret | null): Promise<AccessToken> {
    const client = await this.client();
    const isUsable = ({ secret, expiresAt }: AccessToken): boolean =>
      secret.reveal() !== refused?.reveal() &&
      (expiresAt === null || expiresAt - SPARE_MS > client.clock.now());
    // A refresh that was sent must be stored, because the server may have ended the old token. So nothing aborts it.
    const { signal } = new AbortController();
    if (this.settings.appOnly) {
      if (this.#app !== undefined && isUsable(this.#app)) return this.#app;
      const { appToken } = await import('./oauth.ts');
      this.#app = await appToken(client, signal);
      return this.#app;
    }
    const found = this.#stored();
    if (this.#unstored === undefined && isUsable(found.access)) return found.access;
    const { refresh } = await import('./oauth.ts');
    return withTokensLocked(this.file, systemClock, async () => {
      this.#store();
      // Another process may have refreshed them meanwhile.
      const stored = this.#stored();
      if (isUsable(stored.access)) return stored.access;
      // A folder that cannot be written to shows before the server ends the old token.
      writeTokens(this.file, this.settings, stored);
      const next = await refresh(client, stored, signal);
      this.#unstored = { from: stored.refresh, next };
      writeTokens(this.file, this.settings, next);
      this.#unstored = undefined;
      return next.access;
    });
  }

  /** Stores the last refresh, unless somebody has signed in again since. */
  #store(): void {
    if (this.#unstored === undefined) return;
    const { from, next } = this.#unstored;
    const isCurrent = this.#stored().refresh.reveal() === from.reveal();
    if (isCurrent) writeTokens(this.file, this.settings, next);
    this.#unstored = undefined;
  }

  #stored() {
    const stored = readTokens(this.file, this.settings);
    if (typeof stored !== 'string') return stored;
    throw imapError('imap.login-needed', { account: this.account, reason: stored });
  }
}
