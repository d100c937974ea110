import { inspect } from 'node:util';

const MASK = '***';

/**
 * Holds a text that must not be printed: every way of turning it into text by accident (templates, JSON,
 * console, inspect, logs) gives `***`. Only `reveal` gives it out, where a header is written.
 */
export class Secret {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  reveal(): string {
    return this.#text;
  }

  toString(): string {
    return MASK;
  }

  toJSON(): string {
    return MASK;
  }

  [inspect.custom](): string {
    return MASK;
  }
}
