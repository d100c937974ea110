import type { MessagePort } from 'node:worker_threads';
import type { FromReader, ToReader } from './worker-protocol.ts';

/** The reader's end of the wire: pieces are asked for one at a time, chunks sent one at a time. */
export class ReaderWire {
  private awaited: ((message: ToReader) => void) | null = null;
  private awaitedMore: (() => void) | null = null;
  private sending: Promise<void> = Promise.resolve();

  constructor(private readonly port: MessagePort) {
    port.on('message', (message: ToReader) => {
      if (message.kind === 'more') this.awaitedMore?.();
      else this.awaited?.(message);
    });
  }

  send(message: FromReader): void {
    this.port.postMessage(message);
  }

  /** Resolves when the next chunk may follow; parts whose ends and beginnings meet wait for each other. */
  sendChunk(number: number, chunk: Buffer): Promise<void> {
    // A copy of its own: the chunk may be a view of a much larger buffer, which would travel whole.
    const bytes = new Uint8Array(chunk);
    const sent = this.sending.then(
      () =>
        new Promise<void>((resolve) => {
          this.awaitedMore = resolve;
          this.send({ kind: 'chunk', number, bytes });
        }),
    );
    this.sending = sent;
    return sent;
  }

  async *pieces(): AsyncIterable<Uint8Array> {
    for (;;) {
      const message = await new Promise<ToReader>((resolve) => {
        this.awaited = resolve;
        this.send({ kind: 'next' });
      });
      if (message.kind !== 'piece') return;
      yield Buffer.from(message.bytes.buffer, message.bytes.byteOffset, message.bytes.byteLength);
    }
  }
}
