import { matches } from './name-selection.ts';

/** RFC 6154 attributes in lower case, by the names people use for such folders. */
const SPECIAL_USES: Readonly<Record<string, string>> = {
  sent: '\\sent',
  drafts: '\\drafts',
  draft: '\\drafts',
  trash: '\\trash',
  bin: '\\trash',
  spam: '\\junk',
  junk: '\\junk',
  archive: '\\archive',
  flagged: '\\flagged',
};

/** Returns the special use that a word such as `sent` stands for, in lower case; undefined for any other word. */
export function specialUseCalled(word: string): string | undefined {
  const name = word.toLowerCase();
  return Object.hasOwn(SPECIAL_USES, name) ? SPECIAL_USES[name] : undefined;
}

/**
 * Returns the folders of one mailbox that a name of the command line means: the folder with that path (`INBOX` in any
 * case, as in IMAP); else those that fit it as a pattern with `*`; else those with the special use that it names.
 */
export function foldersMeant<
  F extends { readonly path: string; readonly specialUse: string | null },
>(name: string, folders: readonly F[]): readonly F[] {
  const exact = folders.filter(({ path }) => path === name || (isInbox(name) && isInbox(path)));
  if (exact.length > 0) return exact;
  if (name.includes('*')) return folders.filter(({ path }) => matches(name, path));
  const use = specialUseCalled(name);
  return use === undefined
    ? []
    : folders.filter(({ specialUse }) => specialUse?.toLowerCase() === use);
}

/** Returns whether a path is that of the inbox, whose case does not matter. */
export function isInbox(path: string): boolean {
  return path.toUpperCase() === 'INBOX';
}
