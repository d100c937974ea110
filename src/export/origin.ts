import type { ListedPlace } from '../catalog/list.ts';
import type { HistoryLine } from '../catalog/message-history.ts';
import type { MessageId } from '../mail/words.ts';
import type { ManifestHead } from './manifest.ts';
import type { NamedFolder } from './paths.ts';
import type { SourceReader } from './source.ts';

/** A place of a selection; without an id while it is in quarantine. */
export interface SelectedPlace extends Pick<ListedPlace, 'line' | 'generation' | 'docid'> {
  readonly folder: NamedFolder & Pick<ListedPlace['folder'], 'specialUse' | 'namesake'>;
}

/** Takes what a selection has: first all folders, then its places. */
export interface SelectionTaker {
  /** @param met every folder there ever was, in the order in which the archive met them */
  folders(met: readonly NamedFolder[]): void;
  place(place: SelectedPlace): void;
}

/** What a manifest says of a selection. */
export type Selected = Pick<ManifestHead, 'commit' | 'asOf' | 'selection'>;

/** Where exported messages come from: an archive, with a selection of its places. */
export interface ExportOrigin {
  /** Gives the folders and every place of the selection, all as of one state of the archive. */
  select(taker: SelectionTaker): Promise<Selected>;
  readonly sources: SourceReader;
  /** Returns all that happened to a message, in the order of time. */
  history(id: MessageId): readonly HistoryLine[] | Promise<readonly HistoryLine[]>;
}
