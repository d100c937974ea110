/** An ended place, as far as it decides which one a message is restored to. */
export interface EndedPlace {
  readonly docid: number;
  /** Names the mailbox. */
  readonly address: string;
  /** ISO 8601 in UTC. */
  readonly endedAt: string;
}

/**
 * Yields the last place of each message that has no current one in its mailbox: one per message and mailbox, even where
 * several ended at the same moment. Then the first of them counts.
 *
 * @param ended ended places, those of one message next to each other
 * @param isCurrent whether the message has a current place in this mailbox
 */
export function* lastPlaces<Place extends EndedPlace>(
  ended: Iterable<Place>,
  isCurrent: (docid: number, address: string) => boolean,
): Generator<Place, void, undefined> {
  let docid: number | undefined;
  const last = new Map<string, Place>();
  for (const place of ended) {
    if (place.docid !== docid) {
      yield* last.values();
      last.clear();
      docid = place.docid;
    }
    if (isCurrent(place.docid, place.address)) continue;
    const known = last.get(place.address);
    if (known === undefined || place.endedAt > known.endedAt) last.set(place.address, place);
  }
  yield* last.values();
}
