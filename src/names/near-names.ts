import { nearest } from './nearest.ts';

/** The path of the folder that a mistyped name was probably meant to be: by its path, else by the last part of it. */
export function nearestFolder(
  found: string,
  folders: readonly { readonly path: string; readonly name: string }[],
): string | null {
  const byPath = nearest(found, [...new Set(folders.map(({ path }) => path))]);
  if (byPath !== null) return byPath;
  const name = nearest(found, [...new Set(folders.map((folder) => folder.name))]);
  return folders.find((folder) => folder.name === name)?.path ?? null;
}

/**
 * The address that a mistyped one was probably meant to be. Its two parts are compared by themselves: in one domain
 * every address would be near every other.
 */
export function nearestAddress(found: string, known: readonly string[]): string | null {
  const [name = '', domain] = found.split('@', 2);
  const near = known
    .map((address) => ({ address, parts: address.split('@', 2) }))
    .filter(({ parts }) => domain === undefined || nearest(domain, parts.slice(1)) !== null);
  const meant = nearest(name, [...new Set(near.map(({ parts: [local = ''] }) => local))]);
  return near.find(({ parts: [local] }) => local === meant)?.address ?? null;
}
