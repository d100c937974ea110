import { feedbackRequest } from '../../wire/mailbox-requests.ts';
import { Refusal } from '../http/refusal.ts';
import { NO_CONTENT, type Reply } from '../http/reply.ts';
import { bodyOf, type Call, mailboxOf } from './call.ts';

const KIND = 'feedback';

/** Takes feedback, once per customer and interval, and keeps it without what looks like a secret. */
export function submitFeedback(call: Call): Reply {
  const mailbox = mailboxOf(call);
  const { score, message } = bodyOf(call, feedbackRequest);
  const { store, settings, now } = call.service;
  const at = now();
  // A customer is whom the order belongs to.
  const free =
    (lastSubmission(call, mailbox.orderId) ?? Number.NEGATIVE_INFINITY) +
    settings.feedbackIntervalMs;
  if (at < free) {
    const retryAfter = Math.ceil((free - at) / 1000);
    throw new Refusal(
      429,
      'ERR_FEEDBACK_RATE_LIMIT',
      'Feedback was submitted a moment ago; wait and retry',
      { retryAfter },
      { 'retry-after': String(retryAfter) },
    );
  }
  store.putDocument(KIND, mailbox.orderId, {
    at,
    mailboxResourceId: mailbox.resourceId,
    score,
    message: scrubSecrets(message),
  });
  return NO_CONTENT;
}

function lastSubmission(call: Call, orderId: string): number | null {
  for (const { id, body } of call.service.store.documents(KIND)) {
    if (id !== orderId || typeof body !== 'object' || body === null) continue;
    if ('at' in body && typeof body.at === 'number') return body.at;
  }
  return null;
}

const SECRETS: readonly (readonly [RegExp, string])[] = [
  [/\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}/gi, '$1 [removed]'],
  [
    /\b(password|passwd|pwd|passphrase|secret|token|api[-_ ]?key)(\s*(?:is|[:=])\s*)\S+/gi,
    '$1$2[removed]',
  ],
  // Long runs without a space in which letters and digits mix: tokens, keys, hashes.
  [/(?=[\w.~+/=-]*\d)(?=[\w.~+/=-]*[A-Za-z])[\w.~+/=-]{20,}/g, '[removed]'],
];

/** Takes out what looks like a token or a password. */
export function scrubSecrets(text: string): string {
  return SECRETS.reduce((scrubbed, [pattern, by]) => scrubbed.replace(pattern, by), text);
}
