import { withScheme } from '../core/address.ts';
import type { OriginFacts } from '../errors/origin.ts';
import type { MailboxErrorFacts, SyncFacts } from '../errors/sync.ts';
import { bytes, counted, localTime, span } from './amounts.ts';
import { reasonText, type Sentences, say, some } from './sentence.ts';

/** Limits that count entries, not bytes. */
const ENTRIES: ReadonlySet<string> = new Set(['folders', 'mailboxes', 'pages']);

export const SYNC_SENTENCES: Sentences<SyncFacts> = {
  'sync.interrupted': () =>
    say(
      'Interrupted. What was fetched is safe.',
      'The next sync continues where this one stopped.',
    ),
  'sync.counts-disagree': ({ folder, listed, shown }) =>
    say(
      `The service lists ${folder} with ${listed} messages, but shows ${shown}.`,
      'This answer was ignored; the next sync asks again.',
    ),
  'sync.does-not-add-up': ({ total, times }) =>
    say(
      `The service reports ${counted(total, 'message')} in this folder, but ${times} syncs in a row found a different number.`,
      'Nothing is lost here; "mailkeep sync --full" compares every message. If that does not help, the service miscounts.',
    ),
  'sync.no-inbox': ({ listed }) =>
    say(
      `The service lists ${listed} folders and no INBOX: the list is incomplete.`,
      'This answer was ignored; the next sync asks again.',
    ),
  'sync.folders-incomplete': ({ shown }) =>
    say(
      `The service counts more folders than the ${shown} it shows: the list is incomplete.`,
      'The listed folders were compared, and nothing was concluded about others; the next sync asks again.',
    ),
  'sync.folder-without-path': ({ withoutPath, shown }) =>
    say(
      `The service lists ${counted(withoutPath, 'folder')} with an empty path, which cannot be synced.`,
      `The other ${counted(shown, 'folder')} ${shown === 1 ? 'was' : 'were'} compared, and no folder counts as deleted. Report it to the service.`,
    ),
  'sync.mailbox-unreachable': ({ address, since }) =>
    say(
      `The token has not reached ${address} since ${since}.`,
      'Archived mail stays available and searchable. Sync resumes when the mailbox is back.',
    ),
  'sync.mailbox-suspended': ({ address, since }) =>
    say(
      `The service refuses access to ${address}, which it has listed as suspended since ${localTime(Date.parse(since))} or earlier.`,
      'Ask your mail service to lift the suspension. Archived mail stays available and searchable, and the next sync continues.',
    ),
  'sync.marks-seen': ({ host }) =>
    say(
      `Reading a message from ${host} marked it as read there, so fetching was stopped.`,
      'A backup must not change your mail. Ask the service about it before you continue.',
    ),
  'sync.held': ({ held, mailboxes, until }) =>
    say(
      `${counted(held, 'message')} of ${some(mailboxes)} ${held === 1 ? 'is' : 'are'} no longer at the service. The deletion guard keeps ${held === 1 ? 'it as a pending deletion' : 'them as pending deletions'}.`,
      `"mailkeep list --held" shows them. "mailkeep sync --accept-endings" accepts the deletions now; ${
        until === null
          ? 'without it, a later sync does'
          : `without it, the first sync after ${localTime(Date.parse(until))} does`
      } if they are still gone then. Nothing is removed from the archive.`,
    ),
  'sync.forgotten-in-quarantine': ({ id }) =>
    say(
      `Message ${id}, which you removed with "forget", reappeared. Quarantine still holds its subject and possibly part of its content.`,
      `Run: mailkeep forget ${id}`,
    ),
  'sync.quarantined': ({ quarantined, mailboxes }) =>
    say(
      `${counted(quarantined, 'message')} of ${some(mailboxes)} could not be fetched completely.`,
      'They are counted, and the next sync retries them.',
    ),
  'disk.low': ({ free, minFreeBytes }) =>
    say(
      `Only ${bytes(free)} are free on the archive's disk; the configuration requires ${bytes(minFreeBytes)} (minFreeBytes).`,
      'Free some space and run the command again; it continues where it stopped.',
    ),
};

/** What a quota counts, by the service's name of it. */
const COUNTED: Readonly<Record<string, string>> = { STORAGE: 'storage', MESSAGE: 'messages' };

export const MAILBOX_SENTENCES: Sentences<MailboxErrorFacts> = {
  'mailbox-nearly-full': ({ address, quota, percent }) =>
    say(
      `Mailbox ${address} is ${percent}% full (${COUNTED[quota] ?? quota}).`,
      'A full mailbox may refuse new mail. Delete mail at the service (the archive keeps it), or raise the quota.',
    ),
};

const LATER = 'Nothing is lost; the next sync continues where this one stopped.';
const WRONG_ADDRESS =
  'Check baseUrl in the configuration: it may point at a web site, or something between here and the service (a portal, a proxy) may answer instead.';

