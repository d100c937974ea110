import { readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { FOLDER_MODE } from '../../archive/format/layout.ts';
import { openCompared } from '../../catalog/implied.ts';
import { locateConfig } from '../../config/locate.ts';
import { makeFolders } from '../../disk/make-folders.ts';
import { MailkeepError } from '../../errors/mailkeep-error.ts';
import type { MessageId, Place } from '../../mail/words.ts';
import type { FetchAgain } from '../../verify/repair/repair-archive.ts';
import type { EngineContext } from '../context.ts';
import { AccountOrigins } from '../origins/account-origins.ts';
import { settingsOf } from '../settings.ts';

/**
 * Fetches sources again from the mailboxes of the configuration, by the places that the catalog knows. Without a
 * configuration nothing is fetched; a service that does not answer is told, and the message counts as not found.
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
