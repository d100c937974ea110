import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { z } from 'zod';
import {
  type DeliveryLogRecord,
  PLATFORM_OPERATIONS,
  type PlatformMailboxRecord,
  type PlatformMeta,
  type PlatformOperationName,
  type PlatformWebhookRecord,
} from '../service/platform-wire.ts';
import {
  invalid,
  type Page,
  pageOffset,
  problemsByField,
  Refusal,
  type Reply,
  type RoutePattern,
  RouteTable,
  rateLimited,
  splitUrl,
  unauthorized,
} from '../service/surface.ts';
import { describeParam, fieldOf, type Operation, type Param, readParam } from '../service/wire.ts';
import type { Order, PlatformToken } from './accounts.ts';
import { applyMailboxFault, openRate, type RateAnswer } from './faults.ts';
import { ApiSurface, type Outcome, readJsonBody, type Surface } from './http.ts';
import type { ServiceState } from './sandbox.ts';
import type { Mailbox } from './store.ts';
import { type Webhook, webhookOperations } from './webhooks.ts';

interface PlatformCall {
  readonly service: ServiceState;
  readonly token: PlatformToken;
  readonly params: Readonly<Record<string, string>>;
  readonly query: ReadonlyMap<string, string | number>;
  readonly body: unknown;
}

type PlatformHandler = (call: PlatformCall) => Reply | Promise<Reply>;

/** Longer than any identifier in this service. */
const MAX_ID = 255;

/**
 * Checks path and query parameters. An empty query value is treated as missing.
 *
 * @throws Refusal 422 that lists every invalid parameter
 */
function readQuery(
  operation: Operation,
  params: Readonly<Record<string, string>>,
  query: URLSearchParams,
): ReadonlyMap<string, string | number> {
  const values = new Map<string, string | number>();
  const problems: Record<string, string[]> = {};
  for (const param of operation.params) {
    if (param.in === 'path') {
      if ((params[param.name] ?? '').length > MAX_ID) {
        problems[param.name] = [`The ${param.name} must not have more than ${MAX_ID} characters.`];
      }
      continue;
    }
    const text = query.get(param.name) ?? '';
    if (text === '') {
      if (param.default !== undefined) values.set(param.name, param.default);
      continue;
    }
    const parsed = readParam(param, text);
    if (parsed.ok) values.set(param.name, parsed.value);
    else problems[param.name] = [describeExpectation(param)];
  }
  if (Object.keys(problems).length > 0) throw invalidFields(problems);
  return values;
}

function describeExpectation(param: Param): string {
  if (param.type === 'string') return `The ${param.name} must be ${describeParam(param)}.`;
  const upper = param.max === undefined ? '' : ` and at most ${param.max}`;
  return `The ${param.name} must be an integer of at least ${param.min ?? 0}${upper}.`;
}

function invalidFields(fields: Readonly<Record<string, readonly string[]>>): Refusal {
  const { status, code, params } = invalid(fields);
  return new Refusal(status, code, Object.values(fields)[0]?.[0] ?? 'Validation failed.', params);
}

/** Returns a 404. This API has no 403: other users' objects do not exist. */
function notFound(what: string): Refusal {
  return new Refusal(404, 'ERR_NOT_FOUND', `The ${what} does not exist.`);
}

function orderOf({ service, token, params }: PlatformCall): Order {
  const order = service.orders.get(params.orderId ?? '');
  if (order === null || order.userId !== token.userId) throw notFound('order');
  return order;
}

function mailboxOf({ service, token, params }: PlatformCall): Mailbox {
  const mailbox = service.orders.mailboxOfUser(params.mailboxId ?? '', token.userId);
  if (mailbox === null) throw notFound('mailbox');
  return mailbox;
}

function webhookOf(call: PlatformCall): {
  readonly mailbox: Mailbox;
  readonly webhook: Webhook;
} {
  const { service, token, params } = call;
  const webhook = service.webhooks.get(params.webhookId ?? '');
  const mailbox =
    webhook === null ? null : service.orders.mailboxOfUser(webhook.mailbox, token.userId);
  if (webhook === null || mailbox === null) throw notFound('webhook');
  return { mailbox, webhook };
}

