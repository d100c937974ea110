import { type ArchiveStatus, archiveStatus } from '../../engine/status/archive-status.ts';
import { mailboxKey } from '../../state/scopes.ts';
import type { StateFile } from '../../state/state-file.ts';
import type { ServedReader } from './served-archive.ts';

/** Returns the status of the archive; of a reader's mailboxes alone where it is limited to some. */
export function statusFor(reader: ServedReader, state: StateFile | undefined): ArchiveStatus {
  const status = archiveStatus(reader, state);
  const { mailboxes: ours } = reader;
  if (ours === null) return status;
  return {
    ...status,
    // The state also knows mailboxes of which the archive has nothing yet.
    mailboxes: status.mailboxes.filter(({ host, resourceId }) =>
      ours.includes(mailboxKey({ host, mailbox: resourceId })),
    ),
    // Findings, requests and files are those of all mailboxes.
    ...{ verification: null, budget: [], logBytes: 0, catalogBytes: 0 },
    commit: { ...status.commit, hash: '' },
  };
}
