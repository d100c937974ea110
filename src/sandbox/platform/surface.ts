import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Refusal, unauthorized } from '../../mailbox-surface/refusal.ts';
import type { Reply } from '../../mailbox-surface/reply.ts';
import { type RouteMatch, RouteTable, splitUrl } from '../../mailbox-surface/route.ts';
import type { Faults } from '../http/faults.ts';
import type { Surface } from '../http/listener.ts';
import { applyMailboxFault } from '../http/outside-changes.ts';
import { readJsonBody } from '../http/request-body.ts';
import type { RequestLog } from '../http/request-log.ts';
import { type RateAnswer, RequestRate } from '../http/request-rate.ts';
import { type Outcome, sendFaultyReply } from '../http/send-reply.ts';
import type { ServiceState } from '../service-state.ts';
import { readQuery } from './call.ts';
import { PLATFORM_ROUTES, type PlatformRoute } from './table.ts';

/**
 * What could not be processed as sent is 400 on this surface: bodies that are too large or no JSON object, and bytes
 * that are no HTTP request.
 */
const BAD_REQUEST_CODES: ReadonlySet<string> = new Set([
  'ERR_INVALID_JSON',
  'ERR_CONTENT_TYPE',
  'ERR_BODY_TOO_LARGE',
  'ERR_BAD_REQUEST',
  'ERR_REQUEST_TIMEOUT',
  'ERR_HEADER_TOO_LARGE',
]);

/**
 * An error in the envelope of the platform surface: `message`, `correlation_id` and, on 422 only, `errors` by
 * field. An unexpected error is a 500 that reveals nothing about its cause.
 */
export function platformEnvelope(error: unknown, correlationId: string): Reply {
  const refusal =
    error instanceof Refusal ? error : new Refusal(500, 'ERR_INTERNAL', 'The service failed');
  const status = BAD_REQUEST_CODES.has(refusal.code) ? 400 : refusal.status;
  const body = {
    message: refusal.message,
    correlation_id: correlationId,
    ...(status === 422 ? { errors: refusal.params.fields ?? {} } : {}),
  };
  return { kind: 'text', status, text: JSON.stringify(body), headers: refusal.headers };
}

const ROUTES = new RouteTable(PLATFORM_ROUTES);

/** Serves the platform surface: webhook management for mail orders. */
export class PlatformSurface implements Surface {
  readonly prefix = '/api/mail/';
  readonly #rate: RequestRate | null;

  constructor(
    private readonly service: ServiceState,
    private readonly faults: Faults,
    private readonly log: RequestLog,
  ) {
    const { platformRequestsPerMinute, platformBlock } = service.settings;
    this.#rate =
      platformRequestsPerMinute === null
        ? null
        : new RequestRate(platformRequestsPerMinute, platformBlock);
  }

  /** Never rejects: what goes wrong becomes an answer, or a broken connection. */
  handle(request: IncomingMessage, response: ServerResponse): void {
    const { path, query } = splitUrl(request.url);
    const method = request.method ?? 'GET';
    const match = ROUTES.match(method, path);
    const operation = match.kind === 'found' ? match.route.operation.name : 'unknown';
    const finish = this.log.begin({ operation, method, path }, this.service.now);
    const correlationId = randomUUID();
    response.setHeader('x-correlation-id', correlationId);
    this.#outcome(request, response, match, query)
      .catch((error: unknown): Outcome => {
        // A client that went away in the middle of its body is no failure of the service.
        if (!(error instanceof Refusal) && !response.destroyed) this.service.report(error);
        return { reply: platformEnvelope(error, correlationId), faults: [] };
      })
      .then((outcome) => sendFaultyReply(response, outcome, this.service.settings.latencyMs))
      .then(finish, (error: unknown) => {
        this.service.report(error);
        response.destroy();
        finish(0);
      });
  }

  /** Answers a request that could not be read and so has no route. It counts, and shows the limit, like any other. */
  refusal(refusal: Refusal, address: string): Reply {
    const correlationId = randomUUID();
    const rate = this.#rate?.take(address, this.service.now());
    const { status, code, message, params } =
      rate === undefined || rate.allowed ? refusal : tooMany(rate);
    const headers = { ...limitHeaders(rate), 'x-correlation-id': correlationId };
    return platformEnvelope(new Refusal(status, code, message, params, headers), correlationId);
  }

  async #outcome(
    request: IncomingMessage,
    response: ServerResponse,
    match: RouteMatch<PlatformRoute>,
    query: URLSearchParams,
  ): Promise<Outcome> {
    this.#limit(request.socket.remoteAddress ?? '', response);
    if (match.kind === 'unknown') {
      throw new Refusal(404, 'ERR_NOT_FOUND', 'There is no such route.');
    }
    if (match.kind === 'wrong-method') {
      const allow = match.allowed.join(', ');
      throw new Refusal(
        404,
        'ERR_NOT_FOUND',
        `There is no such route; this path has ${allow}.`,
        {},
        { allow },
      );
    }
    return this.#answer(request, match.route, match.params, query);
  }

  /** Counts the request, and adds the limit to any answer. @throws Refusal 429 */
  #limit(address: string, response: ServerResponse): void {
    const rate = this.#rate?.take(address, this.service.now());
    if (rate === undefined) return;
    for (const [name, value] of Object.entries(limitHeaders(rate))) response.setHeader(name, value);
    if (!rate.allowed) throw tooMany(rate);
  }

  async #answer(
    request: IncomingMessage,
    { operation, handle }: PlatformRoute,
    params: Readonly<Record<string, string>>,
    given: URLSearchParams,
  ): Promise<Outcome> {
    const service = this.service;
    const token = service.tokens.authorize(
      request.headers.authorization,
      'platform',
      service.now(),
    );
    if (token === null) {
      throw unauthorized('The token is missing, malformed, expired or revoked.');
    }
    const { ofReply: faults, ofMailbox } = this.faults.strike(operation.name);
    const query = readQuery(operation, params, given);
    const body =
      operation.body === null
        ? undefined
        : await readJsonBody(request, service.settings.maxBodyBytes);
    const reply = await handle({ service, token, params, query, body });
    for (const fault of ofMailbox) applyMailboxFault(service, fault, { mailbox: params.mailboxId });
    return { reply, faults };
  }
}

function limitHeaders(rate: RateAnswer | undefined): Readonly<Record<string, string>> {
  if (rate === undefined) return {};
  return {
    'X-RateLimit-Limit': String(rate.limit),
    'X-RateLimit-Remaining': String(rate.remaining),
    'Retry-After': String(rate.retryAfter),
  };
}

function tooMany({ blocked }: RateAnswer): Refusal {
  const message = blocked
    ? 'This address is blocked for a while: it kept sending requests in spite of the rate limit.'
    : 'Too many requests.';
  return new Refusal(429, 'ERR_RATE_LIMIT', message);
}
