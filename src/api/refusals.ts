import {
  type OriginAnswer,
  type OriginFacts,
  OriginRefusal,
  originError,
  type RefusalCode,
} from '../errors/origin.ts';
import { decodeIfFits } from '../wire/codec.ts';
import { mailboxErrorRecord } from '../wire/mailbox-records.ts';
import type { Operation } from '../wire/operation.ts';
import { platformErrorRecord } from '../wire/platform-records.ts';
import type { Reply } from './exchange.ts';
import { contentTypeOf, retryAfterOf } from './headers.ts';
import { looksLikeWebPage, readJson } from './json.ts';

/** The code of the mailbox surface for a mailbox that is not there, whatever the status. */
const MAILBOX_NOT_FOUND = 'ERR_MAILBOX_NOT_FOUND';
/** Statuses of a failure that may pass by itself. */
const PASSING = new Set([408, 425, 500, 502, 503, 504, 507, 520, 521, 522, 523, 524, 529]);

/**
 * Returns the error for an answer that is not a success. A web page instead of the error envelope does not come from
 * the service: a portal or a proxy must not be taken for a refused token or a missing mailbox.
 */
export function refusalOf(operation: Operation, host: string, reply: Reply, now: number): Error {
  const { status } = reply;
  if (status >= 300 && status < 400) {
    const to = originOf(reply.headers.location);
    return originError('origin.redirected', { operation: operation.name, host, status, to });
  }
  const bytes = reply.body.kind === 'buffer' ? reply.body.bytes : Buffer.alloc(0);
  const contentType = contentTypeOf(reply.headers);
  if (status < 500 && status !== 429 && looksLikeWebPage(contentType, bytes)) {
    return originError('origin.not-json', {
      operation: operation.name,
      host,
      status,
      what: 'web-page',
      contentType,
    });
  }
  const { code, answer } = readEnvelope(operation, bytes);
  const retryAfterMs = retryAfterOf(reply.headers, now);
  const facts = { operation: operation.name, host, status, code };
  const refused = <C extends RefusalCode>(code: C, facts: OriginFacts[C], retryable = false) =>
    new OriginRefusal(code, facts, status, answer, retryAfterMs, { retryable });
  if (status === 401) return refused('auth.refused', { operation: operation.name, host });
  if (status === 429) {
    return refused('origin.rate-limited', { ...facts, waitMs: retryAfterMs ?? 0 }, true);
  }
  // An operation on no mailbox has none to miss: what answers is something else.
  if (code === MAILBOX_NOT_FOUND && operation.path.includes('{'))
    return refused('origin.mailbox-not-found', facts);
  if (status === 403) return refused('origin.forbidden', facts);
  return refused('origin.status', facts, PASSING.has(status));
}

interface Envelope {
  readonly code: string;
  readonly answer: OriginAnswer | null;
}

const NO_ENVELOPE: Envelope = { code: '', answer: null };

function readEnvelope(operation: Operation, bytes: Buffer): Envelope {
  const json = readJson(bytes);
  if (!json.ok || typeof json.value !== 'object' || json.value === null) return NO_ENVELOPE;
  if (operation.surface === 'mailbox') {
    const read = decodeIfFits(mailboxErrorRecord, json.value);
    if (read === undefined) return NO_ENVELOPE;
    const { error: message, params } = read;
    return {
      code: codeName(read.code),
      answer: { code: read.code, message, params, errors: {}, correlationId: null },
    };
  }
  const read = decodeIfFits(platformErrorRecord, json.value);
  if (read === undefined) return NO_ENVELOPE;
  const { message, errors = {}, correlation_id: correlationId } = read;
  return { code: '', answer: { code: '', message, params: {}, errors, correlationId } };
}

/** A code goes into facts, which are shown and logged: only what looks like one. */
function codeName(code: string): string {
  return /^[A-Z][A-Z0-9_]{0,99}$/.test(code) ? code : '';
}

function originOf(location: string | undefined): string | null {
  if (location === undefined || !URL.canParse(location)) return null;
  const { origin } = new URL(location);
  return origin === 'null' ? null : origin;
}
