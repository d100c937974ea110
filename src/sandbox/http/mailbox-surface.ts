import type { IncomingMessage, ServerResponse } from 'node:http';
import { hasCode } from '../../errors/mailkeep-error.ts';
import {
  envelope,
  Refusal,
  statusRefusal,
  tooSoon,
  unauthorized,
} from '../../mailbox-surface/refusal.ts';
import type { Reply } from '../../mailbox-surface/reply.ts';
import { type RouteMatch, RouteTable, splitUrl } from '../../mailbox-surface/route.ts';
import type { Call, Operation } from '../operations/call.ts';
import { MAILBOX_OPERATIONS } from '../operations/table.ts';
import type { ServiceState } from '../service-state.ts';
import type { Faults } from './faults.ts';
import type { Surface } from './listener.ts';
import { applyMailboxFault } from './outside-changes.ts';
import { readJsonBody } from './request-body.ts';
import type { RequestLog } from './request-log.ts';
import { AddressBlocks, RateWindow } from './request-rate.ts';
import { type Outcome, sendFaultyReply, sendReady } from './send-reply.ts';

const ROUTES = new RouteTable(MAILBOX_OPERATIONS);

/** Serves the mailbox surface, and answers every path nobody else knows in its envelope. */
export class MailboxSurface implements Surface {
  readonly prefix = '';
  readonly refusal = envelope;
  readonly #window: RateWindow | null;
  readonly #blocks: AddressBlocks;

  constructor(
    private readonly service: ServiceState,
    private readonly faults: Faults,
    private readonly log: RequestLog,
  ) {
    const { requestsPerMinute: limit, block } = service.settings;
    this.#window = limit === null ? null : new RateWindow(limit);
    this.#blocks = new AddressBlocks(limit === null ? null : block);
  }

  /** Never rejects: what goes wrong becomes an answer, or a broken connection. */
  handle(request: IncomingMessage, response: ServerResponse): void {
    const { path, query } = splitUrl(request.url);
    const method = request.method ?? 'GET';
    const match = ROUTES.match(method, path);
    const operation = match.kind === 'found' ? match.route.id : 'unknown';
    const finish = this.log.begin({ operation, method, path }, this.service.now);
    const fail = (error: unknown) => {
      if (response.destroyed) {
        // The client went away, most likely in the middle of its body.
        finish(0);
        return;
      }
      if (!(error instanceof Refusal)) this.service.report(error);
      this.#send(response, { reply: envelope(refused(error)), faults: [] }, finish);
    };
    if (match.kind !== 'found') {
      fail(noRoute(match));
      return;
    }
    try {
      const outcome = this.#answer(request, match.route, match.params, query);
      if (outcome instanceof Promise) {
        outcome.then((ready) => this.#send(response, ready, finish), fail);
      } else this.#send(response, outcome, finish);
    } catch (error) {
      fail(error);
    }
  }

  /** Synchronous where the operation is, since promises are a third of the cost of a small answer. */
  #answer(
    request: IncomingMessage,
    operation: Operation,
    params: Readonly<Record<string, string>>,
    query: URLSearchParams,
  ): Outcome | Promise<Outcome> {
    const service = this.service;
    const { authorization } = request.headers;
    const address = request.socket.remoteAddress ?? '';
    const blocked = this.#blocks.remaining(address, service.now());
    if (blocked > 0) throw addressBlocked(blocked);
    const token = service.tokens.authorize(authorization, 'mailbox', service.now());
    if (token === null) {
      throw unauthorized('The token is missing, malformed, expired or revoked');
    }
    this.#limit(authorization ?? '', address);
    const { ofReply: faults, ofMailbox } = this.faults.strike(operation.id);
    const call: Call = { service, operation, token, params, query, body: undefined };
    const done = (reply: Reply): Outcome => {
      const of = { mailbox: params.mailboxResourceId, folder: params.folder };
      for (const fault of ofMailbox) applyMailboxFault(service, fault, of);
      return { reply, faults };
    };
    if (operation.takesBody) {
      return readJsonBody(request, service.settings.maxBodyBytes)
        .then((body) => operation.handle({ ...call, body }))
        .then(done);
    }
    const reply = operation.handle(call);
    return reply instanceof Promise ? reply.then(done) : done(reply);
  }

  /** Counts a request of a token. @throws Refusal 429 */
  #limit(token: string, address: string): void {
    const now = this.service.now();
    const rate = this.#window?.take(token, now);
    if (rate === undefined) return;
    if (rate.allowed) {
      this.#blocks.allowed(address);
      return;
    }
    const started = this.#blocks.refused(address, now);
    if (started > 0) throw addressBlocked(started);
    throw statusRefusal(429, undefined, rate.retryAfterSeconds);
  }

  #send(response: ServerResponse, outcome: Outcome, finish: (status: number) => void): void {
    const { reply, faults } = outcome;
    const { latencyMs } = this.service.settings;
    if (latencyMs === 0 && faults.length === 0 && reply.kind !== 'file') {
      sendReady(response, reply);
      finish(response.statusCode);
      return;
    }
    sendFaultyReply(response, outcome, latencyMs).then(finish, (error: unknown) => {
      // A client that went away is no failure of ours; a file that vanished while it was streamed is.
      if (!isPrematureClose(error)) this.service.report(error);
      response.destroy();
      finish(0);
    });
  }
}

/** The failure of a request in the words of the service, where it has any. */
function refused(error: unknown): unknown {
  return hasCode(error, 'sandbox-source-changed')
    ? new Refusal(500, 'ERR_SOURCE_CHANGED', 'The file behind this message has changed')
    : error;
}

/** A path or a method that nothing answers: the interface knows 404, and no 405. */
function noRoute(match: Exclude<RouteMatch<Operation>, { kind: 'found' }>): Refusal {
  if (match.kind === 'unknown') return new Refusal(404, 'ERR_NOT_FOUND', 'There is no such route');
  const allow = match.allowed.join(', ');
  return new Refusal(
    404,
    'ERR_NOT_FOUND',
    `There is no such route; this path has ${allow}`,
    { allowed: match.allowed },
    { allow },
  );
}

function addressBlocked(retryAfter: number): Refusal {
  const message =
    'This address is blocked for a while: it kept sending requests in spite of the rate limit';
  return tooSoon('ERR_ADDRESS_BLOCKED', message, retryAfter);
}

function isPrematureClose(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_STREAM_PREMATURE_CLOSE';
}
