import { originError } from '../errors/origin.ts';

/** Reads the token from where it is kept. Called when the first request needs it, and again after a 401. */
export type TokenReader = () => string | Promise<string>;

/** What an Authorization header can carry (RFC 6750, 2.1, and a little more). */
const USABLE = /^[\x21-\x7e]+$/;

/** The token in use. It is kept until the service refuses it: a file or secret store is not read for each request. */
export class Credentials {
  #token: string | undefined;
  #reading: Promise<string> | undefined;

  constructor(
    private readonly read: TokenReader,
    private readonly host: string,
  ) {}

  /** @throws what the reader throws; token-malformed */
  token(): string | Promise<string> {
    return this.#token ?? this.#readOnce();
  }

  /** Returns the token to use after `refused` was refused: read again, unless another call has done so; null if the same. */
  async after(refused: string): Promise<string | null> {
    if (this.#token === refused) this.#token = undefined;
    const token = await this.token();
    return token === refused ? null : token;
  }

  #readOnce(): Promise<string> {
    this.#reading ??= this.#readNow().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readNow(): Promise<string> {
    const token = (await this.read()).trim();
    if (!USABLE.test(token)) throw originError('token-malformed', { host: this.host });
    this.#token = token;
    return token;
  }
}
