import { recalledCopies } from '../../health/copies.ts';
import { type ArchiveFacts, fullnessOf } from '../../health/facts.ts';
import { recalledVerification } from '../../health/verification.ts';
import type { StateFile } from '../../state/state-file.ts';
import type { Reader } from '../archive/reader.ts';
import { archiveStatus } from './archive-status.ts';

/** What monitoring asks of the archive; the same that `status` shows. Costs some queries for each folder. */
export function archiveFacts(
  archive: Pick<Reader, 'catalog' | 'dataDir'>,
  state: StateFile | undefined,
): ArchiveFacts {
  const status = archiveStatus(archive, state);
  return {
    messages: status.messages,
    messageBytes: status.bytes,
    logBytes: status.logBytes,
    catalogBytes: status.catalogBytes,
    pending: status.pending,
    limiters: status.budget.map(({ gate, learnedPerMinute, heldUntil }) => ({
      gate,
      learnedPerMinute,
      heldUntil: millisOf(heldUntil),
    })),
    mailboxes: status.mailboxes.map(({ folders: _folders, quota, suspendedSince, ...mailbox }) => ({
      ...mailbox,
      provenAt: millisOf(mailbox.provenAt),
      certifiedAt: millisOf(mailbox.certifiedAt),
      full: fullnessOf(quota?.resources ?? [])?.share ?? null,
      suspended: suspendedSince !== null,
    })),
    verification: recalledVerification(state),
    copies: recalledCopies(state, status.commit.number),
  };
}

function millisOf(iso: string | null): number | null {
  return iso === null ? null : Date.parse(iso);
}
