import { createHash } from 'node:crypto';

export const EXPORT_FORMATS = ['eml', 'zip', 'mbox', 'maildir'] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

/** Next to the exported folders, and the last entry of a zip. */
export const MANIFEST_NAME = 'mailkeep-export.json';
/** Stands next to the manifest while an export is running, and after one that was interrupted. */
export const UNFINISHED_NAME = 'mailkeep-export.unfinished.json';

export const MANIFEST_VERSION = 'export 1';

/** What the export is of. Nothing in it depends on the clock or the machine: the same state gives the same bytes. */
export interface ManifestHead {
  readonly mailkeep: typeof MANIFEST_VERSION;
  readonly format: ExportFormat;
  /** The commit that the archive had reached. */
  readonly commit: { readonly number: number; readonly hash: string };
  /** The commit as of which the export is, and its time; null for the present. */
  readonly asOf: { readonly number: number; readonly time: string } | null;
  readonly selection: {
    readonly query: string | null;
    /** How many messages were named by their ids, where they were. */
    readonly ids?: number;
    readonly mailbox: string | null;
    readonly folder: string | null;
    readonly deleted: boolean;
  };
}

/** One exported place. */
export interface ManifestEntry {
  /** Relative to the export, parted by `/`: the message's file, or the mbox it is in. */
  readonly path: string;
  /** The message's id: the SHA-256 of its source. */
  readonly sha256: string;
  /** Bytes of the source. */
  readonly size: number;
  /** The address. */
  readonly mailbox: string;
  readonly host: string;
  readonly resourceId: string;
  readonly folder: string;
  /** What separates the levels of `folder`; absent in manifests of earlier versions. */
  readonly delimiter?: string;
  /** What the folder is for, such as `\\Sent`; absent where it has no special use. */
  readonly specialUse?: string;
  /** Where other folders had this path before: how many. */
  readonly namesake?: number;
  readonly generation: number;
  readonly uid: number;
  readonly flags: readonly string[];
  readonly date: string | null;
  readonly firstSeen: string | null;
  readonly endedAt: string | null;
  /** In an mbox: where the message is, behind its "From " line. */
  readonly inMbox?: InMbox;
}

export interface InMbox {
  readonly offset: number;
  /** Bytes in the mbox, the empty line behind it left out. */
  readonly length: number;
  /** Bytes of header lines put before the source (Status and its like). */
  readonly added: number;
  /** True when the source has no line end at its end, and one was put there. */
  readonly lineEndAdded: boolean;
}

/** Any other file of the export: an mbox, a sidecar. */
export interface ManifestFile {
  readonly path: string;
  readonly sha256: string;
  readonly size: number;
}

/** A place that the export should have and has not. */
export interface MissingPlace {
  readonly id: string | null;
  readonly mailbox: string;
  readonly folder: string;
  /** As in an entry. */
  readonly namesake?: number;
  readonly generation: number;
  readonly uid: number;
  readonly reason: 'quarantined' | 'damaged' | 'purged';
}

export interface ManifestParts {
  readonly head: ManifestHead;
  readonly entries: Iterable<ManifestEntry>;
  readonly files: Iterable<ManifestFile>;
  readonly missing: Iterable<MissingPlace>;
}

/**
 * A manifest as text, in pieces: one JSON object, an item a line, so that one of any size can be read line by line.
 * Its last field is the SHA-256 of every byte before the line that it stands in.
 */
export function* manifestText({ head, entries, files, missing }: ManifestParts) {
  const digest = createHash('sha256');
  let text = `${JSON.stringify(head).slice(0, -1)},\n`;
  const flush = function* (): Generator<string> {
    digest.update(text);
    yield text;
    text = '';
  };
  const lists: readonly (readonly [string, Iterable<unknown>])[] = [
    ['entries', entries],
    ['files', files],
    ['missing', missing],
  ];
  for (const [name, items] of lists) {
    text += `"${name}":[`;
    let first = true;
    for (const item of items) {
      text += `${first ? '' : ','}\n${JSON.stringify(item)}`;
      first = false;
      if (text.length > 65_536) yield* flush();
    }
    text += '\n],\n';
  }
  yield* flush();
  yield `"sha256":"${digest.digest('hex')}"}\n`;
}
