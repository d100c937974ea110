import type { FolderKey } from '../../mail/words.ts';
import { folderKey, placeKey } from '../../state/scopes.ts';
import type { StateFile } from '../../state/state-file.ts';
import { nextTryAt } from '../../sync/apply/memory/second-looks.ts';
import type { Reader } from '../archive/reader.ts';

/** Messages that wait for something: those in quarantine for the next try, those held for a second look. */

export interface QuarantinedMessage {
  readonly address: string;
  readonly folder: string;
  readonly uid: number;
  readonly subject: string | null;
  /** Milliseconds since the epoch, like all times here. */
  readonly date: number | null;
  readonly size: number;
  readonly reason: string;
  readonly detail: string;
  readonly since: number;
  readonly acknowledged: boolean;
  readonly tries: number;
  /** When the daemon tries next, at the earliest; null where it was not tried again yet. */
  readonly nextAt: number | null;
}

/** Returns what is in quarantine, from the `from`-th on, and how many there are in all. */
export function quarantinedMessages(
  { catalog }: Pick<Reader, 'catalog'>,
  state: Pick<StateFile, 'get'> | undefined,
  { from, limit }: { readonly from: number; readonly limit: number },
): { readonly all: number; readonly messages: readonly QuarantinedMessage[] } {
  const open = catalog.quarantine.open();
  const messages = open.slice(from, from + limit).map((entry): QuarantinedMessage => {
    const { address, folder, uid, subject, date, size, reason, detail, since } = entry;
    const tried = state?.get('quarantine-tries', placeKey(entry));
    return {
      ...{ address, folder, uid, subject, date, size, reason, detail, since },
      acknowledged: entry.acknowledged,
      tries: tried?.tries ?? 0,
      nextAt: tried === undefined ? null : nextTryAt(tried),
    };
  });
  return { all: open.length, messages };
}

/** Returns since when the brake holds places of a folder, milliseconds since the epoch; null where that is unknown. */
export function heldSince(state: Pick<StateFile, 'get'> | undefined, at: FolderKey): number | null {
  return state?.get('held', folderKey(at))?.since ?? null;
}
