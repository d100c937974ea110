import { PieceIntake } from '../threads/source-pieces.ts';
import { openThreadPort } from '../threads/thread-port.ts';
import type { FromReader, ToReader } from './worker-protocol.ts';

/** The reader's end of the wire: pieces are asked for one at a time, chunks sent one at a time. */
export class ReaderWire {
  readonly #intake = new PieceIntake(() => this.send({ kind: 'next' }));
  readonly #port = openThreadPort<ToReader, FromReader>((message) => {
    if (message.kind === 'more') this.#awaitedMore?.();
    else this.#intake.take(message);
  });
  #awaitedMore: (() => void) | null = null;
  #sending: Promise<void> = Promise.resolve();

  send(message: FromReader): void {
    this.#port.send(message);
  }

  /** Resolves when the next chunk may follow; parts whose ends and beginnings meet wait for each other. */
  sendChunk(number: number, chunk: Buffer): Promise<void> {
    // A copy of its own: the chunk may be a view of a much larger buffer, which would travel whole.
    const bytes = new Uint8Array(chunk);
    const sent = this.#sending.then(
      () =>
        new Promise<void>((resolve) => {
          this.#awaitedMore = resolve;
          this.send({ kind: 'chunk', number, bytes });
        }),
    );
    this.#sending = sent;
    return sent;
  }

  pieces(): AsyncIterable<Uint8Array> {
    return this.#intake.pieces();
  }

  close(): void {
    this.#port.close();
  }
}
