import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

export interface ConnectionLimits {
  /** In all, from whatever address. */
  readonly connections: number;
  /** Of one address, connections on which no request is being answered. */
  readonly idlePerAddress: number;
}

/**
 * Bounds the connections of a server without turning away new ones while old ones do nothing. A connection is idle
 * while no complete request header has come on it, or after its last answer. Where there are too many, the oldest idle
 * one is closed: half-sent requests of a stranger push out each other, and nobody who sends a whole request.
 */
export class Connections {
  readonly #limits: ConnectionLimits;
  /** Oldest first. */
  readonly #idle = new Map<Socket, string>();
  readonly #idleOf = new Map<string, number>();
  #open = 0;

  constructor(limits: ConnectionLimits) {
    this.#limits = limits;
  }

  watch(server: Server): void {
    server.on('connection', (socket: Socket) => this.#opened(socket));
    server.prependListener('request', (request: IncomingMessage, response: ServerResponse) => {
      const { socket } = request;
      this.#leave(socket);
      response.once('close', () => {
        if (!socket.destroyed) this.#rest(socket);
      });
    });
  }

  #opened(socket: Socket): void {
    this.#open += 1;
    socket.once('close', () => {
      this.#open -= 1;
      this.#leave(socket);
    });
    if (this.#open > this.#limits.connections && !this.#closeOldest(() => true)) {
      // Every connection has a request that is being answered.
      socket.destroy();
      return;
    }
    this.#rest(socket);
  }

  #rest(socket: Socket): void {
    const address = socket.remoteAddress ?? '';
    this.#leave(socket);
    this.#idle.set(socket, address);
    const idle = (this.#idleOf.get(address) ?? 0) + 1;
    this.#idleOf.set(address, idle);
    if (idle > this.#limits.idlePerAddress) this.#closeOldest((of) => of === address);
  }

  #leave(socket: Socket): void {
    const address = this.#idle.get(socket);
    if (address === undefined) return;
    this.#idle.delete(socket);
    const idle = (this.#idleOf.get(address) ?? 1) - 1;
    if (idle > 0) this.#idleOf.set(address, idle);
    else this.#idleOf.delete(address);
  }

  #closeOldest(fits: (address: string) => boolean): boolean {
    for (const [socket, address] of this.#idle) {
      if (!fits(address)) continue;
      this.#leave(socket);
      socket.destroy();
      return true;
    }
    return false;
  }
}
