import { MailkeepError } from '../../errors/mailkeep-error.ts';
import type { RunRecord, RunTrouble } from '../../state/runs.ts';
import type { StateFile } from '../../state/state-file.ts';
import { type FolderCertificate, type SyncResult, sumOf, totalsOf } from '../../sync/result.ts';

/** What is known of a run apart from its result. */
export type RunFrame = Pick<RunRecord, 'kind' | 'account' | 'startedAt' | 'endedAt'>;

/** Words for a failure, as the front end has them. */
type Say = (failure: Pick<SyncResult['failures'][number], 'code' | 'facts'>) => string;

/** What a run that is no pass leaves out. */
export const NO_NUMBERS: Omit<RunRecord, keyof RunFrame> = {
  outcome: 'done',
  mailboxes: 0,
  mailbox: null,
  added: 0,
  ended: 0,
  flagsChanged: 0,
  relinked: 0,
  quarantined: 0,
  held: 0,
  bytes: 0,
  requests: 0,
  messages: null,
  sum: null,
  folders: [],
  failures: 0,
  troubles: [],
};

/** Returns what is kept of a pass. */
export function recordOfPass(result: SyncResult, frame: RunFrame, say: Say): RunRecord {
  const { mailboxes, certificates, failures, requests } = result;
  const totals = totalsOf(mailboxes, 'added', 'ended', 'flagsChanged', 'relinked', 'corrected');
  const { corrected, ...counts } = totals;
  const isChanged = Object.values(totals).some((number) => number > 0) || failures.length > 0;
  const [only] = mailboxes;
  return {
    ...frame,
    ...NO_NUMBERS,
    ...counts,
    ...totalsOf(mailboxes, 'quarantined', 'held', 'bytes'),
    // An account or the archive that failed as a whole leaves nothing else to report.
    outcome: failures.some(({ mailbox }) => mailbox === null) ? 'failed' : 'done',
    mailboxes: mailboxes.length,
    mailbox: mailboxes.length === 1 ? (only?.address ?? null) : null,
    requests,
    sum: sumOf(certificates),
    // Every five minutes the same sums would be most of what is kept.
    folders: certificates.filter((folder) => isChanged || isOdd(folder)),
    failures: failures.length,
    troubles: failures.map((failure): RunTrouble => {
      const { mailbox, folder, uid, code } = failure;
      return { mailbox, folder, code, text: uid === null ? say(failure) : null };
    }),
  };
}

/** Returns what is kept of a pass that an error ended. */
export function recordOfFailure(error: unknown, frame: RunFrame, text: string): RunRecord {
  const isOurs = error instanceof MailkeepError;
  if (isOurs && error.family === 'interrupted')
    return { ...frame, ...NO_NUMBERS, outcome: 'interrupted' };
  const code = isOurs ? error.code : 'bug';
  const troubles = [{ mailbox: null, folder: null, code, text: isOurs ? text : null }];
  return { ...frame, ...NO_NUMBERS, outcome: 'failed', failures: 1, troubles };
}

/**
 * Keeps a run in the state. The state is a convenience: that it cannot be written is reported and fails nothing.
 *
 * @param failed called with the error
 */
export function keepRun(
  state: Pick<StateFile, 'runs'>,
  run: RunRecord,
  failed: (error: unknown) => void,
): void {
  try {
    state.runs.keep(run);
  } catch (error) {
    failed(error);
  }
}

function isOdd({ complete, originTotal, stored }: FolderCertificate): boolean {
  return !complete || originTotal !== stored;
}
