/** How much may end at once before it is held; the `brake` section of the configuration. */
export interface BrakePolicy {
  /** More than this share of the open places is an alarm, of a folder or of a mailbox. */
  readonly maxEndedShare: number;
  /** Shares count only from this many open places on. */
  readonly minMessages: number;
}

/** What is about to end in one folder: places that are gone, and were not found again elsewhere. */
export interface FolderEndings {
  readonly folder: string;
  readonly specialUse: string | null;
  /** Open places before the pass. */
  readonly open: number;
  readonly ending: number;
  /** True when the origin shows the folder as empty, or does not show it any more. */
  readonly empty: boolean;
}

export interface BrakeDecision {
  readonly folder: string;
  readonly hold: boolean;
  readonly reason: 'within-bounds' | 'exempt' | 'folder-share' | 'folder-empty' | 'mailbox-share';
}

/** Emptying these is what they are for (RFC 6154). */
const EXEMPT: ReadonlySet<string> = new Set(['\\Trash', '\\Junk']);

/**
 * Decides, folder by folder, whether endings are believed at once or held until a second look. A folder that is
 * suddenly empty is held whatever its size; a share of the whole mailbox holds every folder that contributes.
 */
export function brake(folders: readonly FolderEndings[], policy: BrakePolicy): BrakeDecision[] {
  const counted = folders.filter(({ specialUse }) => !EXEMPT.has(specialUse ?? ''));
  const open = counted.reduce((sum, folder) => sum + folder.open, 0);
  const ending = counted.reduce((sum, folder) => sum + folder.ending, 0);
  const wholeMailbox = exceeds(ending, open, policy);
  return folders.map(({ folder, specialUse, open: held, ending: gone, empty }) => {
    if (gone === 0) return { folder, hold: false, reason: 'within-bounds' };
    if (EXEMPT.has(specialUse ?? '')) return { folder, hold: false, reason: 'exempt' };
    if (empty && gone === held) return { folder, hold: true, reason: 'folder-empty' };
    if (exceeds(gone, held, policy)) return { folder, hold: true, reason: 'folder-share' };
    if (wholeMailbox) return { folder, hold: true, reason: 'mailbox-share' };
    return { folder, hold: false, reason: 'within-bounds' };
  });
}

function exceeds(ending: number, open: number, policy: BrakePolicy): boolean {
  return open >= policy.minMessages && ending > policy.maxEndedShare * open;
}
