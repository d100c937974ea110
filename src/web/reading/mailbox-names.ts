import type { Reader } from '../../engine/archive/reader.ts';
import { mailboxKey } from '../../state/scopes.ts';

/** Returns the addresses of the archive's mailboxes by their keys. */
export function mailboxNames({ catalog }: Pick<Reader, 'catalog'>): ReadonlyMap<string, string> {
  return new Map(catalog.folders.mailboxes().map((known) => [mailboxKey(known), known.address]));
}