/** Returns an order's mailboxes. `mailbox_id` selects one of them, or none if it is not in the order. */
function mailboxIdsOf(call: PlatformCall): ReadonlySet<string> {
  const selected = call.query.get('mailbox_id');
  return new Set(
    call.service.orders
      .mailboxesOf(orderOf(call))
      .map(({ resourceId }) => resourceId)
      .filter((resourceId) => selected === undefined || resourceId === selected),
  );
}

function collection<T>(
  call: PlatformCall,
  all: readonly T[],
  recordOf: (item: T) => unknown,
): Reply {
  const page: Page = {
    page: Number(call.query.get('page')),
    perPage: Number(call.query.get('per_page')),
  };
  const offset = pageOffset(page);
  const meta: PlatformMeta = { current_page: page.page, per_page: page.perPage, total: all.length };
  const data = all.slice(offset, offset + page.perPage).map(recordOf);
  return resource({ data, meta });
}

function resource(body: unknown, status = 200): Reply {
  return { kind: 'text', status, text: JSON.stringify(body) };
}

/** @throws Refusal 422 that lists every problem by field */
function readBody<T extends z.ZodType>(call: PlatformCall, schema: T): z.output<T> {
  const result = schema.safeParse(call.body);
  if (result.success) return result.data;
  const problems = problemsByField(result.error.issues, (issue, field) => {
    const missing =
      issue.code === 'invalid_type' && issue.path.reduce(fieldOf, call.body) === undefined;
    return `The ${field} ${missing ? 'is required' : describeProblem(issue)}.`;
  });
  throw invalidFields(problems);
}

function describeProblem(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return `must be of type ${issue.expected}`;
    case 'invalid_value':
      return `must be one of ${issue.values.map(String).join(', ')}`;
    case 'invalid_format':
      return issue.format === 'url' ? 'must be an http or https URL' : `must be a ${issue.format}`;
    case 'too_small':
      return `must have at least ${issue.minimum} ${unitOf(issue.origin)}`;
    case 'too_big':
      return `must not have more than ${issue.maximum} ${unitOf(issue.origin)}`;
    default:
      return issue.message;
  }
}

function unitOf(origin: string): string {
  return origin === 'string' ? 'characters' : 'entries';
}

function listWebhooks(call: PlatformCall): Reply {
  const { webhooks, store } = call.service;
  const status = call.query.get('status');
  const matches = webhooks
    .of(mailboxIdsOf(call))
    .filter((webhook) => status === undefined || webhook.status === status);
  return collection(call, matches, (webhook) =>
    webhookRecordOf(store.mailboxes.get(webhook.mailbox), webhook),
  );
}

const { createWebhook, getWebhook, updateWebhook, regenerateWebhookSecret } =
  webhookOperations<PlatformCall>({
    body: readBody,
    mailboxOf,
    webhookOf,
    checkCreate({ service }, mailbox) {
      if (!service.standings.isSuspended(mailbox)) return;
      throw new Refusal(409, 'ERR_MAILBOX_SUSPENDED', 'The mailbox is suspended.');
    },
    urlRefusal: (problem) => invalidFields({ url: [`The url ${problem}.`] }),
    recordOf: webhookRecordOf,
    reply: resource,
  });

function deleteWebhook(call: PlatformCall): Reply {
  call.service.webhooks.remove(webhookOf(call).webhook);
  return resource({ message: 'The webhook was deleted.' });
}

/** Sends one delivery immediately, regardless of the webhook's status and without retries. Rate-limited. */
async function testWebhook(call: PlatformCall): Promise<Reply> {
  const { mailbox, webhook } = webhookOf(call);
  const { deliveries, webhookTests, now } = call.service;
  if (!webhookTests.take(webhook.id, now())) {
    const { retryAfter } = webhookTests.state(webhook.id, now());
    const message = 'This webhook was tested a moment ago; wait and retry';
    throw rateLimited('ERR_WEBHOOK_TEST_RATE_LIMIT', message, retryAfter);
  }
  const { httpStatus, success, error } = await deliveries.test(mailbox, webhook);
  return resource({
    // The API sends an integer here or omits the field, but never sends null.
    ...(httpStatus === null ? {} : { http_status: httpStatus }),
    is_successful: success,
    error,
  });
}

