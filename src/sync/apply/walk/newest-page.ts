import { MailkeepError } from '../../../errors/mailkeep-error.ts';
import type { FolderKey } from '../../../mail/words.ts';
import { PAGE_SIZE } from '../../plan/forecast.ts';
import type { Origin, OriginPage } from '../ports.ts';

/**
 * Asks for the newest page of a folder. A folder that shows nothing while its listing counts messages is asked
 * once more: one of the two is not true now.
 *
 * @throws MailkeepError `sync.counts-disagree` when they still disagree: such an answer proves nothing
 */
export async function newestPage(
  deps: { readonly origin: Origin; readonly signal: AbortSignal },
  at: FolderKey,
  listed: number,
): Promise<OriginPage> {
  const newest = { page: 1, perPage: PAGE_SIZE, order: 'descending' } as const;
  const page = await deps.origin.list(at, newest, deps.signal);
  if (page.total > 0 || listed === 0) return page;
  const again = await deps.origin.list(at, newest, deps.signal);
  if (again.total > 0) return again;
  throw new MailkeepError('origin', 'sync.counts-disagree', {
    folder: at.folder,
    listed,
    shown: 0,
  });
}
