import { freeBytes } from '../../archive/files/file-layer.ts';
import type { Settings } from '../../config/settings.ts';
import { createIndexer } from '../../indexer/indexer.ts';
import { systemClock } from '../../limiter/clock.ts';
import { openExtractorPool } from '../../mime/extractor-pool.ts';
import { catalogMirror } from '../../sync/apply/catalog-mirror.ts';
import { BY_HAND, type PassPolicy } from '../../sync/apply/pass-context.ts';
import type { ProgressListener } from '../../sync/progress.ts';
import type { SyncResult } from '../../sync/result.ts';
import { runSync, type SyncOptions } from '../../sync/run-sync.ts';
import type { Writer } from '../archive/writer.ts';
import type { EngineContext } from '../context.ts';
import { noteDiskSample } from '../status/disk-samples.ts';
import type { OpenAccounts } from './open-pass.ts';
import { attachmentReading, tidy } from './tidy.ts';

/** A pass in all that its purpose decides. The rest follows from the archive and the configuration. */
export interface PassOrder
  extends Pick<
      SyncOptions,
      | 'accounts'
      | 'pass'
      | 'indexing'
      | 'tidy'
      | 'requests'
      | 'now'
      | 'after'
      | 'progress'
      | 'signal'
      | 'openCommitter'
    >,
    Partial<Pick<SyncOptions, 'mirror' | 'concurrency'>> {
  /** Where it differs from a pass by hand; `brake` and `confirmAfterMs` are the configuration's. */
  readonly policy: Pick<PassPolicy, 'full' | 'acceptEndings'> & Partial<PassPolicy>;
}

/**
 * Makes a pass over accounts. Every pass is composed here, whoever asked for it: the command, the daemon, or a
 * comparison with the service.
 *
 * @throws what `runSync` throws
 */
export async function makePass(
  writer: Writer,
  settings: Settings,
  { policy, ...order }: PassOrder,
): Promise<SyncResult> {
  const { sync, rateLimit, brake, minFreeBytes } = settings;
  const result = await runSync({
    order: sync.order,
    first: sync.first,
    concurrency: rateLimit.concurrency,
    minFreeBytes,
    startedAtCommit: writer.catalog.reached().number,
    log: writer.log,
    mirror: catalogMirror(writer.catalog),
    memory: writer.state,
    freeBytes: () => freeBytes(writer.dataDir),
    ...order,
    policy: { ...BY_HAND, confirmAfterMs: brake.confirmAfterMs, brake, ...policy },
  });
  noteDiskSample(writer.state, writer, order.now());
  return result;
}

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
    segments: writer.segments,
    extractor,
    progress: ({ indexed, remaining }) => progress({ event: 'indexing', indexed, remaining }),
  });
  const attachments = attachmentReading(writer, indexing, extractor);
  try {
    return await makePass(writer, settings, {
      accounts,
      policy: aim,
      indexing,
      tidy: async (until) => {
        await attachments.read({ signal: until, forMs: ATTACHMENTS_MS, now });
        // Nothing is read any more, and sealing takes memory too.
        await Promise.all([extractor.close(), attachments.close()]);
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
