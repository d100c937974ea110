import { readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { FOLDER_MODE } from '../../archive/format/layout.ts';
import { openCompared } from '../../catalog/implied.ts';
import { locateConfig } from '../../config/locate.ts';
import { makeFolders } from '../../disk/make-folders.ts';
import { MailkeepError } from '../../errors/mailkeep-error.ts';
import { Limiter } from '../../limiter/limiter.ts';
import { terminalLine } from '../../mail/terminal-safe.ts';
import type { MessageId, Place } from '../../mail/words.ts';
import type { FetchAgain } from '../../verify/repair/repair-archive.ts';
import { type OpenOrigin, openOrigin } from '../compose/origin.ts';
import { settingsOf } from '../compose/settings.ts';
import type { CommandContext } from '../context.ts';
import { sentenceOf } from '../sentences.ts';

/**
 * Fetches sources again from the mailboxes of the configuration, by the places that the catalog knows. Without a
 * configuration nothing is fetched; a service that does not answer is told, and the message counts as not found.
 */
export function fetchingAgain(
  context: CommandContext,
  dataDir: string,
): { readonly fetch: FetchAgain | undefined; close(): Promise<void> } {
  const { globals, surroundings, signal, notices } = context;
  if (locateConfig(globals.config, surroundings) === undefined) {
    return { fetch: undefined, close: async () => {} };
  }
  const settings = settingsOf(context);
  const limiter = new Limiter({ policy: settings.rateLimit });
  const spoolDir = path.join(dataDir, 'tmp');
  makeFolders(spoolDir, FOLDER_MODE);
  let opened: OpenOrigin[] | undefined;
  const origins = (): OpenOrigin[] => {
    opened ??= settings.accounts.map((account) =>
      openOrigin({ account, env: surroundings.env, limiter, spoolDir }),
    );
    return opened;
  };
  const fetch = async (place: Place): Promise<Buffer | undefined> => {
    for (const { origin } of origins()) {
      if (origin.host !== place.host) continue;
      try {
        const source = await origin.source(place, place.uid, signal);
        if (source.kind === 'buffer') return source.bytes;
        const bytes = readFileSync(source.path);
        rmSync(source.path, { force: true });
        return bytes;
      } catch (error) {
        if (!(error instanceof MailkeepError)) throw error;
        notices.warn(
          `${terminalLine(place.folder)} uid ${place.uid}: ${sentenceOf(error).message}`,
        );
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
      await Promise.all((opened ?? []).map((origin) => origin.close()));
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
