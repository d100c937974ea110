import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What Chromium asks its maker by itself, such as which fields of a form it could fill. No mail names these hosts. */
const OF_CHROMIUM = /^(?:[\w-]+\.)*(?:google|googleapis|gvt1)\.com$/;

/**
 * A server that no browser may ever ask for anything. Its address stands in hostile mails, and it is the browser's
 * proxy as well: whatever leaves for another host than the archive's comes here, encrypted or not.
 */
export class TrapServer {
  /** What was asked for, in order. */
  readonly asked: string[] = [];
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => {
      this.#note(`${request.method}`, request.url ?? '');
      request.resume();
      response.setHeader('access-control-allow-origin', '*');
      response.end('self.ran=4217000;console.log(ran);alert(ran)');
    });
    this.#server.on('connect', (request, socket) => {
      this.#note('CONNECT', request.url ?? '');
      socket.destroy();
    });
    this.#server.on('upgrade', (request, socket) => {
      this.#note('UPGRADE', request.url ?? '');
      socket.destroy();
    });
  }

  static async start(): Promise<TrapServer> {
    const trap = new TrapServer();
    await new Promise<void>((resolve) => trap.#server.listen(0, '127.0.0.1', resolve));
    return trap;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  #note(method: string, target: string): void {
    // What goes through a proxy names its host: with a scheme, or alone where it is to be encrypted.
    const url = URL.parse(method === 'CONNECT' ? `https://${target}` : target);
    if (url === null || !OF_CHROMIUM.test(url.hostname)) this.asked.push(`${method} ${target}`);
  }

  close(): Promise<void> {
    this.#server.closeAllConnections();
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }
}