export const ORIGIN_SENTENCES: Sentences<OriginFacts> = {
  'auth.refused': ({ host }) =>
    say(
      `${host} refused the token: it is missing, malformed, expired or revoked.`,
      'Create a new token in the panel of your mail service, and store it where the configuration reads it.',
    ),
  'origin.forbidden': ({ host, code }) =>
    say(
      `${host} refuses access to the mailbox with status 403${code === '' ? '' : ` (${code})`}.`,
      'The mailbox may be suspended, or the token may not cover it. Check both in the control panel of your mail service.',
    ),
  'origin.mailbox-not-found': ({ host }) =>
    say(
      `${host} reports that the mailbox does not exist.`,
      'Archived mail stays available and searchable. If the mailbox is back, the next sync continues.',
    ),
  'origin.rate-limited': ({ host, waitMs }) =>
    say(
      `${host} keeps reporting too many requests${waitMs > 0 ? `, and asked for a pause of ${span(waitMs)}` : ''}.`,
      `Lower rateLimit.requestsPerMinute in the configuration. ${LATER}`,
    ),
  'origin.status': ({ host, operation, status, code }) =>
    say(
      `${host} answered ${operation} with status ${status}${code === '' ? '' : ` (${code})`}.`,
      status >= 500
        ? `The service has an internal problem. ${LATER}`
        : status === 404
          ? WRONG_ADDRESS
          : null,
    ),
  'origin.redirected': ({ host, to }) =>
    say(
      `${host} redirects to ${to ?? 'another address'}; mailkeep does not follow, because it would send the token there.`,
      'If that is the right address, write it as baseUrl in the configuration.',
    ),
  'origin.unreachable': ({ host, reason }) =>
    say(
      `${host} cannot be reached: ${reasonText(reason)}.`,
      `Check the network, and baseUrl in the configuration. ${LATER}`,
    ),
  'origin.timeout': ({ host, operation, phase, afterMs }) =>
    say(
      {
        connect: `${host} did not accept a connection within ${span(afterMs)}.`,
        headers: `${host} did not answer ${operation} within ${span(afterMs)}.`,
        idle: `${host} stopped during its answer to ${operation}: no data for ${span(afterMs)}.`,
        total: `${host} took longer than ${span(afterMs)} to answer ${operation}.`,
      }[phase],
      LATER,
    ),
  'origin.cut-short': ({ host, operation, received, expected }) =>
    say(
      `The answer of ${host} to ${operation} broke off after ${received} bytes${expected === null ? '' : ` of ${expected}`}.`,
      LATER,
    ),
  'origin.not-json': (facts) => notWhatItShouldBe(facts, 'JSON'),
  'origin.not-mail': (facts) => notWhatItShouldBe(facts, 'a message (message/rfc822)'),
  'origin.not-bytes': (facts) =>
    notWhatItShouldBe(facts, 'an attachment (application/octet-stream)'),
  'origin.shape': ({ operation, path, found, expected }) =>
    say(
      `The service's answer to ${operation} does not match its description: ${path} is ${found}, not ${expected}.`,
      WRONG_ADDRESS,
    ),
  'origin.too-large': ({ host, operation, what, limit }) =>
    say(
      `The answer of ${host} to ${operation} is larger than mailkeep accepts: more than ${limit} ${ENTRIES.has(what) ? what : `bytes (${what})`}.`,
    ),
  'origin.paging': ({ host, operation, page, shown, total }) =>
    say(
      `${host} answers ${operation} with pages that do not add up: it counts ${total} entries, showed ${shown}, and page ${page} brings nothing new.`,
      'Everything it showed was used, and nothing was concluded about the rest. Report it to the service.',
    ),
  'origin.outcome-unknown': ({ host, operation, reason }) =>
    say(
      `It is not known whether ${operation} took effect: ${host} gave no clear answer (${reason}).`,
      'Check before you send it again.',
    ),
  'request-invalid': ({ operation, field, expected }) =>
    say(
      expected === 'no such field' || expected === 'no such parameter'
        ? `${operation} has ${expected} as "${field}".`
        : `${operation} does not take this as "${field}": ${/^(needs|not|cannot) /.test(expected) ? '' : 'expected '}${expected}.`,
    ),
  'base-url-invalid': ({ url, problem }) =>
    say(
      {
        'no-url': `"${url}" is not a valid URL.`,
        scheme: `"${url}" begins with neither https:// nor http://.`,
        extras:
          'The address of the service must not hold a user name, a password, a query or a fragment.',
        insecure: `"${url}" uses http to another machine, so the token would be sent unencrypted.`,
      }[problem],
      problem === 'no-url' || problem === 'scheme'
        ? meantUrl(url)
        : problem === 'insecure'
          ? 'Use https, or set "insecure": true next to it in the configuration.'
          : null,
    ),
  'token-malformed': ({ host }) =>
    say(`The token for ${host} contains invalid characters.`, 'Copy it again, as a single line.'),
  'spool-failed': ({ dir, reason }) =>
    say(
      `A large message could not be stored in ${dir}: ${reasonText(reason)}.`,
      'Check the disk and the permissions, then run the command again.',
    ),
};

function meantUrl(url: string): string | null {
  const meant = withScheme(url);
  return meant === null ? null : `Did you mean ${meant}?`;
}

function notWhatItShouldBe(
  facts: OriginFacts['origin.not-json'],
  expected: string,
): ReturnType<typeof say> {
  const { host, operation, what, contentType } = facts;
  const came = {
    'web-page': 'a web page',
    'other-type': contentType === '' ? 'content without a type' : contentType,
    broken: 'broken content',
    encoded: 'an encoding that was not requested',
  }[what];
  return say(`${host} answered ${operation} with ${came} instead of ${expected}.`, WRONG_ADDRESS);
}
