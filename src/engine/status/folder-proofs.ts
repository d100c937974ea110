import type { Catalog } from '../../catalog/catalog.ts';
import type { KnownFolder } from '../../catalog/folders.ts';
import type { StateFile } from '../../state/state-file.ts';
import { recalledProof } from '../../sync/apply/memory/proof.ts';
import { isUnwatchedFolder, isUnwatchedMailbox } from '../../sync/apply/memory/unwatched.ts';

/** When a folder was last compared with the service. */
export interface FolderProof extends Pick<KnownFolder, 'host' | 'mailbox' | 'address' | 'folder'> {
  /** The configuration of the last sync leaves it out. */
  readonly unwatched: boolean;
  /** Milliseconds since the epoch: by the state, or by its last certificate where the state is lost; null for never. */
  readonly at: number | null;
  /** Whether everything added up then; null when that is not known. */
  readonly complete: boolean | null;
}

/** Returns the last comparison of each folder that the service still has. Counts nothing. */
export function folderProofs(
  { folders }: Pick<Catalog, 'folders'>,
  state: StateFile | undefined,
): FolderProof[] {
  return folders.all().map(({ id, host, mailbox, address, folder }) => {
    const proof = recalledProof(state, { host, mailbox, folder });
    const at = proof === undefined ? folders.latestCertificate(id)?.time : Date.parse(proof.at);
    return {
      ...{ host, mailbox, address, folder },
      unwatched:
        isUnwatchedMailbox(state, { host, mailbox }) ||
        isUnwatchedFolder(state, { host, mailbox, folder }),
      at: at ?? null,
      complete: proof?.complete ?? null,
    };
  });
}
