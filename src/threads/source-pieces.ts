import type { WorkerThread } from './worker-thread.ts';

/** Bytes of a source given to a thread at once. */
const PIECE = 256 * 1024;

/** What a thread gets for each piece that it asks for. */
export type PieceMessage =
  | { readonly kind: 'piece'; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly kind: 'end' };

/** The host's side: gives a source to a thread piece by piece, so that neither ever holds more than one. */
export class PieceFeed {
  readonly #pieces: AsyncIterator<Uint8Array>;

  constructor(source: Iterable<Uint8Array> | AsyncIterable<Uint8Array>) {
    this.#pieces = inPieces(source);
  }

  /** Returns the next piece of the source, or its end. Throws what the source throws. */
  async next(): Promise<PieceMessage> {
    const { done, value } = await this.#pieces.next();
    // A copy, because it is given away.
    return done === true ? { kind: 'end' } : { kind: 'piece', bytes: new Uint8Array(value) };
  }

  /** Ends the source where it was not read to its end. */
  async close(): Promise<void> {
    await this.#pieces.return?.();
  }
}

/** Posts a piece and gives its bytes away. */
export function postPiece(
  thread: Pick<WorkerThread<PieceMessage, object>, 'post'>,
  message: PieceMessage,
): void {
  thread.post(message, message.kind === 'piece' ? [message.bytes.buffer] : []);
}

/** The thread's side: asks for the pieces of a source one at a time. */
export class PieceIntake {
  #awaited: ((message: PieceMessage) => void) | null = null;

  constructor(private readonly ask: () => void) {}

  take(message: PieceMessage): void {
    this.#awaited?.(message);
  }

  async *pieces(): AsyncGenerator<Buffer> {
    for (;;) {
      const message = await new Promise<PieceMessage>((resolve) => {
        this.#awaited = resolve;
        this.ask();
      });
      if (message.kind === 'end') return;
      yield Buffer.from(message.bytes.buffer, message.bytes.byteOffset, message.bytes.byteLength);
    }
  }
}

async function* inPieces(
  source: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of source) {
    for (let at = 0; at < chunk.byteLength; at += PIECE) yield chunk.subarray(at, at + PIECE);
  }
}
