import type { FolderName } from '../../catalog/folder-names.ts';

/**
 * Returns what the folders of a mailbox are called where they stand below each other: without the `INBOX` that some
 * servers put before all of them, and with a slash between the parts. Two that would be called the same keep their
 * paths.
 *
 * @returns names by path
 */
export function folderLabels(
  folders: Iterable<Pick<FolderName, 'path' | 'delimiter'>>,
): ReadonlyMap<string, string> {
  const labels = new Map<string, string>();
  const paths = new Map<string, Set<string>>();
  for (const folder of folders) {
    const label = labelOf(folder);
    labels.set(folder.path, label);
    const same = paths.get(label) ?? new Set();
    paths.set(label, same.add(folder.path));
  }
  for (const same of paths.values())
    if (same.size > 1) for (const path of same) labels.set(path, path);
  return labels;
}

function labelOf({ path, delimiter }: Pick<FolderName, 'path' | 'delimiter'>): string {
  if (delimiter === '') return path;
  const parts = path.split(delimiter);
  // An empty part would leave nothing to read between two slashes.
  if (parts.length === 1 || parts.includes('')) return path;
  return (parts[0]?.toUpperCase() === 'INBOX' ? parts.slice(1) : parts).join(' / ');
}
