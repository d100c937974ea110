import { setImmediate as nextTurn } from 'node:timers/promises';
import type { LogReader } from '../archive/read/log-reader.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { OriginFolder, OriginPlace } from '../catalog/origin-places.ts';
import { byFolderPath } from '../mailbox-surface/parameters.ts';
import type { FolderRecord } from '../wire/mailbox-records.ts';
import { FolderUids, type MirrorEntry } from './folder-uids.ts';
import { ListingRecords } from './listing-json.ts';
import type { MirroredMailbox } from './mirrored-mailboxes.ts';

/** Messages whose uids are kept in memory, with what they are sorted by: 36 bytes each. */
const KEPT_MESSAGES = 1_000_000;
/** What a folder without messages counts for: there is one for each folder and moment that is asked for. */
const FOLDER_COSTS = 20;
/** Lists of folders that are kept: one for each mailbox and moment that is asked for. */
const KEPT_LISTS = 200;

/** The archive, open. Another one stands for it after a rebuild. */
export interface OpenArchive {
  readonly catalog: Catalog;
  sources(): LogReader;
}

/** What a request asks for: now, or as of a commit. */
export type Moment = number | null;

/**
 * An open archive as the service's mailbox surface sees it. Uids of folders and counts are kept until the archive has
 * another commit.
 */
export class MirrorView {
  readonly #records: ListingRecords;
  readonly #uids = new Map<string, FolderUids>();
  readonly #folders = new Map<string, readonly FolderRecord[]>();
  #reached = -1;
  #kept = 0;

  constructor(private readonly archive: OpenArchive) {
    this.#records = new ListingRecords(
      () => archive.sources(),
      (folder, commit) => archive.catalog.origin.pathAt(folder, commit),
    );
  }

  async folders(mailbox: MirroredMailbox, moment: Moment): Promise<readonly FolderRecord[]> {
    this.#refresh();
    const key = `${mailbox.id} ${moment ?? 'now'}`;
    const known = this.#folders.get(key);
    if (known !== undefined) return known;
    const { origin } = this.archive.catalog;
    const reached = this.#reached;
    const records: FolderRecord[] = [];
    for (const folder of origin.folders(mailbox, moment)) {
      records.push(recordOf(folder, this.#counts(folder, moment)));
      // As of a moment, the uids of a folder are read to be counted: others may ask in between.
      if (moment !== null) await nextTurn();
    }
    records.sort(byFolderPath);
    if (reached !== this.#reached) return records;
    this.#folders.set(key, records);
    const [oldest] = this.#folders.keys();
    if (this.#folders.size > KEPT_LISTS && oldest !== undefined) this.#folders.delete(oldest);
    return records;
  }

  folder(mailbox: MirroredMailbox, path: string, moment: Moment): OriginFolder | undefined {
    return this.archive.catalog.origin.folders(mailbox, moment).find((one) => one.path === path);
  }

  uids(folder: OriginFolder, moment: Moment): FolderUids {
    this.#refresh();
    const key = `${folder.id} ${folder.generation} ${moment ?? 'now'}`;
    let uids = this.#uids.get(key);
    if (uids === undefined) {
      const { origin } = this.archive.catalog;
      uids = new FolderUids(origin.uids(folder, moment), (row) => origin.facts(row));
      this.#keep(key, uids);
    }
    return uids;
  }

  /** Returns the record of a message as JSON; undefined where the message is gone since its uid was read. */
  json(mailbox: MirroredMailbox, folder: OriginFolder, entry: MirrorEntry): string | undefined {
    const flags = this.flags(entry);
    const placeOf = () => this.place(folder, entry);
    return this.#records.json(mailbox, folder.path, entry, flags, placeOf);
  }

  /** Returns what is known of a message; undefined where the message is gone since its uid was read. */
  place({ id, generation }: OriginFolder, { row, uid }: MirrorEntry): OriginPlace | undefined {
    const place = this.archive.catalog.origin.place(row);
    const isIt = place?.folder === id && place.generation === generation && place.uid === uid;
    return isIt ? place : undefined;
  }

  listing(mailbox: MirroredMailbox, place: OriginPlace) {
    return this.#records.listing(mailbox, place);
  }

  flags({ flagSet }: MirrorEntry): readonly string[] {
    return this.archive.catalog.origin.flags(flagSet);
  }

  #counts(folder: OriginFolder, moment: Moment) {
    if (moment === null) return this.archive.catalog.origin.counts(folder);
    const { count, unread } = this.uids(folder, moment);
    return { messages: count, unread };
  }

  /** Lets go of what another commit may have changed. */
  #refresh(): void {
    const { number } = this.archive.catalog.reached();
    if (number === this.#reached) return;
    this.#reached = number;
    this.#uids.clear();
    this.#folders.clear();
    this.#records.clear();
    this.#kept = 0;
  }

  #keep(key: string, uids: FolderUids): void {
    this.#uids.set(key, uids);
    this.#kept += uids.count + FOLDER_COSTS;
    for (const [oldest, { count }] of this.#uids) {
      if (this.#kept <= KEPT_MESSAGES || oldest === key) return;
      this.#uids.delete(oldest);
      this.#kept -= count + FOLDER_COSTS;
    }
  }
}

function recordOf(
  { path, name, delimiter, specialUse }: OriginFolder,
  { messages, unread }: { readonly messages: number; readonly unread: number },
): FolderRecord {
  return { path, name, delimiter, specialUse, messageCount: messages, unreadCount: unread };
}
