import type { Settings } from '../../config/settings.ts';
import { createIndexer } from '../../indexer/indexer.ts';
import { systemClock } from '../../limiter/clock.ts';
import { openExtractorPool } from '../../mime/extractor-pool.ts';
import type { ProgressListener } from '../../sync/progress.ts';
import type { SyncResult } from '../../sync/result.ts';
import type { Writer } from '../archive/writer.ts';
import type { EngineContext } from '../context.ts';
import { makePass } from './make-pass.ts';
import type { OpenAccounts } from './open-pass.ts';
import { attachmentReading, tidy } from './tidy.ts';

/** How long a pass reads the text of attachments once all messages are searchable; the next pass continues there. */
const ATTACHMENTS_MS = 10_000;

/**
 * Makes one pass by hand over all accounts. When it returns, everything it stored is durable, searchable and sealed
 * where that is worth it.
 *
 * @throws what `runSync` throws
 */
export async function syncAccounts(
  { now, signal }: Pick<EngineContext, 'now' | 'signal'>,
  writer: Writer,
  settings: Settings,
  { accounts, requests }: OpenAccounts,
  aim: { readonly full: boolean; readonly acceptEndings: boolean },
  progress: ProgressListener,
): Promise<SyncResult> {
  const { catalog, sources } = writer;
  const startedAtCommit = catalog.reached().number;
  const extractor = openExtractorPool();
  const indexing = createIndexer({
    store: catalog.index,
    sources,
    extractor,
    progress: ({ indexed, remaining }) => progress({ event: 'indexing', indexed, remaining }),
  });
  const attachments = attachmentReading(writer, indexing);
  try {
    return await makePass(writer, settings, {
      accounts,
      policy: aim,
      indexing,
      tidy: async (until) => {
        await attachments.read({ signal: until, forMs: ATTACHMENTS_MS, now });
        return tidy(writer, startedAtCommit, now, until);
      },
      requests,
      now,
      after: (ms, act) => systemClock.after(ms, act),
      progress,
      signal,
    });
  } finally {
    await Promise.all([extractor.close(), attachments.close()]);
  }
}
