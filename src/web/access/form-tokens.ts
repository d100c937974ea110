import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

/**
 * Tokens that forms carry, so that no page of another origin can send them: bound to what only the browser's own cookie
 * names, and to the key of this run of the server.
 */
export class FormTokens {
  readonly #key = randomBytes(32);

  /** @param subject what the browser is known by: the key of its session, or the value of its form cookie */
  of(subject: string): string {
    return this.#sign(subject).toString('base64url');
  }

  isOf(subject: string, token: string): boolean {
    const given = Buffer.from(token, 'base64url');
    const right = this.#sign(subject);
    return given.length === right.length && timingSafeEqual(given, right);
  }

  #sign(subject: string): Buffer {
    return createHmac('sha256', this.#key).update(subject).digest();
  }
}

/** Returns the value of a form cookie, for a browser that is not signed in yet. */
export function newFormCookie(): string {
  return randomBytes(32).toString('base64url');
}
