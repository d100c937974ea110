import type { ServedReader } from '../reading/served-archive.ts';

/** Limits to mailboxes of which something is kept. */
const MOST_LIMITS = 64;

/**
 * Returns a function that gives each reader something of its own: what is kept of one limit to mailboxes is never shown
 * to a reader with another.
 */
export function byLimit<T>(make: (reader: ServedReader) => T): (reader: ServedReader) => T {
  const known = new Map<string, T>();
  return (reader) => {
    const key = JSON.stringify(reader.mailboxes);
    const kept = known.get(key) ?? make(reader);
    if (known.size >= MOST_LIMITS) known.clear();
    known.set(key, kept);
    return kept;
  };
}
