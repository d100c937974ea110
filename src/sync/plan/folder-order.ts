import type { ListedFolder } from '../../mail/words.ts';

/** Folders people look into first come first, so that an interrupted first sync has what matters most. */
const RANK_BY_USE: Readonly<Record<string, number>> = {
  '\\Sent': 1,
  '\\Flagged': 2,
  '\\Drafts': 3,
  '\\Archive': 5,
  '\\All': 6,
  '\\Junk': 8,
  '\\Trash': 9,
};
const ORDINARY_RANK = 4;

/** INBOX, Sent, Drafts, the user's own folders by path, then archives, junk and trash. */
export function inSyncOrder(folders: readonly ListedFolder[]): ListedFolder[] {
  const rank = (folder: ListedFolder): number =>
    folder.path.toUpperCase() === 'INBOX'
      ? 0
      : (RANK_BY_USE[folder.specialUse ?? ''] ?? ORDINARY_RANK);
  return [...folders].sort((a, b) => rank(a) - rank(b) || (a.path < b.path ? -1 : 1));
}
