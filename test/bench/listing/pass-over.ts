import { openLogWriter } from '../../../src/archive/log-writer.ts';
import { openCatalog } from '../../../src/catalog/catalog.ts';
import { systemClock } from '../../../src/core/concurrency.ts';
import { folderKey, openState } from '../../../src/core/state.ts';
import { syncModel } from '../../sync/harness.ts';
import { AT, ListingOrigin } from './listing-origin.ts';

export interface ListingFigures {
  readonly requests: number;
  readonly cpuMs: number;
  /** The most memory the process had, in bytes. */
  readonly peakBytes: number;
  readonly result: { readonly ended: number; readonly held: number };
}

/** One pass over the generated listing; `deletion` finds one message that is gone, `full` reads every page. */
export async function passOver(
  dir: string,
  count: number,
  pass: 'quiet' | 'deletion' | 'full',
): Promise<ListingFigures> {
  const third = Math.floor(count / 3);
  const origin = new ListingOrigin(count, pass === 'quiet' ? [] : [third]);
  const catalog = await openCatalog(dir);
  const state = openState(dir);
  // Every uid was answered for when the archive was filled.
  state.set('coverage', `${folderKey(AT)}/1`, [[1, count]]);
  const log = await openLogWriter({ dir, now: Date.now, expected: catalog.reached() });
  const before = process.cpuUsage();
  const clock = { now: Date.now, after: systemClock.after };
  const { mailboxes, failures } = await syncModel(
    { log, catalog, dataDir: dir, state },
    origin,
    clock,
    { policy: { full: pass === 'full', acceptEndings: false } },
  );
  const { user, system } = process.cpuUsage(before);
  await log.close();
  state.close();
  catalog.close();
  if (failures.length > 0) throw new Error(JSON.stringify(failures[0]));
  const { ended = 0, held = 0 } = mailboxes[0] ?? {};
  return {
    requests: origin.requests,
    cpuMs: (user + system) / 1000,
    peakBytes: process.resourceUsage().maxRSS * 1024,
    result: { ended, held },
  };
}
