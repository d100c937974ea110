import { tooSoon } from '../../mailbox-surface/refusal.ts';
import { dataReply, NO_CONTENT, type Reply } from '../../mailbox-surface/reply.ts';
import { feedbackRequest } from '../../wire/mailbox-requests.ts';
import { reaches } from '../access/tokens.ts';
import { bodyOf, type Call, mailboxOf } from './call.ts';

/** The order of the token and the mailboxes it reaches. */
export function getCurrentAccount({ service, token }: Call): Reply {
  const mailboxes = [...service.store.mailboxes.values()]
    .filter((mailbox) => reaches(token, mailbox))
    .map(({ resourceId, address }) => ({ resourceId, address }));
  return dataReply({ orderResourceId: token.orderId, mailboxes });
}

export function getQuota(call: Call): Reply {
  const mailbox = mailboxOf(call);
  const { store, settings } = call.service;
  const { bytes, messages } = store.usage(mailbox);
  const storage = quotaOf('STORAGE', bytes, settings.storageQuotaBytes);
  return dataReply({
    quotas: [storage, quotaOf('MESSAGE', messages, settings.messageQuota)],
    totalUsage: storage.usage,
    totalLimit: storage.limit,
    totalPercentage: storage.percentage,
    supported: true,
  });
}

/** A resource with its percentage as a whole number: 0 to 100, and more where a mailbox holds more than it may. */
function quotaOf(resourceName: string, usage: number, limit: number) {
  const percentage = limit === 0 ? 100 : Math.round((usage / limit) * 100);
  return { resourceName, usage, limit, percentage };
}

const KIND = 'feedback';

/** Takes feedback, once per customer and interval, and keeps it without what looks like a secret. */
export function submitFeedback(call: Call): Reply {
  const mailbox = mailboxOf(call);
  const { score, message } = bodyOf(call, feedbackRequest);
  const { store, settings, now } = call.service;
  const at = now();
  // A customer is whom the order belongs to.
  const free = lastSubmission(call, mailbox.orderId) + settings.feedbackIntervalMs;
  if (at < free) {
    const retryAfter = Math.ceil((free - at) / 1000);
    const message = 'Feedback was submitted a moment ago; wait and retry';
    throw tooSoon('ERR_FEEDBACK_RATE_LIMIT', message, retryAfter);
  }
  store.putDocument(KIND, mailbox.orderId, {
    at,
    mailboxResourceId: mailbox.resourceId,
    score,
    message: scrubSecrets(withoutTokens(call, message)),
  });
  return NO_CONTENT;
}

/** Takes out the tokens that this service gave out itself. */
function withoutTokens({ service }: Call, text: string): string {
  return text.replace(/[\w.~+/=-]+/g, (word) =>
    service.tokens.has(word) || service.tokens.has(word.replace(/\.$/, '')) ? '[removed]' : word,
  );
}

function lastSubmission(call: Call, orderId: string): number {
  for (const { id, body } of call.service.store.documents(KIND)) {
    if (id !== orderId || typeof body !== 'object' || body === null) continue;
    if ('at' in body && typeof body.at === 'number') return body.at;
  }
  return Number.NEGATIVE_INFINITY;
}

/** What a value is named by. A value follows `=`, `:` or `is`, or is the next word with a digit in it. */
const NAMED = String.raw`\b(pass(?:word|wd|code|phrase)?|pwd|pw|pin|secret|token|credentials?|(?:api|access|private)[-_ ]?key)`;

const SECRETS: readonly (readonly [RegExp, string])[] = [
  [/\b(bearer|basic)\s+[^\s"',;]+/gi, '$1 [removed]'],
  [new RegExp(`${NAMED}("?\\s*[:=]\\s*|\\s+is\\s+)("[^"]*"|[^\\s"}]+)`, 'gi'), '$1$2[removed]'],
  [new RegExp(`${NAMED}(\\s+)(?=[^\\s\\d]*\\d)\\S+`, 'gi'), '$1$2[removed]'],
  [/(:\/\/)[^\s/@]+@/g, '$1[removed]@'],
  // Prefixes that tokens and keys are known by.
  [/\b(?:mbx|plt|ctl|whsec|sk|pk|gh[a-z]|xox[a-z])[-_][\w.-]+/g, '[removed]'],
];

const WORD = /[\w.~+/=-]{8,}/g;

/** Takes out what looks like a token or a password. A heuristic: it errs on the side of taking out too much. */
export function scrubSecrets(text: string): string {
  const scrubbed = SECRETS.reduce((kept, [pattern, by]) => kept.replace(pattern, by), text);
  return scrubbed.replace(WORD, (word) => (looksSecret(word) ? '[removed]' : word));
}

/** A long run in which letters and digits mix (tokens, keys, hashes), or a short one that changes between them. */
function looksSecret(word: string): boolean {
  if (!/\d/.test(word) || !/[A-Za-z]/.test(word)) return false;
  if (word.length >= 20) return true;
  return /[a-z]/.test(word) && /[A-Z]/.test(word) && /\d[A-Za-z]+\d/.test(word);
}
