import { connect, createServer, type Server, type Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Seeded } from '../bench/seeded.ts';
import { lastingPort } from '../peers/ports.ts';

/** Passes bytes on in pieces of random size, each a few turns of the event loop after the other. */
export class Relay {
  readonly #listener: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(
    to: { readonly host: string; readonly port: number },
    readonly port: number,
    private readonly random: Seeded,
  ) {
    this.#listener = createServer((client) => {
      const server = connect(to.port, to.host);
      for (const [from, into] of [
        [client, server],
        [server, client],
      ] as const) {
        from.setNoDelay(true);
        this.#sockets.add(from);
        from.on('error', () => into.destroy());
        from.on('close', () => this.#sockets.delete(from));
        void this.#pass(from, into);
      }
    });
  }

  static async start(
    to: { readonly host: string; readonly port: number },
    random: Seeded,
  ): Promise<Relay> {
    const relay = new Relay(to, await lastingPort(), random);
    await new Promise<void>((resolve) =>
      relay.#listener.listen(relay.port, '127.0.0.1', () => resolve()),
    );
    return relay;
  }

  stop(): void {
    this.#listener.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  async #pass(from: Socket, into: Socket): Promise<void> {
    try {
      for await (const bytes of from as AsyncIterable<Buffer>) {
        // Long answers are divided less often, or a history would take minutes.
        const pieces = 1 + this.random.below(bytes.length < 2_000 ? 6 : 3);
        for (let at = 0, piece = 1; at < bytes.length; piece += 1) {
          const most = bytes.length - at;
          const size = piece >= pieces ? most : 1 + this.random.below(most);
          into.write(bytes.subarray(at, at + size));
          at += size;
          for (let turns = this.random.below(3); turns > 0; turns -= 1) await nextTurn();
        }
      }
      into.end();
    } catch {
      into.destroy();
    }
  }
}
