import { existsSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { FOLDER_MODE } from '../../archive/format/layout.ts';
import { reachedBy } from '../../catalog/closed-catalog.ts';
import { openCompared } from '../../catalog/implied.ts';
import { catalogFile } from '../../catalog/open.ts';
import { locateConfig } from '../../config/locate.ts';
import { makeFolders } from '../../disk/make-folders.ts';
import { MailkeepError } from '../../errors/mailkeep-error.ts';
import type { MessageId, Place } from '../../mail/words.ts';
import { openState, stateDamage } from '../../state/state-file.ts';
import type { VerifyProgress } from '../../verify/read-log.ts';
import {
  type FetchAgain,
  type Repaired,
  type RepairOptions,
  repairArchive,
} from '../../verify/repair/repair-archive.ts';
import { checkerOnThreads } from '../../verify/segment-threads.ts';
import type { Verification } from '../../verify/verify-archive.ts';
import { withLock } from '../archive/archive-folder.ts';
import type { EngineContext } from '../context.ts';
import { AccountOrigins } from '../origins/account-origins.ts';
import { rebuild } from '../rebuild.ts';
import { settingsOf } from '../settings.ts';
import { rememberRead } from './remember.ts';
import { readArchive } from './verify.ts';

/**
 * Fetches sources again from the mailboxes of the configuration, by the places that the catalog knows. Without a
 * configuration nothing is fetched; a service that does not answer is reported, and the message counts as not found.
 */
export function fetchingAgain(
  context: EngineContext,
  dataDir: string,
): { readonly fetch: FetchAgain | undefined; close(): Promise<void> } {
  const { globals, surroundings, signal, report } = context;
  if (locateConfig(globals.config, surroundings) === undefined) {
    return { fetch: undefined, close: async () => {} };
  }
  const settings = settingsOf(context);
  const spoolDir = path.join(dataDir, 'tmp');
  makeFolders(spoolDir, FOLDER_MODE);
  const { accounts, rateLimit } = settings;
  const origins = new AccountOrigins({ accounts, rateLimit, env: surroundings.env, spoolDir });
  const fetch = async (place: Place): Promise<Buffer | undefined> => {
    for (const account of origins.all()) {
      if (account.host !== place.host) continue;
      try {
        const origin = origins.fresh(account);
        const source = await origin.source(place, place.uid, signal);
        if (source.kind === 'buffer') return source.bytes;
        const bytes = readFileSync(source.path);
        rmSync(source.path, { force: true });
        return bytes;
      } catch (error) {
        if (!(error instanceof MailkeepError)) throw error;
        report({ event: 'not-fetched', place, error });
      }
    }
    return undefined;
  };
  return {
    async fetch(id) {
      for (const place of placesOf(dataDir, id)) {
        const bytes = await fetch(place);
        if (bytes !== undefined) return bytes;
      }
      return undefined;
    },
    async close() {
      await origins.close();
    },
  };
}

function placesOf(dataDir: string, id: MessageId): Place[] {
  try {
    const catalog = openCompared(dataDir);
    try {
      return catalog.openPlaces(id);
    } finally {
      catalog.close();
    }
  } catch (error) {
    // Without a catalog nobody knows where to ask; what was found elsewhere is restored all the same.
    if (error instanceof MailkeepError) return [];
    throw error;
  }
}

/** Folders of copies, the commits that are signed, and whether all that the copies say is believed. */
export type OtherCopies = Pick<RepairOptions, 'copies' | 'vouched' | 'trustsCopies'>;

/** What a repair came to. */
export interface RepairOutcome {
  readonly repaired: Repaired;
  readonly catalog: CatalogOutcome;
  /** The verification of everything after the repair. */
  readonly after: Verification;
  /** Whether the archive's state has the result. */
  readonly remembered: boolean;
}

export interface CatalogOutcome {
  readonly catalogRebuilt: boolean;
  /** Where the old one was moved to, because it could not be copied there, and why: an errno or `not a file`. */
  readonly unread: { readonly file: string; readonly reason: string } | null;
}

/** Shows a part of the work for as long as `act` takes. */
export type ShowRepair = <T>(
  part: 'mending' | 'reading',
  act: (progress: (progress: VerifyProgress) => void) => Promise<T>,
) => Promise<T>;

/**
 * Repairs an archive from copies of it and from the service, and verifies all of it afterwards.
 *
 * @param others copies; one that cannot be read is named in the result and skipped
 * @throws archive-in-use
 */
export async function repairAndVerify(
  context: EngineContext,
  dataDir: string,
  others: OtherCopies,
  show: ShowRepair,
): Promise<RepairOutcome> {
  const startedAt = context.now();
  return withLock(dataDir, async () => {
    const repaired = await show('mending', () => mendAll(context, dataDir, others));
    const catalog = await mendCatalog(context, dataDir, repaired);
    const { signal, report } = context;
    if (stateDamage(dataDir) !== undefined)
      openState(dataDir, (file) => report({ event: 'state-put-aside', file })).close();
    const after = await show('reading', (progress) =>
      readArchive(dataDir, { full: true, vouched: [], signal, progress }),
    );
    const run = { at: startedAt, mode: 'repair', checkpoint: null } as const;
    const remembered = rememberRead(context, dataDir, run, after, true);
    return { repaired, catalog, after, remembered };
  });
}

async function mendAll(
  context: EngineContext,
  dir: string,
  others: OtherCopies,
): Promise<Repaired> {
  const checker = checkerOnThreads();
  const again = fetchingAgain(context, dir);
  try {
    const { now, signal } = context;
    return await repairArchive({ dir, checker, ...others, fetchAgain: again.fetch, now, signal });
  } finally {
    await again.close();
    await checker.close();
  }
}

/** Rebuilds a catalog that is not what the log implies, and keeps the old one where the log lost facts. */
async function mendCatalog(
  { signal, report }: EngineContext,
  dir: string,
  { before, mended, restored, missing }: Repaired,
): Promise<CatalogOutcome> {
  const untouched = mended.length + restored.length + missing.length === 0;
  if (untouched && (before.catalog === 'equal' || before.catalog === 'behind')) {
    return { catalogRebuilt: false, unread: null };
  }
  const keepAs = before.found > 0 ? freeName(`${catalogFile(dir)}.before-repair`) : undefined;
  report({ event: 'rebuilding-catalog', because: 'repair' });
  const seen = reachedBy(dir)?.number;
  const { unread: reason } = await rebuild({ dir, signal, seen, keepAs });
  const moved = keepAs === undefined || reason === null ? null : { file: keepAs, reason };
  return { catalogRebuilt: true, unread: moved };
}

function freeName(stem: string): string {
  for (let n = 1; ; n += 1) if (!existsSync(`${stem}-${n}`)) return `${stem}-${n}`;
}
