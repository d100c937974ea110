import { createHash, randomInt, timingSafeEqual } from 'node:crypto';

/** 32 letters and digits: none that people confuse with another (0 and O, 1 and I). */
const ALPHABET = '23456789ABCDEFGHJKLMNPQRSTUVWXYZ';
/** Five bits each: 60 in all. */
const LENGTH = 12;
const GROUP = 4;
const CODE = /^[2-9A-HJ-NP-Z]{12}$/;

/** How long a code can be used, in milliseconds. */
export const CODE_MS = 10 * 60_000;
const MOST_WRONG = 5;
/** Codes that can be used at a time; another one ends the oldest. */
const MOST_OPEN = 16;

interface OpenCode {
  readonly hash: Buffer;
  readonly until: number;
  readonly mailboxes: readonly string[] | null;
  wrong: number;
}

/** What a code gives: the mailboxes that its session may read, or null for all of them. */
export interface Grant {
  readonly mailboxes: readonly string[] | null;
}

/**
 * One-time codes of sign-in links. They live in memory only, as hashes: a restart of the server ends them. A wrong code
 * counts against every open one, since nobody can know which was meant.
 */
export class SignInCodes {
  #open: OpenCode[] = [];

  /**
   * Returns a new code such as `K7QM-2XWD-94HT`, which works once, within ten minutes.
   *
   * @param mailboxes addresses that the session will be limited to; null for no limit
   */
  issue(now: number, mailboxes: readonly string[] | null): string {
    const letters = Array.from({ length: LENGTH }, () => ALPHABET.charAt(randomInt(32))).join('');
    const code = { hash: hashOf(letters), until: now + CODE_MS, mailboxes, wrong: 0 };
    this.#open = [...this.#usable(now), code].slice(-MOST_OPEN);
    return grouped(letters);
  }

  /** Returns what a typed code gives, and ends it; null for a wrong, used or expired one. */
  redeem(typed: string, now: number): Grant | null {
    this.#open = this.#usable(now);
    const letters = typed.toUpperCase().replace(/[-\s]/g, '');
    // A slip of the fingers is no attempt: nothing of another form can be a code.
    if (!CODE.test(letters)) return null;
    const hash = hashOf(letters);
    const found = this.#open.find((code) => timingSafeEqual(code.hash, hash));
    if (found === undefined) {
      for (const code of this.#open) code.wrong += 1;
      return null;
    }
    this.#open = this.#open.filter((code) => code !== found);
    return { mailboxes: found.mailboxes };
  }

  #usable(now: number): OpenCode[] {
    return this.#open.filter(({ until, wrong }) => now < until && wrong < MOST_WRONG);
  }
}

function grouped(letters: string): string {
  const groups: string[] = [];
  for (let at = 0; at < letters.length; at += GROUP) groups.push(letters.slice(at, at + GROUP));
  return groups.join('-');
}

function hashOf(letters: string): Buffer {
  return createHash('sha256').update(letters).digest();
}
