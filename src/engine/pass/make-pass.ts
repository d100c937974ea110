import { freeBytes } from '../../archive/files/file-layer.ts';
import type { Settings } from '../../config/settings.ts';
import { catalogMirror } from '../../sync/apply/catalog-mirror.ts';
import { BY_HAND, type PassPolicy } from '../../sync/apply/pass-context.ts';
import type { SyncResult } from '../../sync/result.ts';
import { runSync, type SyncOptions } from '../../sync/run-sync.ts';
import type { Writer } from '../archive/writer.ts';

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
export function makePass(
  writer: Writer,
  settings: Settings,
  { policy, ...order }: PassOrder,
): Promise<SyncResult> {
  const { sync, rateLimit, brake, minFreeBytes } = settings;
  return runSync({
    order: sync.order,
    first: sync.first,
    requestsPerMinute: rateLimit.requestsPerMinute,
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
}