function webhookRecordOf(mailbox: Mailbox | undefined, webhook: Webhook): PlatformWebhookRecord {
  return {
    id: webhook.id,
    mailbox: { id: webhook.mailbox, address: mailbox?.address ?? '' },
    name: webhook.name,
    description: webhook.description,
    events: webhook.events,
    status: webhook.status,
    url: webhook.url,
    created_at: new Date(webhook.createdAt).toISOString(),
    updated_at: new Date(webhook.updatedAt).toISOString(),
  };
}

/** Lists deliveries, newest first. All attempts of a delivery update the same entry. */
function listDeliveryLogs(call: PlatformCall): Reply {
  const { deliveries, store } = call.service;
  return collection(
    call,
    deliveries.list(mailboxIdsOf(call)),
    (delivery): DeliveryLogRecord => ({
      created_at: new Date(delivery.createdAt).toISOString(),
      mailbox_address: store.mailboxes.get(delivery.mailbox)?.address ?? '',
      webhook_url: delivery.url,
      is_successful: delivery.state === 'delivered',
      duration: delivery.durationMs,
      // The first attempt is not a retry.
      retry_count: Math.max(0, delivery.attempts - 1),
      max_retry_count: delivery.maxAttempts - 1,
    }),
  );
}

function listMailboxes(call: PlatformCall): Reply {
  const { service, query } = call;
  const term = String(query.get('search') ?? '').toLowerCase();
  const found = service.orders
    .mailboxesOf(orderOf(call))
    .filter(({ address }) => address.toLowerCase().includes(term));
  const sorted = sortMailboxes(String(query.get('sort') ?? 'address'), found, service);
  return collection(call, sorted, (mailbox) => mailboxRecordOf(mailbox, service));
}

type SortKey = (mailbox: Mailbox, service: ServiceState) => string | number;

const SORT_KEYS: Readonly<Record<string, SortKey>> = {
  address: ({ address }) => address.toLowerCase(),
  status: (mailbox, { standings }) => standings.of(mailbox).status,
  created_at: (mailbox, { standings }) => standings.of(mailbox).createdAt,
  updated_at: (mailbox, { standings }) => standings.of(mailbox).updatedAt,
  storage_used: (mailbox, { store }) => store.usage(mailbox).bytes,
  messages_used: (mailbox, { store }) => store.usage(mailbox).messages,
};

/** Sorts mailboxes. Ties are broken by resource id, so that pages do not overlap. */
function sortMailboxes(
  sort: string,
  mailboxes: readonly Mailbox[],
  service: ServiceState,
): Mailbox[] {
  const descending = sort.startsWith('-');
  const field = descending ? sort.slice(1) : sort;
  const keyOf = Object.hasOwn(SORT_KEYS, field) ? SORT_KEYS[field] : undefined;
  if (keyOf === undefined) {
    throw invalidFields({
      sort: [
        `The sort must be one of ${Object.keys(SORT_KEYS).join(', ')}; a leading - is descending.`,
      ],
    });
  }
  const keyed = mailboxes.map((mailbox) => ({ mailbox, key: keyOf(mailbox, service) }));
  keyed.sort(
    (a, b) => compare(a.key, b.key) || compare(a.mailbox.resourceId, b.mailbox.resourceId),
  );
  if (descending) keyed.reverse();
  return keyed.map(({ mailbox }) => mailbox);
}

function compare<T extends string | number>(a: T, b: T): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

const BYTES_PER_KILOBYTE = 1024;

