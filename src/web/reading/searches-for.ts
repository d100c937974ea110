import { type SavedSearch, savedSearches } from '../../engine/saved-searches.ts';
import type { ServedReader } from './served-archive.ts';

/** Returns the saved searches of a reader. They may name any mailbox, so one that is limited to some has none. */
export function searchesFor({
  dataDir,
  mailboxes,
}: Pick<ServedReader, 'dataDir' | 'mailboxes'>): SavedSearch[] {
  return mailboxes === null ? savedSearches(dataDir) : [];
}
