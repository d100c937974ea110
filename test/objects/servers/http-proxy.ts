import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { lastingPort } from '../../peers/ports.ts';
import type { HttpFault } from './http-faults.ts';

/** A request as the proxy got it: method and path with its query. */
export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly fault: HttpFault | undefined;
}

interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

/** A request that the server has carried out, with its answer. */
export interface Exchange {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
  readonly answer: Answer;
}

/** Stands between clients and an HTTP server, records requests, and makes faults. */
export class HttpProxy {
  readonly port: number;
  readonly seen: SeenRequest[] = [];
  readonly #server = createServer((incoming, reply) => {
    void this.#serve(incoming, reply);
  });
  readonly #to: number;
  #late: (() => Promise<unknown>)[] = [];

  /** Decides about each request. */
  faultFor: (method: string, path: string) => HttpFault | undefined = () => undefined;
  /** Called when an answer does not come, or not to its end. */
  onSilence: () => void = () => {};
  /** Called before a request goes to the server, which waits for it. */
  hold: (method: string, path: string) => Promise<void> = async () => {};
  /** Called when the server has answered, before the client hears of it. */
  onExchange: (exchange: Exchange) => void = () => {};

  private constructor(to: number, port: number) {
    this.#to = to;
    this.port = port;
  }

  static async start(to: number): Promise<HttpProxy> {
    const proxy = new HttpProxy(to, await lastingPort());
    await new Promise<void>((resolve) =>
      proxy.#server.listen(proxy.port, '127.0.0.1', () => resolve()),
    );
    return proxy;
  }

  /** Sends on what was held or doubled, whoever waits for it, and waits for the answers. */
  async deliver(): Promise<void> {
    await Promise.allSettled(this.#late.splice(0).map((send) => send()));
  }

  async stop(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    await closed;
  }

  async #serve(incoming: IncomingMessage, reply: ServerResponse): Promise<void> {
    const { method = '', url: path = '' } = incoming;
    const fault = this.faultFor(method, path);
    this.seen.push({ method, path, fault });
    incoming.on('error', () => {});
    reply.on('error', () => {});
    if (fault?.do === 'cut-before') return void incoming.socket.destroy();
    if (fault?.do === 'cut-within') {
      return void incoming
        .once('data', () => incoming.socket.destroy())
        .once('end', () => incoming.socket.destroy());
    }
    const body = await collected(incoming).catch(() => undefined);
    if (body === undefined) return;
    if (fault?.do === 'silence') return this.onSilence();
    if (fault?.do === 'answer') return void answerWith(reply, method, fault);
    if (fault?.do === 'answer-with') return void reply.writeHead(200).end(fault.body);
    if (fault?.do === 'hold' || fault?.do === 'double') {
      this.#late.push(() => this.#forward(incoming, body));
    }
    if (fault?.do === 'hold') return void incoming.socket.destroy();
    await this.hold(method, path);
    // A busy gateway resets connections, as a fault would.
    const answer = await this.#forward(incoming, body).catch(() => undefined);
    if (answer === undefined) return void incoming.socket.destroy();
    this.onExchange({ method, path, headers: incoming.headers, body, answer });
    if (fault?.do === 'slow-answer') await delay(fault.ms);
    if (fault?.do === 'lose-answer') return void incoming.socket.destroy();
    if (fault?.do === 'answer-late') return void answerWith(reply, method, fault);
    reply.writeHead(answer.status, answer.headers);
    if (fault?.do === 'cut-answer') {
      const sent = answer.body.subarray(0, Math.floor(answer.body.length * fault.part));
      return void reply.write(sent, () => incoming.socket.destroy());
    }
    if (fault?.do === 'silence-within' && answer.body.length > 1) {
      return void reply.write(answer.body.subarray(0, 1), () => this.onSilence());
    }
    if (fault?.do === 'change-answer') answer.body.writeUInt8((answer.body[0] ?? 0) ^ 1);
    reply.end(answer.body);
  }

  #forward(incoming: IncomingMessage, body: Buffer): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const sent = request(
        {
          host: '127.0.0.1',
          port: this.#to,
          method: incoming.method ?? 'GET',
          path: incoming.url ?? '/',
          headers: incoming.headers,
          agent: false,
        },
        (message) => {
          const { statusCode: status = 0, headers } = message;
          collected(message).then((bytes) => resolve({ status, headers, body: bytes }), reject);
        },
      );
      sent.once('error', reject);
      sent.end(body);
    });
  }
}

function answerWith(
  reply: ServerResponse,
  method: string,
  fault: { readonly status: number; readonly code: string },
): void {
  const { code } = fault;
  // Servers that wait for a body in vain answer 400, and HEAD has none.
  const status = method === 'HEAD' && fault.status === 400 ? 503 : fault.status;
  const body = code === '' ? 'Try again.' : `<Error><Code>${code}</Code></Error>`;
  reply.writeHead(status, { 'content-type': 'application/xml', 'retry-after': '1' });
  reply.end(method === 'HEAD' ? undefined : body);
}

async function collected(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}
