/** What imapflow writes to. */
export interface WriteSocket {
  setNoDelay?(on: boolean): unknown;
  write(bytes: Buffer, done: (error?: Error | null) => void): unknown;
  once(event: 'close', listener: () => void): unknown;
  off(event: 'close', listener: () => void): unknown;
}

/** imapflow sends a literal of up to 4,096 bytes without waiting for the server to ask for it: this one is longer. */
export const STAND_IN = Buffer.alloc(4097);
const ANNOUNCED = `{${STAND_IN.length}}\r\n`;
const CRLF = Buffer.from('\r\n');

/** A literal that ends a command, sent in pieces instead of the stand-in that imapflow has in its place. */
export class StreamedLiteral {
  #state: 'new' | 'announced' | 'sending' | 'over' = 'new';
  #sending: Promise<void> = Promise.resolve();
  #failure: { readonly error: unknown } | undefined;

  /** @param size bytes of all pieces */
  constructor(
    private readonly pieces: () => AsyncIterable<Buffer>,
    private readonly size: number,
  ) {}

  /**
   * Sends the literal, or announces its size, in place of what imapflow is about to write; false if that is neither.
   *
   * @param write writes as imapflow would
   * @param close closes the connection, so that the server drops the part that it has of a message
   */
  replaces(
    chunk: Buffer,
    write: (chunk: Buffer) => void,
    socket: WriteSocket,
    close: () => void,
  ): boolean {
    if (this.#state === 'sending') throw new Error('a literal is being sent');
    if (this.#state === 'new' && chunk.subarray(-ANNOUNCED.length).equals(Buffer.from(ANNOUNCED))) {
      this.#state = 'announced';
      const command = chunk.subarray(0, -ANNOUNCED.length);
      write(Buffer.concat([command, Buffer.from(`{${this.size}}\r\n`)]));
      return true;
    }
    if (this.#state !== 'announced' || !chunk.equals(STAND_IN)) return false;
    this.#state = 'sending';
    this.#sending = this.#send(socket, close);
    return true;
  }

  /**
   * Resolves once nothing of the literal is left to be sent, or the connection is gone.
   *
   * @throws what reading the pieces throws
   */
  async done(): Promise<void> {
    await this.#sending;
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  /** The last piece leaves only after the end of the source: until then a source may turn out to be damaged. */
  async #send(socket: WriteSocket, close: () => void): Promise<void> {
    let last: Buffer | undefined;
    let given = 0;
    try {
      for await (const piece of this.pieces()) {
        // Of a source that got longer than announced, the server would take too much for a complete message.
        if (last !== undefined && given <= this.size) await written(socket, last);
        last = piece;
        given += piece.length;
      }
      if (given !== this.size) throw new Error('a message changed while it was sent');
      if (last !== undefined) await written(socket, last);
      await written(socket, CRLF);
    } catch (error) {
      if (!(error instanceof SocketGone)) this.#failure = { error };
      close();
    } finally {
      this.#state = 'over';
    }
  }
}

/** The connection is gone; whatever waits for an answer is told why. */
class SocketGone extends Error {}

function written(socket: WriteSocket, bytes: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    const gone = (): void => reject(new SocketGone());
    socket.once('close', gone);
    socket.write(bytes, (error) => {
      socket.off('close', gone);
      if (error === undefined || error === null) resolve();
      else gone();
    });
  });
}
