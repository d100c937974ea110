import type { Folder } from './folder.ts';

/** A mailbox of an order, with its folders by path. */
export interface Mailbox {
  readonly resourceId: string;
  readonly address: string;
  readonly orderId: string;
  readonly folders: Map<string, Folder>;
}

export const DELIMITER = '.';

/** The folders every mailbox has from its first day (RFC 6154 attributes), and keeps. */
export const STANDING_FOLDERS: ReadonlyMap<string, string | null> = new Map([
  ['INBOX', null],
  ['INBOX.Sent', '\\Sent'],
  ['INBOX.Drafts', '\\Drafts'],
  ['INBOX.Trash', '\\Trash'],
]);

/** Special use that a folder's name brings with it when a Maildir or the generator makes it. */
export function specialUseOf(path: string): string | null {
  const standing = STANDING_FOLDERS.get(path);
  if (standing !== undefined) return standing;
  if (path === 'INBOX.Junk' || path === 'INBOX.Spam') return '\\Junk';
  return path === 'INBOX.Archive' ? '\\Archive' : null;
}

/** A folder and everything below it, parents first. */
export function withSubfolders(mailbox: Mailbox, path: string): Folder[] {
  return [...mailbox.folders.values()]
    .filter((folder) => folder.path === path || folder.path.startsWith(path + DELIMITER))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}
