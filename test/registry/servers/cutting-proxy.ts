import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** What the proxy does with the request that it was to catch. */
export type Cut =
  /** Sends it on, and loses the answer. */
  | 'after'
  /** Loses the request. */
  | 'before'
  /** Keeps the request; `deliver` sends it on after the client has given up. */
  | 'held';

/**
 * Stands between clients and the socket of a server. The next request that contains a text is cut: the client's connection
 * ends without an answer.
 */
export class CuttingProxy {
  readonly folder = mkdtempSync(path.join(tmpdir(), 'cut-'));
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #cut: { readonly text: string; readonly how: Cut } | undefined;
  #held: (() => void) | undefined;
  #answered: Promise<void> = Promise.resolve();

  private constructor(private readonly socket: string) {
    this.#server = createServer((client) => this.#accept(client));
  }

  static async start(socket: string): Promise<CuttingProxy> {
    const proxy = new CuttingProxy(socket);
    const own = path.join(proxy.folder, path.basename(socket));
    await new Promise<void>((resolve) => proxy.#server.listen(own, resolve));
    return proxy;
  }

  /** Cuts the next request that contains a text. */
  cutNext(text: string, how: Cut): void {
    this.#cut = { text, how };
  }

  /** Sends on the request that was held, and waits until the server has answered. */
  async deliver(): Promise<void> {
    this.#held?.();
    this.#held = undefined;
    await this.#answered;
  }

  /** Waits until the server has answered what was cut; nobody else hears the answer. */
  async answered(): Promise<void> {
    await this.#answered;
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
    rmSync(this.folder, { recursive: true, force: true });
  }

  #accept(client: Socket): void {
    const server = connect(this.socket);
    for (const socket of [client, server]) {
      this.#sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => this.#sockets.delete(socket));
    }
    server.on('data', (bytes) => client.write(bytes));
    server.on('close', () => client.destroy());
    let isCut = false;
    client.on('data', (bytes) => {
      const cut = this.#cut;
      if (cut === undefined || isCut || !bytes.includes(cut.text)) {
        server.write(bytes);
        return;
      }
      isCut = true;
      this.#cut = undefined;
      server.removeAllListeners('data');
      this.#answered = new Promise((resolve) => {
        server.once('data', () => {
          server.destroy();
          resolve();
        });
        server.once('close', () => resolve());
      });
      if (cut.how === 'after') server.write(bytes);
      if (cut.how === 'held') this.#held = () => server.write(bytes);
      if (cut.how === 'before') server.destroy();
      client.destroy();
    });
    client.on('close', () => {
      if (!isCut) server.destroy();
    });
  }
}
