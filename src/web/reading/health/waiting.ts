import type { FolderName } from '../../../catalog/folder-names.ts';
import type { Reader } from '../../../engine/archive/reader.ts';
import type { ArchivePolicy } from '../../../engine/status/archive-policy.ts';
import {
  heldSince,
  type QuarantinedMessage,
  quarantinedMessages,
} from '../../../engine/status/waiting-messages.ts';
import type { PlaceLine } from '../../../mail/lines.ts';
import type { StateFile } from '../../../state/state-file.ts';

export interface QuarantinePages {
  readonly messages: readonly QuarantinedMessage[];
  readonly from: number;
  /** Messages of a page. */
  readonly step: number;
  readonly all: number;
}

const WAITING = 100;

export function quarantinePages(
  reader: Pick<Reader, 'catalog'>,
  state: Pick<StateFile, 'get'> | undefined,
  from: number,
): QuarantinePages {
  return { ...quarantinedMessages(reader, state, { from, limit: WAITING }), from, step: WAITING };
}

export type HeldMessage = Pick<PlaceLine, 'id' | 'uid' | 'date' | 'subject' | 'from'>;

/** What the brake holds in one folder. */
export interface HeldFolder {
  readonly address: string;
  readonly folder: string;
  /** Milliseconds since the epoch; null where it is not known. */
  readonly since: number | null;
  /** The first comparison after this time decides; null where it is not known. */
  readonly lookAt: number | null;
  readonly messages: readonly HeldMessage[];
}

export interface HeldPages {
  readonly folders: readonly HeldFolder[];
  /** Messages that are held in all. */
  readonly all: number;
  readonly shown: number;
}

/** Messages that are listed at most. */
const MOST_HELD = 500;

/** Reads which messages would end, folder by folder. */
export function heldPages(
  { catalog }: Pick<Reader, 'catalog'>,
  state: Pick<StateFile, 'get'> | undefined,
  policy: Pick<ArchivePolicy, 'confirmAfterMs'> | null,
  all: number,
): HeldPages {
  if (all === 0) return { folders: [], all, shown: 0 };
  const folders = new Map<
    number,
    { head: Omit<HeldFolder, 'messages'>; messages: HeldMessage[] }
  >();
  let shown = 0;
  for (const { line, folder } of catalog.listPlaces({ held: true })) {
    if (shown === MOST_HELD) break;
    shown += 1;
    const { id, uid, date, subject, from } = line;
    const known = folders.get(folder.id) ?? { head: headOf(folder, state, policy), messages: [] };
    folders.set(folder.id, known);
    known.messages.push({ id, uid, date, subject, from });
  }
  return {
    folders: [...folders.values()].map(({ head, messages }) => ({ ...head, messages })),
    all,
    shown,
  };
}

function headOf(
  { host, mailbox, address, path }: FolderName,
  state: Pick<StateFile, 'get'> | undefined,
  policy: Pick<ArchivePolicy, 'confirmAfterMs'> | null,
): Omit<HeldFolder, 'messages'> {
  const since = heldSince(state, { host, mailbox, folder: path });
  const lookAt = since === null || policy === null ? null : since + policy.confirmAfterMs;
  return { address, folder: path, since, lookAt };
}
