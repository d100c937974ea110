import { invalid, Refusal } from '../../mailbox-surface/refusal.ts';
import { type Page, pageOffset, type Reply } from '../../mailbox-surface/reply.ts';
import { describeParam, type Operation, type Param, readParam } from '../../wire/operation.ts';
import type { PlatformMeta } from '../../wire/platform-records.ts';
import type { Order } from '../access/account-panel.ts';
import type { PlatformToken } from '../access/tokens.ts';
import type { ServiceState } from '../service-state.ts';
import type { Mailbox } from '../store/mailbox.ts';
import type { Webhook } from '../webhooks/webhooks.ts';

/** A request of the platform surface that was routed and authorized, with its parameters checked. */
export interface PlatformCall {
  readonly service: ServiceState;
  readonly token: PlatformToken;
  readonly params: Readonly<Record<string, string>>;
  /** By name; what was left out has its default, or is not there. */
  readonly query: ReadonlyMap<string, string | number>;
  /** A JSON object where the operation takes one. */
  readonly body: unknown;
}

export type PlatformHandler = (call: PlatformCall) => Reply | Promise<Reply>;

/** No identifier of this service is longer. */
const LONGEST_ID = 255;

/**
 * Checks path and query by what the operation declares. An empty value in the query counts as none.
 *
 * @throws Refusal 422 with every parameter that does not fit
 */
export function readQuery(
  operation: Operation,
  params: Readonly<Record<string, string>>,
  given: URLSearchParams,
): ReadonlyMap<string, string | number> {
  const values = new Map<string, string | number>();
  const wrong: Record<string, string[]> = {};
  for (const param of operation.params) {
    if (param.in === 'path') {
      if ((params[param.name] ?? '').length > LONGEST_ID) {
        wrong[param.name] = [`The ${param.name} must not have more than ${LONGEST_ID} characters.`];
      }
      continue;
    }
    const text = given.get(param.name) ?? '';
    if (text === '') {
      if (param.default !== undefined) values.set(param.name, param.default);
      continue;
    }
    const reading = readParam(param, text);
    if (reading.ok) values.set(param.name, reading.value);
    else wrong[param.name] = [expectation(param)];
  }
  if (Object.keys(wrong).length > 0) throw refused(wrong);
  return values;
}

function expectation(param: Param): string {
  if (param.type === 'string') return `The ${param.name} must be ${describeParam(param)}.`;
  const most = param.max === undefined ? '' : ` and at most ${param.max}`;
  return `The ${param.name} must be an integer of at least ${param.min ?? 0}${most}.`;
}

/** 422 whose message is the first problem. */
export function refused(fields: Readonly<Record<string, readonly string[]>>): Refusal {
  const { status, code, params } = invalid(fields);
  return new Refusal(status, code, Object.values(fields)[0]?.[0] ?? 'Validation failed.', params);
}

/** Everything the owner of the token cannot see is not there: this surface knows no 403. */
function notFound(what: string): Refusal {
  return new Refusal(404, 'ERR_NOT_FOUND', `The ${what} does not exist.`);
}

export function orderOf({ service, token, params }: PlatformCall): Order {
  const order = service.orders.get(params.orderId ?? '');
  if (order === null || order.userId !== token.userId) throw notFound('order');
  return order;
}

export function mailboxOf({ service, token, params }: PlatformCall): Mailbox {
  const mailbox = service.orders.mailboxOfUser(params.mailboxId ?? '', token.userId);
  if (mailbox === null) throw notFound('mailbox');
  return mailbox;
}

export function webhookOf(call: PlatformCall): {
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

/** Resource ids of an order's mailboxes; only the one of `mailbox_id` where that is given, and none where it is no mailbox of the order. */
export function mailboxIdsOf(call: PlatformCall): ReadonlySet<string> {
  const only = call.query.get('mailbox_id');
  return new Set(
    call.service.orders
      .mailboxesOf(orderOf(call))
      .map(({ resourceId }) => resourceId)
      .filter((resourceId) => only === undefined || resourceId === only),
  );
}

/** One page of a collection that is there as a whole. */
export function collection<T>(
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

/** A single resource stands bare. */
export function resource(body: unknown, status = 200): Reply {
  return { kind: 'text', status, text: JSON.stringify(body) };
}
