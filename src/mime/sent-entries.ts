import type { IndexEntry } from './index-entry.ts';

/** Fields that are sent as bytes, in the order in which the bytes lie. */
const AS_BYTES = ['body', 'packedText'] as const;
type AsBytes = (typeof AS_BYTES)[number];

/** An entry on its way to another thread: numbers of bytes stand for what lies in the group's buffer, null for null. */
export type SentEntry = Omit<IndexEntry, AsBytes> & {
  readonly [field in AsBytes]: number | null;
};

interface Numbered<Entry> {
  readonly seq: number;
  readonly entry: Entry;
}

/**
 * Puts the long fields of a group's entries into one buffer, to be given away. Strings and many small buffers would be
 * copied on both sides, and stay in the receiver's heap until they are written.
 */
export function sendEntries(entries: readonly Numbered<IndexEntry>[]): {
  readonly results: readonly Numbered<SentEntry>[];
  readonly bytes: ArrayBuffer;
} {
  const results = entries.map(({ seq, entry }) => ({
    seq,
    entry: {
      ...entry,
      body: Buffer.byteLength(entry.body),
      packedText: entry.packedText?.length ?? null,
    },
  }));
  const total = results.reduce(
    (sum, { entry }) => AS_BYTES.reduce((within, field) => within + (entry[field] ?? 0), sum),
    0,
  );
  const bytes = new ArrayBuffer(total);
  const view = Buffer.from(bytes);
  let at = 0;
  for (const { entry } of entries) {
    for (const field of AS_BYTES) {
      const value = entry[field];
      if (typeof value === 'string') at += view.write(value, at);
      else if (value !== null) at += value.copy(view, at);
    }
  }
  return { results, bytes };
}

/** Returns the entries that `sendEntries` sent; their bytes are views of the buffer. */
export function receiveEntries(
  results: readonly Numbered<SentEntry>[],
  bytes: ArrayBuffer,
): Numbered<IndexEntry>[] {
  let at = 0;
  const next = (length: number): Buffer => {
    const field = Buffer.from(bytes, at, length);
    at += length;
    return field;
  };
  return results.map(({ seq, entry }) => {
    const { body, packedText } = entry;
    return {
      seq,
      entry: {
        ...entry,
        // In the order of `AS_BYTES`.
        body: next(body ?? 0),
        packedText: packedText === null ? null : next(packedText),
      },
    };
  });
}
