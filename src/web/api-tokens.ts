import { createHmac, randomBytes } from 'node:crypto';
import { MailkeepError } from '../core/errors.ts';
import type { ApiToken, StateFile } from '../core/state.ts';

const SCOPE = 'api-token';
const KEY_SCOPE = 'api-token-key';
const KEY = 'hmac-sha256';
const USE_RECORD_MS = 60_000;
const PREFIX = 'mk_';

/** An archive's API tokens. Only an HMAC of each secret is stored, under a key specific to this archive. */
export class ApiTokens {
  constructor(private readonly state: Pick<StateFile, 'get' | 'entries' | 'set' | 'together'>) {}

  create(
    { name, mailboxes, expiresAt }: Pick<ApiToken, 'name' | 'mailboxes' | 'expiresAt'>,
    now: number,
  ): { readonly secret: string; readonly token: ApiToken } {
    const secret = PREFIX + randomBytes(32).toString('base64url');
    const id = randomBytes(4).toString('hex');
    const token = { id, name, mailboxes, expiresAt, createdAt: now, usedAt: null };
    this.state.set(SCOPE, hashOf(secret, this.#hmacKey()), token);
    return { secret, token };
  }

  list(): ApiToken[] {
    return this.state
      .entries(SCOPE)
      .map(({ value }) => value)
      .toSorted((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
  }

  revoke(idOrName: string): ApiToken[] {
    const found = this.state
      .entries(SCOPE)
      .filter(({ value }) => value.id === idOrName || value.name === idOrName);
    for (const { key } of found) this.state.set(SCOPE, key, undefined);
    return found.map(({ value }) => value);
  }

  /** Returns the token with this secret, and records its use; undefined if it is expired, revoked or unknown. */
  find(secret: string, now: number): ApiToken | undefined {
    const hmacKey = this.state.get(KEY_SCOPE, KEY);
    if (hmacKey === undefined) return undefined;
    const key = hashOf(secret, hmacKey);
    const token = this.state.get(SCOPE, key);
    if (token === undefined || hasExpired(token, now)) return undefined;
    if (token.usedAt === null || now - token.usedAt >= USE_RECORD_MS) this.#recordUse(key, now);
    return token;
  }

  #hmacKey(): string {
    return this.state.together(() => {
      const known = this.state.get(KEY_SCOPE, KEY);
      if (known !== undefined) return known;
      const key = randomBytes(32).toString('base64url');
      this.state.set(KEY_SCOPE, KEY, key);
      return key;
    });
  }

  /** Ignores a locked state file or a full disk. Must not restore a token that another process has just revoked. */
  #recordUse(key: string, now: number): void {
    try {
      this.state.together(() => {
        const token = this.state.get(SCOPE, key);
        if (token !== undefined) this.state.set(SCOPE, key, { ...token, usedAt: now });
      });
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
    }
  }
}

export function hasExpired({ expiresAt }: Pick<ApiToken, 'expiresAt'>, now: number): boolean {
  return expiresAt !== null && now >= expiresAt;
}

function hashOf(secret: string, key: string): string {
  const hmac = createHmac('sha256', Buffer.from(key, 'base64url'));
  return hmac.update(secret).digest('hex');
}
