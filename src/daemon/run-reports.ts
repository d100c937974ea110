import type { MailkeepError } from '../errors/mailkeep-error.ts';
import { syncError } from '../errors/sync.ts';
import type { RunReport } from '../health/run-report.ts';
import type { Failure } from '../notify/observation.ts';
import { type SyncResult, totalsOf } from '../sync/result.ts';
import { sayFacts, sentenceOf } from '../wording/sentence-of.ts';

/** Returns an error as those who are to be notified read it. */
export function failureOf(error: MailkeepError): Failure {
  const { family, code } = error;
  return { family, code, message: sentenceOf(error).message };
}

/** What a run of passes came to, for metrics and notifications. */
export function syncRunReport(
  { mailboxes, failures, requests }: SyncResult,
  run: Pick<RunReport, 'kind' | 'accounts' | 'startedAt' | 'endedAt'>,
): RunReport {
  return {
    ...run,
    outcome: 'done',
    failures: [
      ...failures.map(({ account, mailbox, family, code, facts }) => ({
        account,
        mailbox,
        family,
        code,
        message: sayFacts(code, facts).message,
      })),
      ...heldFailures(mailboxes),
    ],
    // A mailbox that the pass did not get to, or not through, may be as broken as it was.
    mailboxes: mailboxes
      .filter(({ comparison }) => comparison === 'all')
      .map(({ address }) => address),
    counts: { ...totalsOf(mailboxes, 'added', 'ended', 'bytes'), requests },
  };
}

/** What the brake holds needs somebody to look, though no request failed. Quarantine is counted, and left to `status`. */
function heldFailures(mailboxes: SyncResult['mailboxes']): RunReport['failures'] {
  return mailboxes
    .filter(({ held }) => held > 0)
    .map(({ address, held, heldUntil: until }) => {
      const error = syncError('sync.held', { held, mailboxes: [address], until });
      return { account: null, mailbox: address, ...failureOf(error) };
    });
}

/** What came of bringing a copy up to date, or of reading it back. Times are milliseconds since the epoch. */
export function copyReport(
  kind: 'copy' | 'copy-check',
  to: string,
  startedAt: number,
  endedAt: number,
  failure: Failure | null,
): RunReport {
  return {
    ...choreReport(kind, startedAt, endedAt, null),
    copy: to,
    outcome: failure === null ? 'done' : 'failed',
    failures: failure === null ? [] : [{ account: null, mailbox: null, ...failure }],
  };
}

/** What came of something that is done by the clock and is about the archive as a whole. Times are milliseconds since the epoch. */
export function choreReport(
  kind: 'verify' | 'prune' | 'seal' | 'copy' | 'copy-check',
  startedAt: number,
  endedAt: number,
  error: MailkeepError | null,
  messages?: number,
): RunReport {
  return {
    kind,
    messages,
    startedAt,
    endedAt,
    outcome: error === null ? 'done' : 'failed',
    failures: error === null ? [] : [{ account: null, mailbox: null, ...failureOf(error) }],
    accounts: [],
    mailboxes: [],
    counts: { added: 0, ended: 0, bytes: 0, requests: 0 },
  };
}
