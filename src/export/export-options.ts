import type { Catalog } from '../catalog/catalog.ts';
import type { SearchRequest } from '../catalog/search/search.ts';
import type { ExportFiles } from './export-files.ts';
import type { ExportFormat, ManifestEntry, ManifestHead, MissingPlace } from './manifest.ts';
import type { ExportPlan, PlannedPlace } from './plan.ts';
import type { Source, SourceReader } from './source.ts';

/** One format: takes the places in the order of the plan. */
export interface FormatWriter {
  /** How many places may be under way at a time. */
  readonly width: number;
  /** True when a source must be proven before its first byte is written. */
  readonly provenFirst: boolean;
  /**
   * Writes one place, and settles it in the plan.
   *
   * @param open throws when the archive cannot give the source: then nothing of the place is written
   */
  put(rank: number, place: PlannedPlace, open: () => Promise<Source>): Promise<'written' | 'there'>;
  /** Keeps a place of an earlier export. */
  keep(rank: number, entry: ManifestEntry): Promise<void>;
  /** Everything was put; the manifest follows. Gives what is unfinished its final name. */
  finish(): Promise<void>;
  /** Gives up: nothing unfinished stays. */
  discard(): Promise<void>;
}

export interface ExportSelection {
  /** Text and syntax tree of a query, with the hosts of accounts that it may name; null for all messages. */
  readonly query: ({ readonly text: string } & Pick<SearchRequest, 'node' | 'accounts'>) | null;
  /** Only these messages, where they were named by their ids. */
  readonly docids?: readonly number[] | null;
  /** As `FolderFilter` takes them; all if absent or empty. */
  readonly mailboxes?: readonly string[];
  readonly folders?: readonly string[];
  /** Exports ended places instead of current ones. */
  readonly deleted: boolean;
  /** Also exports messages without a current place, each from the place or places that ended last. */
  readonly withDeleted?: boolean;
  /** Milliseconds since the epoch; null for the present. */
  readonly asOf: number | null;
}

/** An archive on this machine, and what is exported of it. */
export interface ExportArchive {
  readonly selection: ExportSelection;
  readonly catalog: Pick<
    Catalog,
    'snapshot' | 'reached' | 'commitAt' | 'listPlaces' | 'foundDocids' | 'folders' | 'history'
  >;
  readonly sources: SourceReader;
}

/** How an export is written. */
export interface WritingOptions {
  /** A file for zip, else a folder; absolute. */
  readonly to: string;
  readonly format: ExportFormat;
  /** Leave alone what the last export to this place has. */
  readonly incremental: boolean;
  readonly sidecar: boolean;
  /** mbox only: Status, X-Status and X-Keywords before each source, which is not bit-exact then. */
  readonly statusHeaders: boolean;
  /** Between two messages it stops there; what has its final name stays. */
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: ExportProgress) => void;
  readonly files?: ExportFiles;
  /** In the names of unfinished files. */
  readonly pid?: number;
  readonly platform?: NodeJS.Platform;
}

export interface ExportOptions extends ExportArchive, WritingOptions {}

export interface ExportProgress {
  readonly done: number;
  readonly of: number;
  readonly bytes: number;
  readonly ofBytes: number;
}

/** A place without its bytes in the export, and why. */
export type ExportFailure = MissingPlace;

export interface ExportResult {
  readonly to: string;
  readonly format: ExportFormat;
  readonly commit: ManifestHead['commit'];
  readonly asOf: ManifestHead['asOf'];
  /** Places that the selection has. */
  readonly places: number;
  /** Places written by this run, and the bytes of their sources. */
  readonly exported: number;
  readonly bytes: number;
  /** Places that were there already. */
  readonly skipped: number;
  /** Places of earlier exports to the same place that this selection does not have. */
  readonly kept: number;
  readonly quarantined: number;
  readonly damaged: number;
  readonly purged: number;
  /** Each place that could not be exported. */
  readonly failures: readonly ExportFailure[];
  /** Path of the manifest; within the file for a zip. */
  readonly manifest: string;
  /** True when the signal stopped it early: running the same export again continues it. */
  readonly interrupted: boolean;
}

/** Where an export goes: a folder or a zip file. */
export interface ExportTarget {
  /** Adds what an earlier export has to the plan. */
  recall(plan: ExportPlan): Promise<void>;
  /**
   * Begins to write: from here on unfinished files may be left by a kill.
   *
   * @param commit the number of the commit that the export is of
   */
  begin(plan: ExportPlan, commit: number): Promise<FormatWriter>;
  /** Writes manifest and sidecars, and gives everything its final name. */
  finish(writer: FormatWriter, plan: ExportPlan, head: ManifestHead): Promise<void>;
  /** Gives up: nothing unfinished stays. */
  discard(writer: FormatWriter): Promise<void>;
  readonly manifest: string;
}
