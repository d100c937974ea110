import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** What the proxy does with the request that it was to catch. */
export type Cut =
  /** Sends it on, and loses the answer once there is one. */
  | 'after'
  /** Loses the request. */
  | 'before'
  /** Keeps the request; `deliver` sends it on after the client has given up. */
  | 'held'
  /** Sends it twice: the client has the answer to the second one. */
  | 'doubled';

/** The message after which the next statement may be sent, up to its one byte. */
const READY = Buffer.from([0x5a, 0, 0, 0, 5]);

/** The end of a request with parameters: the message Sync. */
const SYNC = Buffer.from([0x53, 0, 0, 0, 4]);
const BEGINS = /\b(?:start transaction|begin)\b/i;
const ENDS = /\b(?:commit|rollback)\b/i;

/** Returns whether bytes are one request or several, up to their end: the other half of one would never come. */
function isWhole(bytes: Buffer): boolean {
  const isQuery = bytes[0] === 0x51 && bytes.length > 4;
  return isQuery ? bytes.length === bytes.readUInt32BE(1) + 1 : bytes.subarray(-5).equals(SYNC);
}

/** The beginning of the statement in a request, in one line. */
function startOf(bytes: Buffer): string {
  // Behind the kind of the message and its length.
  const text = bytes.subarray(5, 100).toString('latin1');
  return text
    .replace(/[^ -~]+/g, ' ')
    .replace(/ +/g, ' ')
    .trim();
}

/**
 * Stands between clients and the socket of a server. The next request that contains a text is cut: the client's connection
 * ends without an answer.
 */
export class CuttingProxy {
  readonly folder = mkdtempSync(path.join(tmpdir(), 'cut-'));
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #cuts: readonly { readonly text: string; readonly how: Cut }[] = [];
  #held: (() => Promise<void>)[] = [];
  #answered: Promise<void> = Promise.resolve();
  #translates = false;
  #endsAt: string | undefined;

  /** Decides about each whole request that no text decides about. `alone`: whether it is outside a transaction. */
  cutFor: (request: { readonly alone: boolean }) => Cut | undefined = () => undefined;

  private constructor(private readonly socket: string) {
    this.#server = createServer((client) => this.#accept(client));
  }

  static async start(socket: string): Promise<CuttingProxy> {
    const proxy = new CuttingProxy(socket);
    const own = path.join(proxy.folder, path.basename(socket));
    await new Promise<void>((resolve) => proxy.#server.listen(own, resolve));
    return proxy;
  }

  /** Cuts the next request that contains a text, besides those that are to be cut already. */
  cutNext(text: string, how: Cut): void {
    this.#cuts = [...this.#cuts, { text, how }];
  }

  /** Cuts nothing any more. */
  cutNothing(): void {
    this.#cuts = [];
  }

  /** Answers errors as a server whose language is Czech: the word has as many bytes. */
  translate(): void {
    this.#translates = true;
  }

  /** Ends the next connection that gets an error of a condition, before the server says that it can be used again. */
  endAfterError(condition: string): void {
    this.#endsAt = condition;
  }

  /** Sends on the requests that were held, and waits until the server has answered. */
  async deliver(): Promise<void> {
    await Promise.all(this.#held.splice(0).map((send) => send()));
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

  #answer(client: Socket, bytes: Buffer): void {
    const at = this.#translates ? bytes.indexOf('SERROR\0') : -1;
    if (at >= 0) bytes.write('SCHYBA\0', at);
    if (client.writableEnded) return;
    if (this.#endsAt === undefined || !bytes.includes(`C${this.#endsAt}\0`)) {
      client.write(bytes);
      return;
    }
    this.#endsAt = undefined;
    const ready = bytes.lastIndexOf(READY);
    client.end(ready < 0 ? bytes : bytes.subarray(0, ready));
  }

  /** Sends a request on a connection of its own, and waits until the server has answered. */
  #sendAlone(startup: Buffer, request: Buffer): Promise<void> {
    const server = connect(this.socket);
    this.#sockets.add(server);
    server.on('error', () => undefined);
    server.write(startup);
    return new Promise((resolve) => {
      server.once('close', () => resolve());
      let isUp = false;
      server.on('data', (bytes) => {
        if (!bytes.includes(READY)) return;
        if (isUp) server.destroy();
        else server.write(request);
        isUp = true;
      });
    });
  }

  #cutOf(bytes: Buffer, alone: boolean): { readonly text: string; readonly how: Cut } | undefined {
    const wanted = this.#cuts.find(({ text }) => bytes.includes(text));
    if (wanted !== undefined || !isWhole(bytes)) return wanted;
    const how = this.cutFor({ alone });
    return how && { text: '', how };
  }

  #accept(client: Socket): void {
    const server = connect(this.socket);
    for (const socket of [client, server]) {
      this.#sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => this.#sockets.delete(socket));
    }
    server.on('data', (bytes) => this.#answer(client, bytes));
    server.on('close', () => client.destroy());
    let isCut = false;
    let isWithin = false;
    let startup: Buffer | undefined;
    client.on('data', (bytes) => {
      const isFirst = startup === undefined;
      startup ??= bytes;
      const alone = !isWithin;
      if (isWhole(bytes)) {
        const text = startOf(bytes);
        if (BEGINS.test(text)) isWithin = true;
        else if (ENDS.test(text)) isWithin = false;
      }
      const cut = isCut || isFirst ? undefined : this.#cutOf(bytes, alone && !isWithin);
      if (cut === undefined) {
        server.write(bytes);
        return;
      }
      this.#cuts = this.#cuts.filter((other) => other !== cut);
      if (cut.how === 'doubled') {
        this.#answered = this.#sendAlone(startup, bytes).then(() => {
          server.write(bytes);
        });
        return;
      }
      isCut = true;
      server.removeAllListeners('data');
      const answered = new Promise<void>((resolve) => {
        server.once('data', () => {
          server.destroy();
          resolve();
        });
        server.once('close', () => resolve());
      });
      this.#answered = answered;
      if (cut.how === 'after') server.write(bytes);
      if (cut.how === 'before') server.destroy();
      if (cut.how === 'held') {
        this.#held.push(() => {
          server.write(bytes);
          return answered;
        });
      }
      // Only then is it certain that the server has it before whatever the client sends next.
      if (cut.how === 'after') void answered.then(() => client.destroy());
      else client.destroy();
    });
    client.on('close', () => {
      if (!isCut) server.destroy();
    });
  }
}
