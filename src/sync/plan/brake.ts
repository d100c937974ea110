/** How many deletions a pass accepts at once; the `brake` section of the configuration. */
export interface BrakePolicy {
  /** Deletions of more than this share of the open places are held, in a folder or in a mailbox. */
  readonly maxEndedShare: number;
  /** With fewer open places, shares do not count. */
  readonly minMessages: number;
}

/** What is about to end in one folder: places that are gone and did not move elsewhere. */
export interface FolderEndings {
  readonly folder: string;
  readonly specialUse: string | null;
  /** Open places before the pass. */
  readonly open: number;
  readonly ending: number;
  /** True when the origin shows the folder as empty, or no longer lists it. */
  readonly empty: boolean;
}

export interface BrakeDecision {
  readonly folder: string;
  readonly hold: boolean;
  readonly reason: 'within-bounds' | 'exempt' | 'folder-share' | 'folder-empty' | 'mailbox-share';
}

/** These folders are meant to be emptied (RFC 6154). */
const EXEMPT: ReadonlySet<string> = new Set(['\\Trash', '\\Junk']);

/**
 * Decides, folder by folder, whether deletions are accepted at once or held until a second check. A folder that is
 * suddenly empty is held whatever its size; a large share of the complete mailbox holds every folder that contributes.
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
