import type { MailkeepError } from '../errors/mailkeep-error.ts';
import type { RunReport } from '../health/run-report.ts';
import { sentenceOf } from '../wording/sentence-of.ts';

/** What came of something that is done by the clock and is about the archive as a whole. Times are milliseconds since the epoch. */
export function choreReport(
  kind: 'verify' | 'prune' | 'seal',
  startedAt: number,
  endedAt: number,
  error: MailkeepError | null,
): RunReport {
  return {
    kind,
    startedAt,
    endedAt,
    outcome: error === null ? 'done' : 'failed',
    failures:
      error === null
        ? []
        : [
            {
              account: null,
              mailbox: null,
              family: error.family,
              code: error.code,
              message: sentenceOf(error).message,
            },
          ],
    accounts: [],
    mailboxes: [],
    counts: { added: 0, ended: 0, bytes: 0, requests: 0 },
  };
}
