import { syncError } from '../errors/origin.ts';
import type { RunReport } from '../health/run-report.ts';
import type { SyncResult } from '../sync/result.ts';
import { sayFacts } from '../wording/sentence-of.ts';

/** What a run of passes came to, for metrics and notifications. */
export function syncRunReport(
  result: SyncResult,
  run: {
    readonly kind: string;
    readonly accounts: readonly string[];
    readonly startedAt: number;
    readonly endedAt: number;
  },
): RunReport {
  const sum = (field: 'added' | 'ended' | 'bytes'): number =>
    result.mailboxes.reduce((total, mailbox) => total + mailbox[field], 0);
  return {
    ...run,
    outcome: 'done',
    failures: [
      ...result.failures.map(({ account, mailbox, family, code, facts }) => ({
        account,
        mailbox,
        family,
        code,
        message: sayFacts(code, facts).message,
      })),
      ...heldFailures(result),
    ],
    // A mailbox that the pass did not get to, or not through, may be as broken as it was.
    mailboxes: result.mailboxes
      .filter(({ comparison }) => comparison === 'all')
      .map(({ address }) => address),
    counts: {
      added: sum('added'),
      ended: sum('ended'),
      bytes: sum('bytes'),
      requests: result.requests,
    },
  };
}

/** What the brake holds needs somebody to look, though no request failed. Quarantine is counted, and left to `status`. */
function heldFailures({ mailboxes }: SyncResult): RunReport['failures'] {
  return mailboxes
    .filter(({ held }) => held > 0)
    .map(({ address, held, heldUntil: until }) => {
      const { family, code, facts } = syncError('sync.held', { held, mailboxes: [address], until });
      return {
        account: null,
        mailbox: address,
        family,
        code,
        message: sayFacts(code, facts).message,
      };
    });
}
