import type { z } from 'zod';
import type { ReadyReply } from './reply.ts';

/** Plain values that describe the error to a client; the `params` of the error envelope. */
export type RefusalParams = Readonly<Record<string, unknown>>;

/** An answer of 4xx or 5xx, thrown by an operation and written in the envelope of its surface. */
export class Refusal extends Error {
  override readonly name = 'Refusal';

  constructor(
    readonly status: number,
    /** SCREAMING_SNAKE_CASE, as clients branch on it. */
    readonly code: string,
    message: string,
    readonly params: RefusalParams = {},
    readonly headers: Readonly<Record<string, string>> = {},
    /** `cause`: what whoever runs this should know, and the client is not shown. */
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** 401, in the words of the surface. */
export function unauthorized(message: string): Refusal {
  return new Refusal(401, 'ERR_UNAUTHORIZED', message, {}, { 'www-authenticate': 'Bearer' });
}

/** 429 that says when to come again, in seconds from now. */
export function tooSoon(code: string, message: string, retryAfter: number): Refusal {
  const headers = { 'retry-after': String(retryAfter) };
  return new Refusal(429, code, message, { retryAfter }, headers);
}

/** Problems of a body by field, each worded by `word`. A field is named by its path. */
export function problemsByField(
  issues: readonly z.core.$ZodIssue[],
  word: (issue: z.core.$ZodIssue, field: string) => string = ({ message }) => message,
): Record<string, string[]> {
  const fields: Record<string, string[]> = {};
  for (const issue of issues) {
    const field = issue.path.map(String).join('.') || 'body';
    fields[field] = [...(fields[field] ?? []), word(issue, field)];
  }
  return fields;
}

/** 422: what is wrong with each field, by its path in body or query. */
export function invalid(fields: Readonly<Record<string, readonly string[]>>): Refusal {
  const [first] = Object.entries(fields);
  const message =
    first === undefined ? 'Validation failed' : `${first[0]}: ${first[1][0] ?? 'is not valid'}`;
  return new Refusal(422, 'ERR_VALIDATION_FAILED', message, { fields });
}

/** An error in the envelope of the mailbox surface. An unexpected error is a 500 that reveals nothing about its cause. */
export function envelope(error: unknown): ReadyReply {
  const refusal = error instanceof Refusal ? error : statusRefusal(500, undefined, undefined);
  const { message, code, params, status, headers } = refusal;
  return {
    kind: 'text',
    status,
    text: JSON.stringify({ error: message, code, params }),
    headers,
  };
}

const STATUS_CODES: Readonly<Record<number, readonly [code: string, message: string]>> = {
  400: ['ERR_BAD_REQUEST', 'The request could not be processed as sent'],
  401: ['ERR_UNAUTHORIZED', 'The token is missing, malformed, expired or revoked'],
  403: ['ERR_FORBIDDEN', 'The token does not reach this'],
  404: ['ERR_NOT_FOUND', 'There is no such thing'],
  408: ['ERR_REQUEST_TIMEOUT', 'The request took too long to arrive'],
  409: ['ERR_CONFLICT', 'The state of the resource forbids this'],
  422: ['ERR_VALIDATION_FAILED', 'Validation failed'],
  429: ['ERR_RATE_LIMIT', 'Too many requests'],
  500: ['ERR_INTERNAL', 'The service failed'],
  502: ['ERR_UPSTREAM_UNREACHABLE', 'The mail server cannot be reached'],
  503: ['ERR_UNAVAILABLE', 'The service is down for maintenance'],
  504: ['ERR_UPSTREAM_TIMEOUT', 'The mail server did not answer in time'],
};

/** The refusal a bare status stands for; `retryAfter` in seconds. */
export function statusRefusal(
  status: number,
  code: string | undefined,
  retryAfter: number | undefined,
): Refusal {
  const [usual, message] = STATUS_CODES[status] ?? ['ERR_UNKNOWN', 'The request failed'];
  return new Refusal(
    status,
    code ?? usual,
    message,
    retryAfter === undefined ? {} : { retryAfter },
    retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) },
  );
}
