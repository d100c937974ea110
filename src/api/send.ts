import type { Gate } from '../limiter/gate.ts';
import type { Credentials } from './credentials.ts';
import type { Reply, Request } from './exchange.ts';
import { countOf, retryAfterOf } from './headers.ts';
import type { Transport } from './transport.ts';

/** Sends one request and reads its answer, whatever the status. */
export type Send = (request: Request) => Promise<Reply>;

/**
 * Sends in turn: waits at the gate, sends with the token in use, and lets the gate learn from the answer. After
 * a 401 the token is read once more; if it is another one, the request goes again with it.
 */
export function sendInTurn(options: {
  readonly transport: Transport;
  readonly gate: Gate;
  readonly credentials: Credentials;
  readonly now: () => number;
}): Send {
  const { transport, gate, credentials, now } = options;

  async function pass(request: Request, token: string): Promise<Reply> {
    request.signal?.throwIfAborted();
    const startedAt = gate.tryEnter() ?? (await gate.enter(request));
    let reply: Reply;
    try {
      reply = await transport.send(request, token);
    } catch (error) {
      gate.leave(null);
      throw error;
    }
    const ownLimit = reply.status === 429 && request.operation.ownLimit;
    gate.leave(
      ownLimit
        ? null
        : {
            status: reply.status,
            startedAt,
            retryAfterMs: retryAfterOf(reply.headers, now()),
            limit: countOf(reply.headers, 'x-ratelimit-limit'),
            remaining: countOf(reply.headers, 'x-ratelimit-remaining'),
          },
    );
    return reply;
  }

  return async (request) => {
    const token = credentials.token();
    const used = typeof token === 'string' ? token : await token;
    const reply = await pass(request, used);
    if (reply.status !== 401) return reply;
    const renewed = await credentials.after(used);
    return renewed === null ? reply : pass(request, renewed);
  };
}
