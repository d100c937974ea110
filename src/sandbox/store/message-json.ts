import type { Entry, Folder } from './folder.ts';
import type { Store } from './store.ts';

/** A message record as JSON text; the costly part of it comes ready from the record cache. */
export function messageJson(store: Store, folder: Folder, entry: Entry): string {
  const unseen = !entry.flags.includes('\\Seen');
  return `{"uid":${entry.uid},"path":${JSON.stringify(folder.path)},"flags":${JSON.stringify(entry.flags)},"unseen":${unseen},${store.records.fragment(entry.source)}}`;
}
