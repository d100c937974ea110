import { openLogWriter } from '../../src/archive/log-writer.ts';
import { openCatalog } from '../../src/catalog/catalog.ts';
import { folderKey, openState } from '../../src/core/state.ts';
import { catalogMirror } from '../../src/sync/mirror.ts';
import { MANUAL_SYNC } from '../../src/sync/ports.ts';
import { runSync } from '../../src/sync/run-sync.ts';
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
  const { mailboxes, failures } = await runSync({
    accounts: [
      {
        name: 'main',
        origin,
        wanted: {
          mailboxes: { include: ['*'], exclude: [] },
          folders: { include: ['*'], exclude: [] },
        },
      },
    ],
    order: 'newest',
    concurrency: 4,
    policy: {
      ...MANUAL_SYNC,
      full: pass === 'full',
      acceptEndings: false,
      brake: { maxEndedShare: 0.3, minMessages: 50 },
      confirmAfterMs: 6 * 3_600_000,
    },
    minFreeBytes: 0,
    startedAtCommit: catalog.reached().number,
    log,
    mirror: catalogMirror(catalog),
    memory: state,
    indexing: { some: async () => 0, all: async () => {} },
    tidy: async () => [],
    freeBytes: async () => Number.POSITIVE_INFINITY,
    requests: () => ({}),
    now: Date.now,
    after: (ms, act) => {
      const timer = setTimeout(act, ms);
      return () => clearTimeout(timer);
    },
    progress: () => {},
    signal: new AbortController().signal,
  });
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
