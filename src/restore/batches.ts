import { setImmediate as nextTurn } from 'node:timers/promises';
import type { SentForm } from './content.ts';
import type { PlannedMessage } from './plan.ts';

/** A message that is read, and how it is sent. */
export interface Ready {
  readonly message: PlannedMessage;
  readonly form: SentForm;
}

/** A message, and how it is sent or why its bytes are not there. */
export interface ReadMessage {
  readonly message: PlannedMessage;
  readonly form: SentForm | 'damaged' | 'purged';
}

/** Messages that go together. */
export interface Batch {
  /** Bytes of all of them. */
  readonly size: number;
  readonly read: () => Promise<ReadMessage[]>;
}

/** Bytes of messages that go together, and are read while others are under way; a larger one goes alone. */
const MOST_TOGETHER = 512 * 1024;

/** The messages of a folder in batches, each read while the one before it is sent. */
export class Batches {
  #next: PlannedMessage | undefined;

  /** @param read returns a message as it is sent, or why its bytes are not there */
  constructor(
    private readonly due: Iterator<PlannedMessage, void>,
    private readonly read: (message: PlannedMessage) => Promise<SentForm | 'damaged' | 'purged'>,
  ) {
    this.#take();
  }

  /** Returns the next messages, at most so many, and begins to read them unless they are large; undefined at the end. */
  next(most: number): Batch | undefined {
    const messages: PlannedMessage[] = [];
    let size = 0;
    for (let next = this.#next; next !== undefined; next = this.#next) {
      const isFull = messages.length >= most || size + next.size > MOST_TOGETHER;
      if (messages.length > 0 && isFull) break;
      messages.push(next);
      size += next.size;
      this.#take();
    }
    if (messages.length === 0) return undefined;
    if (size > MOST_TOGETHER) return { size, read: () => this.#readAll(messages) };
    const reading = this.#readAll(messages);
    // Whoever wants them gets the error; it may come before that.
    reading.catch(() => {});
    return { size, read: () => reading };
  }

  async #readAll(messages: readonly PlannedMessage[]): Promise<ReadMessage[]> {
    const all: ReadMessage[] = [];
    for (const message of messages) {
      // Reading does not wait for anything, and the server's answer is not to wait for all of it.
      await nextTurn();
      all.push({ message, form: await this.read(message) });
    }
    return all;
  }

  #take(): void {
    const { value } = this.due.next();
    this.#next = value ?? undefined;
  }
}