function mailboxRecordOf(
  mailbox: Mailbox,
  { store, standings, settings, now }: ServiceState,
): PlatformMailboxRecord {
  const { status, createdAt, updatedAt } = standings.of(mailbox);
  const usage = store.usage(mailbox);
  return {
    id: mailbox.resourceId,
    address: mailbox.address,
    status,
    usage: {
      storage_used: Math.ceil(usage.bytes / BYTES_PER_KILOBYTE),
      storage_quota: Math.floor(settings.storageQuotaBytes / BYTES_PER_KILOBYTE),
      messages_used: usage.messages,
      messages_quota: settings.messageQuota,
      // Usage is counted for each response.
      synced_at: new Date(now()).toISOString(),
    },
    created_at: new Date(createdAt).toISOString(),
    updated_at: new Date(updatedAt).toISOString(),
  };
}

interface PlatformRoute extends RoutePattern {
  readonly operation: Operation;
  readonly handle: PlatformHandler;
}

const PLATFORM_ROUTES: readonly PlatformRoute[] = [
  route('listWebhooks', listWebhooks),
  route('createWebhook', createWebhook),
  route('getWebhook', getWebhook),
  route('updateWebhook', updateWebhook),
  route('deleteWebhook', deleteWebhook),
  route('regenerateWebhookSecret', regenerateWebhookSecret),
  route('testWebhook', testWebhook),
  route('listDeliveryLogs', listDeliveryLogs),
  route('listMailboxes', listMailboxes),
];

function route(name: PlatformOperationName, handle: PlatformHandler): PlatformRoute {
  const operation = PLATFORM_OPERATIONS[name];
  return { method: operation.method, path: operation.path, operation, handle };
}

/** This API answers oversized bodies, bodies other than JSON, and invalid HTTP with 400. */
const BAD_REQUEST_CODES: ReadonlySet<string> = new Set([
  'ERR_INVALID_JSON',
  'ERR_CONTENT_TYPE',
  'ERR_BODY_TOO_LARGE',
  'ERR_BAD_REQUEST',
  'ERR_REQUEST_TIMEOUT',
  'ERR_HEADER_TOO_LARGE',
]);

/**
 * Returns an error in the API's envelope: `message`, `correlation_id` and, only for 422, `errors` by field. An
 * unexpected error becomes a 500 without details.
 */
function platformEnvelope(error: unknown, correlationId: string): Reply {
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

export class PlatformSurface extends ApiSurface implements Surface {
  readonly prefix = '/api/mail/';
  readonly #rate = openRate(
    this.service.settings.platformRequestsPerMinute,
    this.service.settings.platformBlock,
  );

  handle(request: IncomingMessage, response: ServerResponse): void {
    const { path, query } = splitUrl(request.url);
    const match = ROUTES.match(request.method ?? 'GET', path);
    const operation = match.kind === 'found' ? match.route.operation.name : 'unknown';
    const correlationId = randomUUID();
    response.setHeader('x-correlation-id', correlationId);
    const envelopeOf = (error: unknown) => platformEnvelope(error, correlationId);
    this.respond(request, response, operation, envelopeOf, () => {
      this.#limit(request.socket.remoteAddress ?? '', response);
      if (match.kind === 'found') return this.#answer(request, match.route, match.params, query);
      if (match.kind === 'unknown') {
        throw new Refusal(404, 'ERR_NOT_FOUND', 'There is no such route.');
      }
      const allow = match.allowed.join(', ');
      const message = `There is no such route; this path has ${allow}.`;
      throw new Refusal(404, 'ERR_NOT_FOUND', message, {}, { allow });
    });
  }

  /** Answers an unreadable request, which has no route. The request counts towards the limit. */
  refusal(refusal: Refusal, address: string): Reply {
    const correlationId = randomUUID();
    const rate = this.#rate?.take(address, this.service.now());
    const { status, code, message, params } =
      rate === undefined || rate.allowed ? refusal : tooMany(rate);
    const headers = { ...limitHeaders(rate), 'x-correlation-id': correlationId };
    return platformEnvelope(new Refusal(status, code, message, params, headers), correlationId);
  }

  /** Counts the request, and adds the limit to the response headers. @throws Refusal 429 */
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
    search: URLSearchParams,
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
    const query = readQuery(operation, params, search);
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
