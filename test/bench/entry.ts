import type { Measured } from './measurements.ts';

/** A program under measurement. Rounds alternate between programs, so that a noisy minute meets all of them. */
export interface Participant<T> {
  /** The long steps, once, from nothing. */
  round(): Promise<void>;
  /** After the last round: what was measured, and the short steps. */
  figures(): Promise<T>;
  /** Stops what it has running. */
  close(): Promise<void>;
}

/**
 * A participant that may be missing or fail: a failure is reported, ends its part and leaves the others alone.
 */
export class Entry<T> {
  readonly name: string;
  #participant: Participant<T> | undefined;
  #missing = 'not measured';
  readonly #onFailure: (name: string, error: unknown) => void;

  constructor(name: string, onFailure: (name: string, error: unknown) => void) {
    this.name = name;
    this.#onFailure = onFailure;
  }

  /** @param open gives the participant, or says why there is none */
  async open(open: () => Promise<Participant<T> | { readonly missing: string }>): Promise<void> {
    await this.#trying(async () => {
      const opened = await open();
      if ('missing' in opened) this.#missing = opened.missing;
      else this.#participant = opened;
    });
  }

  async round(): Promise<void> {
    await this.#trying(() => this.#participant?.round());
  }

  async figures(): Promise<Measured<T>> {
    const value = await this.#trying(() => this.#participant?.figures());
    return value === undefined ? { missing: this.#missing } : { value };
  }

  async close(): Promise<void> {
    const participant = this.#participant;
    this.#participant = undefined;
    await participant?.close();
  }

  async #trying<R>(act: () => Promise<R> | undefined): Promise<R | undefined> {
    try {
      return await act();
    } catch (error) {
      this.#missing = 'failed';
      this.#onFailure(this.name, error);
      await this.close();
      return undefined;
    }
  }
}
