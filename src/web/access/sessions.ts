import { createHash, randomBytes } from 'node:crypto';
import { MailkeepError } from '../../errors/mailkeep-error.ts';
import type { StateFile } from '../../state/state-file.ts';
import type { WebSession } from '../../state/values.ts';

/** How long a browser stays signed in, in milliseconds. */
export const SESSION_MS = 30 * 24 * 3_600_000;
/** The last use is written down this often at most. */
const NOTED_MS = 60_000;
const SCOPE = 'web-session';
/** Characters of what a browser calls itself. */
const AGENT_LENGTH = 400;

/** A browser that is signed in. */
export interface Session extends WebSession {
  /** SHA-256 of the cookie's value, in hexadecimal digits: the value itself is stored nowhere. */
  readonly key: string;
}

/** Where sessions are kept. */
export interface SessionStore {
  get(key: string): WebSession | undefined;
  list(): readonly Session[];
  /** Undefined removes the session. */
  set(key: string, session: WebSession | undefined): void;
}

/** Returns a store in the archive's state, which outlives the server. */
export function storedSessions(state: Pick<StateFile, 'get' | 'entries' | 'set'>): SessionStore {
  return {
    get: (key) => state.get(SCOPE, key),
    list: () => state.entries(SCOPE).map(({ key, value }) => ({ key, ...value })),
    set: (key, session) => state.set(SCOPE, key, session),
  };
}

/** Returns a store that ends with the server: for an archive on a medium that cannot be written. */
export function sessionsInMemory(): SessionStore {
  const sessions = new Map<string, WebSession>();
  return {
    get: (key) => sessions.get(key),
    list: () => [...sessions].map(([key, session]) => ({ key, ...session })),
    set(key, session) {
      if (session === undefined) sessions.delete(key);
      else sessions.set(key, session);
    },
  };
}

/** The signed-in browsers. Times are milliseconds since the epoch. */
export class Sessions {
  constructor(private readonly store: SessionStore) {}

  /** Returns the cookie's value for a new session: 256 random bits. Sessions that have expired are removed. */
  begin(
    { agent, mailboxes }: Pick<WebSession, 'agent' | 'mailboxes'>,
    now: number,
  ): { readonly token: string; readonly session: Session } {
    for (const { key, createdAt } of this.store.list())
      if (hasExpired(createdAt, now)) this.store.set(key, undefined);
    const token = randomBytes(32).toString('base64url');
    const key = keyOf(token);
    const session = {
      ...{ createdAt: now, usedAt: now, mailboxes },
      agent: agent.slice(0, AGENT_LENGTH),
    };
    this.store.set(key, session);
    return { token, session: { key, ...session } };
  }

  /** Returns the session of a cookie's value, and notes its use; undefined for one that ended or never was. */
  find(token: string, now: number): Session | undefined {
    const key = keyOf(token);
    const session = this.store.get(key);
    if (session === undefined) return undefined;
    if (hasExpired(session.createdAt, now)) return undefined;
    if (now - session.usedAt >= NOTED_MS) this.#note(key, { ...session, usedAt: now });
    return { key, ...session };
  }

  /** Returns whether a session has neither ended nor expired; that is no use of it. */
  isOpen(key: string, now: number): boolean {
    const session = this.store.get(key);
    return session !== undefined && !hasExpired(session.createdAt, now);
  }

  /** Returns all that have not expired, the last used first. */
  list(now: number): readonly Session[] {
    return this.store
      .list()
      .filter(({ createdAt }) => !hasExpired(createdAt, now))
      .toSorted((a, b) => b.usedAt - a.usedAt);
  }

  end(key: string): void {
    this.store.set(key, undefined);
  }

  /** When a session was last used is not worth an error: the state may be locked, or its disk full. */
  #note(key: string, session: WebSession): void {
    try {
      this.store.set(key, session);
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
    }
  }
}

function hasExpired(createdAt: number, now: number): boolean {
  return now >= createdAt + SESSION_MS;
}

function keyOf(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}
