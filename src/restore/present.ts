import type { MessageId } from '../mail/words.ts';

/** A message that is to be in a folder. */
export interface WantedMessage {
  readonly id: MessageId;
  readonly messageId: string | null;
  /** Bytes as the server has them, with CRLF. */
  readonly size: number;
}

/** A message that a folder of the server has. */
export interface FoundMessage {
  readonly uid: number;
  readonly messageId: string | null;
  readonly size: number;
}

interface Group {
  /** Positions in the list of wanted messages. */
  readonly wanted: number[];
  readonly found: FoundMessage[];
  readonly ids: Set<MessageId>;
}

/**
 * Returns the uids whose bytes decide what is there already. Message-ID and size decide for all others: where a wanted
 * message has no Message-ID, or another wanted one shares both, only the bytes do.
 */
export function uidsToRead(
  wanted: readonly WantedMessage[],
  found: readonly FoundMessage[],
): number[] {
  return [...groupsOf(wanted, found)]
    .filter(([, group]) => isAmbiguous(group, wanted))
    .flatMap(([, group]) => group.found.map(({ uid }) => uid));
}

/**
 * Returns the uid of each wanted message that is there already, by its position. Matches one to one: two wanted places of
 * one message need two messages on the server.
 *
 * @param idOf the id of a message whose uid `uidsToRead` returned; undefined if it is gone by now
 */
export function matchPresent(
  wanted: readonly WantedMessage[],
  found: readonly FoundMessage[],
  idOf: (uid: number) => MessageId | undefined,
): Map<number, number> {
  const matched = new Map<number, number>();
  for (const [, group] of groupsOf(wanted, found)) {
    const isUnread = !isAmbiguous(group, wanted);
    const [only] = group.ids;
    const free = new Map<MessageId, number[]>();
    for (const { uid } of group.found) {
      const id = isUnread ? only : idOf(uid);
      if (id !== undefined) free.set(id, [...(free.get(id) ?? []), uid]);
    }
    for (const position of group.wanted) {
      const id = wanted[position]?.id;
      const uid = id === undefined ? undefined : free.get(id)?.shift();
      if (uid !== undefined) matched.set(position, uid);
    }
  }
  return matched;
}

/** Wanted and found messages with one Message-ID and size; only groups that have both. */
function groupsOf(
  wanted: readonly WantedMessage[],
  found: readonly FoundMessage[],
): Map<string, Group> {
  const groups = new Map<string, Group>();
  for (const [position, message] of wanted.entries()) {
    const key = keyOf(message);
    const group = groups.get(key) ?? { wanted: [], found: [], ids: new Set() };
    groups.set(key, group);
    group.wanted.push(position);
    group.ids.add(message.id);
  }
  for (const message of found) groups.get(keyOf(message))?.found.push(message);
  for (const [key, { found: there }] of groups) if (there.length === 0) groups.delete(key);
  return groups;
}

function keyOf({ messageId, size }: Pick<FoundMessage, 'messageId' | 'size'>): string {
  return JSON.stringify([messageId, size]);
}

function isAmbiguous({ wanted: positions, ids }: Group, wanted: readonly WantedMessage[]): boolean {
  const [first = -1] = positions;
  return ids.size > 1 || (wanted[first]?.messageId ?? null) === null;
}
