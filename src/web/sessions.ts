import { createHash, randomBytes, randomInt, timingSafeEqual } from 'node:crypto';
import { errnoOf, MailkeepError } from '../core/errors.ts';
import {
  hasState,
  openExistingState,
  openState,
  readState,
  type StateFile,
  type WebSession,
} from '../core/state.ts';

/** How long a browser stays signed in, in milliseconds. */
export const SESSION_MS = 30 * 24 * 3_600_000;
const USE_RECORD_MS = 60_000;
const SCOPE = 'web-session';
const AGENT_LENGTH = 400;

export interface Session extends WebSession {
  /** SHA-256 of the cookie's value, in hexadecimal. The value itself is never stored. */
  readonly key: string;
}

/**
 * Stores sessions in the archive's state. Changes that cannot be written, for example on a full disk, stay in memory
 * until a later write succeeds, so ended sessions remain ended while the server runs.
 */
export class SessionStore {
  readonly #pending = new Map<string, WebSession | undefined>();

  /** @param state null keeps all sessions in memory, for an archive on a read-only medium */
  constructor(private readonly state: Pick<StateFile, 'get' | 'entries' | 'set'> | null) {}

  get(key: string): WebSession | undefined {
    return this.#pending.has(key) ? this.#pending.get(key) : this.state?.get(SCOPE, key);
  }

  list(): readonly Session[] {
    const sessions = new Map<string, WebSession | undefined>(
      this.state?.entries(SCOPE).map(({ key, value }) => [key, value]),
    );
    for (const [key, session] of this.#pending) sessions.set(key, session);
    return [...sessions].flatMap(([key, session]) => (session ? { key, ...session } : []));
  }

  /** Undefined removes the session. */
  set(key: string, session: WebSession | undefined): void {
    this.#pending.set(key, session);
    if (this.#write(key)) for (const waiting of this.#pending.keys()) this.#write(waiting);
    // Only its last use has changed. Keeping that in memory would hide that another process has ended the session.
    else if (session && this.state?.get(SCOPE, key)) this.#pending.delete(key);
  }

  #write(key: string): boolean {
    if (this.state === null) return false;
    try {
      this.state.set(SCOPE, key, this.#pending.get(key));
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
      return false;
    }
    return this.#pending.delete(key);
  }
}

type Awaitable<T> = T | Promise<T>;

/** Sessions as the sign-in pages use them. A fleet keeps its sessions in its registry. */
export interface BrowserSessions {
  /** Starts a session with a one-time code. Returns its cookie value; null if the code is not valid. */
  enter(code: string, agent: string, now: number): Awaitable<string | null>;
  find(token: string, now: number): Awaitable<Session | undefined>;
  list(now: number): Awaitable<readonly Session[]>;
  end(key: string): Awaitable<void>;
}

/** Sessions of signed-in browsers. Times are milliseconds since the epoch. */
export class Sessions implements BrowserSessions {
  readonly codes = new SignInCodes();

  constructor(private readonly store: SessionStore) {}

  enter(code: string, agent: string, now: number): string | null {
    const grant = this.codes.redeem(code, now);
    return grant === null ? null : this.begin({ agent, mailboxes: grant.mailboxes }, now).token;
  }

  /** Starts a session and returns its cookie value, 256 random bits. Also removes expired sessions. */
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

  /** Finds the session for a cookie's value, and records its use. */
  find(token: string, now: number): Session | undefined {
    const key = keyOf(token);
    const session = this.store.get(key);
    if (session === undefined || hasExpired(session.createdAt, now)) return undefined;
    if (now - session.usedAt >= USE_RECORD_MS) this.store.set(key, { ...session, usedAt: now });
    return { key, ...session };
  }

  isOpen(key: string, now: number): boolean {
    const session = this.store.get(key);
    return session !== undefined && !hasExpired(session.createdAt, now);
  }

  list(now: number): readonly Session[] {
    return this.store
      .list()
      .filter(({ createdAt }) => !hasExpired(createdAt, now))
      .toSorted((a, b) => b.usedAt - a.usedAt);
  }

  end(key: string): void {
    this.store.set(key, undefined);
  }
}

function hasExpired(createdAt: number, now: number): boolean {
  return now >= createdAt + SESSION_MS;
}

function keyOf(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

/** 32 letters and digits, without those that look alike (0 and O, 1 and I). */
const ALPHABET = '23456789ABCDEFGHJKLMNPQRSTUVWXYZ';
/** Five bits each: 60 in total. */
const LENGTH = 12;
const CODE = /^[2-9A-HJ-NP-Z]{12}$/;

export const CODE_MS = 10 * 60_000;
const MAX_WRONG = 5;
/** Maximum number of valid codes; a new one invalidates the oldest. */
const MAX_OPEN = 16;

/** Keys of the mailboxes that the session may read; null for all. */
interface Grant {
  readonly mailboxes: readonly string[] | null;
}

interface OpenCode extends Grant {
  readonly hash: Buffer;
  readonly until: number;
  wrong: number;
}

/**
 * One-time codes for sign-in links, kept only in memory and as hashes. A wrong code counts against every valid one,
 * because the intended code is unknown.
 */
class SignInCodes {
  #open: OpenCode[] = [];

  /** Returns a new code such as `K7QM-2XWD-94HT`, usable once, within ten minutes. */
  issue(now: number, mailboxes: readonly string[] | null): string {
    const letters = Array.from({ length: LENGTH }, () => ALPHABET.charAt(randomInt(32))).join('');
    const code = { hash: hashOf(letters), until: now + CODE_MS, mailboxes, wrong: 0 };
    this.#open = [...this.#validCodes(now), code].slice(-MAX_OPEN);
    return letters.replaceAll(/.{4}(?=.)/g, '$&-');
  }

  /** Returns null for a wrong, used or expired code. Each code can be used only once. */
  redeem(typed: string, now: number): Grant | null {
    this.#open = this.#validCodes(now);
    const letters = typed.toUpperCase().replace(/[-\s]/g, '');
    // Malformed text is a typing mistake rather than an attempt, because it cannot be a code.
    if (!CODE.test(letters)) return null;
    const hash = hashOf(letters);
    const match = this.#open.find((code) => timingSafeEqual(code.hash, hash));
    if (match === undefined) {
      for (const code of this.#open) code.wrong += 1;
      return null;
    }
    this.#open = this.#open.filter((code) => code !== match);
    return { mailboxes: match.mailboxes };
  }

  #validCodes(now: number): OpenCode[] {
    return this.#open.filter(({ until, wrong }) => now < until && wrong < MAX_WRONG);
  }
}

function hashOf(letters: string): Buffer {
  return createHash('sha256').update(letters).digest();
}

export function openSessions(dataDir: string) {
  const writable = writableState(dataDir) ?? null;
  // Tokens created before the archive became read-only still work.
  const state = writable ?? readState(dataDir) ?? null;
  return {
    store: new SessionStore(writable),
    state,
    /** False if the state is not writable, so that a restart signs everyone out. */
    areKept: writable !== null,
    close: () => state?.close(),
  };
}

/** Opens the state for writing; undefined on failure. Only a command that writes may set aside an unreadable state. */
export function writableState(dataDir: string): StateFile | undefined {
  const known = openExistingState(dataDir);
  if (known !== undefined || hasState(dataDir)) return known;
  try {
    return openState(dataDir);
  } catch (error) {
    // The directory is not writable, or its disk is full.
    if (error instanceof MailkeepError || errnoOf(error) !== undefined) return undefined;
    throw error;
  }
}
